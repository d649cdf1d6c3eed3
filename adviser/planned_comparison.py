"""Compare stacks while they are measured: ``thoth compare`` without I/O.

Jobs are judged at planned numbers of blocks only, as in a search for a step: the looks share the
error rate (Bonferroni), so the rate holds although measuring stops once everything is settled.
All benchmarks and stacks of a look are one family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any

from adviser.bisect.search import LOOK_RATES
from adviser.scoring.claim_texts import comparison_effect_text, indicator_title
from adviser.scoring.comparisons import Comparison
from adviser.scoring.sample_needs import NIGHT_S, Need, unsettleable_text
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.verdicts import ALPHA, Verdict
from adviser.stack_comparison import (
    StackGroup,
    StackResult,
    estimated_series,
    judged_groups,
    measured_series,
)
from model.measurements.evidence import COMMAND, MeasuredObservation
from model.text import counted, duration_text, first_few, two_digits

#: Blocks at which the jobs are judged; even, so that each order of the stacks is equally frequent.
LOOK_BLOCKS = (6, 8, 12, 18, 28, 42, 62, 92, 138, 208, 312, 468, 702)
#: Share of the error rate of each look: those of a search for a step, and 2 % for each later look.
_LATE_RATE = 0.02
_LATE = len(LOOK_BLOCKS) - len(LOOK_RATES)
RATES = (*(it * (1 - _LATE * _LATE_RATE) for it in LOOK_RATES), *([_LATE_RATE] * _LATE))
#: Maximum number of sentences about differences.
_MOST_SENTENCES = 10
#: Maximum number of packages that a sentence names.
_MOST_NAMED = 3


class Attribution(StrEnum):
    """Possible causes of a difference between two stacks; the values are never renamed."""

    #: The versions, because all variables are equal.
    VERSIONS = "versions"
    #: The variables, because all versions are equal.
    SETTING = "setting"
    #: Nothing, because both differ.
    BOTH = "both"
    #: Nothing, because nothing differs.
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ComparedStack:
    """One of the stacks of a comparison.

    :param letter: ``A`` for the first, which is the baseline
    :param subject: the argument that names it
    :param pins: version of each package
    :param variables: set for this stack, by name
    """

    letter: str
    subject: str
    pins: Mapping[str, str]
    variables: Mapping[str, str]

    def moved(self, other: ComparedStack) -> list[str]:
        """Names of the packages that differ."""
        names = sorted(self.pins.keys() | other.pins.keys())
        return [it for it in names if self.pins.get(it) != other.pins.get(it)]

    def attribution(self, baseline: ComparedStack) -> Attribution:
        """The possible cause of a difference from the baseline."""
        versions, variables = self.pins != baseline.pins, self.variables != baseline.variables
        if versions and variables:
            return Attribution.BOTH
        if versions:
            return Attribution.VERSIONS
        return Attribution.SETTING if variables else Attribution.NOTHING


def labels_of(stacks: Sequence[ComparedStack]) -> list[str]:
    """A short label for each stack: its differences, or else the argument that names it."""
    moved = sorted(set(chain.from_iterable(it.moved(stacks[0]) for it in stacks)))
    names = sorted(set(chain.from_iterable(it.variables for it in stacks)))
    varied = [it for it in names if len({stack.variables.get(it) for stack in stacks}) > 1]
    labels = []
    for stack in stacks:
        version = stack.pins.get(moved[0]) if len(moved) == 1 else None
        label = stack.subject if version is None else f"{moved[0]} {version}"
        settings = [f"{it}={stack.variables[it]}" for it in varied if it in stack.variables]
        labels.append(" ".join([label, *settings]))
    repeated = {it for it in labels if labels.count(it) > 1}
    return [
        f"{label} ({stack.letter})" if label in repeated else label
        for label, stack in zip(labels, stacks, strict=True)
    ]


@dataclass(frozen=True)
class PlannedLook:
    """The judgement of one look, or of the jobs so far between two looks.

    A verdict of an earlier look stays. Between two looks, all others are undetermined.

    :param groups: one for each benchmark
    :param number: of the look, from 0
    :param blocks: number of judged blocks
    :param block_s: mean duration of a block
    """

    groups: Sequence[StackGroup]
    number: int
    blocks: int
    block_s: float

    @cached_property
    def comparisons(self) -> list[tuple[StackGroup, StackResult, Comparison]]:
        """Each comparison with its benchmark and stack."""
        return [
            (group, stack, stack.comparison)
            for group in self.groups
            for stack in group.stacks
            if stack.comparison is not None
        ]

    @property
    def open_stacks(self) -> set[str]:
        """Letters of the stacks with a comparison that is not settled."""
        return {str(it.stack_digest) for _, it, one in self.comparisons if not one.verdict.settled}

    @property
    def continuing_helps(self) -> bool:
        """Whether more jobs are likely to settle an open comparison."""
        left = [it for *_, it in self.comparisons if not it.verdict.settled]
        return not self.comparisons or any(
            self.seconds_missing(it) <= NIGHT_S or self.may_settle(it) for it in left
        )

    @property
    def settled(self) -> bool:
        """Whether every comparison has a verdict."""
        return bool(self.comparisons) and not self.open_stacks

    def seconds_missing(self, comparison: Comparison) -> float:
        """How long a verdict is likely to take; infinite if no number of jobs settles it."""
        if comparison.needs in (Need.MARGIN, Need.CLOCK) or self.number + 1 >= len(LOOK_BLOCKS):
            return math.inf
        missing = max(comparison.jobs_missing, comparison.baseline_jobs_missing, 1)
        planned = (it for it in LOOK_BLOCKS if it >= self.blocks + missing)
        return (next(planned, LOOK_BLOCKS[-1]) - self.blocks) * self.block_s

    def may_settle(self, comparison: Comparison) -> bool:
        """Whether the 95 % interval of an open comparison excludes zero, and more jobs can run.

        After few noisy jobs, a large difference is predicted to be chance.
        """
        above_or_below = comparison.interval_low_pct > 0 or comparison.interval_high_pct < 0
        more = self.number + 1 < len(LOOK_BLOCKS) and comparison.needs is not Need.CLOCK
        return above_or_below and more


def judge_look(
    benchmarks: Sequence[Sequence[MeasuredObservation]],
    number: int,
    blocks: int,
    block_s: float,
    earlier: PlannedLook | None = None,
) -> PlannedLook:
    """Judge the jobs so far.

    :param benchmarks: the jobs of each benchmark; stacks are named by their letters
    :param number: of the look that is due next or now, from 0
    :param blocks: that have run
    :param earlier: the look before
    """
    family = [estimated_series(measured_series(it), "A") for it in benchmarks if it]
    kept = {
        (group.comparison_key, stack.stack_digest): comparison
        for group, stack, comparison in ([] if earlier is None else earlier.comparisons)
        if comparison.verdict.settled
    }
    due = blocks == LOOK_BLOCKS[number]

    def decided(group: StackGroup, stack: StackResult) -> StackResult:
        if stack.comparison is None:
            return stack
        comparison = kept.get((group.comparison_key, stack.stack_digest))
        if comparison is None and not due:
            comparison = replace(stack.comparison, verdict=Verdict.UNDETERMINED)
        return replace(stack, comparison=comparison or stack.comparison)

    groups = [
        replace(group, stacks=tuple(decided(group, it) for it in group.stacks))
        for group in judged_groups(family, alpha=ALPHA * RATES[number])
    ]
    return PlannedLook(groups, number, blocks, block_s)


def noise_pct(comparison: Comparison) -> float:
    """Spread of the jobs of one stack, in per cent; NaN if unknown."""
    jobs = comparison.pairs or min(comparison.jobs, comparison.baseline_jobs)
    if jobs < MIN_JOBS:
        return math.nan
    return 100 * comparison.standard_error * math.sqrt(jobs / 2)


def bound_pct(comparison: Comparison) -> float:
    """The largest difference that the 95 % interval contains, in per cent."""
    return max(abs(comparison.interval_low_pct), abs(comparison.interval_high_pct))


def benchmark_name(group: StackGroup) -> str:
    """Name of the benchmark: a command, one of its benchmarks, or an indicator such as PiMatmul."""
    benchmark = group.parameters.get("benchmark")
    if isinstance(benchmark, str) and group.indicator == COMMAND:
        return f"`{benchmark}`"
    return indicator_title(group.indicator, group.parameters)


def answer_sentences(look: PlannedLook, labels: Mapping[str, str]) -> list[str]:
    """The verdicts; for many benchmarks, only the different ones and the number of others.

    :param labels: of the stacks, by letter
    """
    texts: dict[Verdict, list[str]] = {it: [] for it in Verdict}
    order = sorted(look.comparisons, key=lambda it: -abs(it[2].d) if math.isfinite(it[2].d) else 0)
    for group, stack, comparison in order:
        label = labels[stack.stack_digest or "A"]
        name = benchmark_name(group)
        sentence = verdict_sentence(look, comparison, label, labels["A"], name)
        texts[comparison.verdict].append(sentence)
    different = [*texts[Verdict.SLOWER], *texts[Verdict.FASTER]]
    shown = different[:_MOST_SENTENCES]
    if different[_MOST_SENTENCES:]:
        shown.append(f"{len(different) - _MOST_SENTENCES} further comparisons differ.")
    for verdict, text in (
        (Verdict.EQUIVALENT, "find no difference"),
        (Verdict.UNDETERMINED, "are undetermined, such as this one"),
    ):
        if len(texts[verdict]) > 1:
            shown.append(f"{len(texts[verdict])} of {len(order)} comparisons {text}.")
        if len(texts[verdict]) == 1 or verdict is Verdict.UNDETERMINED:
            shown += texts[verdict][:1]
    return shown


def verdict_sentence(
    look: PlannedLook, comparison: Comparison, label: str, baseline: str, what: str
) -> str:
    """The verdict for somebody who knows no statistics.

    :param what: name of the benchmark, such as ``python bench.py``
    """
    where = f"for {what} on this machine"
    verdict = comparison.verdict
    if verdict.different:
        size, interval = comparison_effect_text(comparison, baseline)
        return f"{label} is {size} ({interval.removeprefix('95 % interval ')}) {where}."
    if verdict is Verdict.EQUIVALENT:
        return (
            f"{label} is as fast as {baseline} {where}: a difference is smaller than"
            f" {two_digits(bound_pct(comparison))} %."
        )
    return f"{label} against {baseline} is undetermined {where}: {_open_text(look, comparison)}."


def _open_text(look: PlannedLook, comparison: Comparison) -> str:
    if not math.isfinite(comparison.standard_error):
        return f"only {counted(look.blocks, 'job')} of each stack ran, or too few could be used"
    low, high = comparison.interval_low_pct, comparison.interval_high_pct
    noise = f"jobs of one stack vary by {two_digits(noise_pct(comparison))} %"
    seen = f"the difference is between {low:+.1f} and {high:+.1f} %, and {noise}"
    seconds = look.seconds_missing(comparison)
    if seconds <= NIGHT_S:
        return f"{seen}. About {duration_text(seconds)} more are likely to settle it"
    if look.may_settle(comparison):
        return f"{seen}. More jobs may settle it"
    return unsettleable_text(bound_pct(comparison), noise)


def attribution_sentence(stack: ComparedStack, baseline: ComparedStack) -> str:
    """The possible cause of a difference between the two stacks, in a sentence."""
    moved = stack.moved(baseline)
    settings = ", ".join(
        f"{it} {baseline.variables.get(it, 'unset')} → {stack.variables.get(it, 'unset')}"
        for it in sorted(stack.variables.keys() | baseline.variables.keys())
        if stack.variables.get(it) != baseline.variables.get(it)
    )
    match stack.attribution(baseline):
        case Attribution.VERSIONS:
            texts = [
                f"{it} {baseline.pins.get(it, 'none')} → {stack.pins.get(it, 'none')}"
                for it in moved
            ]
            if len(moved) == 1:
                return f"Only {texts[0]} differs."
            return f"{len(moved)} packages differ: {first_few(texts, _MOST_NAMED)}."
        case Attribution.SETTING:
            return f"All versions are equal: a difference is due to the setting, {settings}."
        case Attribution.BOTH:
            return (
                f"Versions and settings ({settings}) differ, so a difference is attributed to"
                " neither. Compare again with one of them held equal."
            )
        case Attribution.NOTHING:
            return "Versions and settings are equal: this measures only noise."


def stack_document(stack: ComparedStack, label: str, baseline: ComparedStack) -> dict[str, Any]:
    """A stack as JSON values."""
    return {
        "name": stack.letter,
        "subject": stack.subject,
        "label": label,
        "packages": dict(sorted(stack.pins.items())),
        "variables": dict(sorted(stack.variables.items())),
        "attribution": stack.attribution(baseline).value,
        "differing_packages": stack.moved(baseline),
    }
