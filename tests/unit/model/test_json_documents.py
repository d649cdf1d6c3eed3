"""Strict JSON: every way of being wrong has its own reason and place."""

from __future__ import annotations

import json

import pytest

from model.errors import InvalidDocument, Reason
from model.json_documents import load_json
from tests.factories.errors import raised


def test_the_canonical_bytes_have_sorted_keys_and_no_spaces() -> None:
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
def test_each_fault_has_its_own_reason(data: bytes, reason: Reason, field: str) -> None:
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
def test_what_only_looks_wrong_is_taken(text: str) -> None:
    assert load_json(text.encode())[0] == json.loads(text)
