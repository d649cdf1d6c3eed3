"""Which number of repetitions suffices: within one series, and from batches."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

import numpy as np
import pytest

from adviser.quality.repetitions import (
    RepetitionBatch,
    batch_report,
    repetition_families,
    spread_by_repetitions,
    sufficient_repetitions,
)
from adviser.quality.report_document import batch_findings
from model.measurements.evidence import SeriesSettings

_DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[4].parent / "shared" / "data"
)
_TABLE = _DATA / "thoth/notebook-measurements/matmul512-tf1.13-repetitions-describe.csv"


@pytest.mark.skipif(not _TABLE.exists(), reason=f"{_TABLE} is not there")
def test_the_published_test_of_repetitions_is_reproduced() -> None:
    with _TABLE.open(newline="", encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    durations = {it["batch"]: float(it["mean"]) for it in rows if it["quantity"] == "job_duration"}
    batches = [
        RepetitionBatch(
            it["batch"], int(it["repetitions"]), int(float(it["count"])), float(it["50%"]),
            float(it["mean"]), float(it["std"]), durations[it["batch"]],
        )
        for it in rows
        if it["quantity"] == "rate"
    ]  # fmt: skip
    report = batch_report(batches, "GFLOPS")
    by_repetitions = {it.repetitions: it for it in report.judgements}
    deviations = {number: round(it.sd, 2) for number, it in by_repetitions.items()}
    assert deviations == {50: 30.57, 500: 21.20, 2000: 19.62, 16000: 26.68}
    assert report.best.repetitions == 2000
    assert round(report.best.median, 2) == 293.68
    # 500 repetitions cannot be told from 2,000; at 16,000 something else changed.
    assert report.sufficient == 500
    assert [number for number, it in by_repetitions.items() if it.departs] == [16000]
    assert report.advice.repetitions == 111
    (sentence,) = (it for it in batch_findings(report) if it.startswith("Kalibera"))
    assert "111 repetitions a job, because a job takes 2.03 s" in sentence


def _batch(repetitions: int, sd: float, duration_s: float | None = None) -> RepetitionBatch:
    return RepetitionBatch(f"{repetitions}", repetitions, 400, 100.0, 100.0, sd, duration_s)


def test_variances_that_follow_the_model_are_fitted_exactly() -> None:
    within, between = 0.3**2, 0.02**2
    batches = [
        _batch(r, 100 * math.sqrt(between + within / r), 3.0 + 0.01 * r) for r in (10, 100, 1000)
    ]
    report = batch_report(batches, "GFLOPS")
    assert report.within == pytest.approx(within)
    assert report.between == pytest.approx(between)
    assert not any(it.departs for it in report.judgements)
    assert report.advice.job_cost_s == pytest.approx(3.0)
    assert report.advice.repetitions == math.ceil(math.sqrt(300 * within / between))


def test_without_durations_there_is_no_recommendation() -> None:
    assert batch_report([_batch(10, 5.0), _batch(100, 2.0)], "GFLOPS").advice is None


def _series(key: str, **changes: object) -> SeriesSettings:
    values: dict[str, object] = {
        "indicator": "PiMatmul", "component": "numpy", "script_sha256": "1f", "device": "cpu",
        "unit": "FLOP/s",
        "parameters": {"matrix_size": 64, "reps": 10}, "hardware": {"cpus": 2},
        "hardware_digest": "sha256:aa", "hardware_label": "EPYC", "python_versions": ("3.11",),
        "jobs": 5, "stacks": 2, **changes,
    }  # fmt: skip
    return SeriesSettings(comparison_key=key, **values)  # type: ignore[arg-type]


def test_series_that_differ_in_their_repetitions_only_form_a_family() -> None:
    target = _series("a")
    more = {"matrix_size": 64, "reps": 100}
    others = [
        target,
        _series("b", parameters=more),
        _series("c", parameters=more | {"matrix_size": 128}),
        _series("d", parameters=more, hardware_digest="sha256:bb"),
        _series("e", parameters=more, script_sha256="2f"),
    ]
    assert repetition_families([target], others) == [{10: "a", 100: "b"}]
    assert repetition_families(others[2:], others) == []


def test_the_spread_falls_with_repetitions_until_jobs_alone_differ() -> None:
    random = np.random.default_rng(3)
    jobs = [
        np.exp(level + random.normal(0, 0.2, 300)).tolist() for level in random.normal(0, 0.02, 100)
    ]
    spreads = spread_by_repetitions(jobs)
    assert [it.repetitions for it in spreads] == [1, 2, 5, 10, 20, 50, 100, 200, 300]
    assert spreads[0].sd_pct == pytest.approx(20, rel=0.2)
    assert spreads[-1].sd_pct < 3
    assert all(it.low_pct < it.sd_pct < it.high_pct for it in spreads)
    sufficient = sufficient_repetitions(spreads)
    assert sufficient is not None
    assert sufficient >= 100


def test_two_jobs_or_none_have_no_spread() -> None:
    assert spread_by_repetitions([[1.0, 2.0], [2.0, 3.0]]) == []
    assert sufficient_repetitions([]) is None


def test_jobs_without_any_variation_need_one_repetition() -> None:
    spreads = spread_by_repetitions([[2.0] * 4] * 5)
    assert {it.sd_pct for it in spreads} == {0.0}
    assert sufficient_repetitions(spreads) == 1
