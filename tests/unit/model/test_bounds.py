"""What is refused of JSON and TOML before anything is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from model.json_documents import MAX_DEPTH, digest, out_of_bounds


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "place", "message"),
    [
        ({"a": {"b": ["x", "y\0"]}}, "a.b[1]", "NUL"),
        ({"a": {"b\0": 1}}, "a", "NUL"),
        ([2**63], "[0]", "64 bits"),
        ([-(2**63) - 1], "[0]", "64 bits"),
        ({"a": float("nan")}, "a", "64 bits"),
        ({"a": float("inf")}, "a", "64 bits"),
        (10**40, "", "64 bits"),
    ],
)
def test_the_place_is_named(value: Any, place: str, message: str) -> None:
    found = out_of_bounds(value)
    assert found[0] == place
    assert message in found[1]


def test_what_is_within_is_left_alone_and_has_a_digest() -> None:
    value = {"a": [2**63 - 1, -(2**63), 1.5, True, None, "text"], "b": nested(MAX_DEPTH - 1)}
    assert out_of_bounds(value) is None
    assert digest(value)


def test_depth_has_a_bound_and_its_place_is_short() -> None:
    found = out_of_bounds(nested(MAX_DEPTH + 1))
    assert "nested" in found[1]
    assert len(found[0]) <= 81


def test_long_keys_cost_nothing() -> None:
    """A place is written only where something is wrong."""
    assert out_of_bounds({"k" * 1_000_000: [0] * 100_000}) is None
