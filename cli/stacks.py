"""``thoth stacks``: which stack ran fastest, and how surely."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from common.errors import ProjectError
from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table

    from adviser.scoring.comparisons import Comparison, SelfCheck
    from adviser.scoring.next_jobs import FurtherJobs
    from adviser.stack_comparison import StackGroup, StackResult
    from common.units import Multiple


class NothingMeasured(ProjectError):
    """No measurement is of what was asked for."""

    hint = "`thoth stacks --all` shows what there is"


@click.command()
@click.option("--indicator", help="Only this performance indicator, such as PiMatmul.")
@click.option("--hardware", metavar="DIGEST_PREFIX", help="Only this hardware class.")
@click.option(
    "--baseline",
    metavar="DIGEST_PREFIX",
    help="Compare with this stack; otherwise with the newest release of what was measured.",
)
@click.option("--all", "everything", is_flag=True, help="Show groups with a single stack too.")
@click.option(
    "--self-check",
    "checking",
    is_flag=True,
    help="Compare stacks with themselves instead: every difference claimed is false.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def stacks(
    context: click.Context,
    indicator: str | None,
    hardware: str | None,
    baseline: str | None,
    everything: bool,
    checking: bool,
    as_json: bool,
) -> None:
    """Compare the measured stacks, job by job, where they were measured alike.

    With --self-check the exit code is 1 where the rules do not keep their promises.
    """
    from rich.console import Console

    from adviser.reports.notes import refused_text
    from adviser.scoring.verdicts import family_text
    from adviser.stack_comparison import compare_stacks, identical_pairs
    from adviser.stacks_document import (
        compared,
        self_check_document,
        stacks_document,
    )
    from graph.migrate import migrated_stores
    from graph.record.observations import measured_observations, refused_observations

    settings: Settings = context.obj
    if baseline == "":
        raise click.BadParameter("an empty digest names no stack", param_hint="--baseline")
    if hardware is not None and ":" not in hardware:
        hardware = f"sha256:{hardware}"  # as tables print them, digests go without
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        rows = measured_observations(connection, indicator=indicator, hardware=hardware)
        if checking:
            checked = identical_pairs(rows)
            told = json.dumps(self_check_document(checked), indent=2)
            click.echo(told if as_json else "\n".join(self_check_lines(checked)))
            context.exit(1 if checked.problems else 0)
        groups = compare_stacks(rows, baseline)
        refused = refused_observations(connection)
    shown = [group for group in groups if everything or len(group.stacks) > 1]
    hidden = len(groups) - len(shown)
    if as_json:
        document = stacks_document(shown, hidden) | {"refused": refused}
        click.echo(json.dumps(document, indent=2))
        return
    console = Console()
    for group in shown:
        console.print(group_table(group))
        for note in group_notes(group):
            console.print(note, highlight=False)
        console.print()
    if count := compared(shown):
        console.print(family_text(count), highlight=False)
    if refused:
        console.print(refused_text(refused), highlight=False)
    if not groups and (indicator or hardware):
        raise NothingMeasured("no measurement has this indicator and hardware")
    if not groups:
        console.print("Nothing was measured yet: `thoth ingest inspections SOURCE` takes it in.")
    elif hidden:
        word = "group" if hidden == 1 else "groups"
        console.print(f"{hidden} {word} with fewer than two known stacks: --all shows them.")


#: Marks beside a verdict that did not come from two arms alone, with what they count.
_PAIRED, _POOLED = "⇄", "∑"


_LEGEND = {
    "paired": f"{_PAIRED}n: by n pairs of jobs that ran in turns.",
    "pooled": f"{_POOLED}n: pooled over n hosts.",
}


_TURNS = (
    "Nothing tells what one run by itself does to all of its jobs: run both stacks in turns"
    " (thoth inspect with both specifications), or each in five runs."
)


_STYLES = {"faster": "green", "slower": "red", "equivalent": "cyan"}


#: Of the open comparisons as many are named below a table.
_NEXT = 3


#: Characters of a title; parameters may be long.
_TITLE_LIMIT = 600


def group_title(group: StackGroup) -> str:
    """``PiMatmul (script 3e2b7fa1), dtype float32, cpu, on Intel … (1f2e3d4c)``.

    Anybody can print the name of an indicator; its digest tells two scripts apart.
    """
    from adviser.stack_comparison import short_digest

    script = f" (script {short_digest(group.script_sha256)})" if group.script_sha256 else ""
    parameters = (
        f"{it} {group.parameters[it]}" for it in sorted(group.parameters) if it != "device"
    )
    python = [f"Python {group.python_version}"] if group.python_version else []
    measured = ", ".join(
        [group.indicator + script, *parameters, group.device or "device unknown", *python]
    )
    return f"{measured}, on {group.hardware_label} ({short_digest(group.hardware_digest)})"


def group_table(group: StackGroup) -> Table:
    """One row a stack, known ones first; the caption names the baseline and why it is that."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from common.units import SPOKEN

    spoken = SPOKEN[group.unit]
    table = Table(
        title=_shown(group_title(group)),
        caption=_shown(_caption(group)),
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0, 0, 1),
        title_justify="left",
        caption_justify="left",
    )
    left_out = any(stack.unstable for stack in (*group.stacks, *group.unknown))
    # Room for the name of a component, so that the rest fits 80 columns.
    table.add_column("stack", overflow="fold", min_width=14)
    for heading in ("jobs", *(["out"] * left_out), spoken.name, "spread", "differs", "95 % range"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", min_width=len("undetermined"))
    for stack in group.stacks:
        table.add_row(*_cells(stack, spoken, "baseline", left_out=left_out))
    for stack in group.unknown:
        table.add_row(*_cells(stack, spoken, "not compared", left_out=left_out), style="dim")
    return table


def _caption(group: StackGroup) -> str:
    from adviser.scoring.comparisons import MIN_DELTA
    from adviser.scoring.sample_needs import Need

    if group.baseline is None:
        return "No stack is known, so nothing is compared."
    methods = {stack.comparison.method for stack in group.stacks if stack.comparison}
    named = f"Baseline: {group.baseline.label}, {group.baseline_reason}."
    parts = [named, *(text for method, text in _LEGEND.items() if method in methods)]
    if group.delta > MIN_DELTA:
        parts.append(f"Identical stacks differ by up to {group.delta:.1%} here: so must others.")
    if any(it.comparison and it.comparison.needs is Need.TURNS for it in group.stacks):
        parts.append(_TURNS)
    if group.next_jobs:
        rest = len(group.next_jobs) - _NEXT
        jobs = [*map(_further, group.next_jobs[:_NEXT]), *([f"{rest} more"] if rest > 0 else [])]
        parts.append(f"Measure next: {'; '.join(jobs)}.")
    return " ".join(parts)


def group_notes(group: StackGroup) -> Iterator[str]:
    """Lines below a table: which jobs its comparisons leave out and why, then warnings of noise."""
    from common.job_stability import left_out_text

    stacks = (*group.stacks, *group.unknown)
    if any(it.left_out for it in stacks):
        yield "Jobs left out; of a comparison, with those of the baseline:"
    for it in stacks:
        if it.left_out:
            yield _shown(f"  {it.label}: {left_out_text(it.left_out)}")
    for it in stacks:
        yield from (f"[yellow]warning: {_shown(warning)}[/]" for warning in it.warnings)


def _further(it: FurtherJobs) -> str:
    """``tensorflow 2.9.3 (aa010000) +13 jobs (62 % chance of a claim)``."""
    lacking = [
        f"+{it.jobs} {'job' if it.jobs == 1 else 'jobs'}" if it.jobs else "",
        f"base +{it.baseline_jobs}" if it.baseline_jobs else "",
        f"({it.chance:.0%} chance of a claim)" if it.chance else "",
    ]
    return " ".join([it.candidate, *filter(None, lacking)])


def _cells(stack: StackResult, spoken: Multiple, otherwise: str, *, left_out: bool) -> list[str]:
    median, variation, comparison = stack.median_rate, stack.variation, stack.comparison
    return [
        _shown(stack.label),
        str(stack.jobs),
        *([str(len(stack.unstable))] * left_out),
        "–" if median is None else f"{median / spoken.factor:,.2f}",
        "–" if variation is None else f"{variation:.1%}",
        "" if comparison is None else _difference(comparison),
        "" if comparison is None else _interval(comparison),
        otherwise if comparison is None else _verdict(comparison),
    ]


def _shown(text: str) -> str:
    """Text of a document for a terminal: no markup, no control characters, not endless."""
    from rich.markup import escape

    return escape(printable(text[:_TITLE_LIMIT]) + "…" * (len(text) > _TITLE_LIMIT))


def _difference(comparison: Comparison) -> str:
    return f"{comparison.difference_pct:+.1f}%" if math.isfinite(comparison.d) else "–"


def _interval(comparison: Comparison) -> str:
    if not math.isfinite(comparison.standard_error):
        return "unknown"
    return f"{comparison.interval_low_pct:+.1f}…{comparison.interval_high_pct:+.1f}"


def _verdict(comparison: Comparison) -> str:
    from adviser.scoring.estimates import Method

    style = _STYLES.get(comparison.verdict)
    word = f"[{style}]{comparison.verdict}[/]" if style else str(comparison.verdict)
    if comparison.method is Method.PAIRED:
        word += f" {_PAIRED}{comparison.pairs}"
    elif comparison.method is Method.POOLED:
        word += f" {_POOLED}{comparison.hosts}"
    return "\n".join([word, *_missing(comparison)])


def _missing(comparison: Comparison) -> Iterator[str]:
    """What an undetermined comparison lacks, in the few words that a cell has room for."""
    from adviser.scoring.sample_needs import Need

    ours, theirs = comparison.jobs_missing, comparison.baseline_jobs_missing
    if comparison.hosts == 0:
        yield "no common host"
    elif comparison.needs is Need.TURNS:
        yield "run in turns"
        return
    elif comparison.needs is Need.MARGIN:
        yield "over 1,000 jobs"
    elif comparison.needs is Need.HOSTS:
        yield "on more hosts"
    what = "run" if comparison.needs is Need.RUNS else "job"
    if ours:
        yield f"+{ours} {what if ours == 1 else what + 's'}"
    if theirs:
        yield f"base +{theirs}"


def self_check_lines(it: SelfCheck) -> list[str]:
    """The self-check for a person."""
    if not it.comparisons:
        return ["No stack was measured twice with five stable jobs: nothing can be checked."]
    told = (
        f"{it.comparisons} comparisons of stacks with themselves: called faster {it.faster} times,"
        f" slower {it.slower} times; {it.held} of {it.settled} intervals of 95 % hold no difference"
    )
    return [told, *(f"problem: {problem}" for problem in it.problems)]
