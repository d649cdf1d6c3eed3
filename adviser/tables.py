"""Groups of stacks as a table for a person and as JSON for a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from adviser.measured import short_digest
from adviser.scoring.verdicts import Comparison, Verdict
from adviser.stacks import StackGroup, StackResult
from common.measurements import FLOP_PER_GFLOP
from common.terminal import printable

#: Grows when a key changes its meaning or goes away, not when one is added.
DOCUMENT_VERSION = 1

_STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.EQUIVALENT: "cyan"}

#: Characters of a title; parameters may be long.
_TITLE_LIMIT = 600


def group_title(group: StackGroup) -> str:
    """``PiMatmul, dtype float32, cpu, on Intel … (1f2e3d4c)``, parameters in name order."""
    parameters = (f"{name} {group.parameters[name]}" for name in sorted(group.parameters))
    measured = ", ".join([group.indicator, *parameters, group.device or "device unknown"])
    return f"{measured}, on {group.hardware_label} ({short_digest(group.hardware_digest)})"


def group_table(group: StackGroup) -> Table:
    """One row a stack, known ones first; the caption names the baseline and why it is that."""
    caption = "No stack is known, so nothing is compared."
    if group.baseline is not None:
        caption = f"Baseline: {group.baseline.label}, {group.baseline_reason}."
    table = Table(
        title=_shown(group_title(group)),
        caption=_shown(caption),
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0, 0, 1),
        title_justify="left",
        caption_justify="left",
    )
    left_out = any(stack.unstable for stack in (*group.stacks, *group.unknown))
    table.add_column("stack", overflow="fold", min_width=21)
    for heading in ("jobs", *(["out"] * left_out), "GFLOPS", "spread", "differs", "95 % range"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", min_width=len("undetermined"))
    for stack in group.stacks:
        table.add_row(*_cells(stack, "baseline", left_out=left_out))
    for stack in group.unknown:
        table.add_row(*_cells(stack, "not compared", left_out=left_out), style="dim")
    return table


def _cells(stack: StackResult, otherwise: str, *, left_out: bool) -> list[str]:
    median, variation, comparison = stack.median_flop_per_s, stack.variation, stack.comparison
    return [
        _shown(stack.label),
        str(stack.jobs),
        *([str(len(stack.unstable))] * left_out),
        "–" if median is None else f"{median / FLOP_PER_GFLOP:,.2f}",
        "–" if variation is None else f"{variation:.1%}",
        "" if comparison is None else _difference(comparison),
        "" if comparison is None else _interval(comparison),
        otherwise if comparison is None else _verdict(comparison),
    ]


def _shown(text: str) -> str:
    """Text of a document for a terminal: no markup, no control characters, not endless."""
    return escape(printable(text[:_TITLE_LIMIT]) + "…" * (len(text) > _TITLE_LIMIT))


def _difference(comparison: Comparison) -> str:
    return f"{comparison.difference_pct:+.1f}%" if math.isfinite(comparison.d) else "–"


def _interval(comparison: Comparison) -> str:
    if not math.isfinite(comparison.standard_error):
        return "unknown"
    return f"{comparison.interval_low_pct:+.1f}…{comparison.interval_high_pct:+.1f}"


def _verdict(comparison: Comparison) -> str:
    style = _STYLES.get(comparison.verdict)
    if style is not None:
        return f"[{style}]{comparison.verdict}[/]"
    ours, theirs = comparison.jobs_missing, comparison.baseline_jobs_missing
    wanted = [f"+{ours} {'job' if ours == 1 else 'jobs'}"] if ours else []
    if theirs:
        wanted.append(f"base +{theirs}")
    return "\n".join(["undetermined", *wanted])


def stacks_document(groups: Sequence[StackGroup], hidden_groups: int = 0) -> dict[str, Any]:
    """The answer as JSON values; keys are those of ``docs/reference/stacks.md``."""
    return {
        "version": DOCUMENT_VERSION,
        "hidden_groups": hidden_groups,
        "groups": [_group_document(group) for group in groups],
    }


def _group_document(group: StackGroup) -> dict[str, Any]:
    base = group.baseline
    return {
        "comparison_key": group.comparison_key,
        "indicator": group.indicator,
        "parameters": dict(group.parameters),
        "device": group.device,
        "hardware": {"digest": group.hardware_digest, "label": group.hardware_label},
        "baseline": base and {"stack_digest": base.stack_digest, "reason": group.baseline_reason},
        "stacks": [_stack_document(stack) for stack in group.stacks],
        "unknown_stacks": [_stack_document(stack) for stack in group.unknown],
    }


def _stack_document(stack: StackResult) -> dict[str, Any]:
    return {
        "label": stack.label,
        "stack_digest": stack.stack_digest,
        "component": stack.component,
        "component_version": stack.component_version,
        "jobs": stack.jobs,
        "unstable": list(stack.unstable),
        "median_flop_per_s": stack.median_flop_per_s,
        "spread_pct": None if stack.variation is None else 100 * stack.variation,
        "comparison": stack.comparison and _comparison_document(stack.comparison),
    }


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
        "jobs_missing": comparison.jobs_missing,
        "baseline_jobs_missing": comparison.baseline_jobs_missing,
    }


def _number(value: float, *conditions: float) -> float | None:
    """``None`` for what is unknown: JSON has neither infinity nor NaN."""
    return value if all(map(math.isfinite, (value, *conditions))) else None
