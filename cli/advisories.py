"""``thoth advisories``: read security advisories, and list vulnerabilities of packages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from packaging.utils import InvalidName, canonicalize_name

from cli.console import (
    Column,
    Table,
    moment_text,
    print_field,
    print_graph_state,
    print_json,
    print_note,
)
from cli.ingest import document_progress
from cli.options import CommandGroup, as_json_option
from cli.project_files import read_lock_file
from common.settings import Settings
from graph.engine import relational_errors
from graph.record.advisories import SourceState, source_states
from graph.record.freshness import knows_advisories
from graph.record.vulnerabilities import (
    AdvisoryCounts,
    PackageVulnerability,
    advisory_counts,
    vulnerabilities_of,
)
from ingest.advisories.sync import AdvisoryReport, check_source, run_sync
from ingest.record import RunOutcome, open_record
from ingest.sources.source_items import source_argument
from model.advisories import NO_ADVISORIES, AffectedPackage, range_text
from model.errors import InvalidArgument
from model.packages.identity import version_of
from model.text import printable

#: Column at which the text of a labelled line begins.
_WIDTH = 17
#: Maximum number of versions that are listed; more are only counted.
_MOST_VERSIONS = 6
_SEVERITIES = ("critical", "high", "medium", "low", "none", "unknown")


@click.group(cls=CommandGroup)
def advisories() -> None:
    """Read and list security advisories."""


@advisories.command("sync")
@click.argument("source", required=False)
@click.option("--osv", is_flag=True, help="Read the archive at the address in ADVISORIES.")
@click.option("--dry-run", is_flag=True, help="Read and check everything, but write nothing.")
@as_json_option
@click.pass_context
def sync_command(
    context: click.Context, source: str | None, osv: bool, dry_run: bool, as_json: bool
) -> None:
    """Read new advisories from an archive in the OSV format.

    SOURCE is a zip of OSV documents, a folder, a file or a URL. Without SOURCE, or with --osv, the
    archive at the address in the setting ADVISORIES is read. OSV publishes such an archive for
    Python packages as PyPI/all.zip in its public bucket.

    An unchanged source is not read again. Documents that cannot be ingested go to the quarantine,
    and the exit code is 1. Run the command again to continue after an interruption.
    """
    settings: Settings = context.obj
    if source is not None and osv:
        raise click.UsageError("--osv reads the archive in ADVISORIES: leave SOURCE out")
    if source is None and settings.advisories is None:
        raise click.UsageError(
            "ADVISORIES is not set. Name a SOURCE, or set ADVISORIES to the address of OSV's "
            "archive for Python packages, PyPI/all.zip in its public bucket"
        )
    place = source_argument(source if source is not None else settings.advisories or "")
    with document_progress("advisories", [place], hidden=as_json) as on_document:
        if dry_run:
            outcome = RunOutcome(check_source(place, on_document))
        else:
            outcome = run_sync(settings, place, on_document)
    report = outcome.report
    if as_json:
        print_json({"dry_run": dry_run, **outcome.as_json(advisories=report.as_json())})
    else:
        _print_report(report, dry_run=dry_run)
        print_graph_state(outcome.lag, outcome.graph_error, width=_WIDTH)
    if report.quarantined:
        context.exit(1)


@advisories.command()
@as_json_option
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """Count the known advisories and show how fresh they are."""
    with open_record(settings) as engine, relational_errors(settings), engine.connect() as record:
        counts, sources = advisory_counts(record), source_states(record)
    if as_json:
        listed = [asdict(state) | {"as_of": state.as_of.isoformat()} for state in sources]
        print_json({**asdict(counts), "sources": listed})
    else:
        _print_status(counts, sources)


@advisories.command("list")
@click.argument("subject", metavar="NAME[==VERSION]|FILE")
@as_json_option
@click.pass_context
def list_command(context: click.Context, subject: str, as_json: bool) -> None:
    """List the vulnerabilities of a package, of a version, or of all versions in a lock.

    FILE is a lock, such as requirements.txt with pins, Pipfile.lock or pylock.toml. The versions do
    not have to be recorded releases. Exit code 1 if no advisories were read, so that
    vulnerabilities are unknown.
    """
    settings: Settings = context.obj
    wanted = _wanted(subject)
    with open_record(settings) as engine, relational_errors(settings), engine.connect() as record:
        known = knows_advisories(record)
        lists = {name: vulnerabilities_of(record, *wanted[name]) for name in wanted if known}
    affected = {name: vulnerabilities for name, vulnerabilities in lists.items() if vulnerabilities}
    if as_json:
        documents = [
            {**_document(it), "package": wanted[name][0], "version": wanted[name][1]}
            for name, vulnerabilities in affected.items()
            for it in vulnerabilities
        ]
        print_json(documents if known else None)
    elif affected:
        for name, vulnerabilities in affected.items():
            _print_vulnerabilities(vulnerabilities, name if len(wanted) > 1 else "")
    elif known:
        click.echo(f"No vulnerability of {printable(subject)!r} is known here.")
    if not known:
        click.echo(f"The vulnerabilities of {printable(subject)!r} are unknown: {NO_ADVISORIES}",
                   err=as_json)  # fmt: skip
        context.exit(1)


def _wanted(subject: str) -> dict[str, tuple[str, str | None]]:
    """Name and version of each package that the argument names or a lock pins."""
    path = Path(subject)
    if (path.suffix and path.is_file()) or path.suffix in {".txt", ".lock", ".toml", ".yml"}:
        lock = read_lock_file(path)
        for warning in lock.warnings:
            print_note(warning.text)
        return {f"{it.name} {it.version}": (it.name, it.version) for it in lock.entries}
    return {subject: _named_package(subject)}


def _named_package(text: str) -> tuple[str, str | None]:
    """Name and version of ``NAME`` or ``NAME==VERSION``."""
    name, equals, version = (part.strip() for part in text.partition("=="))
    try:
        canonicalize_name(name, validate=True)
    except InvalidName:
        raise InvalidArgument(f"{name[:80]!r} is not the name of a package") from None
    if equals and version_of(version) is None:
        raise InvalidArgument(f"{version[:80]!r} is not a version by PEP 440")
    return name, version or None


def _print_report(report: AdvisoryReport, *, dry_run: bool) -> None:
    """Print the result for a source, and what to do next."""
    if report.unchanged:
        _field("advisories", "unchanged since they were last read")
    else:
        new = "can be ingested" if dry_run else "new"
        _field(
            "advisories",
            f"{report.read} read: {report.new} {new}, {report.updated} updated, "
            f"{report.known} already known, {report.quarantined} quarantined",
        )
    for label, text in _remarks(report):
        _field(label, text)
    if report.as_of is None:
        _field("source", "not recorded: no advisory about a Python package was read")
    if not dry_run:
        _field("vulnerabilities", f"{len(report.vulnerabilities)} new or changed")
        _field("versions", f"{len(report.versions)} known versions affected")
    if report.new and not report.versions and not dry_run:
        _field("next", "`thoth advise .` weighs them; `thoth advisories list FILE` checks a lock")


def _field(label: str, text: str) -> None:
    print_field(label, text, width=_WIDTH)


def _remarks(report: AdvisoryReport) -> Iterator[tuple[str, str]]:
    remarks = (
        (report.older, "older than the known ones"),
        (report.foreign, "only about other ecosystems, left out"),
        (report.withdrawn, "withdrawn"),
        (report.malformed_vectors, "CVSS vectors without a score"),
        (report.unreadable_versions, "range ends that are not versions, taken as affected"),
    )
    yield from (("", f"{count} {remark}") for count, remark in remarks if count)
    if report.mended:
        yield "quarantine", f"{report.mended} resolved"
    if report.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in report.reasons.most_common())
        yield "refused", f"{reasons}; see `thoth ingest quarantine`"


def _print_status(counts: AdvisoryCounts, sources: Sequence[SourceState]) -> None:
    by_severity = counts.vulnerabilities
    severities = ", ".join(f"{by_severity[it]} {it}" for it in _SEVERITIES if it in by_severity)
    _field("advisories", str(counts.advisories))
    _field("vulnerabilities", f"{sum(by_severity.values())}: {severities or 'none'}")
    if counts.withdrawn:
        _field("", f"{counts.withdrawn} more are withdrawn")
    _field("affected", f"{counts.versions} versions of {counts.packages} packages")
    if counts.quarantined:
        _field("quarantined", f"{counts.quarantined}; see `thoth ingest quarantine`")
    for number, state in enumerate(sources):
        as_of = moment_text(state.as_of)
        text = f"{printable(state.source)}: {state.advisories} advisories as of {as_of}"
        _field("" if number else "sources", text)
    if not sources:
        _field("sources", "none; `thoth advisories sync --osv` reads the archive in ADVISORIES")


def _print_vulnerabilities(vulnerabilities: Sequence[PackageVulnerability], title: str) -> None:
    table = Table(
        [
            Column("vulnerability"), Column("severity"), Column("affected", wraps=True),
            Column("known here", wraps=True), Column("summary", wraps=True),
        ],
        title,
    )  # fmt: skip
    for each in vulnerabilities:
        known = _versions_text(each.versions) or "none"
        ranges = ranges_text(each.packages)
        others = [alias for alias in each.aliases if alias != each.vulnerability_id]
        withdrawn = ["(withdrawn)"] if each.withdrawn_at else []
        severity = each.severity or "unknown"
        table.add(
            "\n".join((each.vulnerability_id, *others, *withdrawn)),
            severity if each.score is None else f"{severity} {each.score:g}",
            ranges,
            known,
            each.summary or "",
        )
    table.print()


def _versions_text(versions: Sequence[str]) -> str:
    return (
        ", ".join(versions)
        if len(versions) <= _MOST_VERSIONS
        else f"{len(versions)} versions, to {versions[-1]}"
    )


def ranges_text(packages: Iterable[AffectedPackage]) -> str:
    """Return affected ranges as specifiers, one per line; without ranges, the listed versions."""
    packages = tuple(packages)
    lines = {range_text(events): None for it in packages for events in it.ranges}
    if not lines:
        return _versions_text(
            tuple(dict.fromkeys(version for it in packages for version in it.versions))
        )
    return "\n".join(lines)


def _document(vulnerability: PackageVulnerability) -> dict[str, Any]:
    times = {
        name: moment.isoformat() if (moment := getattr(vulnerability, name)) else None
        for name in ("published_at", "modified_at", "withdrawn_at")
    }
    packages = [
        {
            "name": package.name,
            "ranges": [[{e.kind.value: e.version} for e in events] for events in package.ranges],
            "versions": package.versions,
        }
        for package in vulnerability.packages
    ]
    return asdict(vulnerability) | times | {"packages": packages}
