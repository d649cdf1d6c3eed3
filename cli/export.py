"""``thoth export``: data of the record for other programs, and locks as bills of materials."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from adviser.advice_request import parse_moment
from adviser.answering.lock_comparison import knowledge_of_locks
from adviser.answering.target_hardware import requested_hardware
from adviser.exports.parquet import export_parquet
from adviser.packs.stored_packs import known_hardware
from adviser.projects.locks import ProjectLock
from adviser.projects.project import KINDS_OF_REFERENCES
from cli.console import Column, Table, print_json, print_note, progress_bars
from cli.knowledge import catch_up_graph, knowledge_in_pack
from cli.options import CommandGroup, NamedPath, as_json_option, pack_option
from cli.project_files import (
    keep_project_files,
    lock_content,
    project_of_lock,
    read_lock_file,
    write_file,
)
from cli.request_options import (
    environment_options,
    lock_options,
    lock_selection,
    requested_environment,
)
from common.formats.locks.entries import LockSelection
from common.formats.locks.readers import reader_of
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.release_queries import licences_of
from ingest.record import open_record
from model.errors import InvalidArgument
from model.packages.environments import Environment


@click.group(cls=CommandGroup)
def export() -> None:
    """Export the record, or a lock, for other programs."""


@export.command()
@click.argument("folder", type=NamedPath(path_type=Path), metavar="DIR")
@click.option("--only", multiple=True, metavar="TABLE", help="Export only this table; repeatable.")
@click.option("--replace", is_flag=True, help="Replace an earlier export in DIR.")
@as_json_option
@click.pass_obj
def parquet(
    settings: Settings, folder: Path, only: tuple[str, ...], replace: bool, as_json: bool
) -> None:
    """Write inspections, releases, advice and verdicts as Parquet files.

    DIR is a new or an empty folder, which appears when the export is complete. The metadata of each
    column has its description and unit. Logs, messages, requests and identifiers
    of advice are not exported.
    """
    with open_record(settings) as engine, progress_bars(hidden=as_json) as bars:
        report = export_parquet(engine, folder, only=only, replace=replace, progress=bars.update)
    if as_json:
        print_json(report.as_json())
    else:
        table = Table(
            [Column("table"), *(Column(it, right=True) for it in ("rows", "files", "size"))]
        )
        for written in report.tables:
            size = f"{written.size_bytes / 1e6:,.2f} MB"
            table.add(written.name, f"{written.rows:,}", str(written.files), size)
        table.print()
        click.echo(f"Written to {report.folder} in {report.elapsed_s:.1f} s.")


@export.command()
@click.argument("lock", type=NamedPath(path_type=Path))
@lock_options
@environment_options
@click.option("--record", is_flag=True,
              help="Add what the stores know: declared licences, dependencies and measurements on"
                   " the hardware class.")  # fmt: skip
@pack_option
@click.option("--as-of", envvar="SOURCE_DATE_EPOCH", metavar="TIME",
              help="Time of the bill, a date or seconds since 1970.  [default: SOURCE_DATE_EPOCH,"
                   " or now]")  # fmt: skip
@click.option("-o", "--output", type=NamedPath(path_type=Path),
              help="Write to this file.  [default: standard output]")  # fmt: skip
@click.pass_obj
def sbom(
    settings: Settings,
    /,
    lock: Path,
    record: bool,
    pack: Path | None,
    as_of: str | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Write a lock as a software bill of materials (CycloneDX 1.6).

    It has the packages that LOCK installs in the environment, with the addresses and hashes of
    their files, their indexes without credentials, and their dependencies. --record or --pack add
    declared licences, and compare each version with the measured version before it: the
    properties thoth:measured have the sentences, and references of the type evidence say where
    the measurements are. Both work offline; without them, no store is needed.
    """
    from adviser.exports.sbom import bill_of_materials, component_facts  # loads the library

    if record and pack is not None:
        raise click.UsageError("--record and --pack: give only one of them")
    keep_project_files([output], [lock, pack or ""])
    where = requested_environment(None, options)
    selection = lock_selection(options)
    content = read_lock_file(lock, selection, where.markers)
    for warning in content.warnings:
        if warning.code not in KINDS_OF_REFERENCES:
            print_note(warning.text)
    content = _with_development(content, lock, selection, where)
    locked = content.packages(where.markers)
    if not locked:
        print_note(f"{lock} installs no package of an index here; --extra and --group add some")
    facts = {}
    if record or pack is not None:
        versions = {name: it.version for name, it in locked.items()}
        if pack is None:
            with migrated_stores(settings) as stores, stores.engine.connect() as connection:
                catch_up_graph(stores)
                recorded = known_hardware(connection, settings)
                hardware = requested_hardware(recorded, options["hardware"])
                sides = versions, versions, where, recorded, (hardware.digest,)
                known = knowledge_of_locks(stores, *sides)
                licences = licences_of(connection, versions)
        else:
            known, licences = knowledge_in_pack(settings, pack, versions, where)
            hardware = requested_hardware(known.hardware, options["hardware"])
        print_note(hardware.note)
        facts = component_facts(known, locked, where, hardware.digest, licences)
    if as_of is not None and re.fullmatch(r"\d{1,11}", as_of):
        at = datetime.fromtimestamp(int(as_of), UTC)
    else:
        at = _moment(as_of)
    direct = content.required or _required(lock, selection, where)
    bill = bill_of_materials(content, lock_content(lock), where, at, facts, direct)
    if output is None:
        click.echo(bill, nl=False)
    else:
        write_file(output, bill)


def _moment(as_of: str | None) -> datetime:
    """The time of ``--as-of``, or of ``SOURCE_DATE_EPOCH``."""
    now = datetime.now(UTC)
    try:
        return parse_moment(as_of, now) or now
    except InvalidArgument:
        source = click.get_current_context().get_parameter_source("as_of")
        name = "SOURCE_DATE_EPOCH" if source is ParameterSource.ENVIRONMENT else "--as-of"
        raise InvalidArgument(
            f"{name}: {as_of!r} is neither a date nor a number of seconds since 1970"
        ) from None


def _with_development(
    content: ProjectLock, lock: Path, selection: LockSelection, where: Environment
) -> ProjectLock:
    """A lock in which packages that only selected groups install are for development, too.

    :param lock: its path
    """
    reader = reader_of(content.source)
    if not selection.groups or reader is None or not reader.with_manifest:
        return content
    # For PDM, extras are groups.
    project = project_of_lock(lock, selection)
    extras = selection.groups.intersection(project.extras if project else ())
    needed = read_lock_file(lock, replace(selection, groups=extras), where.markers)
    names = {it.name for it in needed.packages(where.markers, dev=False).values()}
    entries = tuple(replace(it, dev=it.dev or it.name not in names) for it in content.entries)
    return replace(content, entries=entries)


def _required(lock: Path, selection: LockSelection, where: Environment) -> set[str]:
    """Names of the packages that the manifest beside a lock requires; none without it."""
    if (project := project_of_lock(lock, selection)) is None:
        return set()
    chosen = [project.requirements]
    chosen += [project.extras.get(it, ()) for it in selection.extras]
    chosen += [project.groups.get(it, ()) for it in selection.groups]
    return {it.name for them in chosen for it in them if it.holds(where.markers)}
