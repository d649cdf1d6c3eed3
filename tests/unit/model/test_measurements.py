"""Units, rules by which jobs are left out, and errors that are the host's."""

import errno

import pytest

from model.measurements.job_stability import (
    JobConditions,
    instability,
    is_host_build,
    noise_warnings,
    reason_of,
    within_job_spread,
)
from model.measurements.units import DISPLAY_UNITS, MAX_RATES, UNITS, Unit


def test_every_unit_has_a_display_unit_and_a_maximum_rate() -> None:
    assert DISPLAY_UNITS.keys() == MAX_RATES.keys() == set(Unit)
    assert {UNITS[multiple.name] for multiple in DISPLAY_UNITS.values()} == set(Unit)
    assert all(unit.value.endswith("/s") for unit in Unit)


def test_display_units_have_the_factor_of_their_prefix() -> None:
    said = {unit: (multiple.name, multiple.factor) for unit, multiple in DISPLAY_UNITS.items()}
    assert said[Unit.FLOP_PER_SECOND] == ("GFLOPS", 1e9)
    assert said[Unit.OP_PER_SECOND] == ("GOPS", 1e9)
    assert said[Unit.BYTES_PER_SECOND] == ("GB/s", 1e9)
    assert said[Unit.IMAGES_PER_SECOND] == ("images/s", 1.0)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (JobConditions(), None),
        (JobConditions(throttled=True), "throttled"),
        (JobConditions(swapped=True), "swapped"),
        (JobConditions(steal_share=0.011), "steal"),
        (JobConditions(steal_share=0.01), None),
        (JobConditions(throttled=True, swapped=True), "throttled"),
    ],
)
def test_disturbance_makes_a_job_unstable(conditions: JobConditions, reason: str | None) -> None:
    assert instability([1.0, 1.0], conditions) == reason


def test_spread_above_ten_per_cent_makes_a_job_unstable() -> None:
    assert instability([90.0, 100.0, 110.0]) is None  # MAD 10, median 100
    assert instability([89.0, 100.0, 111.0]) == "spread"


def test_single_outlying_repetition_does_not_make_a_job_unstable() -> None:
    assert instability([1.0, 1.0, 1.01, 1.02, 50.0]) is None


def test_a_single_repetition_has_no_spread() -> None:
    assert within_job_spread([3.0]) == 0.0
    assert instability([]) is None


@pytest.mark.parametrize(
    ("left_out", "variation", "count"),
    [({}, None, 0), ({}, 0.25, 0), ({"spread": 5}, 0.1, 0), ({"spread": 6}, 0.26, 2)],
)
def test_large_spread_between_jobs_causes_a_warning(
    left_out: dict[str, int], variation: float | None, count: int
) -> None:
    assert len(list(noise_warnings("numpy", 10, left_out, variation))) == count


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "full"), "disk-full"),
        (OSError(errno.EROFS, "read-only"), "host-failed"),
        (OSError(errno.ETIMEDOUT, "the file server does not answer"), "host-failed"),
        (TimeoutError("timed out"), "host-failed"),
        (OSError(errno.ENOENT, "missing"), None),
        (ValueError("wrong"), None),
    ],
)
def test_crash_reason_follows_the_exception_type(error: Exception, reason: str | None) -> None:
    assert reason_of(error) == reason


def test_build_timeout_is_a_problem_of_the_host() -> None:
    assert is_host_build("timed-out", "uv did not finish within 3600 s")
