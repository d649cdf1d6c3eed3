"""Drift and steps over a batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from adviser.quality.job_statistics import TimedValue, order_report

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _jobs(values: list[float]) -> list[TimedValue]:
    return [TimedValue(_BEGIN + timedelta(minutes=n), it) for n, it in enumerate(values)]


def test_a_planted_drift_is_found_and_noise_is_not() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, 60)
    still = order_report(_jobs(noise.tolist()))
    assert not still.drifts
    drifting = order_report(_jobs((noise + np.linspace(0, 0.1, 60)).tolist()))
    assert drifting.drifts
    assert drifting.drift_pct == pytest.approx(10.5, abs=2.2)
    assert drifting.correlated
    assert drifting.hours == pytest.approx(59 / 60)


def test_a_step_is_dated() -> None:
    noise = np.random.default_rng(2).normal(0, 0.005, 40)
    report = order_report(_jobs((noise + np.repeat([0.0, 0.1], 20)).tolist()))
    assert report.step_times == (_BEGIN + timedelta(minutes=20),)


def test_a_few_jobs_or_equal_ones_have_no_order() -> None:
    assert order_report(_jobs([0.0, 0.1] * 3)) is None
    assert order_report(_jobs([0.1] * 20)) is None
