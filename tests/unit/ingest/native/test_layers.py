"""Layers merged as containers merge them, and links kept inside."""

import os
import threading
from pathlib import Path

import pytest

from ingest.native import images
from ingest.native.file_trees import FolderTree, resolve
from model.errors import InvalidDocument, Reason
from tests.factories.errors import raised
from tests.factories.images import Members, tree
from tests.factories.native import Folder, Hardlink, Symlink
from tests.services.waiting import DEADLINE_S

DEEP = Symlink("/".join(["x"] * 2_040))


def test_layer_link_to_a_very_deep_folder_is_refused() -> None:
    many: Members = [("l", DEEP), *((f"l/f{number}", b"") for number in range(400))]
    with pytest.raises(InvalidDocument) as refused:
        tree(many)
    assert refused.value.reason == Reason.ARCHIVE_PATH
    assert resolve(tree([("l", DEEP)]), "l") is None


def test_path_resolution_in_layers_takes_bounded_steps() -> None:
    # Each target is as long as a link can be, and goes down and up again before the next.
    target = "/".join(["x", ".."] * 800)
    chain = [(f"l{number}", Symlink(f"{target}/l{number + 1}")) for number in range(39)]
    found = tree([*chain, ("deep/a/b/c/d.so", b""), ("short", Symlink("deep/a"))])
    before = found._steps
    assert resolve(found, "l0") is None
    assert found._steps - before < 5_000
    before = found._steps
    assert resolve(found, "short/b/../b/c/d.so") == "deep/a/b/c/d.so"
    assert found._steps - before <= 8


def test_layers_that_take_too_many_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_MOST_STEPS", 1_000)
    target = "/".join(["x", ".."] * 100)
    with raised(InvalidDocument, reason=Reason.ARCHIVE_BOMB):
        tree([("l", Symlink(target)), *((f"l/f{number}/x", b"") for number in range(20))])


def test_layer_folder_lookups_are_cached_until_a_link_changes() -> None:
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


def test_layer_member_behind_circular_links_is_refused() -> None:
    with raised(InvalidDocument, reason=Reason.ARCHIVE_PATH) as refused:
        tree([("lib", Symlink("lib")), ("lib/libc.so", b"")])
    assert refused.value.reason == Reason.ARCHIVE_PATH


def test_opaque_layer_folder_hides_even_deep_folders_of_lower_layers() -> None:
    links = [(f"l{number}", Symlink("/".join(["x"] * 200))) for number in range(2)]
    deep: Members = [(f"{'y/' * 250}a", b""), *links, ("l0/b", b"")]
    assert tree(deep, [(".wh..wh..opq", b""), ("new", b"")]).names("") == ["new"]


def test_whiteouts_remove_only_files_of_lower_layers() -> None:
    below: Members = [("usr/lib/a", b"old"), ("usr/lib/b", b""), ("opt/c", b"")]
    above: Members = [("usr/lib/a", b"new"), ("usr/lib/.wh.a", b""), ("opt/own", b""),
                      (".wh.opt", b""), ("usr/lib/.wh.b", b"")]  # fmt: skip
    found = tree(below, above)
    assert found.names("usr/lib") == ["a"]
    assert found.names("opt") == ["own"]
    assert tree(below, [(".wh.opt", b"")]).names("") == ["usr"]


def test_layer_folder_below_an_opaque_folder_hides_files_of_lower_layers() -> None:
    below: Members = [("usr/lib/a", b""), ("usr/share/b", b"")]
    above: Members = [("usr/lib", Folder()), ("usr/.wh..wh..opq", b"")]
    found = tree(below, above)
    assert (found.names("usr"), found.names("usr/lib")) == (["lib"], [])


def test_links_and_pipes_in_a_root_folder_are_not_opened(tmp_path: Path) -> None:
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
    thread.join(DEADLINE_S)
    assert refused == ["[Errno 22] not a regular file"]
