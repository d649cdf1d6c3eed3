"""A conflict in lines: nothing is said twice, and neighbours are told together."""

from datetime import UTC, datetime
from typing import Any

from adviser.resolver.admission import universe_of
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import Conflict
from tests.factories.golden import compare_views
from tests.factories.requests import INDEX, advice_for, request_for
from tests.factories.universes import Index, dependency, snapshot_of

DATED: Index = {
    "core": {f"{n}.0": {"uploaded_at": f"2025-0{n}-01T00:00:00Z"} for n in (9, 8, 7)},
    "web": {"1.0": {"requires": ["core"], "uploaded_at": "2024-01-01T00:00:00Z"}},
}


INFERRED: Index = {
    "app": {"1.0.2": {"requires": ["core<2"]}, "1.0.1": {"requires": ["core"]}},
    "core": {"2": {}, "1": {}},
}


def conflict_of(manifest: str, index: Index = INDEX, **options: Any) -> Conflict:
    return advice_for(request_for(manifest, **options), index).resolution.conflict


def test_conflict_is_explained_step_by_step() -> None:
    before = {"published_before": datetime(2024, 5, 1, tzinfo=UTC)}
    after = {"published_after": datetime(2025, 8, 15, tzinfo=UTC)}
    roots = ("app==1.0.1", "core>=2")
    rules = ResolverRequest(tuple(map(dependency, roots)), inferred_bounds=True)
    conflicts = {
        "several versions that are too new": conflict_of("web\n", DATED, **before),
        "one version that is too old": conflict_of("core<8\n", DATED, **after),
        "versions that are too old or too new": conflict_of("core<9\n", DATED, **after),
        "no step is repeated": conflict_of("web>=3\ntool\n"),
        "an inferred bound is not required": resolve(
            universe_of(snapshot_of(INFERRED, roots), rules, {})
        ).conflict,
    }
    views = {title: "\n".join(it.lines()) for title, it in conflicts.items()}
    assert "requires" not in views["an inferred bound is not required"]
    compare_views("conflicts", views)
