"""Notes about indexes: what is not known, and what never wins."""

from __future__ import annotations

from adviser.asked import AskedIndex
from adviser.reports.codes import NoteCode
from adviser.reports.notes import stack_notes
from tests.factories.asked import INDEX, MAIN, advised, asked
from tests.factories.universes import Index


def codes(index: Index, *indexes: AskedIndex) -> list[str]:
    return [it.code for it in stack_notes(advised(asked("core\n", indexes=indexes), index))]


def test_the_same_name_elsewhere_is_told() -> None:
    index = {"core": {"1.0": {}, "2.0 other": {}}}
    notes = stack_notes(advised(asked("core\n"), index))
    (note,) = [it for it in notes if it.code == NoteCode.OTHER_INDEX]
    assert note.package == "core"
    assert "it is on other, and the package comes from pypi" in note.message


def test_an_index_that_nobody_configured_is_told_once() -> None:
    unknown = AskedIndex("main", "main", "https://index.example/simple", known=False)
    found = codes(INDEX, unknown)
    assert found.count(NoteCode.INDEX_UNKNOWN) == 1
    assert NoteCode.OTHER_INDEX not in found
    assert NoteCode.INDEX_UNKNOWN not in codes(INDEX, MAIN)


def test_a_search_without_time_says_so() -> None:
    notes = stack_notes(advised(asked(time_s=1e-9)))
    assert NoteCode.LIMIT in [it.code for it in notes]


def test_fewer_stacks_than_wanted_are_told() -> None:
    notes = stack_notes(advised(asked("tool\n", count=9)))
    (note,) = [it for it in notes if it.code == NoteCode.FEW_STACKS]
    assert note.message == "there are 2 stacks, 9 were wanted"


def test_warnings_of_the_projects_reader_are_passed_on() -> None:
    notes = stack_notes(advised(asked("core\n-e ./here\n")))
    assert [it.code for it in notes if it.code.startswith("project_")]
