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
    from adviser.scoring.assessments import Claim


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@environment_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def guard(context: click.Context, /, old: Path, new: Path, as_json: bool, **given: Any) -> None:
    """Compare the locks OLD and NEW: what is settled of their speed here, and vulnerabilities.

    Exit code 1 if something settled speaks against the upgrade: a slower package or stack, a
    vulnerability that OLD does not have, or a version that its publisher took back.
    """
    from adviser.answering.answers import hardware_in, known_of
    from adviser.commands.files import read_lock_file
    from adviser.commands.options import asked_environment
    from adviser.commands.printing import print_json, print_lines, print_note
    from adviser.guard import guard as compared
    from adviser.reports.claims import claim_document
    from adviser.reports.values import plain
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    where = asked_environment(None, given)
    locks = [read_lock_file(it) for it in (old, new)]
    for warning in (it for lock in locks for it in lock.warnings):
        print_note(f"{warning.field}: {warning.message}")
    installed = [it.packages(where.markers) for it in locks]
    before, after = ({name: it.version for name, it in lock.items()} for lock in installed)
    with migrated_stores(settings) as stores:
        hardware = hardware_in(stores, given["hardware"])
        snapshot, evidence = known_of(stores, sorted({*before, *after}), where)
    print_note(hardware.note)
    told = compared(before, after, snapshot, evidence, where, hardware.digest)
    if as_json:
        claims = {
            name: [claim_document(it) for it in them]
            for name, them in (("claims", told.claims), ("stacks", told.stacks))
        }
        print_json({"harmful": told.harmful, **plain(told), **claims})
    else:
        print_lines(_lines(told))
    context.exit(1 if told.harmful else 0)


def _lines(it: Guarded) -> Iterator[str]:
    if not it.changes:
        yield "the locks are the same"
        return
    for change in it.changes:
        yield f"{change.name}: {change.forced or 'none'} → {change.advised or 'none'}"
    yield from (_claim_line(claim) for claim in (*it.stacks, *it.claims))
    for harm in it.introduced:
        yield f"vulnerable: {harm.name} {harm.version} has {harm.id} ({harm.severity or 'unrated'})"
    for harm in it.removed:
        yield f"mended: {harm.id} of {harm.name} {harm.version} goes"
    for gone in it.yanked:
        reason = f": {gone.reason}" if gone.reason else ""
        yield f"yanked: {gone.name} {gone.version} was taken back by its publisher{reason}"
    for name, message in it.unknown.items():
        yield f"unknown: {name} {message}"
    for name, message in it.unknown_before.items():
        yield f"unknown before: {name} {message}; nothing is compared with it"
    for indicator in it.open_stacks:
        yield f"not settled: both locks as a whole in {indicator}; more jobs are needed"
    for name in it.unsettled:
        yield f"not settled: {name}; more jobs are needed"
    if not it.claims and not it.stacks:
        yield "nothing about speed is settled for these changes on this hardware"


def _claim_line(it: Claim) -> str:
    what = it.package or f"the new lock as a whole, {len(it.differs)} packages differ"
    told = ", ".join(f"{key} {value}" for key, value in sorted(it.parameters.items()))
    measure = f"{it.indicator} ({told})" if told else it.indicator
    return (
        f"{it.verdict.value}: {what}: {it.observed_pct:+.1f} % observed in {measure} on "
        f"{it.hardware_label} (95 % interval {it.interval_low_pct:+.1f} … "
        f"{it.interval_high_pct:+.1f} %; {it.jobs} and {it.baseline_jobs} jobs), "
        f"{it.effect_pct:+.1f} % expected"
    )
