"""Cursors: what is written is read back, and whatever a client sends, nothing else happens."""

import base64
import json
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.errors import ApiError
from api.resources.base import Cursor, Key

CURSOR = Cursor("things", {"at": datetime, "name": str, "number": int})
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
keys = st.tuples(
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    texts,
    st.integers(0, 2**63 - 1),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64) + 1, 2**64 - 1) | st.floats() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=5,
)


@given(keys)
def test_page_cursor_decodes_to_its_key(key: Key) -> None:
    text = CURSOR.text_of(key)
    assert CURSOR.key_in(text) == key
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@given(keys)
def test_page_cursor_of_another_list_is_refused(key: Key) -> None:
    with pytest.raises(ApiError):
        Cursor("others", CURSOR.parts).key_in(CURSOR.text_of(key))


@given(st.text() | st.text("abcdefABCDEF0123456789-_=", min_size=1))
def test_any_text_is_read_as_a_page_cursor_or_refused(text: str) -> None:
    expect_key_or_refusal(text)


@given(values | st.lists(values, max_size=4).map(lambda them: ["things", *them]))
def test_any_json_is_read_as_a_page_cursor_or_refused(value: object) -> None:
    packed = base64.urlsafe_b64encode(json.dumps(value).encode())
    expect_key_or_refusal(packed.decode().rstrip("="))


@given(texts, texts, st.integers(-(2**63), 2**64 - 1))
def test_cursor_values_are_checked(moment: str, name: str, number: int) -> None:
    packed = base64.urlsafe_b64encode(orjson.dumps(["things", moment, name, number]))
    expect_key_or_refusal(packed.decode())


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_page_cursor_with_an_impossible_time_is_refused(moment: str) -> None:
    packed = base64.urlsafe_b64encode(orjson.dumps(["things", moment, "a", 1]))
    with pytest.raises(ApiError):
        CURSOR.key_in(packed.decode())


def expect_key_or_refusal(text: str) -> None:
    """A key has the types that SQL is given; all else is the client's mistake."""
    try:
        moment, name, number = CURSOR.key_in(text)
    except ApiError as error:
        refused = error.status
        assert refused == 400
        return
    assert isinstance(moment, datetime)
    assert moment.tzinfo is UTC
    assert isinstance(name, str)
    assert "\0" not in name
    assert type(number) is int
    assert 0 <= number < 2**63
