"""``--fetch``: read what a request lacks from package indexes before it is answered."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from adviser.asked import Asked
    from graph.candidates import Dependency
    from graph.engine import Stores


def fetch(stores: Stores, asked: Asked, more: Iterable[Dependency] = ()) -> None:
    """Read the missing packages of a request; everything is reported on standard error.

    :param more: packages to look at besides those of the request
    """
    from adviser.answering.fetching import fetch_missing
    from cli.crawl_view import print_crawls
    from cli.packages import progress_bars
    from ingest.crawl.bounds import Bounds
    from ingest.crawl.runs import add_packages, roots_of

    def add(index: str, requirements: Sequence[str], prereleases: bool) -> bool:
        with redirect_stdout(sys.stderr), ExitStack() as stack:
            report = add_packages(
                stores.settings,
                roots_of(requirements),
                Bounds(prereleases=prereleases),
                index=index,
                watching=False,
                on_progress=progress_bars(stack, quiet=False),
            )
            stack.close()  # the bars end before the report begins
            print_crawls(report)
        return not report.unanswered

    for name, why in fetch_missing(stores, asked, add, _tell, more).items():
        _tell(f"still missing: {name}: {why}")


def _tell(line: str) -> None:
    from common.terminal import printable

    click.echo(printable(line), err=True)
