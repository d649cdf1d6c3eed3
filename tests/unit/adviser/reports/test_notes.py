"""Notes about the request: indexes, limits, what was measured, and how old all of it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from adviser.advise import advise, in_this_process
from adviser.reports.note_codes import NoteCode
from adviser.reports.notes import stack_notes
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from adviser.scoring.estimates import Method
from adviser.scoring.sample_needs import Need
from adviser.scoring.verdicts import Verdict
from adviser.stack_request import RequestIndex, StackRequest
from model.measurements.evidence import Evidence
from tests.factories.evidence import Bench
from tests.factories.reports import kept
from tests.factories.requests import INDEX, MAIN, NOTHING, advice_for, request_for, snapshot_for
from tests.factories.universes import ENVIRONMENT, Index


def codes(index: Index, *indexes: RequestIndex) -> list[str]:
    return [
        it.code for it in stack_notes(advice_for(request_for("core\n", indexes=indexes), index))
    ]


def test_the_same_name_elsewhere_is_reported() -> None:
    index: Index = {"core": {"1.0": {}, "2.0 other": {}}}
    notes = stack_notes(advice_for(request_for("core\n"), index))
    (note,) = [it for it in notes if it.code == NoteCode.OTHER_INDEX]
    assert note.package == "core"
    assert "two indexes offer this name: it is on other, and" in note.message


def test_an_index_that_decides_because_it_is_searched_first_is_reported() -> None:
    first = RequestIndex("ours", "ours", "https://ours.example/simple")
    index: Index = {"core": {"1.0 ours": {}}}
    request = request_for("core\n", indexes=(first, MAIN))
    (note,) = [
        it for it in stack_notes(advice_for(request, index)) if it.code == NoteCode.INDEX_ORDER
    ]
    assert "ours is searched first and decides, and pypi was not asked for core" in note.message
    owner = request_for("core\n", indexes=(replace(first, owns=("core",)), MAIN))
    for quiet in (advice_for(owner, index), advice_for(request, {"core": {"1.0": {}}})):
        assert NoteCode.INDEX_ORDER not in [it.code for it in stack_notes(quiet)]


def test_an_index_that_nobody_configured_is_reported_once() -> None:
    unknown = RequestIndex("main", "main", "https://index.example/simple", known=False)
    note_codes = codes(INDEX, unknown)
    assert note_codes.count(NoteCode.INDEX_UNKNOWN) == 1
    assert NoteCode.OTHER_INDEX not in note_codes
    assert NoteCode.INDEX_UNKNOWN not in codes(INDEX, MAIN)
    assert NoteCode.INDEX_UNKNOWN not in codes({"core": {"1.0": {}}}, MAIN, unknown)
    assert NoteCode.INDEX_UNKNOWN in codes({"core": {"1.0": {}}}, unknown, MAIN)


def test_a_search_without_time_says_so() -> None:
    request = request_for(time_s=1e-9)

    def hurried(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
        return in_this_process(universe, replace(budget or Budget(), steps=0), count=count)

    notes = stack_notes(advise(request, snapshot_for(request), NOTHING, resolver=hurried))
    assert NoteCode.LIMIT in [it.code for it in notes]


def test_fewer_stacks_than_wanted_are_reported() -> None:
    notes = stack_notes(advice_for(request_for("tool\n", count=9)))
    (note,) = [it for it in notes if it.code == NoteCode.FEW_STACKS]
    assert note.message == "only 2 of 9 requested stacks exist"


def test_warnings_of_the_projects_reader_are_passed_on() -> None:
    notes = stack_notes(advice_for(request_for("core\n-e ./here\n")))
    assert [it.code for it in notes if it.code.startswith("project_")]


def message(code: NoteCode, request: StackRequest, evidence: Evidence = NOTHING) -> str:
    (note,) = [it for it in stack_notes(advice_for(request, evidence=evidence)) if it.code == code]
    return note.message


def measured(*stacks: str) -> Evidence:
    bench = Bench()
    for number, releases in enumerate(stacks, 1):
        bench.measure(bench.stack(*releases.split()), [0.0] * number)
    return bench.evidence()


def test_the_share_of_measured_packages_is_one_plain_sentence() -> None:
    near = measured("web==3.0 core==1.1", "web==1.0 core==1.0")
    assert message(NoteCode.COVERAGE, request_for("web\n"), near) == (
        "1 of 2 packages were measured in this version on this hardware"
    )
    exact = message(NoteCode.COVERAGE, request_for("web\n"), measured("web==3.0 core==2.0"))
    assert exact == "2 of 2 packages were measured in this version on this hardware"


@pytest.mark.parametrize("evidence", [NOTHING, measured("web==1.0 core==1.0")])
def test_that_nothing_of_a_stack_was_measured_is_one_plain_sentence(evidence: Evidence) -> None:
    assert message(NoteCode.COVERAGE, request_for("web\n"), evidence) == (
        "no package of this stack was measured in this version on this hardware"
    )


def test_hardware_that_is_not_known_is_no_hardware_on_which_nothing_was_measured() -> None:
    nowhere = request_for("web\n", hardware=None)
    assert message(NoteCode.COVERAGE, nowhere, measured("web==3.0 core==2.0")) == (
        "2 of 2 packages were measured in this version"
    )
    assert (
        message(NoteCode.COVERAGE, nowhere)
        == "no package of this stack was measured in this version"
    )


def test_how_old_the_knowledge_is_is_reported() -> None:
    assert message(NoteCode.SOURCES, request_for()) == (
        "as of 2026-01-01; last update of each source: pypi 2026-01-01"
    )
    never = replace(NOTHING, sources={"advisories": None})
    assert message(NoteCode.SOURCES, request_for(), never).endswith("advisories never")


@pytest.mark.parametrize(("full", "told"), [("3.11.0", True), ("3.11.7", False)])
def test_a_patch_level_that_nobody_named_is_reported(full: str, told: bool) -> None:
    where = replace(ENVIRONMENT, python_full_version=full)
    text = message(NoteCode.ENVIRONMENT, replace(request_for(), environment=where))
    assert text.endswith(f"; assuming Python {full}") == told


def test_without_a_stack_nothing_is_said_of_how_much_of_it_was_measured() -> None:
    evidence = measured("core==2.0")
    assert NoteCode.COVERAGE in [it.code for it in stack_notes(advice_for(evidence=evidence))]
    failed = stack_notes(advice_for(request_for("old>=2\n"), evidence=evidence))
    assert NoteCode.COVERAGE not in [it.code for it in failed]


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Need.JOBS, "PiMatmul: 5 more jobs of 3 and 6 of 2"),
        (
            Need.RUNS,
            "PiMatmul: about 6 more runs of each would settle it, or jobs that run in turns",
        ),
        (Need.HOSTS, "PiMatmul: 5 jobs of each on the same host would settle it"),
        (Need.TURNS, "run both in turns (`thoth inspect` with both specifications)"),
    ],
)
def test_the_next_jobs_are_reported_as_what_is_lacking(needs: Need, words: str) -> None:
    advice = kept()
    claim = replace(
        next(it for it in advice.assessment.claims if it.purl and it.here),
        verdict=Verdict.UNDETERMINED, method=Method.WELCH, needs=needs, jobs_missing=5,
        baseline_jobs_missing=6, interval_high_pct=math.inf,
    )  # fmt: skip
    changed = replace(advice, assessment=replace(advice.assessment, claims=(claim,)))
    (note,) = [it for it in stack_notes(changed) if it.code == NoteCode.NEXT_JOBS]
    assert words in note.message
