"""Images in all their forms: layers merged as containers merge them, and links kept inside."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

from common.errors import InvalidArgument, InvalidDocument
from common.native import EnvironmentAnalysis, Interface
from common.reasons import Reason
from ingest.commands.analyze import analyze
from ingest.native import layers, streams
from ingest.native.environments import analyze_host, analyze_image
from ingest.native.layers import Layer, LayeredTree
from ingest.native.trees import FolderTree, resolve
from tests.factories.native import AARCH64, ARM, Folder, Hardlink, Member, Symlink, elf, layer

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


def tree(*found: Members) -> LayeredTree:
    def opened(data: bytes) -> Layer:
        return Layer("layer", lambda: io.BytesIO(data))

    return LayeredTree([opened(layer(members)) for members in found])


DEEP = Symlink("/".join(["x"] * 2_040))


def test_a_link_to_a_deep_folder_is_refused_at_once() -> None:
    many: Members = [("l", DEEP), *((f"l/f{number}", b"") for number in range(400))]
    with pytest.raises(InvalidDocument, match="deeper than 256") as refused:
        tree(many)
    assert refused.value.reason == Reason.ARCHIVE_PATH
    assert resolve(tree([("l", DEEP)]), "l") is None


def test_a_path_with_links_costs_as_many_steps_as_it_has_parts() -> None:
    # Each target is as long as a link can be, and goes down and up again before the next.
    target = "/".join(["x", ".."] * 800)
    chain = [(f"l{number}", Symlink(f"{target}/l{number + 1}")) for number in range(39)]
    found = tree([*chain, ("deep/a/b/c/d.so", b""), ("short", Symlink("deep/a"))])
    before = found._steps
    assert resolve(found, "l0") is None
    assert found._steps - before < 5_000
    before = found._steps
    assert resolve(found, "short/b/../b/c/d.so") == "deep/a/b/c/d.so"
    assert found._steps - before == 8


def test_layers_that_are_walked_for_ever_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MOST_STEPS", 1_000)
    target = "/".join(["x", ".."] * 100)
    with pytest.raises(InvalidDocument) as refused:
        tree([("l", Symlink(target)), *((f"l/f{number}/x", b"") for number in range(20))])
    assert refused.value.reason == Reason.ARCHIVE_BOMB


def test_a_folder_is_looked_for_once_until_its_path_may_lead_elsewhere() -> None:
    found = tree([("a/b/c", b""), *((f"a/b/{number}", b"") for number in range(50))])
    assert found._steps == 2
    links: Members = [("l", Symlink("a")), ("l/one", b""), ("l", Symlink("b")), ("l/two", b"")]
    moved = tree(links)
    assert (moved.names("a"), moved.names("b")) == (["one"], ["two"])
    folders: Members = [("d/e/one", b""), ("d", Symlink("f")), ("d/e/two", b"")]
    assert tree(folders).names("f/e") == ["two"]
    for removal in (".wh.d", ".wh..wh..opq"):
        above: Members = [("d/e/no", Hardlink("nowhere")), (removal, b""), ("d/e/two", b"")]
        assert tree([("d/e/one", b"")], above).names("d/e") == ["two"]


def test_a_member_behind_links_without_end_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="links without end") as refused:
        tree([("lib", Symlink("lib")), ("lib/libc.so", b"")])
    assert refused.value.reason == Reason.ARCHIVE_PATH


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_headers_upon_headers_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, 512
    hostile = (info.tobuf(tarfile.GNU_FORMAT) + b"16 path=abcdefg\n".ljust(512, b"\0")) * 3_000
    plain = tmp_path / "hostile.tar"
    plain.write_bytes(hostile + bytes(1_024))
    for path in (plain, saved(tmp_path, [hostile])):
        with pytest.raises(InvalidDocument) as refused:
            analyze_image(str(path))
        assert refused.value.reason == Reason.ARCHIVE_BROKEN


def test_an_opaque_folder_may_have_deep_ones_below() -> None:
    links = [(f"l{number}", Symlink("/".join(["x"] * 200))) for number in range(2)]
    deep: Members = [(f"{'y/' * 250}a", b""), *links, ("l0/b", b"")]
    assert tree(deep, [(".wh..wh..opq", b""), ("new", b"")]).names("") == ["new"]


def test_clearing_does_not_recurse() -> None:
    folder = deepest = layers._Entry(0, names={})
    for _ in range(5_000):
        inner = layers._Entry(0, names={})
        assert deepest.names is not None
        deepest.names["x"] = inner
        deepest = inner
    layers._clear(folder, 1)
    assert folder.names == {}
    while deepest.names:  # or to free them would recurse
        deepest.names.clear()


def test_what_a_layer_removes_is_what_layers_below_have() -> None:
    below: Members = [("usr/lib/a", b"old"), ("usr/lib/b", b""), ("opt/c", b"")]
    above: Members = [("usr/lib/a", b"new"), ("usr/lib/.wh.a", b""), ("opt/own", b""),
                      (".wh.opt", b""), ("usr/lib/.wh.b", b"")]  # fmt: skip
    found = tree(below, above)
    assert found.names("usr/lib") == ["a"]
    assert found.names("opt") == ["own"]
    assert tree(below, [(".wh.opt", b"")]).names("") == ["usr"]


def test_a_folder_that_a_layer_names_again_outlives_its_opaque_parent() -> None:
    below: Members = [("usr/lib/a", b""), ("usr/share/b", b"")]
    above: Members = [("usr/lib", Folder()), ("usr/.wh..wh..opq", b"")]
    found = tree(below, above)
    assert (found.names("usr"), found.names("usr/lib")) == (["lib"], [])


def test_versions_are_provided_under_the_soname_only(tmp_path: Path) -> None:
    library = elf("libx.so.1", defines=("X_1",))
    found = exported(
        tmp_path, [("lib/libx.so.1.2", library), ("lib/libx.so", Symlink("libx.so.1.2"))]
    )
    assert {it.key for it in found.provides} == {
        "libx.so", "libx.so.1", "libx.so.1:X_1", "libx.so.1.2",
    }  # fmt: skip


@pytest.mark.parametrize("machine", ["armv6l", "armv8l"])
def test_an_image_for_a_32_bit_machine_provides_what_its_kind_has(
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


def test_a_root_whose_libraries_are_all_for_other_machines_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libc.so.6").write_bytes(elf("libc.so.6", machine=ARM))
    assert analyze_host("it", tmp_path).provides == ()
    (record,) = caplog.records
    assert vars(record)["found"] == ["armv7l"]


def entry_of(folder: Path, system: str, *, os_name: str | None = None, **notes: str) -> Any:
    """An image of an OCI layout, and what its index says of it."""
    config = _blob(folder, json.dumps({"architecture": "amd64"}).encode())
    release = layer([("etc/os-release", f"ID={system}".encode())])
    manifest = {"config": config, "layers": [_blob(folder, release)]}
    described = _blob(folder, json.dumps(manifest).encode())
    there = {} if os_name is None else {"platform": {"os": os_name, "architecture": "amd64"}}
    return {**described, **there, "annotations": notes}


def layout(folder: Path, *entries: Any) -> str:
    (folder / "index.json").write_text(json.dumps({"manifests": entries}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(folder)


def named(name: str) -> dict[str, str]:
    return {"org.opencontainers.image.ref.name": name}


def test_of_a_layout_the_image_for_linux_is_read(tmp_path: Path) -> None:
    linux = entry_of(tmp_path, "right", os_name="linux")
    others = [
        entry_of(tmp_path, "wrong", os_name="windows"),
        entry_of(tmp_path, "statement", os_name="unknown"),
        entry_of(tmp_path, "other", **{"vnd.docker.reference.type": "attestation-manifest"}),
    ]
    assert analyze_image(layout(tmp_path, *others, linux)).os_name == "right"
    with pytest.raises(InvalidDocument, match="no image for Linux"):
        analyze_image(layout(tmp_path, *others))


def test_several_images_of_different_names_are_refused_by_name(tmp_path: Path) -> None:
    one, other = (entry_of(tmp_path, name, **named(name)) for name in ("alpha", "beta"))
    with pytest.raises(InvalidDocument, match="holds alpha, beta"):
        analyze_image(layout(tmp_path, one, other))
    tags = [{**one, "annotations": named(name)} for name in ("alpha", "latest")]
    assert analyze_image(layout(tmp_path, *tags)).os_name == "alpha"
    machines = [one, entry_of(tmp_path, "second", **named("alpha"))]
    assert analyze_image(layout(tmp_path, *machines)).os_name == "alpha"
    tagged = [
        {**it, "annotations": {**named("latest"), "io.containerd.image.name": name}}
        for it, name in ((one, "x:latest"), (other, "y:latest"))
    ]
    with pytest.raises(InvalidDocument, match="holds x:latest, y:latest"):
        analyze_image(layout(tmp_path, *tagged))


@pytest.mark.parametrize("name", ["a" * 5_000, "x\0y"])
def test_what_no_file_and_no_image_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="no image can be called"):
        analyze_image(name)
    done = CliRunner().invoke(analyze, ["image", name])
    assert isinstance(done.exception, InvalidArgument)
    done = CliRunner().invoke(analyze, ["wheel", name])
    assert isinstance(done.exception, InvalidArgument)


def test_neither_a_link_nor_a_pipe_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    found = FolderTree(tmp_path)
    with pytest.raises(OSError, match="symbolic links"):
        found.open("link")
    refused: list[str] = []

    def open_pipe() -> None:
        try:
            found.open("pipe")
        except OSError as error:
            refused.append(str(error))

    thread = threading.Thread(target=open_pipe, daemon=True)
    thread.start()
    thread.join(10)
    assert refused == ["[Errno 22] not a regular file"]
