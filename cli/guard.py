"""``thoth guard``: compare two locks, for people and for CI pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import print_canonical_json, print_lines, print_note
from cli.options import (
    ExclusiveSwitch,
    NamedPath,
    as_json_option,
    environment_options,
    read_over_indexes,
    requested_environment,
)
from common.settings import Settings

if TYPE_CHECKING:
    from adviser.guard import GuardResult, MissingKnowledge
    from adviser.stack_request import StackRequest
    from graph.candidates import Dependency
    from graph.engine import Stores

#: Exit codes by outcome.
_CODES = {"no_harm": 0, "harm": 1, "unknown": 4}
#: The last line, by outcome.
_RESULTS = {
    "no_harm": "result: no harm",
    "harm": "result: harm",
    "unknown": "result: unknown; no harm was found, and data is missing",
}
#: Why other commands may report fewer differences.
_OTHER_COMMANDS = (
    "`thoth stacks` and `thoth advise` compare more stacks at once, and may claim less:"
    " docs/statistics.md"
)


@click.command()
@click.argument("old", type=NamedPath(path_type=Path))
@click.argument("new", type=NamedPath(path_type=Path))
@environment_options
@click.option("--fetch/--offline", "fetch", cls=ExclusiveSwitch, default=None,
              help="Read changed versions from the indexes, or use only what is stored.  [default:"
                   " read if the store lacks one]")  # fmt: skip
@click.option("--allow-unknown", is_flag=True, help="Exit with 0 instead of 4 if data is missing.")
@as_json_option
@click.pass_context
def guard(
    context: click.Context,
    /,
    old: Path,
    new: Path,
    fetch: bool | None,
    allow_unknown: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare two locks by speed, vulnerabilities and yanked versions.

    Exit code 1 if the lock NEW does harm: a package or the whole stack is slower on this
    hardware, or a new version is yanked or has a vulnerability that OLD does not have.

    Exit code 4 means that no harm was found, but data is missing. The missing data can be the
    metadata of a new version, all advisories, a verdict on speed, or measurements of a changed
    library (such as numpy, torch or tensorflow) on this hardware. The exit code is also 4 if a new
    version cannot be installed here. Other packages without measurements are listed, but do not
    change the exit code.

    Exit code 0 means that no harm was found and that no data is missing.
    """
    from adviser.answering.answers import hardware_in
    from adviser.answering.lock_comparison import (
        changed_versions,
        guarded,
        lacks_metadata,
        request_of_locks,
    )
    from adviser.reports.serialization import claim_document, plain
    from adviser.scoring.verdicts import family_document
    from cli.graph_lag import catch_up_graph
    from cli.project_files import read_lock_file
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    where = requested_environment(None, options)
    locks = [read_lock_file(path) for path in (old, new)]
    for warning in (warning for lock in locks for warning in lock.warnings):
        print_note(f"{warning.field}: {warning.message}")
    installed = [lock.packages(where.markers) for lock in locks]
    before, after = ({name: it.version for name, it in lock.items()} for lock in installed)
    with migrated_stores(settings) as stores:
        hardware = hardware_in(stores, options["hardware"])
        compare = partial(guarded, stores, before, after, where, hardware.digest)
        if not fetch:
            catch_up_graph(stores)
        upgrade = None if fetch else compare()
        if upgrade is None or (
            fetch is None and settings.fetch_missing and lacks_metadata(upgrade)
        ):
            request = request_of_locks(settings, locks, where)
            _read_versions(stores, request, changed_versions(before, after))
            upgrade, fetch = compare(), True
    print_note(hardware.note)
    if as_json:
        claims = {
            name: [claim_document(claim) for claim in listed]
            for name, listed in (("claims", upgrade.claims), ("stacks", upgrade.stacks))
        }
        family = family_document(upgrade.comparisons)
        print_canonical_json(
            {"outcome": upgrade.outcome.value, "family": family, **plain(upgrade), **claims}
        )
    else:
        print_lines(_lines(upgrade, fetched=bool(fetch)))
    code = _CODES[upgrade.outcome.value]
    context.exit(0 if allow_unknown and code == _CODES["unknown"] else code)


def _read_versions(stores: Stores, request: StackRequest, versions: Sequence[Dependency]) -> None:
    """Read the metadata of versions from the indexes into the record and the graph."""
    from adviser.advise import in_this_process
    from graph.projection import sync

    read = methodcaller("read_versions", versions)
    read_over_indexes(stores, request, read, in_this_process, versions)
    # Locks are compared by the graph.
    sync(stores.engine, stores.driver, database=stores.database)


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
    for each in upgrade.introduced:
        yield f"vulnerable: {each.name} {each.version} has {each.id} ({each.severity or 'unrated'})"
    for each in upgrade.removed:
        yield f"fixed: {each.name} {each.version} had {each.id} ({each.severity or 'unrated'})"
    for version in upgrade.yanked:
        reason = f": {version.reason}" if version.reason else ""
        yield f"yanked: {version.name} {version.version}{reason}"
    yield from (_missing_line(it, fetched=fetched) for it in upgrade.missing)
    if upgrade.unmeasured:
        yield f"not measured on this hardware: {', '.join(upgrade.unmeasured)}"
    if upgrade.refused:
        yield refused_text(upgrade.refused)
    if upgrade.comparisons:
        yield family_text(upgrade.comparisons)
        yield _OTHER_COMMANDS
    yield _RESULTS[upgrade.outcome.value]


def _missing_line(missing: MissingKnowledge, *, fetched: bool) -> str:
    if missing.remedy is None:
        return f"missing: {missing.message}"
    fetch = " or --fetch" if missing.kind.value == "metadata" and not fetched else ""
    return f"missing: {missing.message} (`{missing.remedy}`{fetch})"
