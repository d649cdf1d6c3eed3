"""Strict JSON: every way of being wrong has its own reason and place."""

import json
from typing import Any

import pytest

from model.errors import InvalidDocument, Reason
from model.json_documents import MAX_DEPTH, digest, load_json, out_of_bounds
from tests.factories.errors import raised


def test_canonical_json_has_sorted_keys_and_no_spaces() -> None:
    value, canonical = load_json(b'\xef\xbb\xbf { "b" : [1, 2.50], "a" : "\\u00e9" }\n')
    assert value == {"a": "é", "b": [1, 2.5]}
    assert canonical == '{"a":"é","b":[1,2.5]}'.encode()


@pytest.mark.parametrize(
    ("data", "reason", "field"),
    [
        (b"", Reason.EMPTY_FILE, "$"),
        (b" \n\t", Reason.EMPTY_FILE, "$"),
        (b'{"a": "\xff"}', Reason.NOT_UTF8, "$"),
        (json.dumps({"a": [1, 2, {"b": True}]}).encode()[:-4], Reason.TRUNCATED_JSON, "$"),
        (b'{"a": "no end', Reason.TRUNCATED_JSON, "$"),
        (b'{"a": tr', Reason.TRUNCATED_JSON, "$"),
        (b'{"a": "b\\u00', Reason.TRUNCATED_JSON, "$"),
        (b'{"a": -', Reason.TRUNCATED_JSON, "$"),
        (b'{"a":', Reason.TRUNCATED_JSON, "$"),
        (b"{'a': 1}", Reason.INVALID_JSON, "$"),
        (b'{"a": 1} {"b": 2}', Reason.INVALID_JSON, "$"),
        (b'{"a": 01}', Reason.INVALID_JSON, "$"),
        (b"<html></html>", Reason.INVALID_JSON, "$"),
        (b'{"a": NaN}', Reason.NOT_A_NUMBER, "$"),
        (b'{"a": -Infinity}', Reason.INFINITE, "$"),
        (b'{"a": 1e999}', Reason.INFINITE, "$"),
        (b'{"a": ' + b"9" * 5000 + b"}", Reason.INFINITE, "$"),
        (b'{"a": ["x", "y\\u0000z"]}', Reason.NUL_CHARACTER, "$.a[1]"),
        (b'{"a\\u0000": 1}', Reason.NUL_CHARACTER, "$['a\\u0000']"),
        (b'{"a": "\x00"}', Reason.NUL_CHARACTER, "$"),
        (b'{"a": {"b": "\\ud800"}}', Reason.LONE_SURROGATE, "$.a.b"),
        (b'{"a": "\\udc00\\ud800"}', Reason.LONE_SURROGATE, "$.a"),
        (b'{"a": "\xed\xa0\x80"}', Reason.LONE_SURROGATE, "$"),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', Reason.DUPLICATE_KEY, "$.b.c"),
        (b'{"a": 1, "\\u0061": 2}', Reason.DUPLICATE_KEY, "$.a"),
        (b'[{"a" : 1, "b": 2, "b": 3}]', Reason.DUPLICATE_KEY, "$[0].b"),
        (b'{"a": "\\u003a", "b": ":", "b": 1}', Reason.DUPLICATE_KEY, "$.b"),
        (b'{"a": {"x": 1, "x": 2}, "a": 3}', Reason.DUPLICATE_KEY, "$.a"),
        (b"[" * 300 + b"]" * 300, Reason.NESTED_TOO_DEEP, "$"),
        (b"[" * 10_000 + b"]" * 10_000, Reason.NESTED_TOO_DEEP, "$"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, Reason.NESTED_TOO_DEEP, "$"),
    ],
)
def test_each_json_fault_has_a_reason(data: bytes, reason: Reason, field: str) -> None:
    with raised(InvalidDocument, reason=reason, field=field):
        load_json(data)


@pytest.mark.parametrize(
    "text",
    [
        r'{"a": "he said \"b\": 1, \"b\": 2"}',
        r'{"a": "\u0022b\u0022\u003a"}',
        r'{"a": "no \\u0000 NUL"}',
        r'{"a": "\ud83d\ude00"}',
        '{"a"\t:\n1, "b" : ":"}',
        '{"a": {"x": 1}, "b": {"x": 1}}',
        "[" * 250 + "]" * 250,
    ],
)
def test_unusual_but_valid_json_is_accepted(text: str) -> None:
    assert load_json(text.encode())[0] == json.loads(text)


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
def test_unstorable_value_is_reported_by_its_path(value: Any, place: str, message: str) -> None:
    found = out_of_bounds(value)
    assert found[0] == place
    assert message in found[1]


def test_storable_json_values_are_accepted_and_have_a_digest() -> None:
    value = {"a": [2**63 - 1, -(2**63), 1.5, True, None, "text"], "b": nested(MAX_DEPTH - 1)}
    assert out_of_bounds(value) is None
    assert digest(value)


def test_nesting_of_json_is_limited_and_reported_with_a_short_path() -> None:
    found = out_of_bounds(nested(MAX_DEPTH + 1))
    assert "nested" in found[1]
    assert len(found[0]) <= 81


def test_long_json_keys_do_not_slow_the_check() -> None:
    """A place is written only where something is wrong."""
    assert out_of_bounds({"k" * 1_000_000: [0] * 100_000}) is None
