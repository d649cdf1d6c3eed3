"""Groups of measured stacks as JSON values, for ``thoth stacks --json`` and the API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from adviser.scoring.comparisons import Comparison, SelfCheck
from adviser.scoring.verdicts import family_document
from adviser.stack_comparison import DifferingPackage, StackGroup, StackResult
from model.measurements.units import Unit
from model.text import first_few

#: Increases when a key changes its meaning or disappears, not when a key is added.
DOCUMENT_VERSION = 2


def comparison_count(groups: Sequence[StackGroup]) -> int:
    """The number of comparisons in these groups with enough jobs for a verdict."""
    comparisons = (it.comparison for group in groups for it in group.stacks)
    return sum(it is not None and it.tested for it in comparisons)


def stacks_document(groups: Sequence[StackGroup], hidden_groups: int = 0) -> dict[str, Any]:
    """The groups as JSON values, with the keys that ``docs/reference/stacks.md`` lists."""
    return {
        "version": DOCUMENT_VERSION,
        "hidden_groups": hidden_groups,
        "family": family_document(comparison_count(groups)),
        "groups": [group_document(group) for group in groups],
    }


def group_document(group: StackGroup) -> dict[str, Any]:
    """One group as JSON values."""
    base = group.baseline
    return {
        "comparison_key": group.comparison_key,
        "indicator": group.indicator,
        "script_sha256": group.script_sha256,
        "unit": group.unit.value,
        "parameters": dict(group.parameters),
        "device": group.device,
        "python_version": group.python_version,
        "hardware": {"digest": group.hardware_digest, "label": group.hardware_label},
        "baseline": base and {"stack_digest": base.stack_digest, "reason": group.baseline_reason},
        "delta_pct": 100 * group.delta,
        "stacks": [_stack_document(stack, group.unit) for stack in group.stacks],
        "unknown_stacks": [_stack_document(stack, group.unit) for stack in group.unknown],
        "recent": {
            "observations": group.recent.observations,
            "inspections": group.recent.inspections,
            "rates": list(group.recent.rates),
        },
        "next_jobs": [
            {
                "label": further.candidate,
                "jobs": further.jobs,
                "baseline_jobs": further.baseline_jobs,
                "chance": further.chance,
            }
            for further in group.next_jobs
        ],
    }


def _stack_document(stack: StackResult, unit: Unit) -> dict[str, Any]:
    flop = stack.median_rate if unit is Unit.FLOP_PER_SECOND else None
    return {
        "label": stack.label,
        "stack_digest": stack.stack_digest,
        "component": stack.component,
        "component_version": stack.component_version,
        "differing_packages": [asdict(it) for it in stack.differing],
        "jobs": stack.jobs,
        "unstable": list(stack.unstable),
        "median_rate": stack.median_rate,
        "median_flop_per_s": flop,
        "spread_pct": None if stack.variation is None else 100 * stack.variation,
        "left_out": dict(stack.left_out),
        "warnings": list(stack.warnings),
        "comparison": stack.comparison and _comparison_document(stack.comparison),
    }


def differing_text(packages: Sequence[Mapping[str, Any]], most: int | None = None) -> str:
    """The packages that differ from the baseline in one line.

    :param most: number of packages that are named; by default all

    >>> differing_text([{"name": "numpy", "baseline_version": "2.2.6", "version": "2.3.5"},
    ...                 {"name": "ctx", "baseline_version": None, "version": "2.0"}])
    'numpy 2.2.6 → 2.3.5, ctx none → 2.0'
    """
    texts = [str(DifferingPackage(**it)) for it in packages]
    return first_few(texts, len(texts) if most is None else most)


def _comparison_document(comparison: Comparison) -> dict[str, Any]:
    return {
        "verdict": comparison.verdict.value,
        "difference_pct": _number(comparison.difference_pct),
        "interval_low_pct": _number(comparison.interval_low_pct, comparison.standard_error),
        "interval_high_pct": _number(comparison.interval_high_pct, comparison.standard_error),
        "d": _number(comparison.d),
        "standard_error": _number(comparison.standard_error),
        "degrees_of_freedom": _number(comparison.degrees_of_freedom, comparison.standard_error),
        "p_value": comparison.p_value,
        "runs": comparison.runs,
        "baseline_runs": comparison.baseline_runs,
        "batches": comparison.batches,
        "needs": comparison.needs and comparison.needs.value,
        "jobs_missing": comparison.jobs_missing,
        "baseline_jobs_missing": comparison.baseline_jobs_missing,
        "method": comparison.method.value,
        "pairs": comparison.pairs,
        "hosts": comparison.hosts,
        "tau": comparison.tau,
    }


def _number(value: float, *conditions: float) -> float | None:
    """The number, or ``None`` if it is unknown: JSON has neither infinity nor NaN."""
    return value if all(map(math.isfinite, (value, *conditions))) else None


def self_check_document(check: SelfCheck) -> dict[str, Any]:
    """The self-check as JSON values."""
    return {
        "version": DOCUMENT_VERSION,
        "comparisons": check.comparisons,
        "faster": check.faster,
        "slower": check.slower,
        "intervals": check.settled,
        "intervals_held": check.covering,
        "problems": list(check.problems),
    }
