"""A conflict in lines: nothing is said twice, and neighbours are told together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from adviser.resolver.admission import universe_of
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index, dependency, snapshot_of

DATED: Index = {
    "core": {f"{n}.0": {"uploaded_at": f"2025-0{n}-01T00:00:00Z"} for n in (9, 8, 7)},
    "web": {"1.0": {"requires": ["core"], "uploaded_at": "2024-01-01T00:00:00Z"}},
}


def lines(manifest: str, index: Index | None = None, **options: Any) -> list[str]:
    request = request_for(manifest, **options)
    advice = advice_for(request) if index is None else advice_for(request, index)
    conflict = advice.resolution.conflict
    return conflict.lines()


def test_versions_out_by_their_day_are_reported_together_with_the_days() -> None:
    assert lines("web\n", DATED, published_before=datetime(2024, 5, 1, tzinfo=UTC)) == [
        "1. you ask for web",
        "2. web 1.0 requires core",
        "3. the request accepts only versions of core that were published before 2024-05-01",
        "   core 9.0 to 7.0 (3 versions): not published before 2024-05-01 but from 2025-07-01 to"
        " 2025-09-01 (step 3)",
    ]


def test_one_version_is_reported_with_its_day() -> None:
    day = datetime(2025, 8, 15, tzinfo=UTC)
    (line,) = [it for it in lines("core<9\n", DATED, published_after=day) if "9.0" in it]
    assert line == "   core 9.0: outside core<9 (step 1)"
    (line,) = lines("core<8\n", DATED, published_after=day)[-1:]
    assert line == "   core 7.0: not published since 2025-08-15 but on 2025-07-01 (step 2)"


def test_a_conflict_does_not_repeat_a_step() -> None:
    assert lines("web>=3\ntool\n") == [
        "1. you ask for tool",
        "2. you ask for web>=3",
        "3. tool 1.0 requires core<2",
        "4. web 3.0 requires core>=2",
        "   web 2.0 and 1.0: outside web>=3 (step 2)",
        "   core 2.0: outside core<2 (step 3)",
        "   core 1.1 and 1.0: outside core>=2 (step 4)",
    ]


def test_an_inferred_bound_is_not_said_to_be_required() -> None:
    index: Index = {
        "app": {"1.0.2": {"requires": ["core<2"]}, "1.0.1": {"requires": ["core"]}},
        "core": {"2": {}, "1": {}},
    }
    roots = ("app==1.0.1", "core>=2")
    rules = ResolverRequest(tuple(map(dependency, roots)), inferred_bounds=True)
    conflict = resolve(universe_of(snapshot_of(index, roots), rules, {})).conflict
    assert conflict.lines()[2] == (
        "3. app 1.0.2 and 1.0.1 need core<2"
        " (1.0.1: app 1.0.2 restricts core to <2; 1.0.1 declared no bound)"
    )
    assert "requires" not in "".join(conflict.lines())
