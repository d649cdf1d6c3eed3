"""The table of criteria, and that the reference shows the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from adviser.scoring.criteria import RecommendationType, criteria_of

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "recommendation-types.md"


def shown() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| criterion |"))
    table = [line for line in lines[first:] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize("kind", RecommendationType)
def test_the_reference_shows_the_weights_that_count(kind: RecommendationType) -> None:
    head, _, *rows = shown()[: 2 + 11]
    column = head.index(f"`{kind}`")
    weights = {row[0].split("`")[1]: row[column] for row in rows}
    assert {row[0].split("`")[1] for row in rows if "(penalty" in row[0]} >= {
        it.name for it in criteria_of(kind) if it.penalty
    }
    assert {row[0].split("`")[1] for row in rows if "(penalty" not in row[0]} >= {
        it.name for it in criteria_of(kind) if not it.penalty
    }
    marked = {
        row[0].split("`")[1]
        for row in rows
        if ("newness)" in row[0] and row[column])
        or f"newness for `{kind}`" in row[0].replace("`latest` and ", "")
    }
    if kind is RecommendationType.LATEST:
        marked |= {row[0].split("`")[1] for row in rows if "newness for `latest`" in row[0]}
    assert marked == {it.name for it in criteria_of(kind) if it.newness}
    assert {name: float(it) for name, it in weights.items() if it} == {
        it.name: it.weight for it in criteria_of(kind)
    }


@pytest.mark.parametrize("kind", RecommendationType)
def test_every_type_is_explained(kind: RecommendationType) -> None:
    assert f"**`{kind}`** " in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", RecommendationType)
def test_a_value_comes_back_out_of_its_contribution(kind: RecommendationType) -> None:
    for it in criteria_of(kind):
        assert it.value(it.contribution(-0.25)) == pytest.approx(-0.25, rel=0.02)
        assert it.contribution(0.0) == 0


def test_only_performance_counts_measurements_and_only_testing_wants_prereleases() -> None:
    counted = {kind for kind in RecommendationType
               if "performance" in {it.name for it in criteria_of(kind)}}  # fmt: skip
    assert counted == {RecommendationType.BEST, RecommendationType.PERFORMANCE}
    assert {kind for kind in RecommendationType if kind.admits_prereleases} == {
        RecommendationType.TESTING
    }
    assert {kind for kind in RecommendationType if kind.refuses_vulnerable} == {
        RecommendationType.SECURITY
    }
