"""``--fetch``: what a request lacks is read by ``thoth packages add`` before it is answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from adviser.asked import Asked
    from graph.candidates import Dependency
    from graph.engine import Stores


def fetch(
    context: click.Context, stores: Stores, asked: Asked, more: Iterable[Dependency] = ()
) -> None:
    """Read what is not known of a request; all that is told goes to standard error."""
    from adviser.answering.fetching import fetch_missing
    from common.cli import run_beside

    def add(arguments: Sequence[str]) -> int:
        return run_beside(context, "packages", "add", *arguments)

    for name, why in fetch_missing(stores, asked, add, _tell, more).items():
        _tell(f"still missing: {name}: {why}")


def _tell(line: str) -> None:
    from common.terminal import printable

    click.echo(printable(line), err=True)
