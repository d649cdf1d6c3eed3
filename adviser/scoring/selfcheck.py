"""Whether the rules keep their promises on stacks that are known to be identical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binom, binomtest

from adviser.scoring.judging import ALPHA, Verdict
from adviser.scoring.verdicts import Comparison

#: Share of 95 % intervals of identical stacks that should hold "no difference".
COVERAGE = (0.93, 0.97)

#: Chance of an alarm where all is well, for each of the three checks.
_ALARM = 0.01


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What comparisons of identical stacks have shown; every claim among them is false.

    :param settled: comparisons with an interval
    :param held: of these, those whose interval holds "no difference"
    :param problems: for a person; empty if the promises are kept as far as can be told
    """

    comparisons: int
    faster: int
    slower: int
    settled: int
    held: int
    problems: tuple[str, ...]

    @property
    def claim_share(self) -> float:
        """Of false claims, within [0, 1]; 0 without comparisons."""
        return (self.faster + self.slower) / self.comparisons if self.comparisons else 0.0

    @property
    def coverage(self) -> float | None:
        """Share of intervals that held; ``None`` without any."""
        return self.held / self.settled if self.settled else None


def self_check(identical: Sequence[Comparison]) -> SelfCheck:
    """Check comparisons of stacks with themselves, each made by itself.

    A problem is what chance hardly does (1 in 100): more claims than 2 α, as faster and
    slower have an α each; far more claims of one sign; intervals that hold too seldom or
    too often.
    """
    faster = sum(it.verdict is Verdict.FASTER for it in identical)
    slower = sum(it.verdict is Verdict.SLOWER for it in identical)
    known = [it for it in identical if it.degrees_of_freedom > 0]
    held = sum(it.interval_low_pct <= 0 <= it.interval_high_pct for it in known)
    problems = [
        *_too_many(faster + slower, len(identical)),
        *_lopsided(faster, slower),
        *_off(held, len(known)),
    ]
    return SelfCheck(len(identical), faster, slower, len(known), held, tuple(problems))


def _too_many(claims: int, comparisons: int) -> list[str]:
    if claims <= binom.ppf(1 - _ALARM, comparisons, 2 * ALPHA):
        return []
    return [f"{claims} false claims in {comparisons} comparisons of identical stacks"]


def _lopsided(faster: int, slower: int) -> list[str]:
    if not faster + slower or binomtest(faster, faster + slower).pvalue >= _ALARM:
        return []
    return [f"identical stacks were called faster {faster} times and slower {slower} times"]


def _off(held: int, known: int) -> list[str]:
    low, high = COVERAGE
    if not known or binom.ppf(_ALARM / 2, known, low) <= held <= binom.isf(_ALARM / 2, known, high):
        return []
    return [f"{held} of {known} intervals of 95 % hold what they should"]
