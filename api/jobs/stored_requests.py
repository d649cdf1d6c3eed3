"""Requests for advice and for checks of provenance, as they are stored for a worker.

Every version of the API converts request bodies to these types, which hold no credentials.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from adviser.advice_request import StackRequest
from adviser.projects.project import Project
from adviser.reports.serialization import dataclass_of, plain
from model.errors import InvalidArgument, InvalidDocument
from model.json_documents import digest

_VERSION_FIELD = "schema_version"
#: Fields that say who sends a request; requests that differ only in these are equal.
_SENDER = ("origin", "source_type")


class _StoredRequest:
    """A dataclass that is stored as a JSON object with a schema version."""

    __slots__ = ()
    SCHEMA_VERSION: ClassVar[str]

    def to_document(self) -> dict[str, Any]:
        """JSON values to store; fields without a value are left out."""
        fields = {name: value for name, value in plain(self).items() if value is not None}
        return {_VERSION_FIELD: self.SCHEMA_VERSION, **fields}

    def _content(self) -> dict[str, Any]:
        """The stored values without the sender; equal for equal requests of different senders."""
        return {name: it for name, it in self.to_document().items() if name not in _SENDER}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Restore a stored request.

        :raises InvalidArgument: if another version of the service stored it
        """
        fields = {name: value for name, value in document.items() if name != _VERSION_FIELD}
        message = "this request was stored by another version of the service: send it again"
        if document.get(_VERSION_FIELD) != cls.SCHEMA_VERSION:
            raise InvalidArgument(message)
        try:
            return dataclass_of(fields, cls)
        except InvalidDocument as error:
            raise InvalidArgument(message) from error


@dataclass(frozen=True, slots=True)
class AdviceRequest(_StoredRequest):
    """A valid request for advice.

    A worker chooses the hardware class, because the choice needs the recorded classes.

    :param asked: project, environment and options; no hardware class
    :param hardware_prefix: prefix of the digest of the hardware class
    :param described_hardware: processor and GPU as ``thamos`` describes them
    :param may_fetch: whether a worker may fetch missing packages from the configured indexes
    :param origin: address of the project; stored for the operator, never evaluated
    :param source_type: kind of client, stored likewise
    :param library_usage: names that the project uses by module, stored likewise
    """

    SCHEMA_VERSION: ClassVar[str] = "advice-request-2"

    asked: StackRequest
    hardware_prefix: str | None = None
    described_hardware: Mapping[str, Any] = field(default_factory=dict)
    may_fetch: bool = False
    origin: str | None = None
    source_type: str | None = None
    library_usage: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def cache_key(self) -> str:
        """Digest of the request; equal requests of different clients have the same digest."""
        return digest(self._content())


@dataclass(frozen=True, slots=True)
class ProvenanceRequest(_StoredRequest):
    """A valid request for a provenance check.

    :param project: with a lock in which every package is pinned
    :param requirements: the Pipfile, which the report repeats
    :param requirements_locked: the Pipfile.lock, likewise
    :param debug: part of the cache key only
    """

    SCHEMA_VERSION: ClassVar[str] = "provenance-request-2"

    project: Project
    requirements: Mapping[str, Any]
    requirements_locked: Mapping[str, Any]
    debug: bool = False
    origin: str | None = None

    def cache_key(self, allowed_indexes: Mapping[str, str]) -> str:
        """Digest of the request and the configured indexes; equal requests have the same digest.

        :param allowed_indexes: URLs by name
        """
        return digest({**self._content(), "allowed": dict(allowed_indexes)})
