"""From times to the result document."""

from __future__ import annotations

import math

import pytest

from pis.indicators.errors import WrongResult
from pis.indicators.long_runs import RUNS, SAMPLES
from pis.indicators.peak import Peak
from pis.indicators.results import RATE_UNITS, result_of
from pis.indicators.timing import Timing


def timing(*repetitions_s: float) -> Timing:
    return Timing(repetitions_s, 8, 12, 0.5, True, None)


def test_the_rate_is_the_amount_over_the_median_time() -> None:
    result = result_of(timing(1e-3, 9e-3, 2e-3), 4_000_000_000, "FLOP", 1.25, None)
    assert result["elapsed"] == 2.0
    assert result["rate"] == pytest.approx(2000.0)
    assert result["unit"] == "GFLOPS"
    assert result["repetitions"] == [1.0, 9.0, 2.0]
    assert result["per_call"] == {"amount": 4_000_000_000, "unit": "FLOP"}
    assert result["checksum"] == 1.25


def test_mean_error_and_jitter_are_of_the_rates() -> None:
    result = result_of(timing(1.0, 0.5, 0.25), 1, "images", 0.0, None)  # 1, 2 and 4 a second
    assert result["mean"] == pytest.approx(7 / 3)
    assert result["standard_error"] == pytest.approx(math.sqrt(7 / 3 / 3))
    assert result["jitter"] == pytest.approx(1.4826)


def test_a_single_repetition_has_no_error() -> None:
    assert result_of(timing(1.0), 1, "tokens", 0.0, None)["standard_error"] is None


def test_a_rate_above_the_peak_is_an_error() -> None:
    peak = Peak(832e9, "2 CPUs x 64 a cycle (avx512f) x 6.5 GHz")
    assert result_of(timing(1.0), 832 * 10**9, "FLOP", 0.0, peak)["rate"] == pytest.approx(832.0)
    with pytest.raises(WrongResult, match="peak of 832 GFLOPS"):
        result_of(timing(1.0), 833 * 10**9, "FLOP", 0.0, peak)


def test_a_checksum_that_is_no_number_is_an_error() -> None:
    with pytest.raises(WrongResult, match="nan"):
        result_of(timing(1.0), 1, "B", math.nan, None)


@pytest.mark.parametrize(
    ("unit", "shown", "rate"),
    [
        ("FLOP", "GFLOPS", 2.0),
        ("OP", "GOPS", 2.0),
        ("B", "GB/s", 2.0),
        ("images", "images/s", 2e9),
        ("tokens", "tokens/s", 2e9),
        ("imports", "imports/s", 2e9),
        (SAMPLES, "samples/s", 2e9),
        (RUNS, "runs/s", 2e9),
    ],
)
def test_each_amount_has_its_unit_of_rate(unit: str, shown: str, rate: float) -> None:
    result = result_of(timing(1.0), 2 * 10**9, unit, 0.0, None)
    assert (result["unit"], result["rate"]) == (shown, pytest.approx(rate))
    assert unit in RATE_UNITS
