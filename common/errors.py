"""What can go wrong, as types that carry data.

::

    ProjectError
    ├── InvalidDocument      a document cannot be taken in: reason code, place, field
    ├── IncomparableSamples  two samples differ in unit or hardware
    ├── StoreUnavailable     PostgreSQL, the graph or the document store does not answer
    ├── SchemaMismatch       a store's schema and this code do not fit together
    ├── QueryRefused         a store refused an analyst's query, or a limit ended it
    ├── ServiceFailed        an embedded store could not be started or stopped
    ├── ProjectionFailed     the graph refuses rows of the record
    ├── AlreadyRunning       another process does what only one may do at a time
    ├── InvalidArgument      what a command was given cannot be used
    └── InvalidSettings      a setting cannot be used as it is

An error's text says what was wrong, and where a remedy is known, ``hint`` names it.
"""

from __future__ import annotations


class ProjectError(Exception):
    """Base of every error that a command or the API reports to a person."""

    hint: str | None = None


class InvalidDocument(ProjectError):
    """A document that cannot be taken in.

    :param reason: stable reason code, one of :class:`common.reasons.Reason`
    :param message: what was wrong, for a person
    :param field: JSON path of the offending field, ``$`` for the whole document
    :param place: where inside the source, such as a member of an archive
    """

    def __init__(self, reason: str, message: str, *, field: str = "$", place: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.place = place

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.field}: {self.message} [{self.reason}]"


class IncomparableSamples(ProjectError):
    """Two samples that differ in unit, indicator or hardware class."""


class StoreUnavailable(ProjectError):
    """A store does not answer.

    :param store: its name for a person, such as ``PostgreSQL``
    :param cause: the driver's words, without credentials
    :param hint: what to do about it
    """

    def __init__(self, store: str, cause: str, hint: str) -> None:
        super().__init__(f"{store} is unavailable: {cause}")
        self.store = store
        self.hint = hint


class SchemaMismatch(ProjectError):
    """A store's schema is newer or older than this code can work with."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class QueryRefused(ProjectError):
    """A store refused a query, or ended it at a limit of time or rows."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ServiceFailed(ProjectError):
    """An embedded store could not be started or stopped."""

    def __init__(self, service: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"{service}: {message}")
        self.service = service
        self.hint = hint


class ProjectionFailed(ProjectError):
    """The graph refuses rows of the record; the rest of the outbox was projected."""

    def __init__(self, entries: list[str], cause: str) -> None:
        named = ", ".join(entries[:3]) + (" …" if len(entries) > 3 else "")
        super().__init__(
            f"the graph refuses {len(entries)} of the record's entries: {named}: {cause}"
        )
        self.entries = entries
        self.hint = "they stay in the outbox; `thoth graph sync` tries them again"


class AlreadyRunning(ProjectError):
    """Another process does what only one may do at a time."""


class InvalidArgument(ProjectError):
    """What a command was given and cannot use."""


class InvalidSettings(ProjectError):
    """A setting that cannot be used as it is; the text names the variable."""
