"""Errors that carry data, and stable reason codes of refused documents.

::

    ProjectError
    ├── InvalidDocument
    ├── IncomparableSamples
    ├── StoreUnavailable
    │   ├── GraphMismatch
    │   ├── GraphOutOfMemory
    │   └── DocumentStoreMismatch
    ├── DamagedDocument
    ├── SchemaMismatch
    ├── QueryRefused
    ├── ServiceFailed
    ├── ProjectionFailed
    ├── AlreadyRunning
    ├── NoSpace
    ├── IndexProblem
    ├── InvalidArgument
    │   └── InvalidFile, also an InvalidDocument
    │       └── InvalidPack
    └── InvalidSettings
        └── AccessDenied

The text of an error says what is wrong; ``hint`` says what to do about it.
"""

from enum import StrEnum
from functools import partial
from typing import Any

from model.text import first_few


class Reason(StrEnum):
    """Reason codes of refused documents; the values are stored and never renamed."""

    EMPTY_FILE = "empty_file"
    EMPTY_FOLDER = "empty_folder"
    UNREADABLE = "unreadable"
    FILE_TOO_LARGE = "file_too_large"
    NOT_UTF8 = "not_utf8"
    INVALID_JSON = "invalid_json"
    TRUNCATED_JSON = "truncated_json"
    NUL_CHARACTER = "nul_character"
    LONE_SURROGATE = "lone_surrogate"
    NOT_A_NUMBER = "not_a_number"
    INFINITE = "infinite"
    DUPLICATE_KEY = "duplicate_key"
    NESTED_TOO_DEEP = "nested_too_deep"
    UNKNOWN_SCHEMA = "unknown_schema"
    FOREIGN_BENCHMARK = "foreign_benchmark"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    CONFLICTING_FIELDS = "conflicting_fields"
    RATE_NEGATIVE = "rate_negative"
    RATE_ZERO = "rate_zero"
    RATE_OVERFLOW = "rate_overflow"
    RATE_IMPLAUSIBLE = "rate_implausible"
    UNKNOWN_UNIT = "unknown_unit"
    FUTURE_TIMESTAMP = "future_timestamp"
    INVALID_VERSION = "invalid_version"
    INVALID_REQUIREMENT = "invalid_requirement"
    UNRESOLVED = "unresolved"
    ARCHIVE_BROKEN = "archive_broken"
    ARCHIVE_BOMB = "archive_bomb"
    ARCHIVE_PATH = "archive_path"
    ELF_BROKEN = "elf_broken"
    INVALID_TOML = "invalid_toml"
    INVALID_YAML = "invalid_yaml"
    INCLUDE_MISSING = "include_missing"
    INCLUDE_CYCLE = "include_cycle"
    TAMPERED = "tampered"


class ProjectError(Exception):
    """Base of every error that a command or the API reports to a person.

    :param hint: what to do about it, if something is known to help
    """

    hint: str | None = None

    def __init__(self, *message: object, hint: str | None = None) -> None:
        super().__init__(*message)
        if hint is not None:
            self.hint = hint


class InvalidDocument(ProjectError):
    """A document is refused.

    :param field: JSON path of the offending field, ``$`` for the whole document
    :param place: place inside the source, such as the member of an archive
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        field: str = "$",
        place: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.message = message
        self.field = field
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies in other processes; exceptions with keywords cannot be copied by default."""
        keywords: dict[str, Any] = {"field": self.field, "place": self.place, "hint": self.hint}
        return partial(type(self), **keywords), (self.reason, self.message)

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.field}: {self.message} [{self.reason}]"


class IncomparableSamples(ProjectError):
    """Two samples have different comparison keys, so they were not measured alike."""


class StoreUnavailable(ProjectError):
    """A store does not answer.

    :param store: its name for a person, such as ``PostgreSQL``
    :param cause: message of the driver, without credentials
    :param transient: the same transaction may succeed if it is repeated at once
    """

    def __init__(self, store: str, cause: str, hint: str, *, transient: bool = False) -> None:
        super().__init__(f"{store} is unavailable: {cause}", hint=hint)
        self.store = store
        self.transient = transient


class GraphMismatch(StoreUnavailable):
    """The graph was projected from another state of the record, so its nodes may be wrong."""

    def __init__(self) -> None:
        super().__init__(
            "the graph",
            "it was not projected from this record: one of the two was restored, emptied or"
            " replaced",
            "run `thoth graph rebuild`",
        )


class GraphOutOfMemory(StoreUnavailable):
    """The embedded graph ended because its heap was full.

    :param memory_mb: size of the heap
    """

    def __init__(self, memory_mb: int) -> None:
        super().__init__(
            "the graph",
            f"a query needed more than its {memory_mb} MB of memory",
            "let the query collect or return less, or raise GRAPH_MEMORY_MB",
        )


class DocumentStoreMismatch(StoreUnavailable):
    """The document store is not the one in which this record stores large bodies.

    :param location: an object of this record that the store lacks
    """

    def __init__(self, location: str) -> None:
        super().__init__(
            "the document store",
            f"it is not the one of this record: it has no {location}",
            "set DOCUMENT_STORE_URL of all servers and workers to one store that all of them share;"
            " if it was moved, copy all its objects",
        )


class DamagedDocument(ProjectError):
    """The stored body of a document does not match its identifier.

    :param cause: what is wrong with the body, for a person
    """

    hint = (
        "restore it from a backup, or deliver it again after `thoth record verify`, which lists"
        " every damaged document"
    )

    def __init__(self, document_id: str, cause: str) -> None:
        super().__init__(f"document {document_id} is damaged: {cause}")
        self.document_id = document_id
        self.cause = cause


class SchemaMismatch(ProjectError):
    """The schema of a store is newer or older than this code supports.

    :param newer: a later release migrated the store; its steps keep what this code reads
    :param older: an earlier release migrated PostgreSQL, and this code can read a part of it
    """

    def __init__(
        self, message: str, hint: str, *, newer: bool = False, older: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.newer = newer
        self.older = older


class QueryRefused(ProjectError):
    """A store refused a query, or ended it because of a limit on time or rows."""


class ServiceFailed(ProjectError):
    """An embedded store could not be started or stopped."""

    def __init__(self, service: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"{service}: {message}", hint=hint)
        self.service = service


class ProjectionFailed(ProjectError):
    """The graph refused rows of the record; the rest of the outbox was projected."""

    hint = "they stay in the outbox; `thoth graph sync` tries them again"

    def __init__(self, entries: list[str], cause: str) -> None:
        named = f"{len(entries)} of the record's entries: {first_few(entries, 3)}"
        super().__init__(f"the graph refuses {named}: {cause}")
        self.entries = entries


class AlreadyRunning(ProjectError):
    """Another process is already doing what only one process may do at a time."""


class NoSpace(ProjectError):
    """The disk of a file to write is full."""


class IndexFault(StrEnum):
    """Why a request to an index failed; the value is stored and never renamed."""

    #: The index does not have the project or the file.
    NOT_FOUND = "not_found"
    #: Credentials are missing or refused.
    UNAUTHORIZED = "unauthorized"
    #: Any other HTTP status that is not a success.
    HTTP_STATUS = "http_status"
    #: No answer, or not all of it, in time.
    TIMEOUT = "timeout"
    #: The host name does not resolve, or nothing listens on the port.
    UNREACHABLE = "unreachable"
    #: The response ended early.
    TRUNCATED = "truncated"
    #: The response, compressed or not, exceeds the size limit.
    TOO_LARGE = "too_large"
    #: Neither of the two formats of the repository API.
    WRONG_CONTENT_TYPE = "wrong_content_type"
    #: A page, an archive or its metadata is broken.
    MALFORMED = "malformed"
    #: An unknown major version of the repository API.
    UNSUPPORTED_VERSION = "unsupported_version"
    #: A redirect to another scheme than HTTP, or from HTTPS to HTTP.
    REDIRECT_REFUSED = "redirect_refused"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    #: A redirect or a link to a private address that is not the index's own.
    ADDRESS_REFUSED = "address_refused"
    #: The file differs from the hash or size on the index's page.
    HASH_MISMATCH = "hash_mismatch"
    SIZE_MISMATCH = "size_mismatch"
    #: The metadata is in a large file, and the server does not support range requests.
    NO_RANGE = "no_range"


class IndexProblem(ProjectError):
    """A request to a package index, or to another server, failed.

    :param code: stable code for scripts
    :param message: for a person, without credentials
    :param retryable: whether the same request may succeed later
    :param retry_after_s: seconds that the server asked to wait, if it did
    :param status: HTTP status, if there was a response
    """

    def __init__(
        self,
        code: IndexFault,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        status: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class NotRead(ProjectError):
    """The answer is unknown, because something was not read from an index."""

    hint = "--fetch reads it if its index answers"


class InvalidArgument(ProjectError):
    """An argument of a command is invalid."""


class InvalidFile(InvalidDocument, InvalidArgument):
    """A file that was given to a command or a request is invalid.

    :param place: name of the file
    :param field: path of the field, or ``line 3``
    """

    def __str__(self) -> str:
        if self.field == "$" and self.place:
            return f"{self.place}: {self.message} [{self.reason}]"
        return super().__str__()


class InvalidPack(InvalidFile):
    """An evidence pack is refused whole.

    :param place: where the pack is
    :param field: name of the file in it, or a path in its manifest
    """

    hint = "get the pack from its source again; a changed pack is never used in part"


class InvalidSettings(ProjectError):
    """The value of a setting is invalid; the message names the variable."""


class AccessDenied(InvalidSettings):
    """The user of a store may not do what a command needs."""
