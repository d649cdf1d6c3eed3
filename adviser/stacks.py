"""Stacks next to each other: what was measured alike, grouped, and compared job by job.

Pure: observations go in, groups come out, in an order that depends on neither the
order of the observations nor the hour.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from packaging.version import InvalidVersion, Version

from adviser.measured import JobObservation, MeasuredStack, stacks_of
from adviser.scoring.spread import robust_variation
from adviser.scoring.verdicts import Comparison, compare_candidates
from common.errors import ProjectError
from common.measurements import Unit


class UnknownBaseline(ProjectError):
    """A digest prefix that names no measured stack, or more than one."""


@dataclass(frozen=True, slots=True)
class StackResult:
    """One stack under one comparison key.

    :param stack_digest: ``None`` if the inspection named no lock
    :param jobs: stable and unstable ones
    :param unstable: reasons of the jobs that were left out, sorted
    :param median_rate: over the stable jobs, in the group's unit, ``None`` if there is none
    :param variation: MAD-based coefficient of variation of the stable jobs' rates, dimensionless,
        ``None`` below two jobs
    :param comparison: with the group's baseline; ``None`` for the baseline itself and for
        unknown stacks
    """

    label: str
    stack_digest: str | None
    component: str | None
    component_version: str | None
    jobs: int
    unstable: tuple[str, ...]
    median_rate: float | None
    variation: float | None
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class StackGroup:
    """All stacks measured under one comparison key.

    :param script_sha256: of the indicator's text, hexadecimal; ``None`` if the documents do not say
    :param baseline: the stack that the others are compared with, ``None`` without known stacks
    :param baseline_reason: why it is that one, for a person
    :param stacks: known stacks, fastest median first, the baseline among them
    :param unknown: observations whose stack is not known, by version of the component;
        several stacks may hide in one, so they are compared with nothing
    """

    comparison_key: str
    indicator: str
    script_sha256: str | None
    unit: Unit
    parameters: Mapping[str, Any]
    device: str | None
    hardware_digest: str
    hardware_label: str
    baseline: StackResult | None
    baseline_reason: str
    stacks: tuple[StackResult, ...]
    unknown: tuple[StackResult, ...]


def compare_stacks(
    observations: Iterable[JobObservation], baseline: str | None = None
) -> list[StackGroup]:
    """Group observations by comparison key and compare the stacks of each group.

    The baseline is the stack with the newest release of the measured component (final
    releases before pre-releases, then PEP 440 order; among equals the one with most stable
    jobs), unless ``baseline`` names another.

    :param baseline: prefix of a stack digest, with or without its ``sha256:``; groups that
        lack that stack fall back to the newest release and say so
    :returns: groups by indicator, hardware and parameters
    :raises UnknownBaseline: if no group has such a stack, or one has several
    """
    by_key = defaultdict(list)
    for observation in observations:
        by_key[observation.comparison_key].append(observation)
    groups = [_group(alike, baseline) for alike in by_key.values()]
    if baseline is not None and not any(_has(group, baseline) for group in groups):
        raise UnknownBaseline(f"no measured stack has a digest that starts with {baseline!r}")
    return sorted(groups, key=_group_order)


def _group_order(group: StackGroup) -> tuple[str, ...]:
    parameters = json.dumps(dict(group.parameters), sort_keys=True, default=str)
    return (group.indicator, group.hardware_label, parameters, group.comparison_key)


def _has(group: StackGroup, prefix: str) -> bool:
    return any(_starts(stack.stack_digest, prefix) for stack in group.stacks)


def _starts(digest: str | None, prefix: str) -> bool:
    return digest is not None and (
        digest.startswith(prefix) or digest.rpartition(":")[2].startswith(prefix)
    )


def _group(alike: Sequence[JobObservation], prefix: str | None) -> StackGroup:
    measured = stacks_of(alike)
    known = [stack for stack in measured if stack.digest is not None]
    base, reason = _baseline_of(known, prefix)
    key = alike[0].comparison_key
    return StackGroup(
        comparison_key=key,
        indicator=alike[0].indicator,
        script_sha256=alike[0].script_sha256,
        unit=alike[0].unit,
        parameters=alike[0].parameters,
        device=alike[0].device,
        hardware_digest=alike[0].hardware_digest,
        hardware_label=min(observation.hardware_label for observation in alike),
        baseline=None if base is None else _result(base),
        baseline_reason=reason,
        stacks=() if base is None else _compared(known, base, key),
        unknown=_by_speed(_result(stack) for stack in measured if stack.digest is None),
    )


def _baseline_of(
    known: list[MeasuredStack], prefix: str | None
) -> tuple[MeasuredStack | None, str]:
    if not known:
        return None, "no stack is known"
    named = [stack for stack in known if prefix and _starts(stack.digest, prefix)]
    if len(named) > 1:
        names = ", ".join(str(stack.digest) for stack in named)
        raise UnknownBaseline(f"{prefix!r} is the start of more than one digest: {names}")
    if named:
        return named[0], "as asked"
    newest = max(known, key=_release_order)
    if newest.version is None:
        reason = "most jobs; no version of the component is known"
    else:
        reason = f"newest release of {newest.component or 'the component'} measured here"
    return newest, reason if prefix is None else f"{reason}; {prefix} was not measured here"


def _release_order(stack: MeasuredStack) -> tuple[bool, bool, Version, int, str]:
    try:
        version = Version(stack.version or "")
    except InvalidVersion:
        return False, False, Version("0"), len(stack.stable), stack.digest or ""
    return True, not version.is_prerelease, version, len(stack.stable), stack.digest or ""


def _compared(known: list[MeasuredStack], base: MeasuredStack, key: str) -> tuple[StackResult, ...]:
    """Every known stack with its comparison, all of them tested together."""
    others = [stack for stack in known if stack is not base]
    comparisons = compare_candidates(base.sample(key), [stack.sample(key) for stack in others])
    results = map(_result, others, comparisons)
    return _by_speed([_result(base), *results])


def _result(stack: MeasuredStack, comparison: Comparison | None = None) -> StackResult:
    rates = [math.exp(job.log_rate) for job in stack.stable]
    return StackResult(
        label=stack.label,
        stack_digest=stack.digest,
        component=stack.component,
        component_version=stack.version,
        jobs=len(stack.jobs),
        unstable=tuple(sorted(job.unstable_reason for job in stack.jobs if job.unstable_reason)),
        median_rate=median(rates) if rates else None,
        variation=robust_variation(rates) if len(rates) > 1 else None,
        comparison=comparison,
    )


def _by_speed(results: Iterable[StackResult]) -> tuple[StackResult, ...]:
    return tuple(sorted(results, key=lambda r: (-(r.median_rate or 0.0), r.label)))
