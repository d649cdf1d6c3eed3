"""``thoth stacks``: compare the speed of measured stacks."""

from __future__ import annotations

from collections.abc import Sequence

import click

from adviser.reports.notes import refused_text
from adviser.scoring.comparisons import SelfCheck
from adviser.scoring.verdicts import family_text
from adviser.stack_comparison import StackGroup, compare_stacks, identical_pairs
from adviser.stacks_document import comparison_count, self_check_document, stacks_document
from cli.console import print_json, print_text
from cli.options import as_json_option
from cli.stacks_view import group_notes, group_table, short_group_titles
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.measurements import measured_observations, refused_observations
from model.errors import InvalidArgument, ProjectError
from model.text import counted


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
    _print_groups(listed, verbose=verbose)
    if count := comparison_count(listed):
        click.echo(family_text(count))
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


def _print_groups(groups: Sequence[StackGroup], *, verbose: bool) -> None:
    for group, title in zip(groups, short_group_titles(groups), strict=True):
        group_table(group, title, verbose=verbose).print()
        for note in group_notes(group, verbose=verbose):
            print_text(note)
        click.echo()


def self_check_lines(check: SelfCheck) -> list[str]:
    """The result of a self-check, and its problems."""
    if not check.comparisons and not check.problems:
        return ["No stack was measured twice with five stable jobs: nothing can be checked."]
    result = (
        f"{check.comparisons} comparisons of stacks with themselves: {check.faster} called faster,"
        f" {check.slower} called slower; {check.covering} of {check.settled} 95 % intervals contain"
        ' "no difference"'
    )
    return [result, *(f"problem: {problem}" for problem in check.problems)]
