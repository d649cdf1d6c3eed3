"""The ledger: how past advice holds up against what was learned later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from model.declared_fields import Field


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
    """A share with its exact interval (Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404)."""

    count: Annotated[int, Field("Number of cases that count.", 19)]
    total: Annotated[int, Field("Number of all cases.", 20)]
    share: Annotated[
        float | None, Field("The share; null without any case: the interval is then 0 to 1.", 0.95)
    ]
    low: Annotated[float, Field("Lower end of its interval.", 0.751)]
    high: Annotated[float, Field("Upper end of its interval.", 0.999)]


@dataclass(frozen=True, slots=True)
class LedgerMonth:
    """The ledger of the advice of one month (UTC)."""

    month: Annotated[str, Field("The month, UTC.", "2026-01")]
    advices: Annotated[int, Field("Number of scored pieces of advice.", 40)]
    outcomes: Annotated[Mapping[str, int], Field("Number of pieces of advice by outcome.")]
    still_best: Annotated[
        CountedShare, Field("Advice that is still best, among the tested pieces.")
    ]
    mean_regret_points: Annotated[float | None, Field("Mean regret in score points.", 0.1)]
    worst_regret_points: Annotated[float | None, Field("Largest regret in score points.", 1.5)]
    mean_regret_pct: Annotated[float | None, Field("Mean regret in speed.", 0.5, unit="%")]
    worst_regret_pct: Annotated[float | None, Field("Largest regret in speed.", 12.0, unit="%")]
    worst_advice: Annotated[str | None, Field("Identifier of the advice with the largest regret.")]
    contained: Annotated[
        CountedShare, Field("Past 95 % intervals that contain the later estimate.")
    ]
    expected_contained: Annotated[
        float | None, Field("Expected share of them for honest intervals.", 0.83)
    ]
    contradicted: Annotated[
        CountedShare, Field("Claims of a difference that everything known now contradicts.")
    ]
    faster: Annotated[int, Field("Number of claims `faster`.", 11)]
    slower: Annotated[int, Field("Number of claims `slower`.", 9)]
    symmetry_p: Annotated[
        float | None,
        Field("P-value of the test that both are equally likely; null without such claims.", 0.82),
    ]
    false_claims: Annotated[
        CountedShare, Field("Pairs of identical stacks (A/A) that were claimed to differ.")
    ]
