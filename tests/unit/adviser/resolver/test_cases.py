"""Case files: an index, a request, and the stack or the conflict that is the answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import ResolutionStatus
from adviser.resolver.universe import Universe
from tests.factories.universes import dependency, moment, snapshot_of

CASES = sorted((Path(__file__).parents[3] / "data" / "resolver").glob("*.json"))


def universe_of_case(case: dict[str, Any]) -> Universe:
    asked = case["request"]
    snapshot = snapshot_of(case["index"], asked["requires"])
    request = ResolverRequest(
        constraints=tuple(map(dependency, asked.get("constraints", ()))),
        exclusions=tuple(map(dependency, asked.get("exclusions", ()))),
        overrides=asked.get("overrides", {}),
        prereleases=frozenset(asked.get("prereleases", ())),
        published_before=moment(asked.get("published_before")),
        published_after=moment(asked.get("published_after")),
        indexes=tuple(asked.get("indexes", ("pypi",))),
        index_of=asked.get("index_of", {}),
    )
    scores = {
        it.purl: tuple(case["index"][name][it.version].get("score", ()))
        for name, candidates in snapshot.packages.items()
        for it in candidates
        if it.version in case["index"][name]
    }
    return universe_of(snapshot, request, scores, asked.get("penalties", ()))


def test_resolver_has_test_cases() -> None:
    assert len(CASES) > 30


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_resolver_finds_the_expected_stack_or_conflict_of_each_case(path: Path) -> None:
    case = json.loads(path.read_text())
    universe, expected = universe_of_case(case), case["expect"]
    resolution = resolve(universe, count=case["request"].get("count", 1))
    assert check_resolution(universe, resolution) == []
    if "stack" in expected:
        wanted = [expected["stack"], *expected.get("next", ())]
        assert [it.versions() for it in resolution.stacks] == wanted
        assert resolution.status is ResolutionStatus.OPTIMAL
        assert resolution.objective is not None
        total = sum(resolution.objective)
        assert total == expected.get("objective", total)
    else:
        assert resolution.status is ResolutionStatus.INFEASIBLE
        text = "\n".join(resolution.conflict.lines())
        assert [step.kind for step in resolution.conflict.steps] == expected["conflict"], text
        assert all(words in text for words in expected.get("says", ())), text
