"""``thoth guard``: what an upgrade costs or gains, for people and for pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from adviser.commands.options import environment_options
from common.settings import Settings

if TYPE_CHECKING:
    from adviser.guard import Guarded


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@environment_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def guard(context: click.Context, /, old: Path, new: Path, as_json: bool, **given: Any) -> None:
    """Compare the locks OLD and NEW: what is settled of their speed here, and vulnerabilities.

    Exit code 1 if something settled speaks against the upgrade: a slower package, or a
    vulnerability that OLD does not have.
    """
    from adviser.answering.answers import hardware_in, known_of
    from adviser.commands.files import read_lock_file
    from adviser.commands.options import asked_environment
    from adviser.commands.printing import print_json, print_lines
    from adviser.guard import guard as compared
    from adviser.reports.values import plain
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    where = asked_environment(None, given)
    locks = [read_lock_file(it).packages(where.markers) for it in (old, new)]
    before, after = ({name: it.version for name, it in lock.items()} for lock in locks)
    with migrated_stores(settings) as stores:
        hardware = hardware_in(stores, given["hardware"])
        snapshot, evidence = known_of(stores, sorted({*before, *after}), where)
    told = compared(before, after, snapshot, evidence, where, hardware)
    if as_json:
        print_json({"harmful": told.harmful, **plain(told)})
    else:
        print_lines(_lines(told))
    context.exit(1 if told.harmful else 0)


def _lines(it: Guarded) -> Iterator[str]:
    if not it.changes:
        yield "the locks are the same"
        return
    for change in it.changes:
        yield f"{change.name}: {change.forced or 'none'} → {change.advised or 'none'}"
    for claim in it.claims:
        yield (
            f"{claim.verdict.value}: {claim.package}, {claim.indicator} on {claim.hardware_label}: "
            f"{claim.effect_pct:+.1f} % (95 % {claim.interval_low_pct:+.1f} to "
            f"{claim.interval_high_pct:+.1f}; {claim.jobs} and {claim.baseline_jobs} jobs)"
        )
    for harm in it.introduced:
        yield f"vulnerable: {harm.name} {harm.version} has {harm.id} ({harm.severity or 'unrated'})"
    for harm in it.removed:
        yield f"mended: {harm.id} of {harm.name} {harm.version} goes"
    for name, message in it.unknown.items():
        yield f"unknown: {name}: {message}"
    for name in it.unsettled:
        yield f"not settled: {name}; more jobs are needed"
    if not it.claims:
        yield "nothing about speed is settled for these changes on this hardware"
