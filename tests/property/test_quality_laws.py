"""Laws of quality reports: blind to order and unit, and consistent with their data."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.quality.job_statistics import (
    RepetitionBatch,
    batch_report,
    outliers,
    summary_of,
    variance_components,
)
from tests.effort import examples

_positive = st.floats(1e-3, 1e6)
_values = st.lists(_positive, min_size=1, max_size=30)


@settings(max_examples=examples(400))
@given(_values, st.integers(-20, 20), st.randoms(use_true_random=False))
def test_quality_summary_ignores_job_order_and_scales_with_the_unit(
    values: list[float], power: int, shuffler: random.Random
) -> None:
    summary = summary_of(values)
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    assert summary_of(shuffled) == summary
    ends = (summary.minimum, summary.lower_quartile, summary.median, summary.upper_quartile,
            summary.maximum)  # fmt: skip
    assert list(ends) == sorted(ends)
    # Powers of two scale without rounding.
    scaled = summary_of([it * 2.0**power for it in values])
    assert scaled.median == summary.median * 2.0**power
    assert scaled.cv == pytest.approx(summary.cv)
    far = outliers(values)
    assert outliers([it * 2.0**power for it in values]) == far
    assert 2 * len(far) <= len(values)


@settings(max_examples=examples(200))
@given(st.lists(st.lists(_positive, max_size=8), max_size=8), st.randoms(use_true_random=False))
def test_variance_components_do_not_depend_on_the_order_of_jobs(
    jobs: list[list[float]], shuffler: random.Random
) -> None:
    components = variance_components(jobs)
    shuffled = [list(job) for job in jobs]
    shuffler.shuffle(shuffled)
    again = variance_components(shuffled)
    assert (components is None) == (again is None) == (sum(len(it) > 1 for it in jobs) < 2)
    if components is not None and again is not None:
        assert components.within >= 0
        assert components.between >= 0
        assert again.within == pytest.approx(components.within)
        assert again.between == pytest.approx(components.between)


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.integers(1, 10**5), st.integers(2, 400), st.floats(0.001, 0.5)),
        min_size=2, max_size=7, unique_by=lambda it: it[0],
    )
)  # fmt: skip
def test_repetition_report_names_a_sufficient_and_a_cheapest_count(
    drawn: list[tuple[int, int, float]],
) -> None:
    batches = [RepetitionBatch(str(r), r, n, 100.0, 100.0, 100 * cv) for r, n, cv in drawn]
    report = batch_report(batches, "GFLOPS")
    assert report.best.sd == min(it.sd for it in batches)
    assert report.sufficient <= report.best.repetitions
    assert min(it.ratio for it in report.judgements) == 1
    assert all(it.ratio_low <= it.ratio <= it.ratio_high for it in report.judgements)
    assert report.within >= 0
    assert report.between >= 0
    assert sum(not it.departs for it in report.judgements) >= 2
