"""Unpacked images, and what their libraries provide."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli.analyze import analyze
from common.settings import Settings
from ingest.native.environments import FileTree, analyze_host, analyze_image, libraries_of
from model.errors import InvalidArgument
from model.packages.native_interfaces import Interface
from tests.factories.golden import compare_views
from tests.factories.native import (
    AARCH64,
    ARM,
    LIBC,
    RELEASE,
    ROOT,
    Hardlink,
    Member,
    Symlink,
    elf,
    write_root,
)
from tests.services.commands import run_here
from tests.services.waiting import DEADLINE_S


def test_an_unpacked_image_says_what_it_provides(tmp_path: Path) -> None:
    found = analyze_image(str(write_root(tmp_path / "base", ROOT)))
    assert (found.name, found.os_name, found.os_version) == ("base", "demo", "9")
    assert found.provides == (
        Interface("libc.so.6"),
        Interface("libc.so.6", "GLIBC_2.17"),
        Interface("libc.so.6", "GLIBC_2.34"),
    )


FOREIGN = elf("libz.so.1", defines=("Z_FOREIGN",), machine=AARCH64)
SONAME = elf("libx.so.1", defines=("X_1",))
ROOTS: dict[str, Mapping[str, Member]] = {
    "links": {
        "usr/lib/real.so.1.2": elf("libreal.so.1", defines=("R_1",)),
        "usr/lib/libreal.so.1": Symlink("real.so.1.2"),
        "usr/lib/libabsolute.so": Symlink("/usr/lib/real.so.1.2"),
        "usr/lib/libabove.so": Symlink("../../../../../usr/lib/real.so.1.2"),
        "usr/lib/libhard.so": Hardlink("usr/lib/real.so.1.2"),
        "lib64": Symlink("usr/lib"),
        "lib64/libthrough.so": elf(),
    },
    "links without end": {
        "usr/lib/liba.so": Symlink("libb.so"),
        "usr/lib/libb.so": Symlink("liba.so"),
        "lib": Symlink("lib"),
        "etc": Symlink("/etc/x"),
        "lib64/libc.so.6": LIBC,
    },
    "the loader's configuration": {
        "etc/ld.so.conf": b"include ld.so.conf.d/*.conf\n/opt/a # first\n",
        "etc/ld.so.conf.d/b.conf": b"/opt/b\ninclude /etc/ld.so.conf\n",
        "etc/ld.so.conf.d/c.txt": b"/opt/never\n",
        "opt/a/liba.so": elf(),
        "opt/b/libb.so": elf(),
        "opt/x/libofenviron.so": elf(),
        "opt/never/libnever.so": elf(),
        "etc/ld-musl-x86_64.path": b"/opt/m:/opt/n\n",
        "opt/n/libn.so": elf(),
        "usr/lib/x86_64-linux-gnu/libmulti.so": elf(),
        "usr/lib/other/libother.so": elf(),
    },
    "two libraries of a name": {
        "opt/x/libz.so.1": FOREIGN,
        "lib64/libz.so.1": elf("libz.so.1", defines=("Z_1",)),
        "usr/lib/libz.so.1": elf("libz.so.1", defines=("Z_2",)),
    },
    "broken libraries": {
        "lib/libbad.so": LIBC[:150],
        "lib/libc.so": b"/* GNU ld script */",
        "lib/libc.so.6": LIBC,
    },
    "no libraries": {"app": b"static"},
    "versions of a soname": {"lib/libx.so.1.2": SONAME, "lib/libx.so": Symlink("libx.so.1.2")},
}


def test_roots_provide_what_is_in_the_golden_file(tmp_path: Path) -> None:
    views = {}
    for title, members in ROOTS.items():
        root = write_root(tmp_path / title, members)
        found = libraries_of(FileTree(root), {"LD_LIBRARY_PATH": "/opt/x"})
        keys = sorted(it.key for it in found.provides("x86_64"))
        skipped = [f"skipped: {it.path}" for it in found.skipped]
        views[title] = "\n".join([found.architecture() or "", *keys, *skipped])
    compare_views("images", views)


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


def test_a_root_whose_libraries_are_all_for_other_machines_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libc.so.6").write_bytes(elf("libc.so.6", machine=ARM))
    assert analyze_host("it", tmp_path).provides == ()
    (record,) = caplog.records
    assert vars(record)["found"] == ["armv7l"]


@pytest.mark.parametrize("name", ["", "a" * 5_000, "x\0y", "nobody/nothing:1", "--help"])
def test_a_path_without_a_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="unpack the image first"):
        analyze_image(name)
    if name != "--help":
        for kind in ("image", "wheel"):
            done = run_here(analyze, Settings.from_env({}), kind, name)
            assert (done.exit_code, done.stdout) == (2, "")
            assert done.stderr.startswith("error: ")


def test_a_path_with_links_takes_as_many_steps_as_it_has_parts(tmp_path: Path) -> None:
    # Each target is as long as a link can be, and goes down and up again before the next.
    target = "/".join(["x", ".."] * 800)
    chain = {f"l{number}": Symlink(f"{target}/l{number + 1}") for number in range(39)}
    deep = Symlink("/".join(["x"] * 2_040))
    root = write_root(tmp_path, {**chain, "deep/a/b/c/d.so": b"", "short": Symlink("deep/a"),
                                 "l": deep})  # fmt: skip
    tree = FileTree(root)
    assert tree.resolve("l0") is None
    assert tree.resolve("l") is None
    assert tree.resolve("short/b/../b/c/d.so") == "deep/a/b/c/d.so"


def test_neither_a_link_nor_a_pipe_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    found = FileTree(tmp_path)
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
    thread.join(DEADLINE_S)
    assert refused == ["[Errno 22] not a regular file"]
