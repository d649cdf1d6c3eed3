"""Whether the rules keep their promises, and whether one would hear of it if they did not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adviser.scoring.comparisons import Comparison, compare_candidates, self_check
from adviser.scoring.samples import Sample
from adviser.scoring.verdicts import Verdict


def identical(count: int, noise: float = 0.03) -> list[Comparison]:
    draw = np.random.default_rng(41)
    arms = [[Sample("s", tuple(draw.normal(0, noise, 8)), "k") for _ in "ab"] for _ in range(count)]
    return [compare_candidates(a, [b])[0] for a, b in arms]


def test_the_rules_keep_their_promises() -> None:
    found = self_check(identical(1000))
    assert found.problems == ()
    assert found.faster + found.slower <= 0.05 * found.comparisons
    assert found.coverage is not None
    assert 0.93 <= found.coverage <= 0.97


def test_false_claims_are_noticed() -> None:
    claimed = [replace(it, verdict=Verdict.FASTER) for it in identical(100)[:20]]
    many, lopsided = self_check([*claimed, *identical(80)]).problems
    assert many == "20 false claims in 100 comparisons of identical stacks"
    assert lopsided == "identical stacks were called faster 20 times and slower 0 times"


def test_intervals_that_lie_are_noticed_on_both_sides() -> None:
    known = identical(400)
    narrow = [replace(it, interval_low_pct=it.d, interval_high_pct=it.d + 1e-9) for it in known]
    wide = [replace(it, interval_low_pct=-100, interval_high_pct=100) for it in known]
    for lying, held in ((narrow, 0), (wide, 400)):
        (problem,) = self_check(lying).problems
        assert problem == f'{held} of 400 95 % intervals contain "no difference"'


def test_nothing_compared_is_nothing_wrong() -> None:
    found = self_check([])
    assert (found.problems, found.comparisons, found.coverage) == ((), 0, None)
    one = compare_candidates(Sample("a", (1.0,), "k"), [Sample("b", (1.0,), "k")])
    assert self_check(one).coverage is None
