"""What the rules of a request leave, at their edges."""

from __future__ import annotations

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.resolver_request import ResolverRequest
from tests.factories.universes import moment, snapshot_of

MOMENTS = [f"2025-01-0{day}T00:00:00+00:00" for day in (3, 2, 1)]


def kept(**rules: str) -> list[str]:
    index = {"it": {f"{3 - n}.0": {"uploaded_at": text} for n, text in enumerate(MOMENTS)}}
    request = ResolverRequest(**{name: moment(text) for name, text in rules.items()})  # type: ignore[arg-type]
    return [
        it.version for it in universe_of(snapshot_of(index, ["it"]), request, {}).packages["it"]
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"published_before": MOMENTS[0]}, ["2.0", "1.0"]),
        ({"published_after": MOMENTS[1]}, ["3.0", "2.0"]),
        ({"published_before": MOMENTS[0], "published_after": MOMENTS[1]}, ["2.0"]),
        ({"published_before": MOMENTS[1], "published_after": MOMENTS[1]}, []),
    ],
)
def test_exclude_newer_includes_the_moment_itself(
    rules: dict[str, str], expected: list[str]
) -> None:
    assert kept(**rules) == expected
