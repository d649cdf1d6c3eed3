"""Archived and deprecated projects: what they weigh, and what reports say of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from adviser.advise import Advice, advise
from adviser.answering.index_snapshot import ListedPackage
from adviser.scoring.assessment_types import JustificationCode
from adviser.scoring.criteria import RecommendationType
from common.index.page_parsing import PageText, parse_page
from model.packages.candidate_builder import CandidateBuilder
from model.packages.project_pages import ProjectState, ProjectStatus
from model.packages.snapshot import Snapshot, with_revision
from tests.factories.requests import NOTHING, request_for, snapshot_for
from tests.factories.universes import Index

_DAYS = {version: f"2020-0{version}-01T00:00:00+00:00" for version in range(1, 6)}
#: The newest ``middle`` requires ``stale``, the ones before require nothing. Both are so far from
#: ``app`` that they are weighed together.
WORLD: Index = {
    "app": {"1.0": {"requires": ["near"], "uploaded_at": _DAYS[5]}},
    "near": {"1.0": {"requires": ["far"], "uploaded_at": _DAYS[5]}},
    "far": {"1.0": {"requires": ["middle"], "uploaded_at": _DAYS[5]}},
    "middle": {
        f"{major}.0": {"requires": ["stale"] if major == 4 else [], "uploaded_at": _DAYS[major]}
        for major in (4, 3, 2, 1)
    },
    "stale": {"1.0": {"uploaded_at": _DAYS[1]}},
}
ARCHIVED = ProjectStatus(ProjectState.ARCHIVED, "use middle")
DEPRECATED = ProjectStatus(ProjectState.DEPRECATED)


def world(manifest: str, status: ProjectStatus | None) -> tuple[Snapshot, str]:
    snapshot = snapshot_for(request_for(manifest), WORLD)
    statuses = {} if status is None else {"stale": {"pypi": status}}
    return with_revision(replace(snapshot, statuses=statuses)), manifest


def advice(
    kind: RecommendationType, status: ProjectStatus | None = ARCHIVED, manifest: str = "app\n"
) -> Advice:
    snapshot, _ = world(manifest, status)
    return advise(request_for(manifest, kind), snapshot, NOTHING)


def chosen(made: Advice) -> dict[str, str]:
    """The versions of the packages whose choice depends on the status."""
    return {name: it for name, it in made.best.versions().items() if name in {"middle", "stale"}}


@pytest.mark.parametrize("status", [ARCHIVED, DEPRECATED])
@pytest.mark.parametrize("kind", [RecommendationType.STABLE, RecommendationType.SECURITY])
def test_stable_and_security_types_avoid_archived_indirect_dependencies(
    kind: RecommendationType, status: ProjectStatus
) -> None:
    assert chosen(advice(kind, status)) == {"middle": "3.0"}
    assert chosen(advice(kind, None)) == {"middle": "4.0", "stale": "1.0"}


@pytest.mark.parametrize(
    "kind", [RecommendationType.LATEST, RecommendationType.TESTING, RecommendationType.PERFORMANCE]
)
def test_other_recommendation_types_only_note_an_archived_project(kind: RecommendationType) -> None:
    made = advice(kind)
    assert chosen(made) == {"middle": "4.0", "stale": "1.0"}
    notes = made.assessment.justifications_of([it.purl for it in made.best.choices])
    (note,) = [it for it in notes if it.code is JustificationCode.ARCHIVED]
    assert note.message == "pypi says that stale is archived: use middle"


@pytest.mark.parametrize("kind", RecommendationType)
def test_direct_requirement_stays_newest_although_its_project_is_archived(
    kind: RecommendationType,
) -> None:
    assert chosen(advice(kind, manifest="middle\n"))["middle"] == "4.0"


def test_snapshot_and_criteria_do_not_change_without_archived_projects() -> None:
    """Snapshots and reports of advice from before are replayed byte by byte."""
    snapshot, _ = world("app\n", None)
    assert b"statuses" not in snapshot.to_json()
    made = advice(RecommendationType.SECURITY, None)
    assert "status" not in {it.name for it in made.assessment.criteria}


def test_snapshot_stores_project_statuses() -> None:
    snapshot, _ = world("app\n", ARCHIVED)
    again = Snapshot.from_json(snapshot.to_json())
    assert again == snapshot
    assert again.statuses == {"stale": {"pypi": ARCHIVED}}
    assert snapshot.revision != world("app\n", None)[0].revision
    assert snapshot.revision != world("app\n", DEPRECATED)[0].revision


def test_versions_of_a_quarantined_project_are_excluded() -> None:
    document = {
        "meta": {"api-version": "1.4"},
        "name": "stale",
        "project-status": {"status": "quarantined"},
        "versions": ["1.0"],
        "files": [],
    }
    text = PageText(
        json.dumps(document).encode(), "application/vnd.pypi.simple.v1+json",
        "https://index.example/simple/stale/",
    )  # fmt: skip
    page = parse_page("stale", text, datetime(2026, 1, 1, tzinfo=UTC))
    built = ListedPackage.of_page("pypi", page).build(
        CandidateBuilder(request_for("stale").environment)
    )
    (excluded,) = built.excluded
    assert excluded.message.endswith("pypi has put the project into quarantine")
