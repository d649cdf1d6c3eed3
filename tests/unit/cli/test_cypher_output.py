"""Values of a graph as a person, a program and a spreadsheet read them."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
from neo4j.spatial import WGS84Point
from neo4j.time import Date, DateTime, Duration

from cli.graph import FORMATS, render
from graph.query_results import QueryResult, plain, short


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (Date(2026, 1, 2), "2026-01-02"),
        (DateTime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05.000000000"),
        (Duration(days=1, seconds=2), "P1DT2S"),
        (WGS84Point((1.0, 2.0)), {"srid": 4326, "coordinates": [1.0, 2.0]}),
        (b"\x00\xff", "AP8="),
        ({"a": [1, (2, math.nan)]}, {"a": [1, [2, "nan"]]}),
        (True, True),
    ],
)
def test_every_value_has_a_form_in_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_a_table_obeys_no_control_characters() -> None:
    assert short("a\x1b[31mred\n") == "a\\x1b[31mred\\n"
    shown = _rendered(QueryResult(("a\x1b",), (("[bold]x\x07",),)), "table")
    assert "\x1b" not in shown
    assert "[bold]x\\x07" in shown


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_are_shown_as_such(form: str) -> None:
    shown = _rendered(QueryResult(("name",), ()), form)
    assert "name" in shown


def test_a_long_value_is_never_cut_in_a_pipe() -> None:
    text = "x" * 5000
    assert text in _rendered(QueryResult(("name",), ((text,),)), "table")


def _rendered(result: QueryResult, form: str) -> str:
    out = io.StringIO()
    render(result, form, out)
    return out.getvalue()
