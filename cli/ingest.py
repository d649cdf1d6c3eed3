"""``thoth ingest``: inspections, results of benchmarks, the nightly run and the quarantine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Engine

from adviser.exports.parquet import export_nightly
from cli.console import (
    Column,
    Table,
    print_field,
    print_graph_state,
    print_json,
    progress_bars,
    shown,
)
from cli.options import CommandGroup, NamedPath, as_json_option, key_and_value
from cli.packages_view import print_crawl
from cli.project_files import read_lock_file
from common.settings import Settings
from graph.record.quarantine import QuarantineEntry
from ingest.benchmarks.pipeline import BenchmarkReport, ReadOptions, known_system
from ingest.benchmarks.user_metadata import stated_facts
from ingest.inspections.pipeline import IngestReport, ignore_skipped
from ingest.record import RunOutcome
from ingest.runs import (
    NightlyReport,
    check,
    forget_refusals,
    list_quarantine,
    retry_quarantine,
    run,
    run_benchmarks,
    run_nightly,
)
from ingest.sources.reader import count_hint
from ingest.sources.source_items import SkippedFile, source_argument
from loop.notices import deliver_notices
from loop.pack_exchange import read_followed_addresses
from model.errors import GraphMismatch, ProjectError
from model.redaction import absolute_source
from model.text import counted, counts_text, printable

#: Exit code of a nightly run that did all its work, but refused documents.
REFUSED = 6


@click.group(cls=CommandGroup)
def ingest() -> None:
    """Ingest inspections and results of benchmarks, and list refused documents."""


@ingest.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--dry-run", is_flag=True, help="Read and check everything, but write nothing.")
@click.option("--list-skipped", is_flag=True, help="List the files that are not inspections.")
@as_json_option
@click.pass_context
def inspections(
    context: click.Context,
    sources: tuple[str, ...],
    dry_run: bool,
    list_skipped: bool,
    as_json: bool,
) -> None:
    """Ingest inspections from files, folders, archives and URLs.

    SOURCE is a file, a folder, a .tar.gz, a .zip or a URL such as s3://bucket/prefix. Inspections
    are recognised by their content, whatever their file name. Other files are skipped and counted;
    for results of another benchmark, the output names that benchmark.

    Documents with the same content are stored only once. Documents that cannot be ingested go to
    the quarantine, and the exit code is 1. Run the command again to continue after an interruption.
    """
    paths = [source_argument(source) for source in sources]
    skipped: list[SkippedFile] | None = [] if list_skipped else None
    on_skipped = ignore_skipped if skipped is None else skipped.append
    with document_progress("inspections", paths, hidden=as_json) as on_document:
        outcome = (check if dry_run else run)(context.obj, paths, on_document, on_skipped)
    _finish(context, outcome, as_json=as_json, dry_run=dry_run, skipped=skipped)


@ingest.command("benchmarks")
@click.argument("sources", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--system", metavar="KEY", help="Read every file as a result of this benchmark system."
)
@click.option(
    "--metadata",
    multiple=True,
    metavar="KEY=VALUE",
    help="Software and hardware that files of vLLM, SGLang and llm-d do not name:"
    " vllm=VERSION, accelerator=NAME, accelerators=COUNT and others. Repeatable.",
)
@click.option(
    "--lock",
    type=NamedPath(path_type=Path),
    help="The lock of the environment in which the engine ran.",
)
@as_json_option
@click.pass_context
def ingest_benchmark_results(
    context: click.Context,
    sources: tuple[str, ...],
    system: str | None,
    metadata: tuple[str, ...],
    lock: Path | None,
    as_json: bool,
) -> None:
    """Ingest result files of other benchmark systems, such as MLPerf or DeepBench.

    PATH is a file, a folder, a .tar.gz or a .zip. Archives in a folder are read, too. The system of
    a file is recognised by its content. A result is stored once, whatever its path. Refused files
    go to the quarantine, and the exit code is 1. `thoth benchmarks` lists the results.
    """
    paths = [source_argument(source) for source in sources]
    chosen = None if system is None else known_system(system)
    entries = () if lock is None else read_lock_file(lock).entries
    pairs = [key_and_value(it, "--metadata") for it in metadata]
    stated = stated_facts(pairs, [(it.name, it.version) for it in entries])
    with document_progress("files", [], hidden=as_json) as on_file:
        outcome = run_benchmarks(context.obj, paths, ReadOptions(chosen, stated), on_file)
    report = outcome.report
    if as_json:
        print_json(outcome.as_json(**report.as_json()))
    else:
        _print_benchmarks(report)
        print_graph_state(outcome.lag, outcome.graph_error)
    if report.quarantined:
        context.exit(1)


def _print_benchmarks(report: BenchmarkReport) -> None:
    print_field("files", f"{report.files} read, {report.skipped.total()} skipped")
    total = report.results.total()
    print_field(
        "results",
        f"{total} in {counted(report.entries, 'entry', 'entries')}: {report.new} new, "
        f"{report.known} already known, {report.failed} without a value",
    )
    for key, count in report.results.most_common():
        print_field("", f"{key}: {count}")
    for reason, count in report.skipped.most_common():
        print_field("skipped", f"{reason}: {count}")
    if report.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in report.reasons.most_common())
        print_field("refused", f"{reasons}; see `thoth ingest quarantine`")


@ingest.command()
@as_json_option
@click.pass_context
def nightly(context: click.Context, as_json: bool) -> None:
    """Ingest all sources, new releases, advisories and evidence packs.

    Run this command once a night. The nightly run reads the sources in INGEST_SOURCES, new releases
    of all known packages, if ADVISORIES is set, new advisories, and the addresses of `thoth pack
    follow`. For NIGHTLY_VERIFY_S seconds,
    the run compares stored rows with their documents; the next run continues with the next
    documents. If EXPORT_FOLDER is set, the run exports the record there as Parquet files.

    Exit code 6 if documents were refused or other items need a check, 1 if a part failed or the
    graph was not projected from this record, 5 if another nightly run is in progress.
    """
    settings: Settings = context.obj
    # A missing source is quarantined, so that the other sources are still read.
    paths = [absolute_source(source) for source in settings.ingest_sources]
    with document_progress("inspections", paths, hidden=as_json) as on_document:
        outcome = run_nightly(
            settings, paths, on_document, export_nightly, _send_notices, read_followed_addresses
        )
    report = outcome.report
    if as_json:
        print_json({"dry_run": False, **outcome.as_json(**report.as_json())})
    else:
        _print_inspections(report.inspections, dry_run=False)
        _print_nightly_parts(report)
        print_graph_state(outcome.lag, outcome.graph_error)
    if report.failed or isinstance(outcome.graph_error, GraphMismatch):
        context.exit(1)
    if not report.clean:
        context.exit(REFUSED)


def _send_notices(settings: Settings, engine: Engine) -> None:
    """Send the notices of the run, since a machine with a cron line may have no worker."""
    if not (settings.webhooks or settings.notice_targets):
        return
    try:
        unusable = list(deliver_notices(engine, settings).unusable.values())
    except ProjectError as error:
        unusable = [str(error)]
    for reason in unusable:
        click.echo(f"warning: {reason}", err=True)


@ingest.command()
@click.option("--retry", is_flag=True, help="Read the sources of the listed inspections again.")
@click.option(
    "--forget", type=int, multiple=True, metavar="ID", help="Remove an entry from the quarantine."
)
@as_json_option
@click.pass_context
def quarantine(context: click.Context, retry: bool, forget: tuple[int, ...], as_json: bool) -> None:
    """List refused documents, each with the reason and the field."""
    settings: Settings = context.obj
    if forget:
        forgotten = forget_refusals(settings, forget)
        click.echo(f"{len(forgotten)} of {len(forget)} removed from the list.", err=True)
        if unknown := sorted(set(forget) - forgotten):
            raise ProjectError(f"not on the list: {', '.join(map(str, unknown))}")
    if retry:
        with document_progress("inspections", [], hidden=as_json) as on_document:
            outcome = retry_quarantine(settings, on_document)
        _finish(context, outcome, as_json=as_json)
        return
    entries = list_quarantine(settings)
    if as_json:
        print_json([_entry_json(entry) for entry in entries])
    else:
        _print_quarantine(entries)


@contextmanager
def document_progress(
    name: str, sources: Sequence[str], *, hidden: bool = False
) -> Iterator[Callable[[], None]]:
    """Return a function to call after each document, which moves a progress bar.

    :param sources: sources of the documents; those that can be counted give the total
    """
    with progress_bars(name, hidden=hidden) as bars:
        total = None
        if bars.visible:
            counts = [count_hint(source) for source in sources]
            total = sum(filter(None, counts)) if counts and None not in counts else None
        yield lambda: bars.advance(name, total)


def _finish(
    context: click.Context,
    outcome: RunOutcome[IngestReport],
    *,
    as_json: bool,
    dry_run: bool = False,
    skipped: Sequence[SkippedFile] | None = None,
) -> None:
    if as_json:
        listed = {} if skipped is None else {"skipped_files": [asdict(file) for file in skipped]}
        report = outcome.as_json(inspection=outcome.report.as_json())
        print_json({"dry_run": dry_run, **report, **listed})
    else:
        print_ingest(outcome, dry_run=dry_run, skipped=skipped)
    if outcome.report.quarantined:
        context.exit(1)


def print_ingest(
    outcome: RunOutcome[IngestReport],
    *,
    dry_run: bool = False,
    skipped: Sequence[SkippedFile] | None = None,
) -> None:
    """Print the result of an ingest, and what to do next.

    :param skipped: skipped files to list
    """
    _print_inspections(outcome.report, dry_run=dry_run, skipped=skipped)
    print_graph_state(outcome.lag, outcome.graph_error)


def _print_inspections(
    report: IngestReport, *, dry_run: bool, skipped: Sequence[SkippedFile] | None = None
) -> None:
    new = "can be ingested" if dry_run else "new"
    print_field(
        "inspections",
        f"{report.read} read: {report.new} {new}, {report.known} already known, "
        f"{report.quarantined} quarantined",
    )
    outcomes = f": {counts_text(report.observations)}" if report.observations else ""
    print_field(
        "observations",
        f"{report.observations.total()} {new}{outcomes}; {report.observations_known} already known",
    )
    if report.stacks_unknown:
        print_field("", f"{counted(report.stacks_unknown, 'inspection')} without a stack")
    if report.mended:
        print_field("quarantine", f"{report.mended} resolved")
    if report.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in report.reasons.most_common())
        print_field("refused", reasons + ("" if dry_run else "; see `thoth ingest quarantine`"))
    if report.skipped:
        _print_skipped(report, skipped)


def _print_skipped(report: IngestReport, files: Sequence[SkippedFile] | None) -> None:
    total = counted(
        report.skipped.total(), "file that is not an inspection", "files that are not inspections"
    )
    print_field("skipped", total)
    for reason, count in report.skipped.most_common():
        print_field("", f"{reason}: {count}")
    if files is None:
        print_field("", "`thoth ingest inspections --list-skipped` lists them")
    for file in files or ():
        print_field("", f"{printable(f'{file.source}/{file.place}')}: {file.reason}")


def _print_nightly_parts(report: NightlyReport) -> None:
    for crawl in report.packages or ():
        print_crawl(crawl)
    if report.unfollowed_packages:
        number = counted(report.unfollowed_packages, "package")
        print_field(
            "packages", f"{number} not refreshed: no earlier command read them from an index"
        )
        print_field("", "`thoth packages add NAME` reads them, also later")
    if report.advisories is not None:
        advisories = report.advisories
        print_field(
            "advisories",
            f"{advisories.read} read: {advisories.new} new, {advisories.updated} updated, "
            f"{advisories.quarantined} quarantined; {len(advisories.versions)} releases affected",
        )
    if report.packs is not None:
        print_followed(report.packs)
    if report.record is not None:
        record = report.record
        differ = "all equal"
        if record.tampered:
            differ = f"{record.tampered} differ; see `thoth ingest quarantine`"
        print_field("record", f"{record.documents.total()} documents compared: {differ}")
    if report.export is not None:
        rows = sum(table["rows"] for table in report.export["tables"])
        print_field("export", f"{counted(rows, 'row')} written to {report.export['folder']}")
    for name, error in report.skipped:
        print_field(name, f"not done: {error}", err=True)


def print_followed(report: Mapping[str, Any]) -> None:
    """Print a report on followed addresses, given as JSON values."""
    addresses = counted(report["addresses"], "address", "addresses")
    print_field("packs", f"{counted(len(report['added']), 'pack')} added from {addresses}")
    for name in report["added"]:
        print_field("", shown(name))
    for kind in ("refused", "unread"):
        for name, reason in report[kind].items():
            print_field(kind, shown(f"{name}: {reason}"))


def _print_quarantine(entries: Sequence[QuarantineEntry]) -> None:
    if not entries:
        click.echo("The quarantine is empty.")
        return
    table = Table(
        [
            Column("id", right=True), Column("reason"), Column("where", wraps=True),
            Column("field", wraps=True), Column("problem", wraps=True), Column("tries", right=True),
        ]
    )  # fmt: skip
    for entry in entries:
        where = "\n".join(filter(None, (entry.source, entry.place)))
        table.add(
            str(entry.quarantine_id), entry.reason, where, entry.field, entry.message,
            str(entry.attempts),
        )  # fmt: skip
    table.print()


def _entry_json(entry: QuarantineEntry) -> dict[str, Any]:
    return {
        "id": entry.quarantine_id,
        "kind": entry.kind,
        "source": entry.source,
        "place": entry.place,
        "reason": entry.reason,
        "field": entry.field,
        "message": entry.message,
        "attempts": entry.attempts,
        "first_seen_at": entry.first_seen_at.isoformat(),
        "last_seen_at": entry.last_seen_at.isoformat(),
    }
