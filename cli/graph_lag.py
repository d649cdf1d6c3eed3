"""Brings the graph up to date before a command answers from it, and says if it still lags."""

from __future__ import annotations

from collections.abc import Collection

import click

from cli.console import progress_bars
from graph.engine import GRAPH, Stores
from graph.record.freshness import FEW_ENTRIES, lag_of, pending_packages
from graph.watchdog import watchdog
from model.errors import StoreUnavailable
from model.text import counted, first_few, printable

#: Longest time that a command spends on projecting, in seconds; a running batch is completed.
CATCH_UP_S = 30.0
_SHOWN_NAMES = 5


def catch_up_graph(stores: Stores, within_s: float = CATCH_UP_S) -> None:
    """Project pending changes; standard error tells the progress, and a lag that remains.

    An advice over all listed versions stores many releases and does not wait for the graph.

    :raises StoreUnavailable: if the graph does not answer
    """
    with stores.engine.connect() as connection:
        behind = lag_of(connection)
    if not behind.count:
        return
    from graph.projection import catch_up  # loads the driver, and usually nothing is pending

    if behind.count > FEW_ENTRIES:
        changes = counted(behind.count, "change")
        click.echo(f"the graph is {changes} behind the record: catching up", err=True)
    patience_s = within_s + stores.settings.query_timeout_s * 2
    with watchdog(GRAPH, patience_s) as got_on, progress_bars("changes") as bars:

        def advance(done: int, total: int) -> None:
            got_on()
            bars.update("changes", done, total)

        left = catch_up(
            stores.engine,
            stores.driver,
            within_s=within_s,
            progress=advance,
            database=stores.database,
        )
    if left.count:
        click.echo(
            f"warning: the graph is still {counted(left.count, 'change')} behind the record, the"
            f" oldest of {left.oldest_s:.0f} s ago, so the newest releases may be missing:"
            " `thoth graph sync` projects all",
            err=True,
        )


def require_projected(stores: Stores, names: Collection[str]) -> None:
    """Refuse to conclude that there is no stack while the graph lacks changes of its packages.

    :raises StoreUnavailable: if changes of one of these packages are pending
    """
    with stores.engine.connect() as connection:
        pending = pending_packages(connection, names)
    if pending:
        cause = f"changes are not projected yet: {first_few(sorted(pending), _SHOWN_NAMES)}"
        raise StoreUnavailable(GRAPH, printable(cause), "run `thoth graph sync`, then try again")
