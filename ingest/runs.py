"""Runs of ingest: stores opened, documents taken in, graph brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, func, select

from common.errors import AlreadyRunning, ProjectError, ServiceFailed
from common.settings import Settings
from graph.embedded import EmbeddedStores
from graph.engine import Stores, graph_errors, relational_errors, to_stderr
from graph.migrate import migrated_stores
from graph.projection import lag, sync
from graph.repositories.quarantine import QuarantineEntry, forget, open_refusals
from graph.repositories.texts import as_named
from ingest.documents import Limits
from ingest.pipeline import IngestReport, check_inspections, ingest_inspections
from ingest.projector import BackgroundProjector

#: Key of the advisory lock of the nightly run; any number that nothing else uses.
_NIGHTLY_LOCK = 7_401_311

#: Sources were named by the operator, on the command line or in the settings.
_OPERATOR_LIMITS = Limits(allow_http=True)


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run's outcome.

    :param lag: outbox entries that the graph does not show yet; ``None`` after a dry run
    :param graph_error: why the graph could not catch up, if it could not
    """

    inspections: IngestReport
    lag: int | None = None
    graph_error: ProjectError | None = None

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            "inspection": self.inspections.as_json(),
            "graph": {
                "lag": self.lag,
                "error": str(self.graph_error) if self.graph_error else None,
            },
        }


def check(settings: Settings, sources: Sequence[str], on_document: Callable[[], None]) -> RunReport:
    """What a run would do in an empty record; no store is started or written."""
    return RunReport(check_inspections(sources, _OPERATOR_LIMITS, on_document))


def run(settings: Settings, sources: Sequence[str], on_document: Callable[[], None]) -> RunReport:
    """Take in ``sources`` while the graph catches up beside."""
    _start_side_by_side(settings)
    with open_record(settings) as engine:
        return _run(settings, engine, sources, on_document)


def run_nightly(
    settings: Settings, sources: Sequence[str], on_document: Callable[[], None]
) -> RunReport:
    """The same, and never twice at once.

    :raises AlreadyRunning: if another process, on whatever machine, is at it
    """
    _start_side_by_side(settings)
    with open_record(settings) as engine, engine.connect() as connection:
        # Held by this session: it goes with the process, however that ends.
        if not connection.scalar(select(func.pg_try_advisory_lock(_NIGHTLY_LOCK))):
            raise AlreadyRunning("another nightly run is at work")
        connection.commit()
        return _run(settings, engine, sources, on_document)


def retry_quarantine(settings: Settings, on_document: Callable[[], None]) -> RunReport:
    """Read the sources of everything in quarantine again."""
    sources = sorted({as_named(entry.source) for entry in list_quarantine(settings)})
    return run(settings, sources, on_document)


def list_quarantine(settings: Settings) -> list[QuarantineEntry]:
    """What is in quarantine, oldest first."""
    with open_record(settings) as engine, engine.connect() as connection:
        return open_refusals(connection)


def forget_refusals(settings: Settings, quarantine_ids: Sequence[int]) -> int:
    """Take entries off the list; returns how many were on it."""
    with open_record(settings) as engine, engine.begin() as connection:
        return forget(connection, quarantine_ids)


@contextmanager
def open_record(settings: Settings) -> Iterator[Engine]:
    """The record, with its schema in place; the graph is left alone."""
    with migrated_stores(settings, graph=False) as stores:
        yield stores.engine


def _start_side_by_side(settings: Settings) -> None:
    """Start both embedded stores at once: a run needs both.

    If one cannot be, the record says so when it is opened, and the graph when it is
    to catch up.
    """
    with suppress(ServiceFailed):
        EmbeddedStores(settings).start(to_stderr)


def _run(
    settings: Settings, engine: Engine, sources: Sequence[str], on_document: Callable[[], None]
) -> RunReport:
    graph = ExitStack()
    project = _projection(settings, engine, graph)
    with BackgroundProjector(project, close=graph.close) as projector:
        projector.wake()
        report = ingest_inspections(
            settings, engine, sources, _OPERATOR_LIMITS,
            on_document=on_document, on_commit=projector.wake,
        )  # fmt: skip
    return RunReport(report, lag(engine).count, projector.error)


def _projection(
    settings: Settings, engine: Engine, stack: ExitStack
) -> Callable[[Callable[[], None]], object]:
    """Projects what is pending; the graph is opened the first time."""
    opened: list[Stores] = []

    def project(got_on: Callable[[], None]) -> object:
        # Translated here: what leaves this function is looked at before the stack is left.
        with graph_errors(settings), relational_errors(settings):
            if not opened:
                opened.append(stack.enter_context(migrated_stores(settings, relational=False)))
            return sync(
                engine,
                opened[0].driver,
                database=opened[0].database,
                progress=lambda _done, _total: got_on(),
            )

    return project
