"""The graph catches up while documents come in, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from common.errors import ProjectError, ProjectionFailed, StoreUnavailable

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
