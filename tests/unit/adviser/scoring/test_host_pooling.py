"""Several hosts of one hardware class."""

from __future__ import annotations

import math

import pytest

from adviser.scoring.effects import Effect
from adviser.scoring.host_pooling import UNKNOWN_HOST_SPREAD, HostSpread, host_spread, pooled_effect


def test_hosts_that_agree_by_hand() -> None:
    # Weights 10,000 and 2,500, shares 0.8 and 0.2, Q = 0.04 + 0.16 = 0.2. Meier's factor is
    # 1 + 4 (0.16 + 0.16) / 8 = 1.16; the hosts add 0.8 and 0.2 of the variance.
    pooled = pooled_effect([Effect(0.10, 0.01, 8.0), Effect(0.11, 0.02, 8.0)])
    assert pooled.effect.d == pytest.approx((4 * 0.10 + 0.11) / 5)
    assert pooled.effect.standard_error == pytest.approx(math.sqrt(1.16 / 12_500))
    assert pooled.effect.degrees_of_freedom == pytest.approx(8 / (0.8**2 + 0.2**2))
    assert (pooled.tau, pooled.hosts, pooled.agree) == (0.0, 2, True)


def test_hosts_that_disagree_by_hand() -> None:
    # Weights 100 each, mean 0.2: Q = 100 (0.04 + 0 + 0.04) = 8, of which chance alone shows as
    # much in e⁻⁴ = 1.8 % of all cases. C = 300 − 30000/300 = 200, τ² = (8 − 2) / 200 = 0.03; the
    # moderated Birge ratio is (2 + 8) / (2 + 2) = 2.5.
    pooled = pooled_effect([Effect(d, 0.1, 8.0) for d in (0.0, 0.2, 0.4)])
    assert pooled.effect.d == pytest.approx(0.2)
    assert pooled.tau == pytest.approx(math.sqrt(0.03))
    assert pooled.effect.standard_error == pytest.approx(math.sqrt(2.5 / 300))
    assert (pooled.effect.degrees_of_freedom, pooled.hosts, pooled.agree) == (4.0, 3, False)


def test_hosts_disagree_where_chance_shows_as_much_in_less_than_one_case_in_twenty() -> None:
    # With two hosts of error 0.1 Q is 50 times the squared difference; χ² with one degree of
    # freedom exceeds 3.8415 in 5 % of all cases.
    limit = math.sqrt(3.8415 / 50)
    for difference, agree in ((limit - 0.001, True), (limit + 0.001, False)):
        pooled = pooled_effect([Effect(0.0, 0.1, 8.0), Effect(difference, 0.1, 8.0)])
        assert pooled.agree is agree


def test_a_spread_that_all_stacks_show_is_no_disagreement_of_one() -> None:
    effects = [Effect(0.10, 0.01, 8.0), Effect(0.14, 0.01, 8.0)]
    assert not pooled_effect(effects).agree  # Q = 8 with one degree of freedom
    # Weights 1 / (0.0001 + 0.0004) = 2,000, Q = 1.6. Meier's factor is 1.25, so that SE² is
    # 1.25 / 4,000; of it 2 · 0.25 · 0.0001 · 1.25 is noise, the rest is the spread.
    pooled = pooled_effect(effects, HostSpread(0.0004, 6))
    assert pooled.agree
    assert pooled.tau == pytest.approx(0.02)
    assert pooled.effect.standard_error == pytest.approx(math.sqrt(1.25 / 4_000))
    parts = 2 * 3.125e-5**2 / 8 + (3.125e-4 - 6.25e-5) ** 2 / 6
    assert pooled.effect.degrees_of_freedom == pytest.approx(3.125e-4**2 / parts)


def test_the_spread_between_hosts_by_hand() -> None:
    # Q = 0.04² / (2 (0.0001 + τ²)) is 0.4549, the median of χ² with one degree of freedom.
    stack = [Effect(0.10, 0.01, 8.0), Effect(0.14, 0.01, 8.0)]
    spread = host_spread([stack] * 5)
    assert spread.variance == pytest.approx(0.04**2 / (2 * 0.454936) - 0.0001, rel=1e-5)
    assert spread.freedom == 5
    assert host_spread([stack] * 3) == UNKNOWN_HOST_SPREAD
    # Four of four stacks above their median are no rarer than 1 in 16.
    assert host_spread([stack] * 4) == HostSpread(0.0, 4)
    alone = [Effect(0.3, 0.01, 8.0), Effect(0.9, math.inf, 0.0)]
    assert host_spread([*[stack] * 5, alone]) == spread, "one host tells nothing of hosts"
    assert host_spread([[Effect(0.1, 0.1, 8.0)] * 2] * 4).variance == 0.0
    silent = [Effect(0.1, 0.0, 8.0), Effect(0.2, 0.1, 8.0)]
    assert host_spread([*[stack] * 4, silent]) == UNKNOWN_HOST_SPREAD


def test_one_stack_that_differs_from_host_to_host_says_nothing_of_the_others() -> None:
    calm = [[Effect(0.1, 0.01, 8.0), Effect(0.1 + 0.001 * n, 0.01, 8.0)] for n in range(10)]
    wild = [Effect(0.1, 0.01, 8.0), Effect(0.5, 0.01, 8.0)]
    assert host_spread([*calm, wild]).variance == host_spread(calm).variance == 0.0


def test_one_host_keeps_its_own_effect() -> None:
    alone = Effect(0.1, 0.01, 8.0)
    pooled = pooled_effect([alone, Effect(0.3, math.inf, 0.0)])
    assert (pooled.effect, pooled.tau, pooled.hosts) == (alone, 0.0, 1)


def test_hosts_that_cannot_be_weighed_are_refused() -> None:
    with pytest.raises(ValueError, match="no host"):
        pooled_effect([Effect(0.3, math.inf, 0.0)])
    with pytest.raises(ValueError, match="outweigh"):
        pooled_effect([Effect(0.3, 0.0, 4.0), Effect(0.3, 0.1, 4.0)])
