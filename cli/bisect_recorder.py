"""Writes the state of a search to the record after each block, so that pages and others see it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import click

from adviser.bisect.search import SearchState, StepSearch
from adviser.bisect.series import StackSeries, search_document
from common.settings import Settings
from graph.engine import Stores, relational_errors
from graph.migrate import migrated_stores
from graph.record.changes import Bisect, bisect_named, write_bisect
from model.errors import ProjectError
from model.redaction import scrubbed, without_secrets
from model.text import printable

#: Stored characters of a reason, such as the end of a build's log.
_MOST_CHARACTERS = 2000


def identity(state: Mapping[str, Any]) -> dict[str, str]:
    """Identifier and start of a search: those of its folder, or new ones."""
    known = state.get("bisect")
    return known or {
        "bisect_id": f"bisect-{secrets.token_hex(8)}",
        "started_at": datetime.now(UTC).isoformat(),
    }


@dataclass
class BisectRecorder:
    """Records one call of ``thoth bisect``.

    A measurement never fails because of the record: if PostgreSQL does not answer, the search goes
    on, and the next block tries again. Every write holds the whole state, so none is missing then.

    :param wanted: whether to record at all
    :param template: the search without its results
    """

    settings: Settings
    template: Bisect
    wanted: bool
    _stores: Stores | None = None
    _state: Bisect | None = None
    _opened: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Close the record at the end; a search that did not end is recorded as interrupted."""
        with self._opened:
            try:
                yield
            except BaseException as error:
                self._interrupted(error)
                raise

    def open(self) -> None:
        """Open the record."""
        if not self.wanted:
            return
        try:
            opened = self._opened.enter_context(migrated_stores(self.settings, graph=False))
        except ProjectError as error:
            self._warn(error)
            return
        self._stores = opened
        self._state = self._taken_up(opened)
        self._write(self._state)

    def _taken_up(self, stores: Stores) -> Bisect:
        """The search with the results of an earlier run, until the first block of this one."""
        try:
            with relational_errors(self.settings), stores.engine.connect() as connection:
                known = bisect_named(connection, self.template.bisect_id)
        except ProjectError as error:
            self._warn(error)
            known = None
        if known is None:
            return self.template
        return replace(
            self.template, searches=known.searches, jobs=known.jobs, packages=known.packages
        )

    def progress(self, searches: Iterable[tuple[StackSeries, StepSearch]]) -> None:
        """Write the state of all searches so far."""
        if self._stores is None:
            return
        documents = [_storable(search_document(*it)) for it in searches]
        packages = {it["package"] for it in documents if it["package"]}
        self._state = replace(
            self.template, state=documents[-1]["state"], searches=documents,
            jobs=sum(it["jobs"] for it in documents),
            packages=sorted({*self.template.packages, *packages}),
        )  # fmt: skip
        self._write(self._state)

    def _interrupted(self, error: BaseException) -> None:
        state = self._state or self.template
        if self._stores is None or state.state != SearchState.RUNNING:
            return
        text = error.message if isinstance(error, click.ClickException) else str(error)
        reason = _public(text) or None
        self._write(replace(state, state=SearchState.INTERRUPTED.value, reason=reason))

    def _write(self, bisect: Bisect) -> None:
        assert self._stores is not None  # noqa: S101 - callers checked
        try:
            with relational_errors(self.settings), self._stores.engine.begin() as connection:
                write_bisect(connection, bisect)
        except ProjectError as error:
            self._warn(error)

    @staticmethod
    def _warn(error: ProjectError) -> None:
        click.echo(printable(f"warning: the search is not recorded: {error}"), err=True)


def _storable(document: dict[str, Any]) -> dict[str, Any]:
    skipped = [{**it, "reason": _public(it["reason"], keep="\n")} for it in document["skipped"]]
    return {**document, "skipped": skipped}


def _public(text: str, *, keep: str = "") -> str:
    """A text of a build for everyone who may read searches.

    It may be long, have the password of an index, and hold characters that PostgreSQL refuses.
    """
    return scrubbed(without_secrets(printable(text, keep=keep)))[:_MOST_CHARACTERS]
