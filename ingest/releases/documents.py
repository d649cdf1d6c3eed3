"""Reads the releases in a document: one release, or the many in the result of a solver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from common.errors import InvalidDocument
from common.formats.fields import as_record
from common.formats.json_documents import load_json
from common.reasons import Reason
from common.releases import Release
from ingest.personal_data import scrub_words
from ingest.releases.parsing import release_of
from ingest.releases.solver import SolverResult, is_solver_document
from ingest.sources.documents import RawDocument, RefusedDocument

#: Characters of a message that are stored.
_LONGEST = 10_000
_NO_ADDRESSES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ParsedRelease:
    """A release of a document.

    :param as_of: when the index described it so, if the document says
    """

    release: Release
    as_of: datetime | None


def parse_releases(
    raw: RawDocument,
    *,
    addresses: Mapping[str, str] = _NO_ADDRESSES,
    now: datetime | None = None,
) -> Iterator[ParsedRelease | RefusedDocument]:
    """Yield the releases in ``raw`` in their order; a document's content never raises an error.

    :param addresses: names of indexes by their URL
    :param now: later times are refused
    """
    moment = datetime.now(UTC) if now is None else now
    try:
        for release, as_of in _releases_in(raw, addresses, moment):
            if isinstance(release, InvalidDocument):
                yield _refusal(raw, release)
            else:
                yield ParsedRelease(release, as_of)
    except InvalidDocument as error:
        yield _refusal(raw, error)


def _releases_in(
    raw: RawDocument, addresses: Mapping[str, str], now: datetime
) -> Iterator[tuple[Release | InvalidDocument, datetime | None]]:
    if raw.data is None:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, "an inspection; `thoth ingest inspections` takes those"
        )
    value, _ = load_json(raw.data)
    document = as_record(value, "$")
    if is_solver_document(document):
        result = SolverResult(document, addresses, now)
        as_of = result.as_of()
        for release in result.releases():
            yield release, as_of
    elif "name" in document and "version" in document:
        yield release_of(document, now=now), None
    else:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA,
            "neither a release, with `name` and `version`, nor a solver's result, with a `tree`",
        )


def _refusal(raw: RawDocument, error: InvalidDocument) -> RefusedDocument:
    """Refuse a document; message and field may quote private data, which is removed here."""
    message, field = scrub_words(error.message, _LONGEST), scrub_words(error.field, _LONGEST)
    return RefusedDocument(
        raw.source, InvalidDocument(error.reason, message, field=field, place=raw.place)
    )
