"""Quality reports of planted measurements: repetitions and exclusions."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from adviser.quality.report_document import report_document
from adviser.quality.reports import QualityReport, quality_report
from api.pages.report_view import report_file
from model.measurements.evidence import (
    UNKNOWN_STACK,
    JobSamples,
    MeasuredObservation,
    Reading,
    Series,
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


def test_all_comparisons_of_a_report_are_one_family() -> None:
    document = report_document(_two_stacks())
    assert document["family"]["comparisons"] == 4
    verdicts = [it["comparison"]["verdict"] for s in document["series"] for it in s["stacks"]
                if it["comparison"]]  # fmt: skip
    assert verdicts == ["slower"] * 4


def test_batches_along_the_number_of_repetitions_are_judged() -> None:
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


def test_texts_and_plots_of_a_report_file_have_no_control_characters() -> None:
    document = report_document(_two_stacks())
    for stack in document["series"][0]["stacks"]:
        stack["label"] = "\x1b[31m<b>\u202e500"
    content = report_file(document, datetime(2026, 1, 1, tzinfo=UTC))
    assert "\\x1b[31m&lt;b&gt;\\u202e500" in content
    assert "\x1b" not in content
    assert "\u202e" not in content
    assert "<b>\\" not in content


def test_a_job_that_does_not_count_is_shown_with_its_reason() -> None:
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


def test_jobs_without_times_or_repetitions_make_a_report() -> None:
    jobs = [_job("sha256:64", UNKNOWN_STACK, n, 1e9 + n, seen_at=None)
            for n in range(3)]  # fmt: skip
    jobs = [JobSamples(it.observation, (), None, None) for it in jobs]
    document = report_document(quality_report(jobs, ["sha256:64"]))
    json.dumps(document, allow_nan=False)
    (series,) = document["series"]
    (stack,) = series["unknown_stacks"]
    assert stack["quality"]["elapsed"] is None
    assert stack["quality"]["variance"] is None
    assert series["order"] is None


def test_the_order_of_the_jobs_never_matters() -> None:
    def made(step: int) -> dict[str, object]:
        jobs = [
            _job("sha256:64", stack, n, 1e9 * math.exp(0.01 * math.sin(n)))
            for n in range(10)
            for stack in (_OLD, _NEW)
        ]
        return report_document(quality_report(jobs[::step], ["sha256:64"]))

    assert made(1) == made(-1)


def test_nothing_measured_is_an_empty_report() -> None:
    document = report_document(quality_report([], []))
    assert (document["series"], document["batches"]) == ([], [])
    assert document["family"]["comparisons"] == 0
