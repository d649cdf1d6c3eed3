"""Images in all their forms, this host, what they provide, and what is refused."""

import gzip
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard

from cli.analyze import analyze
from common.settings import Settings
from ingest.native.environments import analyze_host, analyze_image
from ingest.native.file_trees import MEBIBYTE
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.packages.environments import host_environment
from model.packages.native_libraries import Interface, highest_versions
from tests.factories.errors import raised
from tests.factories.golden import compare_views
from tests.factories.images import (
    LIBC,
    RELEASE,
    ROOT,
    Members,
    as_tar,
    entry_of,
    exported,
    layout,
    named,
    names,
    oci,
    saved,
)
from tests.factories.native import AARCH64, ARM, Folder, Hardlink, Symlink, elf, layer
from tests.services.commands import run_here

OLD_LIBC = elf("libc.so.6", defines=("GLIBC_2.17",))


def test_image_analysis_does_not_depend_on_the_image_format(tmp_path: Path) -> None:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(layer(ROOT))) as archive:
        safe = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
        archive.extractall(root, **safe)  # noqa: S202 - the test has made it
    plain = layer(ROOT)
    forms = [
        root,
        as_tar(root, tmp_path / "root.tar"),
        oci(tmp_path / "oci", [plain], architecture=machine),
        oci(tmp_path / "gzip", [gzip.compress(plain)], architecture=machine),
        oci(tmp_path / "zstd", [zstandard.compress(plain)], architecture=machine),
        as_tar(tmp_path / "oci", tmp_path / "oci.tar"),
        saved(tmp_path, [plain]),
    ]
    packed = tmp_path / "image.tar.gz"
    packed.write_bytes(gzip.compress(saved(tmp_path, [plain]).read_bytes()))
    found = [analyze_image(str(form), "same") for form in (*forms, packed)]
    assert found[0].provides == (
        Interface("libc.so.6"),
        Interface("libc.so.6", "GLIBC_2.17"),
        Interface("libc.so.6", "GLIBC_2.34"),
    )
    assert (found[0].os_name, found[0].os_version) == ("demo", "9")
    if platform.machine() == "x86_64":
        assert len({it.document_id for it in found}) == 1
    assert len({(it.provides, it.os_name, it.os_version) for it in found}) == 1


FOREIGN = elf("libz.so.1", defines=("Z_FOREIGN",), machine=AARCH64)
SONAME = elf("libx.so.1", defines=("X_1",))
#: The layers of images, the lowest one first.
LAYERS: dict[str, list[Members]] = {
    "a later layer replaces and removes": [
        [
            ("usr/lib/libc.so.6", LIBC),
            ("usr/lib/libgone.so.1", elf("libgone.so.1")),
            ("usr/lib/deep/x", b""),
            ("usr/lib/libstays.so.1", elf("libstays.so.1")),
        ],
        [("usr/lib/libc.so.6", OLD_LIBC), ("usr/lib/.wh.libgone.so.1", b"")],
    ],
    "an opaque folder": [
        [("usr/lib/liba.so", elf()), ("usr/lib/x-linux-y/libb.so", elf()), ("lib/libc.so", elf())],
        [
            ("usr/lib/libnew.so", elf()),
            ("usr/lib/x-linux-y/libdeep.so", elf()),
            ("usr/lib/.wh..wh..opq", b""),
            ("usr/lib/liblast.so", elf()),
        ],
    ],
    "a removed folder that comes back": [
        [("usr/lib/liba.so", elf())],
        [("usr/.wh.lib", b"")],
        [("usr/lib", Folder()), ("usr/lib/libb.so", elf())],
    ],
    "links": [
        [
            ("usr/lib/real.so.1.2", elf("libreal.so.1", defines=("R_1",))),
            ("usr/lib/libreal.so.1", Symlink("real.so.1.2")),
            ("usr/lib/libabsolute.so", Symlink("/usr/lib/real.so.1.2")),
            ("usr/lib/libabove.so", Symlink("../../../../../usr/lib/real.so.1.2")),
            ("usr/lib/libhard.so", Hardlink("usr/lib/real.so.1.2")),
            ("lib64", Symlink("usr/lib")),
        ],
        [("lib64/libthrough.so", elf())],
    ],
    "links without end": [
        [
            ("usr/lib/liba.so", Symlink("libb.so")),
            ("usr/lib/libb.so", Symlink("liba.so")),
            ("lib", Symlink("lib")),
            ("etc", Symlink("/etc/x")),
            ("lib64/libc.so.6", LIBC),
        ]
    ],
    "the loader's configuration": [
        [
            ("etc/ld.so.conf", b"include ld.so.conf.d/*.conf\n/opt/a # first\n"),
            ("etc/ld.so.conf.d/b.conf", b"/opt/b\ninclude /etc/ld.so.conf\n"),
            ("etc/ld.so.conf.d/c.txt", b"/opt/never\n"),
            ("opt/a/liba.so", elf()),
            ("opt/b/libb.so", elf()),
            ("opt/x/libofenviron.so", elf()),
            ("opt/never/libnever.so", elf()),
            ("etc/ld-musl-x86_64.path", b"/opt/m:/opt/n\n"),
            ("opt/n/libn.so", elf()),
            ("usr/lib/x86_64-linux-gnu/libmulti.so", elf()),
            ("usr/lib/other/libother.so", elf()),
        ]
    ],
    "two libraries of a name": [
        [
            ("opt/x/libz.so.1", FOREIGN),
            ("lib64/libz.so.1", elf("libz.so.1", defines=("Z_1",))),
            ("usr/lib/libz.so.1", elf("libz.so.1", defines=("Z_2",))),
        ]
    ],
    "broken libraries": [
        [
            ("lib/libbad.so", LIBC[:150]),
            ("lib/libc.so", b"/* GNU ld script */"),
            ("lib/libc.so.6", LIBC),
        ]
    ],
    "no libraries": [[("app", b"static")]],
    "versions of a soname": [
        [("lib/libx.so.1.2", SONAME), ("lib/libx.so", Symlink("libx.so.1.2"))]
    ],
}


def test_image_provides_the_libraries_visible_in_its_merged_layers(tmp_path: Path) -> None:
    views = {}
    for number, (title, layers) in enumerate(LAYERS.items()):
        (tmp_path / str(number)).mkdir()
        found = exported(tmp_path / str(number), *layers)
        keys = sorted(it.key for it in found.provides)
        skipped = [f"skipped: {it.path}" for it in found.skipped]
        views[title] = "\n".join([found.architecture or "", *keys, *skipped])
    compare_views("images", views)


def test_links_in_a_root_folder_are_not_followed_outside(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "libevil.so").write_bytes(elf())
    (tmp_path / "outside" / "release").write_bytes(RELEASE)
    (tmp_path / "lib").mkdir()
    root = tmp_path / "root"
    (root / "usr").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "lib").symlink_to(tmp_path / "outside")
    (root / "usr" / "lib").symlink_to("../../outside")
    (root / "lib64").mkdir()
    (root / "lib64" / "libevil.so").symlink_to("../../outside/libevil.so")
    (root / "lib64" / "libloop.so").symlink_to("libloop.so")
    (root / "etc" / "os-release").symlink_to(tmp_path / "outside" / "release")
    found = analyze_image(str(root))
    assert found.provides == ()
    assert found.os_name is None


def test_links_in_an_image_archive_are_not_followed_outside(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", [layer(ROOT)])
    (folder / "index.json").rename(tmp_path / "index.json")
    (folder / "index.json").symlink_to("../index.json")
    assert analyze_image(str(folder)).provides == ()  # a folder without an index is a root


@pytest.mark.parametrize("machine", ["armv6l", "armv8l"])
def test_image_for_a_32_bit_machine_provides_32_bit_libraries(
    tmp_path: Path, machine: str, caplog: pytest.LogCaptureFixture
) -> None:
    library = elf("libc.so.6", defines=("GLIBC_2.17",), machine=ARM)
    folder = oci(tmp_path / "oci", [layer([("lib/libc.so.6", library)])], architecture=machine)
    index = json.loads((folder / "index.json").read_text())
    inner = folder / "blobs" / "sha256" / index["manifests"][0]["digest"][7:]
    chosen = json.loads(inner.read_text())["manifests"][1]
    (folder / "index.json").write_text(json.dumps({"manifests": [chosen]}))
    found = analyze_image(str(folder))
    assert (found.architecture, names(found)) == (machine, {"libc.so.6"})
    assert not caplog.records


def test_root_with_only_libraries_for_other_machines_causes_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libc.so.6").write_bytes(elf("libc.so.6", machine=ARM))
    assert analyze_host("it", tmp_path).provides == ()
    (record,) = caplog.records
    assert vars(record)["found"] == ["armv7l"]


def test_linux_image_is_chosen_from_an_oci_layout(tmp_path: Path) -> None:
    linux = entry_of(tmp_path, "right", os_name="linux")
    others = [
        entry_of(tmp_path, "wrong", os_name="windows"),
        entry_of(tmp_path, "statement", os_name="unknown"),
        entry_of(tmp_path, "other", **{"vnd.docker.reference.type": "attestation-manifest"}),
    ]
    assert analyze_image(layout(tmp_path, *others, linux)).os_name == "right"
    with raised(InvalidDocument, reason=Reason.MISSING_FIELD, field="manifests"):
        analyze_image(layout(tmp_path, *others))


def test_image_archive_with_several_image_names_is_refused(tmp_path: Path) -> None:
    one, other = (entry_of(tmp_path, name, **named(name)) for name in ("alpha", "beta"))
    with raised(InvalidDocument, reason=Reason.OUT_OF_RANGE, field="manifests"):
        analyze_image(layout(tmp_path, one, other))
    tags = [{**one, "annotations": named(name)} for name in ("alpha", "latest")]
    assert analyze_image(layout(tmp_path, *tags)).os_name == "alpha"
    machines = [one, entry_of(tmp_path, "second", **named("alpha"))]
    assert analyze_image(layout(tmp_path, *machines)).os_name == "alpha"
    tagged = [
        {**it, "annotations": {**named("latest"), "io.containerd.image.name": name}}
        for it, name in ((one, "x:latest"), (other, "y:latest"))
    ]
    with raised(InvalidDocument, reason=Reason.OUT_OF_RANGE, field="manifests"):
        analyze_image(layout(tmp_path, *tagged))


@pytest.mark.parametrize("path", ["../evil", "usr/../../evil", "a/" * 300 + "b"])
def test_layer_with_a_path_outside_the_root_is_refused(tmp_path: Path, path: str) -> None:
    with raised(InvalidDocument, reason=Reason.ARCHIVE_PATH):
        exported(tmp_path, [(path, b"x")])


@pytest.mark.parametrize("cut", [100, 700, 1500])
def test_truncated_layer_is_refused(tmp_path: Path, cut: int) -> None:
    whole = layer([("usr/lib/libc.so.6", LIBC + bytes(3000))])
    packed = gzip.compress(whole)
    for data in (whole[:cut], packed[: len(packed) * cut // len(whole)]):
        with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
            analyze_image(str(saved(tmp_path, [data])))


def test_layer_with_too_many_bytes_or_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.native.images._LAYER_BYTES", MEBIBYTE)
    bomb = gzip.compress(layer([("usr/lib/libbig.so", bytes(2 * MEBIBYTE))]))
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BOMB):
        analyze_image(str(saved(tmp_path, [bomb])))
    monkeypatch.setattr("ingest.native.images._MOST_MEMBERS", 10)
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BOMB):
        exported(tmp_path, [(f"f{number}", b"") for number in range(11)])


def test_layer_header_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**33
    forged = info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    for path in (saved(tmp_path, [forged]), tmp_path / "forged.tar"):
        if not path.exists():
            path.write_bytes(forged)
        with pytest.raises(InvalidDocument) as refused:
            analyze_image(str(path))
        assert refused.value.reason in (Reason.ARCHIVE_BOMB, Reason.ARCHIVE_BROKEN)


def test_layer_with_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", [layer(ROOT)])
    for blob in (folder / "blobs" / "sha256").iterdir():
        if blob.stat().st_size > 5000:
            blob.write_bytes(blob.read_bytes().replace(b"GLIBC_2.34", b"GLIBC_2.99"))
    index = json.loads((folder / "index.json").read_text())
    inner = folder / "blobs" / "sha256" / index["manifests"][0]["digest"][7:]
    chosen = json.loads(inner.read_text())["manifests"][1]
    (folder / "index.json").write_text(json.dumps({"manifests": [chosen]}))
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
        analyze_image(str(folder))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("manifest.json", b"{", Reason.INVALID_JSON),
        ("manifest.json", b"{}", Reason.OUT_OF_RANGE),
        ("manifest.json", b'[{"Config": 1, "Layers": []}]', Reason.WRONG_TYPE),
        ("manifest.json", b'[{"Config": "c", "Layers": []}]', Reason.UNREADABLE),
        ("manifest.json", b'[{"Config": "c", "Layers": {}}]', Reason.WRONG_TYPE),
        ("index.json", b'{"manifests": []}', Reason.MISSING_FIELD),
        ("index.json", b'{"manifests": [{"digest": "../../etc"}]}', Reason.WRONG_TYPE),
        ("index.json", b'{"manifests": [{"digest": "sha256:%s"}]}' % (b"0" * 64),
         Reason.UNREADABLE),
        ("index.json", b"[" * 5_000_000, Reason.FILE_TOO_LARGE),
    ],
    ids=["no-json", "no-list", "config", "absent", "layers", "empty", "digest", "no-blob", "large"],
)  # fmt: skip
def test_broken_image_index_is_refused_with_the_reason(
    tmp_path: Path, name: str, content: bytes, reason: Reason
) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(layer([(name, content)]))
    with raised(InvalidDocument, reason=reason):
        analyze_image(str(path))


def test_several_images_in_one_file_are_refused(tmp_path: Path) -> None:
    with raised(InvalidDocument, reason=Reason.OUT_OF_RANGE):
        analyze_image(str(saved(tmp_path, [layer(ROOT)], images=2)))


def test_a_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    for data in (b"", b"hello" * 1000):
        path.write_bytes(data)
        with pytest.raises(InvalidDocument):
            analyze_image(str(path))
    with pytest.raises(InvalidArgument, match="write the image to a file first"):
        analyze_image("nobody/nothing:1")
    with pytest.raises(InvalidArgument):
        analyze_image("--help")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_excessive_tar_headers_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, 512
    hostile = (info.tobuf(tarfile.GNU_FORMAT) + b"16 path=abcdefg\n".ljust(512, b"\0")) * 3_000
    plain = tmp_path / "hostile.tar"
    plain.write_bytes(hostile + bytes(1_024))
    for path in (plain, saved(tmp_path, [hostile])):
        with raised(InvalidDocument, reason=Reason.ARCHIVE_BROKEN):
            analyze_image(str(path))


@pytest.mark.parametrize("name", ["", "a" * 5_000, "x\0y"])
def test_impossible_image_or_wheel_path_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="no file or folder"):
        analyze_image(name)
    for kind in ("image", "wheel"):
        done = run_here(analyze, Settings.from_env({}), kind, name)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")


LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin:/usr/bin")


@pytest.mark.skipif(LDCONFIG is None, reason="there is no ldconfig")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its cache is read for x86-64")
def test_every_library_in_the_loader_cache_is_found() -> None:
    text = subprocess.run([str(LDCONFIG), "-p"], capture_output=True, text=True, check=True).stdout
    cached = set(re.findall(r"(?m)^\s+(\S+) \(libc6,x86-64", text))
    if not cached:
        pytest.skip("the cache is empty")
    found = analyze_host()
    assert cached - {it.library for it in found.provides} == set()


def test_glibc_version_of_this_host_is_at_most_that_of_the_interpreter() -> None:
    libc = host_environment().libc
    if libc is None or libc[0] != "glibc":
        pytest.skip("this interpreter does not run on glibc")
    found = highest_versions(analyze_host().provides)["GLIBC"]
    assert tuple(map(int, found.split("."))) >= (2, 2)
    assert tuple(map(int, found.split("."))) <= libc[1]


def test_analysed_environment_is_named_without_the_host_name() -> None:
    found = analyze_host()
    assert platform.node() not in found.name.split("-")
    assert platform.node().encode() not in found.body.split(b'"')
    assert found.name.endswith(platform.machine())
    assert analyze_host("mine").digest != found.digest == analyze_host().digest


@pytest.mark.parametrize("name", ["\x1b[31m", "x" * 300, "a\nb"])
def test_unprintable_environment_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="--name"):
        analyze_host(name)
