"""Runs that write the record while the graph catches up in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

from sqlalchemy import Engine

from common.errors import ProjectError, ProjectionFailed, ServiceFailed, StoreUnavailable
from common.settings import Settings
from graph.embedded.stores import EmbeddedStores
from graph.engine import Stores, graph_errors, relational_errors, to_stderr
from graph.migrate import migrated_stores
from graph.projection import lag, sync
from ingest.record import open_record

Report = TypeVar("Report")

logger = logging.getLogger(__name__)

#: A batch takes a second; a store that is busy with something else, some more.
PATIENCE_S = 120.0


class BackgroundProjector:
    """Runs ``project`` once after each :meth:`wake`, and once more when it is left.

    Ingest never waits for the graph and never fails for it: why the graph could not
    take something in is remembered in :attr:`error`, and the outbox keeps what it missed.
    A bug is raised when the block is left.

    :param project: is given a function to call whenever it got on
    :param close: called when nothing more will be projected, by the thread that projected:
        a connection in use cannot be closed by another
    :param patience_s: a projection that gets on no further for so long is given up
    """

    def __init__(
        self,
        project: Callable[[Callable[[], None]], object],
        *,
        close: Callable[[], None] = lambda: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._project = project
        self._close = close
        self._patience_s = patience_s
        self._pending = threading.Event()
        self._stopping = False
        # A daemon: a graph that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)
        self._got_on_at = time.monotonic()
        self._bug: Exception | None = None
        self._lost = False
        self.error: ProjectError | None = None

    def wake(self) -> None:
        """There is something new to project."""
        self._pending.set()

    def __enter__(self) -> BackgroundProjector:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping = True
        self._got_on()
        self._pending.set()
        if kind is not None:
            return
        while self._thread.is_alive():
            self._thread.join(min(1.0, self._patience_s))
            if time.monotonic() - self._got_on_at > self._patience_s:
                cause = f"no answer for {self._patience_s:.0f} s"
                self.error = StoreUnavailable("the graph", cause, "see `thoth status`")
                return
        if self._bug is not None:
            raise self._bug

    def _got_on(self) -> None:
        self._got_on_at = time.monotonic()

    def _run(self) -> None:
        try:
            self._project_until_left()
        finally:
            self._close()

    def _project_until_left(self) -> None:
        last = False
        while not (last or self._lost):
            self._pending.wait()
            self._pending.clear()
            last = self._stopping
            try:
                self._project(self._got_on)
            except ProjectError as error:
                logger.warning("graph_behind", extra={"cause": str(error)})
                self.error = error
                # Rows that the graph refuses do not keep the next ones from it.
                self._lost = not isinstance(error, ProjectionFailed)
            except Exception as error:
                self._bug, self._lost = error, True


@dataclass(frozen=True, slots=True)
class RunOutcome(Generic[Report]):
    """What a run did to the record, and how far the graph is.

    :param lag: outbox entries that the graph does not show yet; ``None`` after a dry run
    :param graph_error: why the graph could not catch up, if it could not
    """

    report: Report
    lag: int | None = None
    graph_error: ProjectError | None = None

    def as_json(self, **parts: Any) -> dict[str, Any]:
        """The document that ``--json`` prints.

        :param parts: the report, by the document's keys
        """
        error = str(self.graph_error) if self.graph_error else None
        return {**parts, "graph": {"lag": self.lag, "error": error}}


def run_on_record(
    settings: Settings, work: Callable[[Engine, Callable[[], None]], Report]
) -> RunOutcome[Report]:
    """Open the record, and run ``work`` as :func:`run_with_projection` does."""
    start_both_stores(settings)
    with open_record(settings) as engine:
        return run_with_projection(settings, engine, work)


def run_with_projection(
    settings: Settings, engine: Engine, work: Callable[[Engine, Callable[[], None]], Report]
) -> RunOutcome[Report]:
    """Run ``work`` while the graph catches up, and project the rest afterwards.

    :param work: is given the record and a function to call after each commit
    """
    with background_projection(settings, engine) as projector:
        report = work(engine, projector.wake)
    return RunOutcome(report, lag(engine).count, projector.error)


def start_both_stores(settings: Settings) -> None:
    """Start both embedded stores at once.

    A store that cannot be started is reported later: the record when it is opened, the graph
    when it is to catch up.
    """
    with suppress(ServiceFailed):
        EmbeddedStores(settings).start(to_stderr)


@contextmanager
def background_projection(settings: Settings, engine: Engine) -> Iterator[BackgroundProjector]:
    """Project pending entries whenever the projector is woken, and the rest at the end.

    The graph is opened the first time; ``error`` says why it could not catch up.
    """
    graph = ExitStack()
    with BackgroundProjector(_projection(settings, engine, graph), close=graph.close) as projector:
        projector.wake()
        yield projector


def _projection(
    settings: Settings, engine: Engine, stack: ExitStack
) -> Callable[[Callable[[], None]], object]:
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
