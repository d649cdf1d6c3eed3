"""``thoth guard``: what an upgrade costs or gains, for people and for pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import NamedPath, environment_options
from common.settings import Settings

if TYPE_CHECKING:
    from adviser.guard import GuardResult, MissingKnowledge

#: Exit codes by outcome.
_CODES = {"no_harm": 0, "harm": 1, "unknown": 4}


@click.command()
@click.argument("old", type=NamedPath(path_type=Path))
@click.argument("new", type=NamedPath(path_type=Path))
@environment_options
@click.option(
    "--fetch",
    is_flag=True,
    help="First read the versions of changed packages from the indexes, as `thoth packages add`"
    " does.",
)
@click.option(
    "--allow-unknown", is_flag=True, help="Exit with 0, not 4, if something is missing to tell."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def guard(
    context: click.Context,
    /,
    old: Path,
    new: Path,
    fetch: bool,
    allow_unknown: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare the locks OLD and NEW: speed on this hardware, vulnerabilities, yanked versions.

    Exit code 1 if harm is settled: a package or the stack as a whole is slower, a new version has
    a vulnerability that OLD is not known to have, or its publisher yanked it. Settled harm counts
    whatever else is missing.

    Exit code 4 if something is missing to tell: a new version whose metadata are not read or that
    cannot be installed here, advisories that were never read, a comparison without a verdict, or
    a changed library that indicators measure (such as numpy, torch or tensorflow) whose two
    versions were not compared on this hardware. Other packages that were never measured are
    named, and change no exit code.

    Exit code 0 otherwise: no harm is settled, and nothing is missing.
    """
    from adviser.answering.answers import hardware_in
    from adviser.answering.lock_upgrades import (
        changed_versions,
        guarded,
        request_of_locks,
    )
    from adviser.reports.serialization import claim_document, plain
    from adviser.scoring.verdicts import family_document
    from cli.console import (
        print_json,
        print_lines,
        print_note,
    )
    from cli.options import asked_environment
    from cli.options import fetch as fetch_missing
    from cli.project_files import read_lock_file
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    where = asked_environment(None, given)
    locks = [read_lock_file(it) for it in (old, new)]
    for warning in (it for lock in locks for it in lock.warnings):
        print_note(f"{warning.field}: {warning.message}")
    installed = [it.packages(where.markers) for it in locks]
    before, after = ({name: it.version for name, it in lock.items()} for lock in installed)
    with migrated_stores(settings) as stores:
        if fetch:
            asked = request_of_locks(settings, locks, where)
            fetch_missing(stores, asked, changed_versions(before, after))
        hardware = hardware_in(stores, given["hardware"])
        upgrade = guarded(stores, before, after, where, hardware.digest)
    print_note(hardware.note)
    if as_json:
        claims = {
            name: [claim_document(it) for it in them]
            for name, them in (("claims", upgrade.claims), ("stacks", upgrade.stacks))
        }
        family = family_document(upgrade.comparisons)
        print_json({"outcome": upgrade.outcome.value, "family": family, **plain(upgrade), **claims})
    else:
        print_lines(_lines(upgrade, fetched=fetch))
    code = _CODES[upgrade.outcome.value]
    context.exit(0 if allow_unknown and code == _CODES["unknown"] else code)


def _lines(upgrade: GuardResult, *, fetched: bool) -> Iterator[str]:
    from adviser.reports.notes import refused_text
    from adviser.scoring.justifications import claim_note
    from adviser.scoring.verdicts import family_text

    if not upgrade.changes:
        yield "the locks are the same"
        return
    for change in upgrade.changes:
        yield f"{change.name}: {change.forced or 'none'} → {change.advised or 'none'}"
    for claim in (*upgrade.stacks, *upgrade.claims):
        yield f"{claim.verdict.value}: {claim_note(claim).message}"
    for harm in upgrade.introduced:
        yield f"vulnerable: {harm.name} {harm.version} has {harm.id} ({harm.severity or 'unrated'})"
    for harm in upgrade.removed:
        yield f"fixed: {harm.name} {harm.version} had {harm.id} ({harm.severity or 'unrated'})"
    for gone in upgrade.yanked:
        reason = f": {gone.reason}" if gone.reason else ""
        yield f"yanked: {gone.name} {gone.version}{reason}"
    yield from (_missing_line(it, fetched=fetched) for it in upgrade.missing)
    if upgrade.unmeasured:
        yield f"not measured on this hardware: {', '.join(upgrade.unmeasured)}"
    if upgrade.refused:
        yield refused_text(upgrade.refused)
    if upgrade.comparisons:
        yield family_text(upgrade.comparisons)
        yield _FAMILY
    yield _RESULTS[upgrade.outcome.value]


#: Why another command may say less.
_FAMILY = (
    "`thoth stacks` and `thoth advise` compare more stacks at once, and may leave open what is"
    " settled here: docs/statistics.md"
)

#: The last line, by outcome.
_RESULTS = {
    "no_harm": "result: no harm",
    "harm": "result: harm",
    "unknown": "result: unknown, no harm is settled and something is missing to tell",
}


def _missing_line(it: MissingKnowledge, *, fetched: bool) -> str:
    if it.remedy is None:
        return f"missing: {it.message}"
    fetch = " or --fetch" if it.kind.value == "metadata" and not fetched else ""
    return f"missing: {it.message} (`{it.remedy}`{fetch})"
