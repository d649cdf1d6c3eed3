"""What commands show: values of a graph, lists of packages, progress."""

import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from neo4j.spatial import WGS84Point
from neo4j.time import Date, DateTime, Duration

from cli import console
from cli.console import print_lines, progress_bars
from cli.graph import FORMATS, render
from cli.packages_view import print_package, print_status
from graph.analyst_queries import QueryResult, plain, short
from graph.record.indexes import IndexStatus, RecordedEvent
from graph.record.packages import PackageView


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
def test_every_value_can_be_printed_as_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_table_escapes_control_characters_and_keeps_long_values() -> None:
    assert short("a\x1b[31mred\n") == "a\\x1b[31mred\\n"
    shown = _rendered(QueryResult(("a\x1b",), (("[bold]x\x07",),)), "table")
    assert "\x1b" not in shown
    assert "[bold]x\\x07" in shown
    text = "x" * 5000
    assert text in _rendered(QueryResult(("name",), ((text,),)), "table")


def test_sentence_is_not_cut_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "which decides nothing;" * 100
    print_lines([sentence])
    assert capsys.readouterr().out == f"{sentence}\n"


@pytest.mark.parametrize("form", FORMATS)
def test_empty_table_shows_its_column_names(form: str) -> None:
    shown = _rendered(QueryResult(("name",), ()), form)
    assert "name" in shown


def _rendered(result: QueryResult, form: str) -> str:
    out = io.StringIO()
    render(result, form, out)
    return out.getvalue()


DAY = datetime(2026, 1, 1, tzinfo=UTC)


def test_package_events_beyond_the_limit_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    events = tuple(RecordedEvent(n, "added", "pypi", "flask", f"1.{n}", {}, DAY) for n in range(23))
    print_package(PackageView("flask", (), {}, (), events), details=True)
    *shown, last = capsys.readouterr().out.splitlines()
    assert len(shown) == 20
    assert last == "and 3 earlier events: --json lists them"
    print_package(PackageView("flask", (), {}, (), events[:20]), details=True)
    assert "earlier" not in capsys.readouterr().out


def test_index_alarms_beyond_the_limit_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    alarms = [{"name": f"n{n}", "version": "1", "kind": "changed_hash"} for n in range(50)]
    busy = IndexStatus("pypi", alarm_count=70, alarms=alarms)
    quiet = IndexStatus("builds", alarm_count=1)
    print_status([busy, quiet], days=7)
    lines = [line for line in capsys.readouterr().out.splitlines() if "alarms" in line]
    assert lines[0].endswith("n19 1 [changed_hash] and 50 more")
    assert lines[1].split() == ["alarms", "1:", "1", "more"]


def test_progress_without_a_terminal_is_printed_occasionally(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with progress_bars("Jobs") as bars:
        for number in range(1, 8):
            now[0] = 10.0 * number
            bars.advance("Jobs", 1_234)
        bars.update("Documents", 5)
        now[0] = 100.0
        bars.update("Documents", 6, description="docs.tar")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["Jobs: 3 of 1,234", "Jobs: 6 of 1,234", "docs.tar: 6"]


def test_hidden_progress_prints_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with progress_bars("Jobs", hidden=True) as bars:
        now[0] = 100.0
        bars.advance("Jobs")
    assert capsys.readouterr().err == ""
