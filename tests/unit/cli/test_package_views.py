"""Lists of packages on a terminal say how much of them is not shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cli.packages_view import print_package, print_status
from graph.record.indexes import IndexStatus, RecordedEvent
from graph.record.packages import PackageView

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def test_events_that_are_not_shown_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    events = tuple(RecordedEvent(n, "added", "pypi", "flask", f"1.{n}", {}, DAY) for n in range(23))
    print_package(PackageView("flask", (), {}, (), events), details=True)
    *shown, last = capsys.readouterr().out.splitlines()
    assert len(shown) == 20
    assert last == "and 3 earlier events: --json lists them"
    print_package(PackageView("flask", (), {}, (), events[:20]), details=True)
    assert "earlier" not in capsys.readouterr().out


def test_alarms_are_counted_also_where_few_or_none_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alarms = [{"name": f"n{n}", "version": "1", "kind": "changed_hash"} for n in range(50)]
    busy = IndexStatus("pypi", alarm_count=70, alarms=alarms)
    quiet = IndexStatus("builds", alarm_count=1)
    print_status([busy, quiet], days=7)
    lines = [line for line in capsys.readouterr().out.splitlines() if "alarms" in line]
    assert lines[0].endswith("n19 1 [changed_hash] and 50 more")
    assert lines[1].split() == ["alarms", "1:", "1", "more"]
