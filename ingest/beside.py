"""Runs that write the record while the graph catches up beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from sqlalchemy import Engine

from common.errors import ServiceFailed
from common.settings import Settings
from graph.embedded.stores import EmbeddedStores
from graph.engine import Stores, graph_errors, relational_errors, to_stderr
from graph.migrate import migrated_stores
from graph.projection import sync
from ingest.projector import BackgroundProjector


def start_side_by_side(settings: Settings) -> None:
    """Start both embedded stores at once: a run needs both.

    If one cannot be, the record says so when it is opened, and the graph when it is
    to catch up.
    """
    with suppress(ServiceFailed):
        EmbeddedStores(settings).start(to_stderr)


@contextmanager
def graph_beside(settings: Settings, engine: Engine) -> Iterator[BackgroundProjector]:
    """Projects what is pending whenever it is woken, and the rest when it is left.

    The graph is opened the first time; why it could not catch up is in ``error``.
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
