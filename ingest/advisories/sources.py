"""Sources of advisories: downloads them, or reads an archive without a store.

A source that has not changed is recognised and not read again.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, cast
from urllib.parse import urlsplit

import orjson
from packaging.utils import canonicalize_name

from common.http.fetching import Fetcher, FetchLimits, FetchRequest
from graph.record.advisories import SourceState
from ingest.advisories.osv import advisory_of
from ingest.sources.reader import documents_in_file, documents_of
from ingest.sources.source_items import (
    MEBIBYTE,
    RawDocument,
    RefusedDocument,
    SkippedFile,
    SourceLimits,
    check_url,
    local_path,
    source_argument,
    stored_source,
)
from model.advisories import Advisory, AffectedPackage, Vulnerability, merge_advisories
from model.errors import (
    IndexFault,
    IndexProblem,
    InvalidArgument,
    InvalidDocument,
    StoreUnavailable,
)
from model.json_documents import digest_bytes, load_json
from model.json_fields import Fields
from model.measurements.inspection import DocumentId
from model.text import first_few

#: Size limit for an advisory; the longest advisories have some hundred kilobytes.
LIMITS = SourceLimits(document_bytes=16 * MEBIBYTE)
#: Size limit of a download: twice the size of the archive of all ecosystems.
MOST_BYTES = 2048 * MEBIBYTE
#: Name of the server in messages.
_WHAT = "the source of advisories"
#: Time limit for all attempts together, so that a slow server does not hold up the nightly run.
_DEADLINE_S = 900.0
_PAUSE_S = 0.5
_LONGEST_RETRY_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Validators:
    """Headers by which a server identifies the version of a response."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a conditional request."""
        named = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Fetched:
    """A downloaded archive.

    :param path: path of the archive; ``None`` if the known version is still current
    :param as_of: time of the response
    """

    path: Path | None
    validators: Validators
    as_of: datetime


def fetch_archive(
    url: str, known: Validators, folder: Path, *, most_bytes: int = MOST_BYTES, what: str = _WHAT
) -> Fetched:
    """Download ``url`` into ``folder``, unless the version ``known`` is still current.

    Temporary failures are retried. The host of ``url`` may have a private address. Redirects may
    only lead back to that host, or to public addresses.

    :param what: names the server in messages
    :raises StoreUnavailable: if the server does not answer with an archive
    """
    try:
        return asyncio.run(_fetch(url, known, folder, most_bytes))
    except TimeoutError as error:
        raise _unavailable(what, url, f"takes longer than {_DEADLINE_S:g} s") from error
    except IndexProblem as error:
        message = error.message
        if error.code is IndexFault.ADDRESS_REFUSED:
            message = "redirected to a private address; name that address if this is intended"
        raise _unavailable(what, url, message) from error
    except ValueError as error:
        raise _unavailable(what, url, str(error) or type(error).__name__) from error


def _unavailable(what: str, url: str, cause: str) -> StoreUnavailable:
    source = stored_source(url)
    return StoreUnavailable(
        what,
        cause if cause.startswith(source) else f"{source}: {cause}",
        "try again later, or use a file instead",
    )


async def _fetch(url: str, known: Validators, folder: Path, most_bytes: int) -> Fetched:
    limits = FetchLimits(
        connections=1,
        silence_s=30.0,
        deadline_s=_DEADLINE_S,
        pause_s=_PAUSE_S,
        retry_after_s=_LONGEST_RETRY_AFTER_S,
    )
    # HTTPS on the same host is still the same server.
    private_hosts = (f"{urlsplit(url).hostname}:443",)
    fetcher = Fetcher(url, "advisories", limits, private_hosts=private_hosts)
    part = folder / "fetched"
    try:
        with part.open("w+b") as body:
            request = FetchRequest(
                url,
                stored_source(url),
                {200: most_bytes, 304: 0},
                cast(BinaryIO, body),
                {"Accept-Encoding": "gzip", **known.headers},
                # The shared deadline expires first.
                deadline_s=2 * _DEADLINE_S,
            )
            async with asyncio.timeout(_DEADLINE_S):
                response = await fetcher.fetch(request)
            start = body.read(2)
    finally:
        await fetcher.aclose()
    as_of = datetime.now(UTC)
    if response.status == HTTPStatus.NOT_MODIFIED:
        part.unlink()
        return Fetched(None, known, as_of)
    suffix = {b"PK": ".zip", b"\x1f\x8b": ".tar.gz"}.get(start, ".json")
    validators = Validators(response.headers.get("etag"), response.headers.get("last-modified"))
    return Fetched(part.replace(part.with_suffix(suffix)), validators, as_of)


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source of advisories that was opened for reading.

    :param documents: ``None`` if the source has not changed
    :param validators: headers of the server's response
    :param sha256: hash of an archive or a single file
    :param as_of: time of this version of the source
    """

    documents: Iterator[RawDocument | RefusedDocument] | None
    validators: Validators
    sha256: str | None
    as_of: datetime


@contextmanager
def opened_source(source: str, known: SourceState | None = None) -> Iterator[OpenedSource]:
    """Open ``source`` for reading within the ``with`` block.

    :param source: a folder, a file, an archive or a URL
    :param known: state of the source when it was last read
    :raises StoreUnavailable: if a server does not answer
    """
    if source.partition("://")[0] in ("http", "https"):
        with TemporaryDirectory(prefix="thoth-advisories-") as folder:
            yield _fetched(source, known, Path(folder))
        return
    path = Path(local_path(source) or "")
    # Hashing the whole file costs less than parsing its content.
    digest = _sha256(path) if local_path(source) is not None and path.is_file() else None
    as_of = datetime.fromtimestamp(path.stat().st_mtime, UTC) if digest else datetime.now(UTC)
    unchanged = digest is not None and known is not None and known.sha256 == digest
    documents = None if unchanged else documents_of(source, LIMITS)
    yield OpenedSource(documents, Validators(), digest, as_of)


def _fetched(source: str, known: SourceState | None, folder: Path) -> OpenedSource:
    try:
        check_url(source)
    except InvalidDocument as error:
        refused = iter([RefusedDocument(stored_source(source), error)])
        return OpenedSource(refused, Validators(), None, datetime.now(UTC))
    # The query of a URL is not stored, so the known state may belong to another URL.
    same_url = known is not None and stored_source(source) == source
    before = Validators(known.etag, known.last_modified) if known and same_url else Validators()
    answer = fetch_archive(source, before, folder)
    if answer.path is None:
        return OpenedSource(None, before, known.sha256 if known else None, answer.as_of)
    digest = _sha256(answer.path)
    unchanged = known is not None and known.sha256 == digest
    items = () if unchanged else documents_in_file(answer.path, stored_source(source), LIMITS)
    documents = (
        RefusedDocument(stored_source(source), it) if isinstance(it, InvalidDocument) else it
        for it in items
        if not isinstance(it, SkippedFile)
    )
    return OpenedSource(None if unchanged else documents, answer.validators, digest, answer.as_of)


def _sha256(path: Path) -> str | None:
    """Return the hash of a file; ``None`` if it is unreadable, because the reader reports that."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


class AdvisoryArchive:
    """The vulnerabilities of packages, by the documents of one source.

    :param source: a zip file, a folder, a single document, or the URL of such a file
    :ivar as_of: time of the source
    :ivar refused: by place in the source, why a document is left out; documents about packages
        that nobody requests are only checked to be JSON
    :raises InvalidArgument: if it has no advisory
    :raises StoreUnavailable: if a server does not answer
    """

    def __init__(self, source: str) -> None:
        self._documents: dict[str, list[RawDocument]] = defaultdict(list)
        self.refused: dict[str, InvalidDocument] = {}
        with opened_source(source_argument(source)) as opened:
            self.as_of = opened.as_of
            for raw in opened.documents or ():
                try:
                    if isinstance(raw, RefusedDocument):
                        raise raw.error
                    for name in _names_in(raw.data or b""):
                        self._documents[name].append(raw)
                except InvalidDocument as error:
                    self.refused[raw.place] = error
        if not self._documents:
            why = [f"{place or 'the source'}: {error.message} [{error.reason}]"
                   for place, error in sorted(self.refused.items())]  # fmt: skip
            readable = f" that can be read: {first_few(why, 3)}" if why else ""
            raise InvalidArgument(f"{source}: it has no advisory about a package{readable}")

    def about(self, name: str) -> list[tuple[Vulnerability, list[AffectedPackage]]]:
        """The vulnerabilities of a package that were not withdrawn, with its affected versions."""
        newest: dict[str, Advisory] = {}
        for raw in self._documents.get(name, ()):
            try:
                value, canonical = load_json(raw.data or b"")
                document = DocumentId(digest_bytes(canonical))
                advisory = advisory_of(value, canonical, document, datetime.now(UTC))
            except InvalidDocument as error:
                self.refused[raw.place] = error
                continue
            known = newest.setdefault(advisory.head.advisory_id, advisory)
            newest[advisory.head.advisory_id] = max(known, advisory, key=lambda it: it.head.age)
        claims = {
            key: [] if it.head.withdrawn_at else [one for one in it.packages if one.name == name]
            for key, it in newest.items()
        }
        merged = merge_advisories([it.head for it in newest.values()])
        return [(it, [one for key in it.advisory_ids for one in claims[key]]) for it in merged]


def _names_in(data: bytes) -> set[str]:
    """The packages that a document may be about; their documents are parsed when asked for."""
    try:
        record = Fields(orjson.loads(data))
    except orjson.JSONDecodeError:
        record = Fields(load_json(data)[0])  # it says what is wrong, or reads it
    names = (it.nested("package").text("name") for it in record.each("affected"))
    return {canonicalize_name(it) for it in names if it}
