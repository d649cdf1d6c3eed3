"""Images in all their forms: layers merged as containers merge them, and links kept inside."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from common.errors import InvalidArgument, InvalidDocument
from common.native import EnvironmentAnalysis, Interface
from common.reasons import Reason
from ingest.native import streams
from ingest.native.environments import analyze_image
from tests.factories.native import AARCH64, Folder, Hardlink, Member, Symlink, elf, layer

LIBC = elf("libc.so.6", defines=("GLIBC_2.17", "GLIBC_2.34"))
OLD_LIBC = elf("libc.so.6", defines=("GLIBC_2.17",))
RELEASE = b'NAME="Demo"\nID=demo\nVERSION_ID="9"\n'
Members = Sequence[tuple[str, Member]]
ROOT: Members = [("etc/os-release", RELEASE), ("lib", Symlink("usr/lib")),
                 ("usr/lib/libc.so.6", LIBC)]  # fmt: skip


def exported(folder: Path, *layers: Members) -> EnvironmentAnalysis:
    """Several layers as the image that `save` writes of them."""
    return analyze_image(str(saved(folder, [layer(it) for it in layers])))


def saved(folder: Path, layers: Sequence[bytes], images: int = 1) -> Path:
    config = {"architecture": "amd64", "config": {"Env": ["A=b", "LD_LIBRARY_PATH=/opt/x"]}}
    entry = {"Config": "c.json", "RepoTags": ["demo:1"],
             "Layers": [f"{number}/layer.tar" for number in range(len(layers))]}  # fmt: skip
    members: list[tuple[str, Member]] = [
        ("manifest.json", json.dumps([entry] * images).encode()),
        ("c.json", json.dumps(config).encode()),
        *((f"{number}/layer.tar", data) for number, data in enumerate(layers)),
    ]
    path = folder / "image.tar"
    path.write_bytes(layer(members))
    return path


def names(found: EnvironmentAnalysis) -> set[str]:
    return {interface.library for interface in found.provides}


def _blob(folder: Path, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / "sha256" / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def oci(folder: Path, layers: Sequence[bytes], *, architecture: str = "amd64") -> Path:
    """An OCI layout with an index within its index."""
    folder.mkdir(exist_ok=True)
    kind = "application/vnd.oci.image.{}.v1+json".format
    entries = []
    for machine, content in (("vax", []), (architecture, layers)):
        config = json.dumps({"architecture": machine}).encode()
        manifest = {
            "config": _blob(folder, config),
            "layers": [_blob(folder, it) for it in content],
        }
        described = _blob(folder, json.dumps(manifest).encode())
        entries.append(
            {**described, "mediaType": kind("manifest"), "platform": {"architecture": machine}}
        )
    inner = _blob(folder, json.dumps({"manifests": entries}).encode())
    outer = {"manifests": [{**inner, "mediaType": kind("index")}]}
    (folder / "index.json").write_text(json.dumps(outer))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def as_tar(folder: Path, target: Path) -> Path:
    with tarfile.open(target, "w") as archive:
        archive.add(folder, ".")
    return target


def test_every_form_of_an_image_says_the_same(tmp_path: Path) -> None:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(layer(ROOT))) as archive:
        archive.extractall(root, filter="tar")
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


def test_a_later_layer_replaces_and_removes(tmp_path: Path) -> None:
    found = exported(
        tmp_path,
        [("usr/lib/libc.so.6", LIBC), ("usr/lib/libgone.so.1", elf("libgone.so.1")),
         ("usr/lib/deep/x", b""), ("usr/lib/libstays.so.1", elf("libstays.so.1"))],
        [("usr/lib/libc.so.6", OLD_LIBC), ("usr/lib/.wh.libgone.so.1", b"")],
    )  # fmt: skip
    assert names(found) == {"libc.so.6", "libstays.so.1"}
    assert Interface("libc.so.6", "GLIBC_2.34") not in found.provides


def test_an_opaque_folder_hides_what_is_below_it_and_nothing_of_its_own(tmp_path: Path) -> None:
    found = exported(
        tmp_path,
        [("usr/lib/liba.so", elf()), ("usr/lib/x-linux-y/libb.so", elf()), ("lib/libc.so", elf())],
        [("usr/lib/libnew.so", elf()), ("usr/lib/x-linux-y/libdeep.so", elf()),
         ("usr/lib/.wh..wh..opq", b""), ("usr/lib/liblast.so", elf())],
    )  # fmt: skip
    assert names(found) == {"libc.so", "libnew.so", "libdeep.so", "liblast.so"}


def test_a_removed_folder_does_not_come_back_with_its_old_files(tmp_path: Path) -> None:
    found = exported(
        tmp_path,
        [("usr/lib/liba.so", elf())],
        [("usr/.wh.lib", b"")],
        [("usr/lib", Folder()), ("usr/lib/libb.so", elf())],
    )
    assert names(found) == {"libb.so"}


def test_links_are_followed_as_the_container_would(tmp_path: Path) -> None:
    found = exported(
        tmp_path,
        [
            ("usr/lib/real.so.1.2", elf("libreal.so.1", defines=("R_1",))),
            ("usr/lib/libreal.so.1", Symlink("real.so.1.2")),
            ("usr/lib/libabsolute.so", Symlink("/usr/lib/real.so.1.2")),
            ("usr/lib/libabove.so", Symlink("../../../../../usr/lib/real.so.1.2")),
            ("usr/lib/libhard.so", Hardlink("usr/lib/real.so.1.2")),
            ("lib64", Symlink("usr/lib")),
        ],
        [("lib64/libthrough.so", elf())],
    )
    assert names(found) == {
        "libreal.so.1", "real.so.1.2", "libabsolute.so", "libabove.so", "libhard.so",
        "libthrough.so",
    }  # fmt: skip
    assert Interface("libreal.so.1", "R_1") in found.provides


def test_no_link_leads_out_of_a_root_folder(tmp_path: Path) -> None:
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


def test_links_without_end_lead_nowhere(tmp_path: Path) -> None:
    found = exported(
        tmp_path,
        [("usr/lib/liba.so", Symlink("libb.so")), ("usr/lib/libb.so", Symlink("liba.so")),
         ("lib", Symlink("lib")), ("etc", Symlink("/etc/x")), ("lib64/libc.so.6", LIBC)],
    )  # fmt: skip
    assert names(found) == {"libc.so.6"}


def test_the_loaders_configuration_is_followed(tmp_path: Path) -> None:
    found = exported(
        tmp_path,
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
        ],
    )
    assert names(found) == {"liba.so", "libb.so", "libofenviron.so", "libn.so", "libmulti.so"}


def test_of_two_libraries_of_a_name_the_loader_takes_the_first_of_its_machine(
    tmp_path: Path,
) -> None:
    foreign = elf("libz.so.1", defines=("Z_FOREIGN",), machine=AARCH64)
    found = exported(
        tmp_path,
        [("opt/x/libz.so.1", foreign), ("lib64/libz.so.1", elf("libz.so.1", defines=("Z_1",))),
         ("usr/lib/libz.so.1", elf("libz.so.1", defines=("Z_2",)))],
    )  # fmt: skip
    assert found.architecture == "x86_64"
    assert found.provides == (Interface("libz.so.1"), Interface("libz.so.1", "Z_1"))


def test_broken_libraries_are_named_and_provide_nothing(tmp_path: Path) -> None:
    found = exported(
        tmp_path, [("lib/libbad.so", LIBC[:150]), ("lib/libc.so", b"/* GNU ld script */"),
                   ("lib/libc.so.6", LIBC)]
    )  # fmt: skip
    assert names(found) == {"libc.so.6"}
    assert [it.path for it in found.skipped] == ["lib/libbad.so"]


def test_an_image_without_libraries_provides_nothing(tmp_path: Path) -> None:
    found = exported(tmp_path, [("app", b"static")])
    assert (found.provides, found.architecture) == ((), "x86_64")


@pytest.mark.parametrize("path", ["../evil", "usr/../../evil", "a/" * 300 + "b"])
def test_a_layer_that_leaves_its_root_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        exported(tmp_path, [(path, b"x")])
    assert refused.value.reason == Reason.ARCHIVE_PATH


@pytest.mark.parametrize("cut", [100, 700, 1500])
def test_a_layer_that_is_cut_is_refused(tmp_path: Path, cut: int) -> None:
    whole = layer([("usr/lib/libc.so.6", LIBC + bytes(3000))])
    packed = gzip.compress(whole)
    for data in (whole[:cut], packed[: len(packed) * cut // len(whole)]):
        with pytest.raises(InvalidDocument) as refused:
            analyze_image(str(saved(tmp_path, [data])))
        assert refused.value.reason == Reason.ARCHIVE_BROKEN


def test_a_layer_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.native.layers._LAYER_BYTES", 10 * streams.MEBIBYTE)
    bomb = gzip.compress(layer([("usr/lib/libbig.so", bytes(20 * streams.MEBIBYTE))]))
    with pytest.raises(InvalidDocument) as refused:
        analyze_image(str(saved(tmp_path, [bomb])))
    assert refused.value.reason == Reason.ARCHIVE_BOMB


def test_a_layer_with_more_files_than_any_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.native.layers._MOST_MEMBERS", 10)
    with pytest.raises(InvalidDocument) as refused:
        exported(tmp_path, [(f"f{number}", b"") for number in range(11)])
    assert refused.value.reason == Reason.ARCHIVE_BOMB


def test_a_header_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**33
    forged = info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    for path in (saved(tmp_path, [forged]), tmp_path / "forged.tar"):
        if not path.exists():
            path.write_bytes(forged)
        with pytest.raises(InvalidDocument) as refused:
            analyze_image(str(path))
        assert refused.value.reason in (Reason.ARCHIVE_BOMB, Reason.ARCHIVE_BROKEN)


def test_a_layer_other_than_its_digest_is_refused(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", [layer(ROOT)])
    for blob in (folder / "blobs" / "sha256").iterdir():
        if blob.stat().st_size > 5000:
            blob.write_bytes(blob.read_bytes().replace(b"GLIBC_2.34", b"GLIBC_2.99"))
    index = json.loads((folder / "index.json").read_text())
    inner = folder / "blobs" / "sha256" / index["manifests"][0]["digest"][7:]
    chosen = json.loads(inner.read_text())["manifests"][1]
    (folder / "index.json").write_text(json.dumps({"manifests": [chosen]}))
    with pytest.raises(InvalidDocument, match="not what its digest says"):
        analyze_image(str(folder))


def test_no_link_of_an_image_archive_leads_out_of_it(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", [layer(ROOT)])
    (folder / "index.json").rename(tmp_path / "index.json")
    (folder / "index.json").symlink_to("../index.json")
    assert analyze_image(str(folder)).provides == ()  # a folder without an index is a root


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
def test_a_broken_index_is_refused_by_reason(
    tmp_path: Path, name: str, content: bytes, reason: Reason
) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(layer([(name, content)]))
    with pytest.raises(InvalidDocument) as refused:
        analyze_image(str(path))
    assert refused.value.reason == reason


def test_several_images_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="one image"):
        analyze_image(str(saved(tmp_path, [layer(ROOT)], images=2)))


def test_what_is_no_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.tar"
    for data in (b"", b"hello" * 1000):
        path.write_bytes(data)
        with pytest.raises(InvalidDocument):
            analyze_image(str(path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidArgument, match="neither podman nor docker"):
        analyze_image("nobody/nothing:1")
    with pytest.raises(InvalidArgument):
        analyze_image("--help")
