"""Several hosts of one hardware class."""

from __future__ import annotations

import math

import pytest

from adviser.scoring.effects import Effect
from adviser.scoring.hosts import random_effects


def test_hosts_that_disagree_by_hand() -> None:
    # Weights 100 each, mean 0.2: Q = 100 (0.04 + 0 + 0.04) = 8, C = 300 − 30000/300 = 200,
    # τ² = (8 − 2) / 200 = 0.03; SE² = 1 / (3 / (0.01 + 0.03)) = 0.04 / 3.
    found = random_effects([Effect(d, 0.1, 8.0) for d in (0.0, 0.2, 0.4)])
    assert found.effect.d == pytest.approx(0.2)
    assert found.tau == pytest.approx(math.sqrt(0.03))
    assert found.effect.standard_error == pytest.approx(math.sqrt(0.04 / 3))
    assert (found.effect.degrees_of_freedom, found.hosts) == (2.0, 3)


def test_hosts_that_agree_are_weighted_by_their_precision() -> None:
    found = random_effects([Effect(0.10, 0.01, 8.0), Effect(0.11, 0.02, 8.0)])
    assert found.tau == 0.0
    assert found.effect.d == pytest.approx((4 * 0.10 + 0.11) / 5)


def test_one_host_keeps_its_own_effect() -> None:
    alone = Effect(0.1, 0.01, 8.0)
    found = random_effects([alone, Effect(0.3, math.inf, 0.0)])
    assert (found.effect, found.tau, found.hosts) == (alone, 0.0, 1)


def test_hosts_that_cannot_be_weighed_are_refused() -> None:
    with pytest.raises(ValueError, match="no host"):
        random_effects([Effect(0.3, math.inf, 0.0)])
    with pytest.raises(ValueError, match="outweigh"):
        random_effects([Effect(0.3, 0.0, 4.0), Effect(0.3, 0.1, 4.0)])
