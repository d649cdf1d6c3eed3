"""Write why a version of a package is preferred to another one, by what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

from adviser.group_titles import TitledSeries, differing_settings, indicator_title
from adviser.scoring.assessment_types import Assessment, Claim
from adviser.scoring.claim_texts import ClaimTexts, effect_text, origin_text
from adviser.scoring.stack_pairs import name_of, version_of_purl
from adviser.scoring.version_choice import PackageChoice
from model.packages.identity import Purl
from model.text import first_few


def reason_against(assessment: Assessment, purl: Purl) -> str:
    """Why measurements prefer another version of the package; empty if they do not.

    ``2.2.3 is 3.2 times as fast as 3.1.1 in Frames (95 % interval 2.8 to 3.6)``
    """
    name, version = name_of(purl), version_of_purl(purl)
    if purl in assessment.unmeasured.get(name, ()):
        return f"{version} {_unmeasured_text(assessment, name)}"
    choice = assessment.choices.get(name)
    preference = choice.lost.get(purl) if choice else None
    if choice is None or preference is None:
        return ""
    better = preference.better
    return f"{version_of_purl(better)} is {comparison_text(assessment, choice, better, purl)}"


def _unmeasured_text(assessment: Assessment, name: str) -> str:
    choice = assessment.choices.get(name)
    whose = whose_text(choice) if choice else ""
    return f"was never measured here, and versions of {name} differ in speed{whose}"


def whose_text(choice: PackageChoice) -> str:
    """The pack that decides about a package, in brackets; empty for own jobs."""
    return f" (measured by others: pack {choice.pack.name})" if choice.pack else ""


def percent_text(probability: float) -> str:
    """A probability in whole per cent, rounded down.

    >>> percent_text(0.9666), percent_text(0.99999)
    ('96 %', 'more than 99 %')
    """
    return "more than 99 %" if probability > 0.99 else f"{math.floor(100 * probability)} %"


def comparison_text(
    assessment: Assessment, choice: PackageChoice, better: Purl, worse: Purl
) -> str:
    """How a version compares with another one: settled, likely, or with which probability."""
    claims = assessment.settled_between(better, worse)
    if claims:
        return seen_from(assessment, claims[0], better, version_of_purl(worse))
    expected = choice.expected(better, worse)
    if expected is None:
        return f"preferred to {version_of_purl(worse)}, although they were never compared"
    likely = "likely" if expected.likely else "not likely"
    chance = f"probability {percent_text(expected.probability)}"
    return f"{likely} faster than {version_of_purl(worse)} in {series_text(choice)} ({chance})"


def series_text(choice: PackageChoice) -> str:
    """The indicators that decide, with the settings that tell their series apart.

    ``PiMatmul with matrix_size 256 and with matrix_size 512``
    """
    titled = [
        TitledSeries(
            indicator_title(series.indicator, series.parameters),
            None, "", {"device": series.device, **series.parameters},
        )
        for series in choice.series
    ]  # fmt: skip
    texts: dict[str, list[str]] = {}
    for title, settings in zip(titled, differing_settings(titled), strict=True):
        texts.setdefault(title.indicator, []).append(", ".join(settings))
    parts = []
    for indicator, settings in sorted(texts.items()):
        named = [f"with {it}" for it in dict.fromkeys(settings) if it]
        parts.append(f"{indicator} {first_few(named, 5)}".strip())
    return f"{' and '.join(parts)}{whose_text(choice)}"


def measured_differences(assessment: Assessment, ours: Purl, theirs: Purl) -> Iterator[str]:
    """What was measured of a version, compared with another one and with the baseline.

    ``numpy 2.3.5 is likely faster than 2.4.6 in PiConv2D (probability 96 %)``
    """
    name = name_of(ours)
    choice, baseline = assessment.choices.get(name), assessment.baseline.get(name)
    release = f"{name} {version_of_purl(ours)}"
    if ours in assessment.unmeasured.get(name, ()):
        yield f"{release} {_unmeasured_text(assessment, name)}"
    elif choice is not None and {ours, theirs} <= set(choice.measured):
        yield f"{release} is {comparison_text(assessment, choice, ours, theirs)}"
    if baseline is not None and baseline not in (ours, theirs):
        for claim in assessment.settled_between(ours, baseline)[:1]:
            yield f"{release} is {seen_from(assessment, claim, ours, version_of_purl(baseline))}"


def seen_from(assessment: Assessment, claim: Claim, ours: Purl, other: str) -> str:
    """The effect of a claim as seen from ``ours``: ``10 % faster than 1.0 in X (…)``."""
    numbers = claim.observed_pct, claim.interval_low_pct, claim.interval_high_pct
    if claim.purl != ours:
        size, high, low = (100 * math.expm1(-math.log1p(it / 100)) for it in numbers)
        numbers = size, low, high
    size_text, interval = effect_text(*numbers, other)
    where = ClaimTexts(assessment.claims).series(claim)
    elsewhere = "" if claim.here else " elsewhere"
    whose = ", ".join(filter(None, (interval, origin_text(claim))))
    return f"{size_text} in {where}{elsewhere} ({whose})"
