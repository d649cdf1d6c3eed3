"""Projects changes to the graph in a thread of its own while a run writes the record."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Engine

from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import Stores, graph_errors, relational_errors, to_stderr
from graph.migrate import migrated_stores
from graph.projection import lag, sync
from ingest.record import open_record
from model.errors import ProjectError, ProjectionFailed, ServiceFailed, StoreUnavailable

Report = TypeVar("Report")

logger = logging.getLogger(__name__)

#: After this time without progress, the projection is given up; a batch usually takes a second.
STALLED_AFTER_S = 120.0


class BackgroundProjector:
    """Calls ``project`` in a thread after each :meth:`wake`, and once more when the block ends.

    A failure of the graph does not stop the writer. It stays in :attr:`error`, and the pending
    entries stay in the outbox. Other errors of ``project`` are raised at the end of the block.

    :param project: projects pending entries; its argument is a function to call after each progress
    :param close: called at the end by the same thread, because other threads cannot close
        connections in use
    :param in_turn: whether :meth:`wake` waits until the entries are projected, so that the run
        keeps one processor busy at a time
    :param stalled_after_s: time without progress after which the projection is given up
    """

    def __init__(
        self,
        project: Callable[[Callable[[], None]], object],
        *,
        close: Callable[[], None] = lambda: None,
        in_turn: bool = False,
        stalled_after_s: float = STALLED_AFTER_S,
    ) -> None:
        self._project = project
        self._in_turn = in_turn
        self._close = close
        self._stalled_after_s = stalled_after_s
        self._pending = threading.Event()
        self._projected = threading.Event()
        self._stopping = False
        # A daemon, so that the process can end even if the graph never answers.
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)
        self._progress_at = time.monotonic()
        self._bug: Exception | None = None
        self._lost = False
        self.error: ProjectError | None = None

    def wake(self) -> None:
        """Start projecting new entries."""
        self._projected.clear()
        self._pending.set()
        if self._in_turn and self._thread.is_alive():
            self._note_progress()
            while not self._projected.wait(min(1.0, self._stalled_after_s)):
                if self._stalled():
                    self._in_turn = False
                    break

    def __enter__(self) -> BackgroundProjector:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopping = True
        self._note_progress()
        self._pending.set()
        if kind is not None:
            return
        while self._thread.is_alive():
            self._thread.join(min(1.0, self._stalled_after_s))
            if self._stalled():
                cause = f"no answer for {self._stalled_after_s:.0f} s"
                self.error = StoreUnavailable("the graph", cause, "see `thoth status`")
                return
        if self._bug is not None:
            raise self._bug

    def _note_progress(self) -> None:
        self._progress_at = time.monotonic()

    def _stalled(self) -> bool:
        return time.monotonic() - self._progress_at > self._stalled_after_s

    def _run(self) -> None:
        try:
            self._project_until_stopped()
        finally:
            self._projected.set()
            self._close()

    def _project_until_stopped(self) -> None:
        last = False
        while not (last or self._lost):
            self._pending.wait()
            self._pending.clear()
            last = self._stopping
            try:
                self._project(self._note_progress)
            except ProjectError as error:
                logger.warning("graph_behind", extra={"cause": str(error)})
                self.error = error
                # If the graph refuses some entries, it still accepts others.
                self._lost = not isinstance(error, ProjectionFailed)
            except Exception as error:
                self._bug, self._lost = error, True
            if not self._pending.is_set():
                self._projected.set()


@dataclass(frozen=True, slots=True)
class RunOutcome(Generic[Report]):
    """Report of a run, and the state of the graph after the run.

    :param lag: number of pending outbox entries; ``None`` after a dry run
    :param graph_error: why the projection failed, if it did
    """

    report: Report
    lag: int | None = None
    graph_error: ProjectError | None = None

    def as_json(self, **parts: Any) -> dict[str, Any]:
        """The document that ``--json`` prints.

        :param parts: keys and values of the report
        """
        error = str(self.graph_error) if self.graph_error else None
        return {**parts, "graph": {"lag": self.lag, "error": error}}


@dataclass(slots=True)
class RecordRun:
    """A run that writes the record while :func:`recording` projects its changes.

    :param on_commit: to be called after each commit; starts the projection of new entries
    :param lag: number of pending outbox entries at the end of the run
    :param graph_error: why the projection failed, if it did
    """

    engine: Engine
    on_commit: Callable[[], None]
    lag: int | None = None
    graph_error: ProjectError | None = None

    def outcome(self, report: Report) -> RunOutcome[Report]:
        """``report`` with the state of the graph after the run."""
        return RunOutcome(report, self.lag, self.graph_error)


@contextmanager
def recording(settings: Settings) -> Iterator[RecordRun]:
    """Start both stores, open the record, and project in the background what the block commits."""
    start_both_stores(settings)
    with open_record(settings) as engine, recording_on(settings, engine) as run:
        yield run


@contextmanager
def recording_on(
    settings: Settings, engine: Engine, *, in_turn: bool = False
) -> Iterator[RecordRun]:
    """:func:`recording` on a record that is open.

    :param in_turn: as for :class:`BackgroundProjector`
    """
    with background_projection(settings, engine, in_turn=in_turn) as projector:
        run = RecordRun(engine, projector.wake)
        yield run
    run.lag, run.graph_error = lag(engine).count, projector.error


def start_both_stores(settings: Settings) -> None:
    """Start both embedded stores in parallel.

    If a store fails to start, the error is raised later, when the store is opened.
    """
    with suppress(ServiceFailed):
        EmbeddedStores(settings).start(to_stderr)


@contextmanager
def background_projection(
    settings: Settings, engine: Engine, *, in_turn: bool = False
) -> Iterator[BackgroundProjector]:
    """Project pending entries after each :meth:`BackgroundProjector.wake`, and at the end.

    The thread opens the graph for the first projection.
    """
    graph = ExitStack()
    project = _projection(settings, engine, graph)
    with BackgroundProjector(project, close=graph.close, in_turn=in_turn) as projector:
        projector.wake()
        yield projector


def _projection(
    settings: Settings, engine: Engine, stack: ExitStack
) -> Callable[[Callable[[], None]], object]:
    opened: list[Stores] = []

    def project(note_progress: Callable[[], None]) -> object:
        # Errors are translated here, because the projector handles them before the stack is closed.
        with graph_errors(settings), relational_errors(settings):
            if not opened:
                opened.append(stack.enter_context(migrated_stores(settings, relational=False)))
            return sync(
                engine,
                opened[0].driver,
                database=opened[0].database,
                progress=lambda _done, _total: note_progress(),
                may_rebuild=settings.graph_rebuild,
            )

    return project
