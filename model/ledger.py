"""The ledger: how past advice holds up against what was learned later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AdviceOutcome(StrEnum):
    """What became of a past advice. The values are stored; never rename them."""

    #: No stack of the same snapshot scores better, with everything known now.
    BEST = "best"
    #: Another stack scores better now.
    SURPASSED = "surpassed"
    #: The advised stack does not meet the rules of the request any more.
    REFUSED = "refused"
    #: Nothing was learned since about the versions that the advice chose from.
    UNTESTED = "untested"
    #: The search did not end in time, or needs versions that were not read.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ClaimScore:
    """What later measurements say of a claim of a past advice.

    :param claim_id: digest of the comparison and its jobs, equal in all advice with this claim
    :param verdict: verdict in the advice
    :param later_verdict: verdict with everything known now; ``None`` if it is not compared now
    :param contained: whether the 95 % interval of the advice contains the estimate of the jobs
        that were measured since; ``None`` without enough such jobs
    :param expected: chance of ``contained`` for an honest interval, from the widths of both
        intervals; ``None`` if ``contained`` is
    """

    claim_id: str
    verdict: str
    later_verdict: str | None = None
    contained: bool | None = None
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class AdviceScore:
    """A past advice, scored with what was known at one time.

    :param advised_at: when the advice was given
    :param knowledge: digest of the evidence and of the rule that scored it
    :param regret_points: score points, in the criteria before newness, that the best stack is
        ahead of the advised stack; ``None`` unless both have a score
    :param regret_pct: settled difference in speed between the two stacks, in per cent of the
        advised stack's rate; ``None`` if no difference is settled between versions of the request
    """

    advice_id: str
    advised_at: datetime
    knowledge: str
    outcome: AdviceOutcome
    regret_points: float | None = None
    regret_pct: float | None = None
    claims: tuple[ClaimScore, ...] = ()


@dataclass(frozen=True, slots=True)
class IdenticalPair:
    """A comparison of a stack with itself (A/A), measured by the loop.

    :param verdict: ``faster`` and ``slower`` are false claims
    """

    measured_at: datetime
    verdict: str


@dataclass(frozen=True, slots=True)
class CountedShare:
    """A share, with its exact 95 % interval (Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404).

    :param share: ``None`` if ``total`` is 0; the interval is 0 to 1 then
    """

    count: int
    total: int
    share: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LedgerMonth:
    """The ledger of the advice of one month (UTC).

    :param month: such as ``2026-01``
    :param advices: advice with a stack
    :param outcomes: number of pieces of advice by :class:`AdviceOutcome`
    :param still_best: pieces of advice that are still best, among those that are best, surpassed or
        refused
    :param mean_regret_points: mean of :attr:`AdviceScore.regret_points`
    :param worst_regret_points: largest of them
    :param worst_advice: identifier of the advice with the largest regret
    :param contained: past intervals that contain the later estimate
    :param expected_contained: mean of :attr:`ClaimScore.expected`; compare ``contained`` with it
    :param contradicted: claims ``faster`` and ``slower`` that everything known now contradicts,
        among those with a settled verdict now
    :param symmetry_p: p-value of the exact binomial test that ``faster`` and ``slower`` are equally
        likely; ``None`` without such claims
    :param false_claims: A/A pairs that were claimed to differ
    """

    month: str
    advices: int
    outcomes: Mapping[str, int]
    still_best: CountedShare
    mean_regret_points: float | None
    worst_regret_points: float | None
    mean_regret_pct: float | None
    worst_regret_pct: float | None
    worst_advice: str | None
    contained: CountedShare
    expected_contained: float | None
    contradicted: CountedShare
    faster: int
    slower: int
    symmetry_p: float | None
    false_claims: CountedShare
