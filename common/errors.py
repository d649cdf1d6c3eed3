"""What can go wrong, as types that carry data.

::

    ProjectError
    ├── InvalidDocument      a document cannot be taken in: reason code, place, field
    ├── IncomparableSamples  two samples differ in unit or hardware
    ├── StoreUnavailable     PostgreSQL, the graph or the document store does not answer
    ├── DamagedDocument      a stored body is not the one that its identifier names
    ├── SchemaMismatch       a store's schema and this code do not fit together
    ├── QueryRefused         a store refused an analyst's query, or a limit ended it
    ├── ServiceFailed        an embedded store could not be started or stopped
    ├── ProjectionFailed     the graph refuses rows of the record
    ├── AlreadyRunning       another process does what only one may do at a time
    ├── IndexProblem         a package index did not give what it was asked for
    ├── InvalidArgument      what a command was given cannot be used
    │   └── InvalidFile      a file among it: an InvalidDocument, too
    └── InvalidSettings      a setting cannot be used as it is

An error's text says what was wrong, and where a remedy is known, ``hint`` names it.
"""

from __future__ import annotations

from enum import StrEnum


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


class DamagedDocument(ProjectError):
    """The stored body of a document is not the one that its identifier names.

    :param cause: what is wrong with the body, for a person
    """

    def __init__(self, document_id: str, cause: str) -> None:
        super().__init__(f"document {document_id} is damaged: {cause}")
        self.document_id = document_id
        self.cause = cause
        self.hint = (
            "restore it from a backup, or deliver it again after `thoth record verify`, which lists"
            " every damaged document"
        )


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


class IndexFault(StrEnum):
    """What went wrong between an index and us; the value is stored and never renamed."""

    #: The index does not have the project or the file.
    NOT_FOUND = "not_found"
    #: It asks for credentials, or refuses those it was given.
    UNAUTHORIZED = "unauthorized"
    #: Any other HTTP status that is no answer.
    HTTP_STATUS = "http_status"
    #: Nothing, or too little, came in time.
    TIMEOUT = "timeout"
    #: Its name is not known, or nobody listens there.
    UNREACHABLE = "unreachable"
    #: The answer ended before its end.
    TRUNCATED = "truncated"
    #: The answer, packed or unpacked, is larger than what is read of such a thing.
    TOO_LARGE = "too_large"
    #: Neither of the two formats of an index's page.
    WRONG_CONTENT_TYPE = "wrong_content_type"
    #: A page, an archive or its metadata is broken.
    MALFORMED = "malformed"
    #: A major version of the repository API that this code does not know.
    UNSUPPORTED_VERSION = "unsupported_version"
    #: Sent on to something that is not HTTP, or from HTTPS to HTTP.
    REDIRECT_REFUSED = "redirect_refused"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    #: Sent to a private address that is not the index's own.
    ADDRESS_REFUSED = "address_refused"
    #: What came is not what the index's page promised.
    HASH_MISMATCH = "hash_mismatch"
    SIZE_MISMATCH = "size_mismatch"
    #: The metadata is in a large file, of which the server gives no parts.
    NO_RANGE = "no_range"


class IndexProblem(ProjectError):
    """A package index did not give what it was asked for.

    :param code: what went wrong; scripts match it
    :param message: for a person, without credentials
    :param retryable: whether the same request may well succeed later
    :param retry_after_s: how long the index asked to be left alone, if it did
    :param status: of the HTTP answer, if there was one
    """

    def __init__(
        self,
        code: IndexFault,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class InvalidArgument(ProjectError):
    """What a command was given and cannot use."""


class InvalidFile(InvalidDocument, InvalidArgument):
    """A file that a command was given and cannot use: nothing was to be taken in."""


class InvalidSettings(ProjectError):
    """A setting that cannot be used as it is; the text names the variable."""
