"""Progress of commands where standard error is no terminal."""

from __future__ import annotations

import pytest

from cli import console
from cli.console import progress_bars


def test_without_a_terminal_progress_is_a_line_now_and_then(
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
