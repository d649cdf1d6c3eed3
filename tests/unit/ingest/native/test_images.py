"""Images in all their forms, and what their libraries provide."""

from __future__ import annotations

import gzip
import io
import json
import platform
import tarfile
from pathlib import Path

import pytest
import zstandard

from ingest.native.environments import analyze_host, analyze_image
from model.errors import InvalidDocument
from model.packages.native_interfaces import Interface
from model.reasons import Reason
from tests.factories.errors import raised
from tests.factories.images import (
    LIBC,
    RELEASE,
    ROOT,
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

OLD_LIBC = elf("libc.so.6", defines=("GLIBC_2.17",))


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


def test_no_link_of_an_image_archive_leads_out_of_it(tmp_path: Path) -> None:
    folder = oci(tmp_path / "oci", [layer(ROOT)])
    (folder / "index.json").rename(tmp_path / "index.json")
    (folder / "index.json").symlink_to("../index.json")
    assert analyze_image(str(folder)).provides == ()  # a folder without an index is a root


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


def test_of_a_layout_the_image_for_linux_is_read(tmp_path: Path) -> None:
    linux = entry_of(tmp_path, "right", os_name="linux")
    others = [
        entry_of(tmp_path, "wrong", os_name="windows"),
        entry_of(tmp_path, "statement", os_name="unknown"),
        entry_of(tmp_path, "other", **{"vnd.docker.reference.type": "attestation-manifest"}),
    ]
    assert analyze_image(layout(tmp_path, *others, linux)).os_name == "right"
    with raised(InvalidDocument, reason=Reason.MISSING_FIELD, field="manifests"):
        analyze_image(layout(tmp_path, *others))


def test_several_images_of_different_names_are_refused_by_name(tmp_path: Path) -> None:
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
