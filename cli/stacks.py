"""``thoth stacks``: compare the speed of measured stacks."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

import click

from adviser.packs.stored_packs import PackReader
from adviser.reports.notes import refused_text
from adviser.scoring.claim_texts import TitledSeries, hosts_text, short_titles
from adviser.scoring.comparisons import MIN_DELTA, Comparison, SelfCheck
from adviser.scoring.estimates import Method
from adviser.scoring.next_jobs import FurtherJobs
from adviser.scoring.sample_needs import Need, settling_text
from adviser.scoring.verdicts import family_text
from adviser.stack_comparison import (
    StackGroup,
    StackResult,
    compare_stacks,
    identical_pairs,
    short_digest,
)
from adviser.stacks_document import comparison_count, self_check_document, stacks_document
from cli.console import Column, Styled, Table, print_json, print_text, shown
from cli.options import as_json_option
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.measurements import measured_observations, refused_observations
from model.errors import InvalidArgument, ProjectError
from model.measurements.evidence import EvidencePack
from model.measurements.job_stability import disturbed_jobs, left_out_text
from model.measurements.units import DISPLAY_UNITS, Multiple
from model.text import counted, first_few

_STYLES = {"faster": "green", "slower": "red", "equivalent": "cyan"}
#: Undetermined comparisons that the verbose table lists below it; the short table lists one.
_MOST_NEXT = 3
#: Differing packages of a stack in the short table.
_MOST_DIFFERING = 3
#: Maximum characters of a title or a caption; parameters may be long.
_LONGEST_TITLE = 600
#: Width of a drawn interval in characters; odd, so that zero can lie in the middle.
_INTERVAL_WIDTH = 21


class NothingMeasured(ProjectError):
    """No measurement has the given indicator and hardware."""

    hint = "`thoth stacks --all` shows all measurements"


@click.command()
@click.option("--indicator", help="Show only this performance indicator, such as PiMatmul.")
@click.option("--hardware", metavar="DIGEST_PREFIX", help="Show only this hardware class.")
@click.option("--baseline", metavar="DIGEST_PREFIX|newest",
              help="Stack to compare with, or the newest release.  [default: the stack with the"
              " most jobs]")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Also show groups with a single stack.")
@click.option("--self-check", "checking", is_flag=True,
              help="Compare stacks with themselves; any difference is then false.")  # fmt: skip
@click.option("--verbose", is_flag=True,
              help="Show all parameters, the spread, and the jobs left out.")  # fmt: skip
@as_json_option
@click.pass_context
def stacks(  # noqa: PLR0913, PLR0917 - one for each option
    context: click.Context,
    indicator: str | None,
    hardware: str | None,
    baseline: str | None,
    everything: bool,
    checking: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Compare the speed of measured stacks.

    Stacks are compared if they were measured by the same indicator, with the same parameters and
    on the same hardware class. With --self-check, the exit code is 1 if more differences are
    claimed than the error rate allows.
    """
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
        own = {it.reading.observation_id for it in observations}
        reader = PackReader(connection, settings, datetime.now(UTC))
        packed = dict(reader.observations(own, indicator, hardware))
    if checking:
        checked = identical_pairs(observations)
        if as_json:
            print_json(self_check_document(checked))
        else:
            click.echo("\n".join(self_check_lines(checked)))
        context.exit(1 if checked.problems else 0)
    # Each a family of its own: what a pack has changes no verdict on other measurements.
    by_pack = (compare_stacks(them, baseline, required=False) for them in packed.values())
    groups = [*compare_stacks(observations, baseline), *chain.from_iterable(by_pack)]
    listed = [group for group in groups if everything or len(group.stacks) > 1]
    hidden = len(groups) - len(listed)
    if as_json:
        print_json(stacks_document(listed, hidden) | {"refused": refused})
        return
    _print_groups(listed, [*packed], verbose=verbose)
    _print_families(listed, [*packed])
    if refused:
        click.echo(refused_text(refused))
    if not groups and (indicator or hardware):
        raise NothingMeasured("no measurement has this indicator and hardware")
    if not groups:
        click.echo("Nothing was measured yet: ingest inspections with `thoth ingest inspections`.")
    elif any(it.left_out for group in listed for it in group.stacks) and not verbose:
        click.echo("Some jobs are left out of comparisons: --verbose says which, and why.")
    if hidden:
        word = counted(hidden, "group")
        click.echo(f"{word} with fewer than two known stacks: --all shows them.")


def _print_groups(
    groups: Sequence[StackGroup], packs: Sequence[EvidencePack], *, verbose: bool
) -> None:
    names = {it.digest: it for it in packs}
    for group, title in zip(groups, short_group_titles(groups), strict=True):
        group_table(group, title, verbose=verbose).print()
        if group.origin is not None:
            pack = names[group.origin]
            trust = "" if pack.problem is None else f"; never decides: {pack.problem}"
            print_text(f"measured by others: pack {pack.name}{trust}")
        for note in group_notes(group, verbose=verbose):
            print_text(note)
        click.echo()


def _print_families(groups: Sequence[StackGroup], packs: Sequence[EvidencePack]) -> None:
    """Print the error rates of the comparisons of the record and of each pack."""
    for origin, name in ((None, ""), *((it.digest, f"pack {it.name}: ") for it in packs)):
        if count := comparison_count([it for it in groups if it.origin == origin]):
            click.echo(shown(name + family_text(count)))


def self_check_lines(check: SelfCheck) -> list[str]:
    """The result of a self-check, and its problems."""
    if not check.comparisons and not check.problems:
        return ["No stack was measured twice with five stable jobs: nothing can be checked."]
    result = (
        f"{check.comparisons} comparisons of stacks with themselves: {check.faster} called faster,"
        f" {check.slower} called slower; {check.covering} of {check.settled} intervals (95 %)"
        ' contain "no difference"'
    )
    return [result, *(f"problem: {problem}" for problem in check.problems)]


def short_group_titles(groups: Sequence[StackGroup]) -> list[str]:
    """A title for each group with only the settings that distinguish the groups."""
    return short_titles(
        [
            TitledSeries(
                group.indicator,
                min(
                    (it.component for it in (*group.stacks, *group.unknown_stacks) if it.component),
                    default=None,
                ),
                group.hardware_label,
                {
                    **group.parameters,
                    "Python": group.python_version,
                    "script": short_digest(group.script_sha256 or "unknown"),
                    "hardware": short_digest(group.hardware_digest),
                },
            )
            for group in groups
        ]
    )


def long_group_title(group: StackGroup) -> str:
    """``PiMatmul (script 3e2b7fa1), dtype float32, cpu, on Intel … (1f2e3d4c)``.

    The digest distinguishes two scripts that print the same name.
    """
    script = f" (script {short_digest(group.script_sha256)})" if group.script_sha256 else ""
    parameters = (
        f"{it} {group.parameters[it]}" for it in sorted(group.parameters) if it != "device"
    )
    python = [f"Python {group.python_version}"] if group.python_version else []
    measured = ", ".join(
        [group.indicator + script, *parameters, group.device or "device unknown", *python]
    )
    return f"{measured}, on {group.hardware_label} ({short_digest(group.hardware_digest)})"


def group_table(group: StackGroup, title: str, *, verbose: bool = False) -> Table:
    """One row for each stack, known stacks first; the caption names the baseline."""
    unit = DISPLAY_UNITS[group.unit]
    interval = interval_scale(group)
    digits = _decimals([it.median_rate / unit.factor for it in group.stacks if it.median_rate])
    table = Table(
        [
            Column("stack", wraps=True),
            Column("jobs", right=True),
            Column(unit.name, right=True),
            *([Column("spread", right=True)] * verbose),
            Column("differs", right=True),
            *([] if interval is None else [Column(interval.title)]),
            Column("95 % interval", right=True),
            Column("verdict"),
            *([Column("compared by")] * verbose),
        ],
        title=shown(long_group_title(group) if verbose else title, _LONGEST_TITLE),
        caption=shown(_caption(group, verbose=verbose), _LONGEST_TITLE),
    )
    for stack in (*group.stacks, *group.unknown_stacks):
        comparison = stack.comparison
        drawn = [] if interval is None else [interval.draw(comparison)]
        table.add(
            shown(stack.label, _LONGEST_TITLE),
            _jobs(stack),
            _rate(stack, unit, digits),
            *([_spread(stack)] * verbose),
            "" if comparison is None else difference_text(comparison),
            *drawn,
            "" if comparison is None else interval_text(comparison),
            _verdict(stack),
            *([_method(comparison)] * verbose),
        )
    return table


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """The common scale of the intervals of one table, in per cent.

    :param low: left end, at most 0
    :param high: right end, at least 0
    """

    low: float
    high: float

    @property
    def title(self) -> str:
        """Title of the column: both ends, and zero at its place."""
        left, right = f"{self.low:+.0f} %", f"{self.high:+.0f} %"
        zero = self._place(0.0)
        line = list(left.ljust(_INTERVAL_WIDTH - len(right)) + right)
        if len(left) < zero < _INTERVAL_WIDTH - len(right) - 1:
            line[zero] = "0"
        return "".join(line)

    def draw(self, comparison: Comparison | None) -> str:
        """``├──●─┼─┤`` on the scale, with zero at the cross or at a dotted line.

        Without a known error, only the dot is drawn.
        """
        line = [" "] * _INTERVAL_WIDTH
        line[self._place(0.0)] = "┊"
        if comparison is None or not math.isfinite(comparison.d):
            return "".join(line)
        if math.isfinite(comparison.standard_error):
            left = self._place(comparison.interval_low_pct)
            right = self._place(comparison.interval_high_pct)
            line[left : right + 1] = "─" * (right - left + 1)
            if left < self._place(0.0) < right:
                line[self._place(0.0)] = "┼"
            line[left], line[right] = "├", "┤"
        line[self._place(comparison.difference_pct)] = "●"
        return "".join(line)

    def _place(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low)
        return min(max(round(share * (_INTERVAL_WIDTH - 1)), 0), _INTERVAL_WIDTH - 1)


def interval_scale(group: StackGroup) -> IntervalScale | None:
    """A scale that holds zero, δ and all intervals; ``None`` if nothing was compared."""
    ends = [-100 * group.delta, 100 * group.delta]
    compared = False
    for comparison in (stack.comparison for stack in group.stacks):
        if comparison is not None and math.isfinite(comparison.d):
            compared = True
            ends.append(comparison.difference_pct)
            if math.isfinite(comparison.standard_error):
                ends += [comparison.interval_low_pct, comparison.interval_high_pct]
    return IntervalScale(math.floor(min(ends)), math.ceil(max(ends))) if compared else None


def _caption(group: StackGroup, *, verbose: bool) -> str:
    key = f"Key {short_digest(group.comparison_key)}."
    if group.baseline is None:
        return f"{key} No stack is known, so nothing is compared."
    parts = [f"{key} Baseline: {group.baseline.label}, {group.baseline_reason}."]
    if group.delta > MIN_DELTA:
        parts.append(
            f"Identical stacks differ by up to {group.delta:.1%} here; smaller differences "
            "are no verdict."
        )
    comparisons = [stack.comparison for stack in group.stacks if stack.comparison]
    parts += [
        f"{it.label}: {hosts_text(it.comparison.host_differences_pct)}."
        for it in group.stacks
        if it.comparison and it.comparison.host_differences_pct
    ]
    if any(it.needs is Need.TURNS for it in comparisons):
        parts.append(
            "Jobs of one run share unknown effects: run both stacks in turns (thoth inspect with"
            " both specifications), or each in five runs."
        )
    if any(
        it.comparison
        and it.comparison.needs is Need.JOBS
        and _disturbed(it.comparison, it.left_out)
        for it in group.stacks
    ):
        parts.append(
            "Disturbed jobs leave too few pairs: run thoth inspect again with more --jobs, while"
            " nothing else runs."
        )
    if group.next_jobs:
        most = _MOST_NEXT if verbose else 1
        more = len(group.next_jobs) - most
        jobs = [*map(_further, group.next_jobs[:most]), *([f"{more} more"] * (more > 0))]
        parts.append(f"Measure next: {'; '.join(jobs)}.")
    return " ".join(parts)


def group_notes(group: StackGroup, *, verbose: bool = False) -> Iterator[Styled]:
    """Lines below a table: packages that differ, jobs left out (if verbose), noise warnings."""
    stacks = (*group.stacks, *group.unknown_stacks)
    if any(stack.unnamed_differences for stack in stacks):
        yield Styled("Packages that differ from the baseline:", "")
    for stack in stacks:
        if names := [str(it) for it in stack.unnamed_differences]:
            text = first_few(names, len(names) if verbose else _MOST_DIFFERING)
            yield Styled(shown(f"  {stack.label}: {text}"), "")
    if verbose and any(stack.left_out for stack in stacks):
        yield Styled("Jobs left out of each comparison, of the stack and of the baseline:", "")
        for stack in stacks:
            if stack.left_out:
                yield Styled(shown(f"  {stack.label}: {left_out_text(stack.left_out)}"), "")
    for stack in stacks:
        yield from (Styled(shown(f"warning: {text}"), "yellow") for text in stack.warnings)


def _further(further: FurtherJobs) -> str:
    """``tensorflow 2.9.3 (aa010000), 13 more jobs each, about 9 minutes, with …``."""
    return f"{further.label}, {further.settled_by}"


def _jobs(stack: StackResult) -> str:
    """The number of jobs, and how many of them count if a rule leaves some out."""
    if not stack.unstable:
        return str(stack.jobs)
    return f"{stack.jobs - len(stack.unstable)} of {stack.jobs}"


def _rate(stack: StackResult, unit: Multiple, digits: int) -> str:
    return "–" if stack.median_rate is None else f"{stack.median_rate / unit.factor:,.{digits}f}"


def _decimals(rates: Sequence[float]) -> int:
    """Decimal places that give the smallest rate four significant digits, at least two.

    >>> _decimals([94.2, 1234.5]), _decimals([0.0123, 1.0])
    (2, 5)
    """
    return max([2, *(3 - math.floor(math.log10(it)) for it in rates)])


def _spread(stack: StackResult) -> str:
    return "–" if stack.variation is None else f"{100 * stack.variation:.1f} %"


def difference_text(comparison: Comparison) -> str:
    """The difference in speed, in per cent."""
    return f"{comparison.difference_pct:+.1f} %" if math.isfinite(comparison.d) else "–"


def interval_text(comparison: Comparison) -> str:
    """The 95 % interval of the difference."""
    if not math.isfinite(comparison.standard_error):
        return "unknown"
    return f"{comparison.interval_low_pct:+.1f} to {comparison.interval_high_pct:+.1f} %"


def _method(comparison: Comparison | None) -> str:
    """How the difference was estimated."""
    if comparison is None:
        return ""
    if comparison.method is Method.PAIRED:
        batches = counted(comparison.batches, "batch", "batches")
        pairs = counted(comparison.pairs, "pair")
        return pairs if comparison.batches == comparison.pairs else f"{pairs}, {batches}"
    if comparison.method is Method.POOLED:
        return counted(comparison.hosts or 0, "host")
    return counted(comparison.runs + comparison.baseline_runs, "run")


def _verdict(stack: StackResult) -> Styled:
    if stack.comparison is not None:
        verdict = stack.comparison.verdict
        return Styled(verdict_text(stack.comparison, stack.left_out), _STYLES.get(verdict, ""))
    return Styled("not compared", "dim") if stack.stack_digest is None else Styled("baseline", "")


def verdict_text(comparison: Comparison, left_out: Mapping[str, int]) -> str:
    """The verdict; if it is undetermined, further lines name the missing jobs.

    :param left_out: number of jobs that the comparison leaves out, by reason
    """
    text = str(comparison.verdict)
    missing = settling_text(comparison, _disturbed(comparison, left_out), command=None)
    # The table is narrow: the parts stand below each other, without advice on the machine.
    lines = re.split(r"(?<=:) | (?=\()|, (?=about )", missing.partition(". ")[0])
    return "\n".join([text, *filter(None, lines)])


def _disturbed(comparison: Comparison, left_out: Mapping[str, int]) -> int:
    """The number of disturbed jobs, if too few others are left for pairs."""
    return 0 if comparison.pairs else disturbed_jobs(left_out)
