"""Notes about the request: indexes, limits, what was measured, and how old all of it is."""

from __future__ import annotations

from dataclasses import replace

from adviser.advise import advise, in_this_process
from adviser.asked import Asked, AskedIndex
from adviser.reports.codes import NoteCode
from adviser.reports.notes import stack_notes
from adviser.resolver.requests import Budget
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from graph.evidence import Evidence
from tests.factories.asked import INDEX, MAIN, NOTHING, advised, asked, snapshot_for
from tests.factories.evidence import Bench
from tests.factories.universes import Index


def codes(index: Index, *indexes: AskedIndex) -> list[str]:
    return [it.code for it in stack_notes(advised(asked("core\n", indexes=indexes), index))]


def test_the_same_name_elsewhere_is_told() -> None:
    index: Index = {"core": {"1.0": {}, "2.0 other": {}}}
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
    request = asked(time_s=1e-9)

    def hurried(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
        return in_this_process(universe, replace(budget or Budget(), steps=0), count=count)

    notes = stack_notes(advise(request, snapshot_for(request), NOTHING, resolver=hurried))
    assert NoteCode.LIMIT in [it.code for it in notes]


def test_fewer_stacks_than_wanted_are_told() -> None:
    notes = stack_notes(advised(asked("tool\n", count=9)))
    (note,) = [it for it in notes if it.code == NoteCode.FEW_STACKS]
    assert note.message == "there are 2 stacks, 9 were wanted"


def test_warnings_of_the_projects_reader_are_passed_on() -> None:
    notes = stack_notes(advised(asked("core\n-e ./here\n")))
    assert [it.code for it in notes if it.code.startswith("project_")]


def message(code: NoteCode, request: Asked, evidence: Evidence = NOTHING) -> str:
    (note,) = [it for it in stack_notes(advised(request, evidence=evidence)) if it.code == code]
    return note.message


def measured(*stacks: str) -> Evidence:
    bench = Bench()
    for number, releases in enumerate(stacks, 1):
        bench.measure(bench.stack(*releases.split()), [0.0] * number)
    return bench.evidence()


def test_the_nearest_measured_stack_is_told_with_what_differs() -> None:
    found = message(
        NoteCode.COVERAGE, asked("web\n"), measured("web==3.0 core==1.1", "web==1.0 core==1.0")
    )
    assert found == (
        "1 of 2 packages are in this version part of a measured stack on this hardware; the nearest"
        " measured stack has 1 stable job on this class and differs in 1 package (core 1.1 instead"
        " of 2.0)"
    )
    exact = message(NoteCode.COVERAGE, asked("web\n"), measured("web==3.0 core==2.0"))
    assert exact.endswith("; this very stack was measured: 1 stable job on this class")


def test_versions_that_were_never_measured_together_are_not_told_as_a_measured_stack() -> None:
    apart = measured("web==3.0", "core==2.0 more==1.0")
    found = message(NoteCode.COVERAGE, asked("web\n"), apart)
    assert found.startswith("2 of 2 packages are in this version part of a measured stack")
    assert "differs in 1 package (core none instead of 2.0)" in found


def test_hardware_that_is_not_known_is_no_hardware_on_which_nothing_was_measured() -> None:
    found = message(
        NoteCode.COVERAGE, asked("web\n", hardware=None), measured("web==3.0 core==2.0")
    )
    assert found.startswith("2 of 2 packages are in this version part of a measured stack, on some")
    assert "on this hardware" not in found


def test_how_old_the_knowledge_is_is_told() -> None:
    assert message(NoteCode.SOURCES, asked()) == (
        "as of 2026-01-01; last read or told: pypi 2026-01-01"
    )
    never = replace(NOTHING, sources={"advisories": None})
    assert message(NoteCode.SOURCES, asked(), never).endswith("advisories never")
