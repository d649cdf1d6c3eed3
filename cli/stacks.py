"""``thoth stacks``: compare the speed of measured stacks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from cli.console import Column, Styled, Table, counted, print_json, print_text, shown
from cli.options import as_json_option
from common.errors import InvalidArgument, ProjectError
from common.settings import Settings

if TYPE_CHECKING:
    from adviser.scoring.comparisons import Comparison, SelfCheck
    from adviser.scoring.next_jobs import FurtherJobs
    from adviser.stack_comparison import StackGroup, StackResult
    from common.units import Multiple

#: Marks beside a verdict, with the number of pairs or hosts that it rests on.
_PAIRED, _POOLED = "⇄", "∑"
_LEGEND = {
    "paired": f"{_PAIRED}n: compared by n pairs of jobs that ran in turns.",
    "pooled": f"{_POOLED}n: pooled over n hosts.",
}
_MISSING_EXPLAINED = (
    "+n jobs, baseline +n: stable jobs still needed for a verdict (docs/reference/stacks.md)."
)
_TURNS_EXPLAINED = (
    "Jobs of one run share unknown effects: run both stacks in turns (thoth inspect with both"
    " specifications), or each in five runs."
)
_STYLES = {"faster": "green", "slower": "red", "equivalent": "cyan"}
#: Open comparisons that are listed below a table.
_MOST_NEXT = 3
#: Characters of a title or a caption; parameters may be long.
_LONGEST_TITLE = 600


class NothingMeasured(ProjectError):
    """No measurement has the given indicator and hardware."""

    hint = "`thoth stacks --all` shows all measurements"


@click.command()
@click.option("--indicator", help="Show only this performance indicator, such as PiMatmul.")
@click.option("--hardware", metavar="DIGEST_PREFIX", help="Show only this hardware class.")
@click.option("--baseline", metavar="DIGEST_PREFIX",
              help="Stack to compare with.  [default: the newest release]")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Also show groups with a single stack.")
@click.option("--self-check", "checking", is_flag=True,
              help="Compare stacks with themselves; any difference is then false.")  # fmt: skip
@as_json_option
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
    """Compare the speed of measured stacks.

    Stacks are compared if they were measured by the same indicator, with the same parameters and
    on the same hardware class. With --self-check, the exit code is 1 if more differences are
    claimed than the error rate allows.
    """
    from adviser.reports.notes import refused_text
    from adviser.scoring.verdicts import family_text
    from adviser.stack_comparison import compare_stacks, identical_pairs
    from adviser.stacks_document import compared, self_check_document, stacks_document
    from graph.migrate import migrated_stores
    from graph.record.observations import measured_observations, refused_observations

    settings: Settings = context.obj
    if baseline == "":
        raise InvalidArgument("--baseline: the digest is empty; `thoth stacks` shows digests")
    if hardware is not None and ":" not in hardware:
        hardware = f"sha256:{hardware}"  # tables print digests without the algorithm
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        # Rows are streamed, so they must be read while the connection is open.
        observations = list(
            measured_observations(connection, indicator=indicator, hardware=hardware)
        )
        refused = refused_observations(connection)
    if checking:
        checked = identical_pairs(observations)
        if as_json:
            print_json(self_check_document(checked))
        else:
            click.echo("\n".join(self_check_lines(checked)))
        context.exit(1 if checked.problems else 0)
    groups = compare_stacks(observations, baseline)
    listed = [group for group in groups if everything or len(group.stacks) > 1]
    hidden = len(groups) - len(listed)
    if as_json:
        print_json(stacks_document(listed, hidden) | {"refused": refused})
        return
    _print_groups(listed)
    if count := compared(listed):
        click.echo(family_text(count))
    if refused:
        click.echo(refused_text(refused))
    if not groups and (indicator or hardware):
        raise NothingMeasured("no measurement has this indicator and hardware")
    if not groups:
        click.echo("Nothing was measured yet: ingest inspections with `thoth ingest inspections`.")
    elif hidden:
        word = counted(hidden, "group")
        click.echo(f"{word} with fewer than two known stacks: --all shows them.")


def _print_groups(groups: Sequence[StackGroup]) -> None:
    for group in groups:
        group_table(group).print()
        for note in group_notes(group):
            print_text(note)
        click.echo()


def group_title(group: StackGroup) -> str:
    """``PiMatmul (script 3e2b7fa1), dtype float32, cpu, on Intel … (1f2e3d4c)``.

    The digest distinguishes two scripts that print the same name.
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
    """One row for each stack, known stacks first; the caption names the baseline."""
    from common.units import SPOKEN

    unit = SPOKEN[group.unit]
    left_out = any(stack.unstable for stack in (*group.stacks, *group.unknown))
    numbers = ("jobs", *(["out"] * left_out), unit.name, "spread", "differs", "95 % range")
    columns = [Column("stack", wraps=True), *(Column(title, right=True) for title in numbers)]
    table = Table(
        [*columns, Column("verdict")],
        title=shown(group_title(group), _LONGEST_TITLE),
        caption=shown(_caption(group), _LONGEST_TITLE),
    )
    for stack in group.stacks:
        verdict = _verdict(stack.comparison) if stack.comparison else Styled("baseline", "")
        table.add(*_cells(stack, unit, left_out=left_out), verdict)
    for stack in group.unknown:
        table.add(*_cells(stack, unit, left_out=left_out), Styled("not compared", "dim"))
    return table


def _caption(group: StackGroup) -> str:
    from adviser.scoring.comparisons import MIN_DELTA
    from adviser.scoring.sample_needs import Need

    if group.baseline is None:
        return "No stack is known, so nothing is compared."
    comparisons = [stack.comparison for stack in group.stacks if stack.comparison]
    methods = {comparison.method for comparison in comparisons}
    parts = [f"Baseline: {group.baseline.label}, {group.baseline_reason}."]
    parts += [text for method, text in _LEGEND.items() if method in methods]
    if group.delta > MIN_DELTA:
        parts.append(
            f"Identical stacks differ by up to {group.delta:.1%} here; smaller differences "
            "are no verdict."
        )
    if any(it.jobs_missing or it.baseline_jobs_missing for it in comparisons):
        parts.append(_MISSING_EXPLAINED)
    if any(it.needs is Need.MARGIN for it in comparisons):
        parts.append("Too close: over 1,000 jobs would be needed for a verdict.")
    if any(it.needs is Need.TURNS for it in comparisons):
        parts.append(_TURNS_EXPLAINED)
    if group.next_jobs:
        more = len(group.next_jobs) - _MOST_NEXT
        jobs = [*map(_further, group.next_jobs[:_MOST_NEXT]), *([f"{more} more"] * (more > 0))]
        parts.append(f"Measure next: {'; '.join(jobs)}.")
    return " ".join(parts)


def group_notes(group: StackGroup) -> Iterator[Styled]:
    """Lines below a table: jobs that the table's comparisons leave out, and noise warnings."""
    from common.job_stability import left_out_text

    stacks = (*group.stacks, *group.unknown)
    if any(stack.left_out for stack in stacks):
        yield Styled("Jobs left out of each comparison, of the stack and of the baseline:", "")
    for stack in stacks:
        if stack.left_out:
            yield Styled(shown(f"  {stack.label}: {left_out_text(stack.left_out)}"), "")
    for stack in stacks:
        yield from (Styled(shown(f"warning: {text}"), "yellow") for text in stack.warnings)


def _further(further: FurtherJobs) -> str:
    """``tensorflow 2.9.3 (aa010000) +13 jobs (62 % chance of a claim)``."""
    missing = [
        f"+{counted(further.jobs, 'job')}" if further.jobs else "",
        f"baseline +{further.baseline_jobs}" if further.baseline_jobs else "",
        f"({further.chance:.0%} chance of a claim)" if further.chance else "",
    ]
    return " ".join([further.candidate, *filter(None, missing)])


def _cells(stack: StackResult, unit: Multiple, *, left_out: bool) -> list[str]:
    """Return the cells of a row without the verdict."""
    median, variation, comparison = stack.median_rate, stack.variation, stack.comparison
    return [
        shown(stack.label, _LONGEST_TITLE),
        str(stack.jobs),
        *([str(len(stack.unstable))] * left_out),
        "–" if median is None else f"{median / unit.factor:,.2f}",
        "–" if variation is None else f"{variation:.1%}",
        "" if comparison is None else _difference(comparison),
        "" if comparison is None else _interval(comparison),
    ]


def _difference(comparison: Comparison) -> str:
    return f"{comparison.difference_pct:+.1f}%" if math.isfinite(comparison.d) else "–"


def _interval(comparison: Comparison) -> str:
    if not math.isfinite(comparison.standard_error):
        return "unknown"
    return f"{comparison.interval_low_pct:+.1f}…{comparison.interval_high_pct:+.1f}"


def _verdict(comparison: Comparison) -> Styled:
    from adviser.scoring.estimates import Method

    text = str(comparison.verdict)
    if comparison.method is Method.PAIRED:
        text += f" {_PAIRED}{comparison.pairs}"
    elif comparison.method is Method.POOLED:
        text += f" {_POOLED}{comparison.hosts}"
    return Styled("\n".join([text, *_missing(comparison)]), _STYLES.get(comparison.verdict, ""))


def _missing(comparison: Comparison) -> Iterator[str]:
    """Return what a comparison lacks for a verdict."""
    from adviser.scoring.sample_needs import Need

    if comparison.hosts == 0:
        yield "no common host"
    elif comparison.needs is Need.TURNS:
        yield "run in turns"
        return
    elif comparison.needs is Need.MARGIN:
        yield "too close"
    elif comparison.needs is Need.HOSTS:
        yield "on more hosts"
    if comparison.jobs_missing:
        noun = "run" if comparison.needs is Need.RUNS else "job"
        yield f"+{counted(comparison.jobs_missing, noun)}"
    if comparison.baseline_jobs_missing:
        yield f"baseline +{comparison.baseline_jobs_missing}"


def self_check_lines(check: SelfCheck) -> list[str]:
    """The result of a self-check, and its problems."""
    if not check.comparisons:
        return ["No stack was measured twice with five stable jobs: nothing can be checked."]
    result = (
        f"{check.comparisons} comparisons of stacks with themselves: {check.faster} called faster,"
        f" {check.slower} called slower; {check.covering} of {check.settled} 95 % intervals contain"
        ' "no difference"'
    )
    return [result, *(f"problem: {problem}" for problem in check.problems)]
