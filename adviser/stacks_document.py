"""Groups of measured stacks as JSON values, for ``thoth stacks --json`` and the API."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adviser.scoring.comparisons import Comparison, SelfCheck
from adviser.scoring.verdicts import family_document
from adviser.stack_comparison import DifferingPackage, StackGroup, StackResult
from model.declared_fields import document_of
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
        # Those of each pack are a family of their own.
        "family": family_document(comparison_count([it for it in groups if it.origin is None])),
        "groups": [group_document(group) for group in groups],
    }


def group_document(group: StackGroup) -> dict[str, Any]:
    """One group as JSON values."""
    base = group.baseline
    document: dict[str, Any] = document_of(replace(group, stacks=(), unknown_stacks=()))
    return {
        **document,
        # Absent for our own measurements.
        **({} if group.origin is None else {"origin": group.origin}),
        "hardware": document_of(group.hardware),
        "baseline": base and {"stack_digest": base.stack_digest, "reason": group.baseline_reason},
        "stacks": [_stack_document(stack, group.unit) for stack in group.stacks],
        "unknown_stacks": [_stack_document(stack, group.unit) for stack in group.unknown_stacks],
    }


def _stack_document(stack: StackResult, unit: Unit) -> dict[str, Any]:
    return {
        **document_of(stack),
        "comparison": stack.comparison and comparison_document(stack.comparison),
        "median_flop_per_s": stack.median_rate if unit is Unit.FLOP_PER_SECOND else None,
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


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """One comparison as JSON values; unknown ends of its interval are null."""
    document: dict[str, Any] = document_of(comparison)
    if not math.isfinite(comparison.standard_error):
        document |= dict.fromkeys(("interval_low_pct", "interval_high_pct", "degrees_of_freedom"))
    return document


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
