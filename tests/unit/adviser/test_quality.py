"""Quality reports: summaries, repetitions, drift over a batch, and what is excluded."""

import csv
import json
import math
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from adviser.quality.job_statistics import (
    RepetitionBatch,
    TimedValue,
    batch_report,
    jobs_needed,
    order_report,
    outliers,
    repetition_advice,
    repetition_families,
    spread_by_repetitions,
    sufficient_repetitions,
    summary_of,
    variance_components,
)
from adviser.quality.reports import QualityReport, batch_findings, quality_report, report_document
from api.pages.quality_report_view import report_file
from model.measurements.evidence import (
    UNKNOWN_STACK,
    JobSamples,
    MeasuredObservation,
    Reading,
    Series,
    SeriesSettings,
)
from model.measurements.units import Unit

_OLD, _NEW = f"sha256:aa01{'0' * 60}", f"sha256:aa02{'0' * 60}"
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_SIZES = (64, 128, 256, 512)


def _job(
    key: str, stack: str, number: int, rate: float, *, repetitions: int = 20, **changes: object
) -> JobSamples:
    """A job in a block with the job of the other stack that has the same number."""
    random = np.random.default_rng([number, len(stack), int(rate) % 997])
    seconds = (1e9 / rate) * np.exp(random.normal(0, 0.01, repetitions))
    series = Series(
        key, "PiMatmul", "1f" * 32, {"matrix_size": 64}, "cpu", Unit.FLOP_PER_SECOND,
        f"sha256:{'c' * 64}", "3.11",
    )  # fmt: skip
    reading: dict[str, object] = {
        "unstable_reason": None, "seen_at": _BEGIN + timedelta(minutes=number), **changes,
    }  # fmt: skip
    observation = MeasuredObservation(
        series,
        Reading(
            f"{key}-{stack[:11]}-{number}", 0, stack, f"{key}-{stack}", f"{key}:{number}", rate,
            host="h", block=f"{key}:{number}", **reading,  # type: ignore[arg-type]
        ),
        "EPYC, 2 CPUs", "numpy", {_OLD: "1.0", _NEW: "2.0"}.get(stack),
    )  # fmt: skip
    return JobSamples(
        observation, tuple(seconds.tolist()), float(np.median(seconds)), 2.0 + seconds.sum()
    )


def _two_stacks() -> QualityReport:
    """Two stacks at four sizes; the older one is slower by 0.1, natural log."""
    samples = []
    for size in _SIZES:
        for number in range(8):
            level = size * 1e7 * math.exp(0.02 * math.sin(number))
            slower = level * math.exp(0.002 * (-1) ** number - 0.1)
            samples += [
                _job(f"sha256:{size}", _NEW, number, level),
                _job(f"sha256:{size}", _OLD, number, slower),
            ]
    return quality_report(samples, [f"sha256:{size}" for size in _SIZES])


def test_comparisons_of_a_quality_report_are_adjusted_together() -> None:
    document = report_document(_two_stacks())
    assert document["family"]["comparisons"] == 4
    verdicts = [it["comparison"]["verdict"] for s in document["series"] for it in s["stacks"]
                if it["comparison"]]  # fmt: skip
    assert verdicts == ["slower"] * 4


def test_repetition_advice_is_computed_over_batches_of_repetition_counts() -> None:
    samples = []
    for repetitions, sd in ((10, 0.1), (100, 0.03)):
        for number in range(12):
            rate = 1e9 * math.exp(sd * math.cos(2.4 * number))
            key = f"sha256:{repetitions}"
            samples.append(_job(key, _NEW, number, rate, repetitions=repetitions))
    keys = {10: "sha256:10", 100: "sha256:100"}
    report = quality_report(samples, keys.values(), families=[keys])
    (batches,) = report.batches
    assert batches.best.repetitions == batches.sufficient == 100
    (document,) = report_document(report)["batches"]
    assert document["label"] == "PiMatmul, numpy 2.0 (aa020000)"
    assert document["unit"] == "GFLOPS"
    assert document["advice"]["exact"]


def test_quality_report_file_has_no_control_characters() -> None:
    document = report_document(_two_stacks())
    for stack in document["series"][0]["stacks"]:
        stack["label"] = "\x1b[31m<b>\u202e500"
    content = report_file(document, datetime(2026, 1, 1, tzinfo=UTC))
    assert "\\x1b[31m&lt;b&gt;\\u202e500" in content
    assert "\x1b" not in content
    assert "\u202e" not in content
    assert "<b>\\" not in content


def test_quality_report_shows_excluded_jobs_with_the_reason() -> None:
    jobs = [_job("sha256:64", _NEW, n, 1e9 * (1 + 0.01 * (-1) ** n)) for n in range(9)]
    jobs.append(_job("sha256:64", _NEW, 9, 5e8, unstable_reason="steal"))
    jobs.append(_job("sha256:64", _NEW, 10, 2e9))
    (series,) = quality_report(jobs, ["sha256:64"]).series
    (stack,) = series.stacks
    assert (stack.rate.n, stack.rate.minimum) == (10, pytest.approx(0.99e9))
    left_out = {job.rate: job.left_out for job in stack.jobs if job.left_out}
    assert left_out == {5e8: "steal"}
    assert [job.rate for job in stack.jobs if job.outlier] == [2e9]
    findings = report_document(quality_report(jobs, ["sha256:64"]))["series"][0]["findings"]
    assert "Jobs that do not count: 1 with stolen CPU time." in findings


def test_quality_report_accepts_jobs_without_times_or_repetitions() -> None:
    jobs = [_job("sha256:64", UNKNOWN_STACK, n, 1e9 + n, seen_at=None) for n in range(3)]
    jobs = [JobSamples(it.observation, (), None, None) for it in jobs]
    document = report_document(quality_report(jobs, ["sha256:64"]))
    json.dumps(document, allow_nan=False)
    (series,) = document["series"]
    (stack,) = series["unknown_stacks"]
    assert stack["quality"]["elapsed"] is None
    assert stack["quality"]["variance"] is None
    assert series["order"] is None


def test_quality_report_does_not_depend_on_the_order_of_jobs() -> None:
    def made(step: int) -> dict[str, object]:
        jobs = [
            _job("sha256:64", stack, n, 1e9 * math.exp(0.01 * math.sin(n)))
            for n in range(10)
            for stack in (_OLD, _NEW)
        ]
        return report_document(quality_report(jobs[::step], ["sha256:64"]))

    assert made(1) == made(-1)


def test_quality_report_without_measurements_is_empty() -> None:
    document = report_document(quality_report([], []))
    assert (document["series"], document["batches"]) == ([], [])
    assert document["family"]["comparisons"] == 0


_DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[3].parent / "shared" / "data"
)
_TABLE = _DATA / "thoth/notebook-measurements/matmul512-tf1.13-repetitions-describe.csv"


@pytest.mark.skipif(not _TABLE.exists(), reason=f"{_TABLE} is not there")
def test_published_repetition_experiment_is_reproduced() -> None:
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


def test_variance_components_of_exact_model_data_are_recovered_exactly() -> None:
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


def test_no_repetitions_are_recommended_without_durations() -> None:
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


def test_series_that_differ_only_in_repetitions_are_evaluated_together() -> None:
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


def test_spread_falls_with_repetitions_down_to_the_spread_between_jobs() -> None:
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


def test_spread_by_repetitions_needs_three_jobs() -> None:
    assert spread_by_repetitions([[1.0, 2.0], [2.0, 3.0]]) == []
    assert sufficient_repetitions([]) is None


def test_one_repetition_is_sufficient_without_variation() -> None:
    spreads = spread_by_repetitions([[2.0] * 4] * 5)
    assert {it.sd_pct for it in spreads} == {0.0}
    assert sufficient_repetitions(spreads) == 1


def _jobs(values: list[float]) -> list[TimedValue]:
    return [TimedValue(_BEGIN + timedelta(minutes=n), it) for n, it in enumerate(values)]


def test_quality_report_finds_drift_but_not_noise() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, 60)
    still = order_report(_jobs(noise.tolist()))
    assert not still.drifts
    drifting = order_report(_jobs((noise + np.linspace(0, 0.1, 60)).tolist()))
    assert drifting.drifts
    assert drifting.drift_pct == pytest.approx(10.5, abs=2.2)
    assert drifting.correlated
    assert drifting.hours == pytest.approx(59 / 60)


def test_step_is_dated_by_the_first_job_after_it() -> None:
    noise = np.random.default_rng(2).normal(0, 0.005, 40)
    report = order_report(_jobs((noise + np.repeat([0.0, 0.1], 20)).tolist()))
    assert report.step_times == (_BEGIN + timedelta(minutes=20),)


def test_few_or_equal_jobs_show_no_drift() -> None:
    assert order_report(_jobs([0.0, 0.1] * 3)) is None
    assert order_report(_jobs([0.1] * 20)) is None


def test_series_summary_equals_the_example_computed_by_hand() -> None:
    summary = summary_of([4.0, 1.0, 3.0, 2.0, 10.0])
    assert (summary.n, summary.median, summary.mean) == (5, 3.0, 4.0)
    assert (summary.lower_quartile, summary.upper_quartile) == (2.0, 4.0)
    assert (summary.mad, summary.minimum, summary.maximum) == (1.0, 1.0, 10.0)
    assert summary.sd == pytest.approx(math.sqrt(50 / 4))
    assert summary.cv == pytest.approx(math.sqrt(50 / 4) / 4)
    one = summary_of([7.0])
    assert (one.n, one.median, one.sd, one.cv) == (1, 7.0, None, None)


def test_no_outlier_is_reported_if_all_other_jobs_are_equal() -> None:
    assert outliers([1.0] * 9 + [5.0]) == []
    assert outliers([1.0, 9.0]) == []


def test_documented_example_of_repetition_advice_gives_four_repetitions() -> None:
    # A start of 60 s, repetitions of 0.5 s, 1 % within and 3 % between jobs.
    advice = repetition_advice(0.01**2, 0.03**2, 60.0, 0.5)
    assert advice.repetitions == 4
    assert advice.jobs == jobs_needed(0.03**2 + 0.01**2 / 4)
    # Identical jobs call for as many as one likes.
    assert repetition_advice(0.01**2, 0.0, 60.0, 0.5).repetitions is None


def test_planted_variance_components_are_recovered() -> None:
    random = np.random.default_rng(5)
    jobs = [
        np.exp(level + random.normal(0, 0.02, 40)).tolist() for level in random.normal(0, 0.05, 400)
    ]
    components = variance_components(jobs)
    assert math.sqrt(components.within) == pytest.approx(0.02, rel=0.02)
    assert math.sqrt(components.between) == pytest.approx(0.05, rel=0.1)
    assert components.within_share == pytest.approx(0.02**2 / 40 / 0.05**2, rel=0.3)


@pytest.mark.parametrize("jobs", [[], [[1.0, 2.0]], [[1.0], [2.0], [3.0]]])
def test_too_few_repetitions_give_no_variance_components(jobs: list[list[float]]) -> None:
    assert variance_components(jobs) is None
