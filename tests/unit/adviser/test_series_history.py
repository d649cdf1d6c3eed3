"""The history of a series: inspections in order, steps, and the jobs that do not count."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from adviser.changes import series_history
from adviser.scoring.histories import DRIFT
from model.measurements.evidence import MeasuredObservation, Reading, Series
from model.measurements.units import Unit

_SERIES = Series("sha256:dd", "PiMatmul", None, {}, "cpu", Unit.FLOP_PER_SECOND, "sha256:cc", None)
_STACK = "sha256:aa"
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _night(number: int, rate: float, unstable: str | None = None) -> list[MeasuredObservation]:
    """Five jobs of one inspection."""
    seen = [_BEGIN + timedelta(days=number, minutes=job) for job in range(5)]
    return [
        MeasuredObservation(
            _SERIES,
            Reading(f"{number}-{job}", 0, _STACK, f"sha256:{number:02}", f"{number}-{job}",
                    rate * (1 + 0.001 * job), unstable if job == 0 else None, "here", None, at),
            "a machine", "numpy", "2.0.2",
        )
        for job, at in enumerate(seen)
    ]  # fmt: skip


def test_series_history_leaves_out_jobs_before_a_machine_change() -> None:
    nights = [_night(it, 1e9 if it < 6 else 1.1e9) for it in range(12)]
    observations = [it for night in nights for it in night]
    random.Random(1).shuffle(observations)
    history = series_history(observations)
    assert [it.document_id for it in history.runs] == [f"sha256:{it:02}" for it in range(12)]
    (step,) = history.steps
    assert (step.host, step.document_id) == ("here", "sha256:06")
    assert step.since == _BEGIN + timedelta(days=6)
    assert step.change_pct == pytest.approx(10.0)
    reasons = [{job.left_out for job in run.jobs} for run in history.runs]
    assert reasons == [{DRIFT}] * 6 + [{None}] * 6
    assert history.runs[0].median_rate is None
    assert history.runs[-1].median_rate == pytest.approx(1.1e9 * 1.002)


def test_series_history_shows_unstable_jobs_without_counting_them() -> None:
    (run,) = series_history(_night(0, 1e9, "steal")).runs
    assert [job.left_out for job in run.jobs] == ["steal", None, None, None, None]
    assert run.median_rate == pytest.approx(1e9 * 1.0025)
    assert (run.low_rate or 0) < (run.median_rate or 0) < (run.high_rate or 0)
    assert run.label == "numpy 2.0.2 (aa)"
