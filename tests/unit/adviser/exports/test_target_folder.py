"""The folder of an export is written as a whole, and replaces nothing but an export."""

from __future__ import annotations

from pathlib import Path

import pytest

from adviser.exports.parquet import target_folder
from model.errors import InvalidArgument


def fill(target: Path, text: str, *, replace: bool = False) -> None:
    with target_folder(target, replace=replace, marker="marker") as part:
        (part / "marker").write_text(text)


def test_a_new_folder_appears_with_its_content(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "b", "new")
    assert [it.name for it in (tmp_path / "a").iterdir()] == ["b"]
    assert (tmp_path / "a" / "b" / "marker").read_text() == "new"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    fill(tmp_path / "a", "new")
    assert (tmp_path / "a" / "marker").read_text() == "new"


def test_an_earlier_export_is_replaced_on_request_only(tmp_path: Path) -> None:
    fill(tmp_path / "a", "old")
    with pytest.raises(InvalidArgument, match="already") as refusal:
        fill(tmp_path / "a", "new")
    assert "--replace" in str(refusal.value.hint)
    assert (tmp_path / "a" / "marker").read_text() == "old"
    fill(tmp_path / "a", "new", replace=True)
    assert (tmp_path / "a" / "marker").read_text() == "new"
    assert [it.name for it in tmp_path.iterdir()] == ["a"]


def test_other_content_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidArgument, match="other content"):
        fill(tmp_path, "new", replace=True)
    with pytest.raises(InvalidArgument, match="not a folder"):
        fill(tmp_path / "thesis.tex", "new", replace=True)
    assert [it.name for it in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_failure_leaves_the_old_folder_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path / "a", "old")
    with pytest.raises(UnicodeEncodeError):
        fill(tmp_path / "a", "half\ud800", replace=True)
    assert (tmp_path / "a" / "marker").read_text() == "old"
    assert [it.name for it in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        fill(tmp_path / "file" / "a", "new")


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InvalidArgument):
        fill(tmp_path / "a", "new")
    assert sorted(it.name for it in tmp_path.iterdir()) == ["a", "b"]
