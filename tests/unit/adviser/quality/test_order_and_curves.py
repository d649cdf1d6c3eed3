"""Drift over a batch, performance over a parameter, and crossings."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from adviser.quality.batch_order import TimedValue, order_report
from adviser.quality.parameter_curves import (
    CurvePoint,
    crossings,
    interpolated,
    mean_point,
    parameter_axes,
)
from model.measurements.job_samples import SeriesSettings

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


def _line(*differences: float, half: float = 0.02) -> list[CurvePoint]:
    sizes = (64, 128, 256, 512)
    return [
        CurvePoint(x, it, it - half, it + half, 10)
        for x, it in zip(sizes, differences, strict=False)
    ]


def test_a_crossing_lies_where_the_difference_is_zero() -> None:
    (crossing,) = crossings(_line(-0.2, -0.1, 0.1, 0.2))
    assert crossing.x == pytest.approx(128 * math.sqrt(2), rel=1e-6)
    assert crossing.low is not None
    assert crossing.high is not None
    assert 128 < crossing.low < crossing.x < crossing.high < 256


def test_an_interval_that_nothing_bounds_has_no_ends() -> None:
    (crossing,) = crossings(_line(-0.01, -0.01, 0.01, 0.01))
    assert (crossing.low, crossing.high) == (None, None)


def test_an_unknown_error_bounds_nothing() -> None:
    points = [CurvePoint(x, d, -math.inf, math.inf, 1) for x, d in ((1, -0.5), (2, 0.5))]
    (crossing,) = crossings(points)
    assert (crossing.low, crossing.high) == (None, None)
    assert crossing.x == pytest.approx(math.sqrt(2))


def test_curves_that_do_not_meet_have_no_crossing() -> None:
    assert crossings(_line(0.1, 0.2, 0.1, 0.3)) == []
    assert crossings(_line(0.1)) == []
    assert len(crossings(_line(0.1, -0.1, 0.1, -0.1))) == 3


def test_a_difference_of_zero_at_a_measured_value_is_one_crossing() -> None:
    (crossing,) = crossings(_line(-0.1, 0.0, 0.1))
    assert crossing.x == pytest.approx(128)


def test_a_single_job_has_no_interval_and_a_curve_ends_at_its_points() -> None:
    point = mean_point(64, [1.0])
    assert (point.value, point.low, point.high) == (1.0, -math.inf, math.inf)
    assert mean_point(64, []) is None
    line = _line(0.1, 0.2)
    assert (interpolated(line, 1), interpolated(line, 9999)) == (line[0], line[-1])


def _series(key: str, **changes: object) -> SeriesSettings:
    values: dict[str, object] = {
        "indicator": "PiMatmul", "component": "numpy", "script_sha256": "1f", "device": "cpu",
        "unit": "FLOP/s",
        "parameters": {"matrix_size": 64, "dtype": "float32"}, "hardware": {"cpus": 2},
        "hardware_digest": "sha256:aa", "hardware_label": "EPYC", "python_versions": ("3.11",),
        "jobs": 5, "stacks": 2, **changes,
    }  # fmt: skip
    return SeriesSettings(comparison_key=key, **values)  # type: ignore[arg-type]


def test_series_that_differ_in_one_number_form_an_axis() -> None:
    target = _series("a")
    others = [
        target,
        _series("b", parameters={"matrix_size": 256, "dtype": "float32"}),
        _series("c", parameters={"matrix_size": 128, "dtype": "float64"}),
        _series("d", parameters={"matrix_size": 64, "dtype": "float64"}),
        _series("e", parameters={"matrix_size": 512, "dtype": "float32"}, script_sha256="2f"),
        _series("f", parameters={"matrix_size": 32, "dtype": "float32"}, hardware={"cpus": 4}),
    ]
    (axis,) = parameter_axes(target, others)
    assert (axis.name, dict(axis.keys)) == ("matrix_size", {64: "a", 256: "b"})


def test_variables_of_the_environment_are_an_axis_of_threads() -> None:
    def threads(key: str, number: str) -> SeriesSettings:
        machine = {"cpus": 2, "threads_environment": {"OMP_NUM_THREADS": number}}
        return _series(key, hardware=machine, hardware_digest=f"sha256:{key}")

    (axis,) = parameter_axes(threads("a", "1"), [threads("b", "2"), threads("c", "many")])
    assert (axis.name, dict(axis.keys)) == ("threads", {1: "a", 2: "b"})
