"""Write why a version of a package is preferred to another one, by what was measured."""

from __future__ import annotations

import math

from adviser.scoring.assessment_types import Assessment, Claim
from adviser.scoring.claim_texts import ClaimTexts, effect_text
from adviser.scoring.stack_pairs import name_of, version_of_purl
from adviser.scoring.version_choice import PackageChoice
from common.packages import Purl


def reason_against(assessment: Assessment, purl: Purl) -> str:
    """Why measurements prefer another version of the package; empty if they do not.

    ``2.2.3 is 3.2 times as fast as 3.1.1 in Frames (95 % interval 2.8 to 3.6)``
    """
    name, version = name_of(purl), version_of_purl(purl)
    if purl in assessment.unmeasured.get(name, ()):
        return f"{version} was never measured here, and versions of {name} differ in speed"
    choice = assessment.choices.get(name)
    preference = choice.lost.get(purl) if choice else None
    if choice is None or preference is None:
        return ""
    better = preference.better
    return f"{version_of_purl(better)} is {comparison_text(assessment, choice, better, purl)}"


def comparison_text(
    assessment: Assessment, choice: PackageChoice, better: Purl, worse: Purl
) -> str:
    """How a preferred version compares with another one, settled or likely."""
    claims = assessment.settled_between(better, worse)
    if claims:
        return seen_from(assessment, claims[0], better, version_of_purl(worse))
    preference = choice.lost.get(worse)
    chance = ""
    if preference is not None and preference.better == better:
        chance = f" (probability {math.floor(100 * preference.expected.probability)} %)"
    indicators = " and ".join(choice.indicators)
    return f"likely faster than {version_of_purl(worse)} in {indicators}{chance}"


def seen_from(assessment: Assessment, claim: Claim, ours: Purl, other: str) -> str:
    """The effect of a claim as seen from ``ours``: ``10 % faster than 1.0 in X (…)``."""
    numbers = claim.observed_pct, claim.interval_low_pct, claim.interval_high_pct
    if claim.purl != ours:
        size, high, low = (100 * math.expm1(-math.log1p(it / 100)) for it in numbers)
        numbers = size, low, high
    size_text, interval = effect_text(*numbers, other)
    where = ClaimTexts(assessment.claims).series(claim)
    elsewhere = "" if claim.here else " elsewhere"
    return f"{size_text} in {where}{elsewhere} ({interval})"
