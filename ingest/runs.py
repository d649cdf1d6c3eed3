"""Runs of ``thoth ingest``: inspections, benchmarks, the nightly run and the quarantine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.crawls import is_following, unfollowed_packages
from graph.record.documents import delete_unreferenced_bodies, find_unreferenced_bodies
from graph.record.events import EventKind, night_problems, record_problem, record_solution
from graph.record.freshness import INSPECTIONS, RECORD, add_successes, set_sources
from graph.record.packs import followed_addresses
from graph.record.postgresql_helpers import as_named
from graph.record.quarantine import QuarantineEntry, forget, open_refusals
from graph.verification.run import RecordReport, verify_record
from ingest.advisories.sync import AdvisoryReport, sync_source
from ingest.benchmarks.pipeline import BenchmarkReport, ReadOptions, ingest_benchmarks
from ingest.crawl.crawler import CrawlReport
from ingest.crawl.runs import refresh_indexes
from ingest.inspections.pipeline import (
    KIND,
    IngestReport,
    check_inspections,
    ignore_skipped,
    ingest_inspections,
)
from ingest.record import (
    RecordRun,
    RunOutcome,
    exclusive_run,
    open_record,
    recording,
    recording_on,
    start_both_stores,
)
from ingest.sources.source_items import SkippedFile, SourceLimits, stored_source
from model.errors import InvalidArgument, ProjectError

#: Key of the advisory lock of the nightly run: any number that no other lock uses.
_NIGHTLY_LOCK = 7_401_311

#: Limits for sources on the command line or in the settings, which the operator trusts.
_OPERATOR_LIMITS = SourceLimits(allow_http=True)


@dataclass(frozen=True, slots=True)
class NightlyReport:
    """Reports of the parts of a nightly run; ``None`` for a part without work.

    :param packages: one report for each index
    :param record: comparison of a part of the record with its documents
    :param packs: report of the followed addresses of evidence packs
    :param export: report of the export
    :param unfollowed_packages: packages whose new releases no run reads
    :param skipped: names of failed parts with their errors
    """

    inspections: IngestReport
    packages: tuple[CrawlReport, ...] | None = None
    advisories: AdvisoryReport | None = None
    record: RecordReport | None = None
    packs: Mapping[str, Any] | None = None
    export: Mapping[str, Any] | None = None
    unfollowed_packages: int = 0
    skipped: tuple[tuple[str, ProjectError], ...] = ()

    @property
    def problems(self) -> dict[str, object]:
        """Why a part failed, a source was not read completely, or the record differs."""
        return {
            **{stored_source(it): "could not be read" for it in self.inspections.incomplete},
            **{f"index {it.index}": it.lost for it in self.packages or () if it.lost is not None},
            **({} if self.record is None or self.record.equal else {"record": "rows differ"}),
            **(self.packs or {}).get("unread", {}),
            **dict(self.skipped),
        }

    @property
    def failed(self) -> bool:
        """Whether there is a problem."""
        return bool(self.problems)

    @property
    def clean(self) -> bool:
        """Whether nothing needs attention."""
        crawled = all(report.clean for report in self.packages or ())
        refused = self.inspections.quarantined or (self.advisories and self.advisories.quarantined)
        refused = refused or (self.packs or {}).get("refused")
        return crawled and not refused and not self.failed

    def as_json(self) -> dict[str, Any]:
        """The parts of the document that ``--json`` prints."""
        packages = None if self.packages is None else [it.as_json() for it in self.packages]
        return {
            "inspection": self.inspections.as_json(),
            "packages": packages,
            "advisory": self.advisories.as_json() if self.advisories else None,
            "record": self.record.as_json() if self.record else None,
            "packs": self.packs,
            "export": self.export,
            "unfollowed_packages": self.unfollowed_packages,
            "skipped": {name: str(error) for name, error in self.skipped},
        }


def check(
    settings: Settings,
    sources: Sequence[str],
    on_document: Callable[[], None],
    on_skipped: Callable[[SkippedFile], None] = ignore_skipped,
) -> RunOutcome[IngestReport]:
    """Report what :func:`run` would store in an empty record; no store is started."""
    return RunOutcome(check_inspections(sources, _OPERATOR_LIMITS, on_document, on_skipped))


def run(
    settings: Settings,
    sources: Sequence[str],
    on_document: Callable[[], None],
    on_skipped: Callable[[SkippedFile], None] = ignore_skipped,
) -> RunOutcome[IngestReport]:
    """Store the inspections in ``sources``, and project them to the graph in the background."""
    with recording(settings) as run:
        report = ingest_inspections(
            settings, run.engine, sources, _OPERATOR_LIMITS,
            on_document=on_document, on_skipped=on_skipped, on_commit=run.on_commit,
        )  # fmt: skip
    return run.outcome(report)


def run_benchmarks(
    settings: Settings, sources: Sequence[str], options: ReadOptions, on_file: Callable[[], None]
) -> RunOutcome[BenchmarkReport]:
    """Store and project the results of other benchmark systems; see :func:`ingest_benchmarks`."""
    with recording(settings) as run:
        report = ingest_benchmarks(
            settings, run.engine, sources, _OPERATOR_LIMITS,
            options=options, on_file=on_file, on_commit=run.on_commit,
        )  # fmt: skip
    return run.outcome(report)


#: A step of the nightly run that a higher room adds: its report, or ``None`` without work.
Step = Callable[[Settings, Engine], Mapping[str, Any] | None]


def do_nothing(settings: Settings, engine: Engine) -> None:
    """The default of steps that a caller may add."""


def run_nightly(
    settings: Settings,
    sources: Sequence[str],
    on_document: Callable[[], None],
    export: Step = do_nothing,
    on_end: Callable[[Settings, Engine], None] = do_nothing,
    read_packs: Step = do_nothing,
) -> RunOutcome[NightlyReport]:
    """Store the documents in ``sources``, then new releases, advisories and evidence packs.

    Only one such run works at a time. Afterwards, the next part of the record is compared with its
    documents, bodies without a document are deleted from the document store, and the record is
    exported. If one part fails, the other parts still run.

    :param export: exports the record if the settings ask for it, and returns a report
    :param on_end: called once it is recorded whether the run failed
    :param read_packs: adds the new packs of followed addresses
    :raises AlreadyRunning: if a nightly run is in progress, on this or another machine
    :raises InvalidArgument: if there is nothing to do: no source, no package, no advisories
    """
    start_both_stores(settings)
    with (
        open_record(settings) as engine,
        exclusive_run(engine, _NIGHTLY_LOCK, "another nightly run is in progress") as connection,
    ):
        follows, addresses = is_following(connection), followed_addresses(connection)
        connection.commit()
        if not (sources or settings.advisories or follows or addresses):
            raise InvalidArgument("INGEST_SOURCES is not set: name sources, separated by spaces")

        try:
            # People may be waiting for advice, and nobody for this run.
            with recording_on(settings, engine, in_turn=True) as run:
                report = _nightly(
                    settings, run, sources, on_document, export, read_packs, follows=follows
                )
        except Exception as error:
            with suppress(ProjectError):  # the record may be the cause
                _note_end(settings, engine, {"run": error})
                on_end(settings, engine)
            raise
        _note_end(settings, engine, report.problems)
        on_end(settings, engine)
        return run.outcome(report)


def _nightly(
    settings: Settings,
    run: RecordRun,
    sources: Sequence[str],
    on_document: Callable[[], None],
    export: Step,
    read_packs: Step,
    *,
    follows: bool,
) -> NightlyReport:
    engine, on_commit = run.engine, run.on_commit
    inspections = ingest_inspections(
        settings, engine, sources, _OPERATOR_LIMITS, on_document=on_document, on_commit=on_commit
    )
    skipped: list[tuple[str, ProjectError]] = []
    packages = advisories = record = packs = exported = None
    with _skipping("packages", skipped):
        if follows:
            packages = tuple(refresh_indexes(settings, engine, on_commit=on_commit))
    with _skipping("advisories", skipped):
        if settings.advisories is not None:
            advisories = sync_source(settings, engine, settings.advisories, on_commit=on_commit)
    with _skipping("packs", skipped):
        packs = read_packs(settings, engine)
    with _skipping("record", skipped):
        record = verify_record(
            settings, engine, seconds=settings.nightly_verify_s, on_commit=on_commit
        )
    with _skipping("documents", skipped):
        find_unreferenced_bodies(settings, engine)
        delete_unreferenced_bodies(settings, engine)
    with _skipping("export", skipped):
        exported = export(settings, engine)
    with engine.connect() as reading:
        unfollowed = unfollowed_packages(reading)
    report = NightlyReport(
        inspections, packages, advisories, record, packs, exported, unfollowed, tuple(skipped)
    )
    _note_successes(settings, engine, sources, report)
    return report


def _note_end(settings: Settings, engine: Engine, problems: Mapping[str, object]) -> None:
    """Record an event if the run failed in another way than the last run, or works again."""
    with relational_errors(settings), engine.begin() as connection:
        if problems:
            record_problem(connection, EventKind.NIGHT_FAILED, "nightly", night_problems(problems))
        else:
            record_solution(connection, EventKind.NIGHT_FAILED, "nightly")


def _note_successes(
    settings: Settings, engine: Engine, sources: Sequence[str], report: NightlyReport
) -> None:
    """Record which sources of inspections were read completely, for monitoring."""
    names = [stored_source(it) for it in sources]
    read = [stored_source(it) for it in sources if it not in report.inspections.incomplete]
    with relational_errors(settings), engine.begin() as connection:
        set_sources(connection, INSPECTIONS, names)
        add_successes(connection, INSPECTIONS, read)
        set_sources(connection, RECORD, ["record"])
        if report.record is not None and report.record.equal:
            add_successes(connection, RECORD, ["record"])


@contextmanager
def _skipping(part: str, skipped: list[tuple[str, ProjectError]]) -> Iterator[None]:
    """Add the error of a failed part to ``skipped`` and continue."""
    try:
        yield
    except ProjectError as error:
        skipped.append((part, error))


def retry_quarantine(
    settings: Settings, on_document: Callable[[], None]
) -> RunOutcome[IngestReport]:
    """Read the sources of all inspections in quarantine again.

    Other kinds of documents cannot be read again here, because the quarantine does not store the
    options of their commands.
    """
    refused = (entry for entry in list_quarantine(settings) if entry.kind == KIND)
    sources = sorted({as_named(entry.source) for entry in refused})
    return run(settings, sources, on_document)


def list_quarantine(settings: Settings) -> list[QuarantineEntry]:
    """Return the entries of the quarantine, oldest first."""
    with open_record(settings) as engine, engine.connect() as connection:
        return open_refusals(connection)


def forget_refusals(settings: Settings, quarantine_ids: Sequence[int]) -> set[int]:
    """Resolve quarantine entries; return the numbers of entries that were not resolved before."""
    with open_record(settings) as engine, engine.begin() as connection:
        return forget(connection, quarantine_ids)
