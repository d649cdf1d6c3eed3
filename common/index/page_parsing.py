"""Parses pages of the repository API, in JSON (PEP 691) and HTML (PEP 503)."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
import zstandard
from packaging.version import InvalidVersion, Version

from common.index.html_links import base_of, read_links
from common.index.page_entries import (
    UTC_TIME,
    FilenameParser,
    FilenameParts,
    file_of_entry,
    file_of_package,
    has_usual_types,
    is_readable_name,
)
from common.index.wheel_metadata import MissingSpan
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import (
    IndexFile,
    ListedVersion,
    PageContents,
    ProjectPage,
    ProjectState,
    ProjectStatus,
    contents_of,
    spelling,
    summary_of,
)
from model.redaction import cut, without_secrets

if TYPE_CHECKING:
    from pypi_simple import Link

logger = logging.getLogger(__name__)


@contextmanager
def refuse_malformed(what: str) -> Iterator[None]:
    """Turn unexpected parser errors for hostile values into ``malformed``, and log them.

    Known cases are handled where they arise; an unknown case must not end the crawl of many
    indexes. Errors of other types are bugs and propagate.

    :raises IndexProblem: ``malformed``
    """
    try:
        yield
    except (ValueError, OverflowError, MissingSpan) as error:
        kind = type(error).__name__
        logger.exception("answer_not_foreseen", extra={"what": what, "error": kind})
        raise IndexProblem(IndexFault.MALFORMED, f"{what} cannot be read: {kind}") from error


_JSON = ("application/vnd.pypi.simple.v1+json", "application/json")
_HTML = ("application/vnd.pypi.simple.v1+html", "text/html")

#: Zstandard level: 39 MB take 60 ms and a fifth of the space.
_LEVEL = 1
#: Maximum bytes of a page after decompression.
_LARGEST = 1 << 30
#: File name endings of distributions, including obsolete ones.
_DISTRIBUTIONS = (
    ".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar.z", ".tar", ".egg", ".exe",
    ".msi", ".rpm", ".deb", ".dmg",
)  # fmt: skip
#: Characters of a version, of the API or of a release; real ones are much shorter.
_LONGEST_VERSION = 255


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as it was transferred.

    :param content_type: the header's text
    :param url: after redirects; links are relative to it
    """

    body: bytes
    content_type: str
    url: str


@dataclass(frozen=True, slots=True)
class PackedPage:
    """A page as it was transferred, compressed by Zstandard. Fields as in :class:`PageText`."""

    packed: bytes
    content_type: str
    url: str

    @classmethod
    def of_text(cls, text: PageText) -> PackedPage:
        """Compress a page."""
        return cls(zstandard.compress(text.body, _LEVEL), text.content_type, text.url)

    def unpacked(self) -> PageText:
        """The page as it was transferred.

        :raises ValueError: if it cannot be decompressed
        """
        try:
            body = zstandard.decompress(self.packed, _LARGEST)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
        return PageText(body, self.content_type, self.url)

    @property
    def kind(self) -> str:
        """Content type without parameters."""
        return self.content_type.partition(";")[0].strip().lower()


def listed_page(
    name: str,
    text: PackedPage,
    as_of: datetime,
    listed: Mapping[str, ListedVersion],
    status: ProjectStatus,
    newest: Mapping[str, str],
) -> ProjectPage:
    """A page that was parsed before, with the summary that was made then.

    :param newest: as :attr:`JsonPage.newest`
    :raises ValueError: if it is not a page in JSON
    """
    base_url = base_of(text.url)
    if text.kind not in _JSON or base_url is None:
        raise ValueError("not a page in JSON")
    source = JsonPage(name, text.packed, base_url, listed, newest)
    return ProjectPage(name, as_of, source, status=status)


def parse_page(
    name: str,
    text: PageText,
    as_of: datetime,
    from_cache: bool = False,
    packed: bytes | None = None,
) -> ProjectPage:
    """Parse a page in either format.

    A page in JSON is checked and summarised; its files are read on demand.

    :param name: of the project, normalised
    :param packed: its body as :class:`PackedPage` has it, if it is at hand
    :raises IndexProblem: if it has another format, is broken, or has another major version
    """
    kind, _, parameters = text.content_type.partition(";")
    kind, base_url = kind.strip().lower(), base_of(text.url)
    with refuse_malformed(f"the page of {name}"):
        if base_url is None:
            raise _malformed(name, "has a URL that cannot be the base of others")
        if kind in _JSON:
            source = JsonPage(name, packed or PackedPage.of_text(text).packed, base_url)
            status = source.read(text.body)
            return ProjectPage(name, as_of, source, from_cache, status)
        if kind in _HTML:
            contents, status = _from_html(name, text.body, base_url, parameters)
            return ProjectPage(name, as_of, contents, from_cache, status)
    content_type = kind if kind.isprintable() and kind else "of no type"
    raise IndexProblem(IndexFault.WRONG_CONTENT_TYPE, f"the page of {name} is {cut(content_type)}")


@dataclass(slots=True)
class _ParsedJson:
    """A page in JSON, checked far enough for its files to be read one by one."""

    entries: list[Any]
    versions: list[str]
    overlong: list[str]
    api: Version
    status: ProjectStatus


def _parsed_json(name: str, body: bytes) -> _ParsedJson:
    try:
        page = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _malformed(name, f"is broken JSON: {error}") from None
    meta = page.get("meta") if isinstance(page, dict) else None
    if not isinstance(meta, dict) or not isinstance(page.get("files"), list):
        raise _malformed(name, "has no `meta` or no list of `files`")
    api = _checked_api(name, meta.get("api-version"))
    versions = page.get("versions")
    listed = [it for it in versions if isinstance(it, str)] if isinstance(versions, list) else []
    about = page.get("project-status")
    status = (
        status_of(about.get("status"), about.get("reason")) if isinstance(about, dict) else None
    )
    return _ParsedJson(
        page["files"],
        [it for it in listed if _is_version(it)],
        # Overlong versions are reported like invalid files.
        [cut(it) for it in listed if not _is_version(it)],
        api,
        status or ProjectStatus(),
    )


def status_of(state: Any, reason: Any) -> ProjectStatus:
    """State of a project; an unknown state counts as active, as PEP 792 requires."""
    known = state if isinstance(state, str) and state in set(ProjectState) else ProjectState.ACTIVE
    text = cut(without_secrets(reason)) if isinstance(reason, str) and reason.strip() else None
    return ProjectStatus(ProjectState(known), text)


class JsonPage:
    """A page in JSON; only the requested parts are read.

    Only the compressed text and the summaries are held in memory. The pages of a large project
    graph take more than 100 MB as text, and five times that as parsed objects.

    :param compressed: by Zstandard
    :param newest: the files of the versions that were uploaded last, which most callers ask for:
        for each version JSON of a list, first the version of the API, then entries of the page
    """

    def __init__(
        self,
        name: str,
        compressed: bytes,
        base_url: str,
        listed: Mapping[str, ListedVersion] | None = None,
        newest: Mapping[str, str] | None = None,
    ) -> None:
        self.compressed = compressed
        self.newest = newest or {}
        self._name = name
        self._base_url = base_url
        self._listed = listed
        self._places: Mapping[str, Sequence[int]] | None = None
        self._files: dict[str, tuple[IndexFile, ...]] = {}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the compressed text."""
        return hashlib.sha256(self.compressed).hexdigest()

    def read(self, body: bytes) -> ProjectStatus:
        """Check the page and summarise its versions.

        :raises IndexProblem: if it is broken
        """
        parsed = _parsed_json(self._name, body)
        _RECENT.keep(self, parsed, len(body))
        self._summarise(parsed)
        return parsed.status

    def listed(self) -> Mapping[str, ListedVersion]:
        """Summary of each version, in the page's order."""
        if self._listed is None:
            self._summarise(self._parsed())
        assert self._listed is not None  # noqa: S101 - just set
        return self._listed

    def files_of(self, version: str) -> tuple[IndexFile, ...]:
        """Files of a version; none if the page does not list it."""
        known = self._files.get(version)
        if known is None:
            known = self._files[version] = self._read_files(version)
        return known

    def _read_files(self, version: str) -> tuple[IndexFile, ...]:
        if version not in self.listed():
            return ()
        names = FilenameParser(self._name)
        newest = self.newest.get(version)
        if newest is not None:
            api, *entries = orjson.loads(newest)
        else:
            parsed = self._parsed()
            if self._places is None:
                self._summarise(parsed)
            assert self._places is not None  # noqa: S101 - just set
            api = str(parsed.api)
            entries = [parsed.entries[place] for place in self._places.get(version, ())]
        files: dict[str, IndexFile] = {}
        for entry in entries:
            file = file_of_entry(self._name, entry, self._base_url, Version(api), names)
            if not isinstance(file, str):
                files.setdefault(file.filename, file)
        return tuple(files.values())

    def contents(self) -> PageContents:
        """All that the page says about files."""
        parsed, names = self._parsed(), FilenameParser(self._name)
        entries = (
            file_of_entry(self._name, it, self._base_url, parsed.api, names)
            for it in parsed.entries
        )
        return contents_of(chain(entries, parsed.overlong), parsed.versions)

    def _summarise(self, parsed: _ParsedJson) -> None:
        listed, self._places = _summaries(self._name, parsed, self._base_url)
        self._listed = self._listed or listed
        api = str(parsed.api)
        self.newest = {
            version: orjson.dumps([api, *(parsed.entries[it] for it in self._places[version])])
            .decode()
            for version in _uploaded_last(listed.values())
        }  # fmt: skip

    def _parsed(self) -> _ParsedJson:
        parsed = _RECENT.get(self)
        if parsed is None:
            body = zstandard.decompress(self.compressed, _LARGEST)
            parsed = _parsed_json(self._name, body)
            _RECENT.keep(self, parsed, len(body))
        return parsed


class _RecentPages:
    """The last parsed pages, up to a total size: a page is often requested again at once."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pages: OrderedDict[JsonPage, tuple[_ParsedJson, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    def get(self, page: JsonPage) -> _ParsedJson | None:
        """The parsed page, if it is still held."""
        with self._lock:
            known = self._pages.get(page)
        return known[0] if known else None

    def keep(self, page: JsonPage, parsed: _ParsedJson, size: int) -> None:
        """Keep a page, and drop the oldest pages."""
        if size > self._most_bytes:
            return
        with self._lock:
            _, before = self._pages.pop(page, (None, 0))
            self._pages[page] = parsed, size
            self._bytes += size - before
            while self._bytes > self._most_bytes:
                _, (_, dropped) = self._pages.popitem(last=False)
                self._bytes -= dropped


_RECENT = _RecentPages(8 << 20)


#: Number of versions whose files are kept as :attr:`JsonPage.newest`.
_NEWEST = 8


def _uploaded_last(listed: Iterable[ListedVersion]) -> list[str]:
    known = [(it.uploaded_at, it.version) for it in listed if it.uploaded_at and it.file_count]
    return [version for _, version in nlargest(_NEWEST, known)]


def _summaries(
    name: str, parsed: _ParsedJson, base_url: str
) -> tuple[dict[str, ListedVersion], dict[str, list[int]]]:
    """Summary of each version, and the places of its entries in the page.

    The summary equals that of :func:`contents_of`, but takes a tenth of the time.
    """
    names = FilenameParser(name)
    spelled: dict[str, str] = {}
    for version in parsed.versions:
        spelled.setdefault(*spelling(version))
    texts: dict[str, str] = {}
    files: dict[str, list[IndexFile]] = {}
    plain: dict[str, list[tuple[FilenameParts, dict[str, Any]]]] = {}
    places: dict[str, list[int]] = {}
    seen: set[str] = set()
    for place, entry in enumerate(parsed.entries):
        parts = names.parts(entry)
        if parts is not None and has_usual_types(entry):
            filename, raw = entry["filename"], parts[0]
            if raw not in texts:
                texts[raw] = spelled.setdefault(*spelling(raw))
                files.setdefault(texts[raw], [])
                plain.setdefault(texts[raw], [])
                places.setdefault(texts[raw], [])
            places[texts[raw]].append(place)
            if filename not in seen:
                seen.add(filename)
                plain[texts[raw]].append((parts, entry))
            continue
        file = file_of_entry(name, entry, base_url, parsed.api, names)
        if isinstance(file, str):
            continue
        version = spelled.setdefault(*spelling(file.version))
        places.setdefault(version, []).append(place)
        if file.filename not in seen:
            seen.add(file.filename)
            files.setdefault(version, []).append(file)
    for version in spelled.values():
        files.setdefault(version, [])
        places.setdefault(version, [])

    def careful(version: str, others: list[IndexFile]) -> ListedVersion:
        entries = (
            file_of_entry(name, it, base_url, parsed.api, names) for _, it in plain.get(version, ())
        )
        return summary_of(version, [*others, *(it for it in entries if not isinstance(it, str))])

    summaries = {
        version: (None if others else _summary(version, plain.get(version, [])))
        or careful(version, others)
        for version, others in files.items()
    }
    return summaries, places


def _summary(
    version: str, files: list[tuple[FilenameParts, dict[str, Any]]]
) -> ListedVersion | None:
    """Summary of a version whose files are all plain; ``None`` if an upload time is invalid."""
    counted = [it for it in files if it[1].get("yanked", False) is False]
    yanked = bool(files) and not counted
    counted = counted or files
    pythons = {entry.get("requires-python") or None for _, entry in counted}
    reasons = (entry["yanked"] for _, entry in files) if yanked else ()
    # Without the final Z, times with and without fractions are in order.
    times = [entry["upload-time"][:-1] for _, entry in files if entry.get("upload-time")]
    first = min(times, default=None)
    if first is not None and not UTC_TIME.fullmatch(f"{first}Z"):
        return None
    try:
        uploaded_at = datetime.fromisoformat(f"{first}Z") if first else None
    except ValueError:
        return None
    return ListedVersion(
        version,
        len(files),
        pythons.pop() if len(pythons) == 1 else None,
        yanked,
        next((it for it in reasons if isinstance(it, str) and it), None),
        uploaded_at,
        tuple(dict.fromkeys(tags for (_, kind, tags), _ in counted if kind == "wheel")),
        any(kind == "sdist" for (_, kind, _), _ in counted),
    )


def _from_html(
    name: str, body: bytes, base_url: str, parameters: str
) -> tuple[PageContents, ProjectStatus]:
    charset = re.search(r"charset\s*=\s*[\"']?([\w.-]+)", parameters)
    about, links = read_links(body, base_url, charset[1] if charset else "utf-8")
    if "repository-version" in about:
        _checked_api(name, about["repository-version"])
    elif not any(map(_is_distribution, links)):
        # A valid page without files looks like any HTML page, such as a login page.
        raise IndexProblem(
            IndexFault.WRONG_CONTENT_TYPE,
            f"the page of {name} is not one of an index: it links to no file and names no version"
            " of the repository API",
        )
    status = status_of(about.get("project-status"), about.get("project-status-reason"))
    return contents_of(_entries_of_html(name, links), []), status


def _entries_of_html(name: str, links: Iterable[Link]) -> Iterator[IndexFile | str]:
    from pypi_simple import DistributionPackage

    for link in links:
        if not link.text:
            continue
        if not is_readable_name(link.text):
            yield cut(link.text)
            continue
        link.attrs.setdefault("data-core-metadata", link.attrs.pop("data-dist-info-metadata", ""))
        if not link.attrs["data-core-metadata"]:
            del link.attrs["data-core-metadata"]
        try:
            package = DistributionPackage.from_link(link, name)
        except ValueError:
            yield link.text
            continue
        yield file_of_package(package, name, bool(package.provenance_url) or None)


def _is_distribution(link: Link) -> bool:
    path = link.url.partition("#")[0].partition("?")[0]
    return any(it.lower().endswith(_DISTRIBUTIONS) for it in (link.text, path))


def _is_version(value: Any) -> bool:
    """Whether a text is short enough to be a version; Python refuses thousands of digits."""
    return isinstance(value, str) and len(value) <= _LONGEST_VERSION


def _checked_api(name: str, declared: Any) -> Version:
    try:
        api = Version(declared if _is_version(declared) else "")
    except InvalidVersion:
        shown = repr(cut(declared)) if isinstance(declared, str) else type(declared).__name__
        raise _malformed(name, f"has no version of the API: {shown}") from None
    if api.major != 1:
        raise IndexProblem(
            IndexFault.UNSUPPORTED_VERSION,
            f"the page of {name} is of version {cut(api)} of the repository API, not of 1.x",
        )
    return api


def _malformed(name: str, what: str) -> IndexProblem:
    return IndexProblem(IndexFault.MALFORMED, f"the page of {name} {what}")
