"""What each of several looks may spend of α."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from adviser.scoring.looks import alpha_of_looks, alpha_spent


def test_all_of_it_is_spent_by_the_last_look_and_never_more() -> None:
    levels = alpha_of_looks([0.2, 0.4, 0.6, 0.8, 1.0])
    assert sum(levels) == pytest.approx(0.05)
    assert levels == sorted(levels)
    assert levels[0] < 0.0001


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.6, 0.4], [0.1] * 6, [-0.1], [1.1]])
def test_looks_that_were_not_planned_are_refused(shares: list[float]) -> None:
    with pytest.raises(ValueError, match=r"look|share"):
        alpha_of_looks(shares)


def test_an_early_look_spends_nearly_nothing() -> None:
    assert alpha_spent(0.0) == 0
    assert alpha_spent(0.25) < 0.0002


def test_five_looks_at_noise_err_as_rarely_as_promised() -> None:
    draw = np.random.default_rng(7)
    walk = draw.normal(0, 1, (20_000, 5)).cumsum(axis=1) / np.sqrt(np.arange(1, 6))
    levels = np.array(alpha_of_looks([0.2, 0.4, 0.6, 0.8, 1.0]))
    assert (walk > norm.isf(levels)).any(axis=1).mean() <= 0.05
    assert (walk > norm.isf(0.05)).any(axis=1).mean() > 0.10, "as it would be without"
