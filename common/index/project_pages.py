"""Pages of the repository API, in JSON (PEP 691) and HTML (PEP 503), as files by version."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import orjson
from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage, Link

from common.errors import IndexFault, IndexProblem
from common.index.html_links import base_of, read_links
from common.index.partial_zip import MissingSpan
from common.redaction import cut
from common.releases import as_json_time, kind_of_file


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file of a project, as the index's page names it.

    :param version: normalised by PEP 440, or as in the file's name if it is no version
    :param kind: ``wheel``, ``sdist`` or ``other``, as :func:`common.releases.kind_of_file`
    :param sha256: hexadecimal digits in lower case; ``None`` if the page has no such hash
    :param metadata_sha256: of the metadata file offered beside it; empty text if it is
        offered without a hash, ``None`` if it is not offered (PEP 658)
    :param attested: whether attestations are offered (PEP 740); ``None`` if the page cannot say
    :param url: where it is; may hold a token, so it is neither shown nor stored
    """

    filename: str
    version: str
    kind: str
    sha256: str | None
    size_bytes: int | None = None
    requires_python: str | None = None
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None
    metadata_sha256: str | None = None
    attested: bool | None = None
    url: str = field(default="", repr=False, compare=False)

    def as_document(self) -> dict[str, Any]:
        """The file as release documents write it."""
        return {
            "filename": self.filename,
            "sha256": self.sha256,
            "size": self.size_bytes,
            "requires_python": self.requires_python,
            "yanked": self.yanked,
            "yanked_reason": self.yanked_reason,
            "upload_time": as_json_time(self.uploaded_at),
            "metadata_sha256": self.metadata_sha256,
            "attested": self.attested,
        }


@dataclass(frozen=True, slots=True)
class ProjectPage:
    """All files of one project, as the index said at ``as_of``.

    :param name: normalised
    :param releases: files by version, in the page's order; a version that is none by PEP 440
        keeps the text it has in file names, and one that is only named (PEP 700) has no files
    :param digest: of what the page says of ``files``, whatever their order and addresses;
        :data:`NO_FILES` if there are none
    :param as_of: when the index said so, or last confirmed it (this machine's clock, UTC)
    :param from_cache: whether the page was not transferred again: it was young enough, or the
        index confirmed it
    :param skipped: names of files that belong to no version of this project, and of entries
        that cannot be read
    :param conflicts: files that are listed with two hashes, of which the first counts: version,
        name, first hash and the other
    """

    name: str
    releases: Mapping[str, tuple[IndexFile, ...]]
    digest: str
    as_of: datetime
    from_cache: bool = False
    skipped: tuple[str, ...] = ()
    conflicts: tuple[tuple[str, str, str, str], ...] = ()

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """All files, by version and in the page's order."""
        return tuple(file for files in self.releases.values() for file in files)


def page_of(
    name: str,
    entries: Iterable[IndexFile | str],
    versions: Iterable[str],
    as_of: datetime,
    from_cache: bool = False,
) -> ProjectPage:
    """Put files together by version; the first of two of one name counts.

    :param entries: files, and the names of what cannot be one
    :param versions: as the index writes them, which decides between spellings such as
        ``1.0`` and ``1.0.0``; otherwise the first file does. Those without files come last
    """
    spelled: dict[str, str] = {}
    for version in versions:
        spelled.setdefault(*spelling(version))
    files: dict[str, IndexFile] = {}
    skipped: list[str] = []
    conflicts: dict[tuple[str, str, str, str], None] = {}
    releases: dict[str, list[IndexFile]] = {}
    for entry in entries:
        if isinstance(entry, str):
            skipped.append(entry)
            continue
        first = files.setdefault(entry.filename, entry)
        version = spelled.setdefault(*spelling(entry.version))
        if first is entry:
            releases.setdefault(version, []).append(entry)
            continue
        skipped.append(entry.filename)
        if first.sha256 and entry.sha256 and first.sha256 != entry.sha256:
            conflicts[version, entry.filename, first.sha256, entry.sha256] = None
    for version in spelled.values():
        releases.setdefault(version, [])
    return ProjectPage(
        name=name,
        releases={version: tuple(files) for version, files in releases.items()},
        digest=_digest(files.values(), sorted(conflicts)),
        as_of=as_of,
        from_cache=from_cache,
        skipped=tuple(skipped),
        conflicts=tuple(conflicts),
    )


def spelling(version: str) -> tuple[str, str]:
    """What a version is known as, and how it is written: equal ones have one key.

    The key is text, as a page can be full of numbers that hash to the same.
    """
    try:
        known = Version(version)
    except InvalidVersion:
        return version, version
    return canonicalize_version(known), str(known)


def _digest(files: Iterable[IndexFile], conflicts: Iterable[tuple[str, ...]] = ()) -> str:
    described = sorted((it.as_document() for it in files), key=lambda it: str(it["filename"]))
    said = orjson.dumps([*described, *conflicts])
    return f"sha256:{hashlib.sha256(said).hexdigest()}"


#: Digest of a page that lists no file.
NO_FILES = _digest(())


logger = logging.getLogger(__name__)


@contextmanager
def as_malformed(what: str) -> Iterator[None]:
    """Blame the answer for values that its parsers cannot take, and log where they could not.

    Each known case is seen to where it arises; one index must not end a crawl of many by
    the next. Errors of other types are our own and pass.

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

#: What names of distributions end with, those of old kinds too.
_DISTRIBUTIONS = (
    ".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar.z", ".tar", ".egg", ".exe",
    ".msi", ".rpm", ".deb", ".dmg",
)  # fmt: skip
#: Names of files are shorter than this on every file system that they could be kept on.
_LONGEST_NAME = 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: What a file can be used without; left out where it is broken.
_NEEDED = ("filename", "url", "hashes", "yanked")
#: From this version of the JSON API on, a file without attestations is one that has none.
_ATTESTED_SINCE = Version("1.3")
#: Characters of a version, of the API or of a release; no real one has half as many.
_LONGEST_VERSION = 255


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as it was transferred.

    :param content_type: the header's text
    :param url: where it was in the end; links are relative to it
    """

    body: bytes
    content_type: str
    url: str


def parse_page(name: str, text: PageText, as_of: datetime, from_cache: bool = False) -> ProjectPage:
    """Read a page in either format.

    :param name: of the project, normalised
    :raises IndexProblem: if it is in neither, is broken, or of another major version
    """
    with as_malformed(f"the page of {name}"):
        entries, versions = _read(name, text)
        return page_of(name, entries, versions, as_of, from_cache)


def _read(name: str, text: PageText) -> tuple[Iterable[IndexFile | str], list[str]]:
    kind, _, parameters = text.content_type.partition(";")
    kind, base_url = kind.strip().lower(), base_of(text.url)
    if base_url is None:
        raise _malformed(name, "has no address that others could be relative to")
    if kind in _JSON:
        return _from_json(name, text.body, base_url)
    if kind in _HTML:
        return _from_html(name, text.body, base_url, parameters), []
    said = kind if kind.isprintable() and kind else "of no type"
    raise IndexProblem(IndexFault.WRONG_CONTENT_TYPE, f"the page of {name} is {cut(said)}")


def _from_json(
    name: str, body: bytes, base_url: str
) -> tuple[Iterable[IndexFile | str], list[str]]:
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
    entries = (_entry_of_json(name, it, base_url, api) for it in page["files"])
    # What is no version for its length alone is told as are files that cannot be read.
    return chain(entries, (cut(it) for it in listed if not _is_version(it))), [
        it for it in listed if _is_version(it)
    ]


def _entry_of_json(name: str, entry: Any, url: str, api: Version) -> IndexFile | str:
    if not isinstance(entry, dict) or not _is_readable(entry.get("filename")):
        named = entry.get("filename") if isinstance(entry, dict) else None
        return cut(named) if isinstance(named, str) and named else "(an entry without a name)"
    # What PEP 714 renamed; and an address of attestations is kept as a yes or no.
    given = {"core-metadata": entry.get("dist-info-metadata")} | entry
    attested = bool(given.pop("provenance", None))
    package = _package(given, name, url)
    known = attested or api >= _ATTESTED_SINCE or "provenance" in entry
    return _file(package, name, attested if known else None) if package else str(entry["filename"])


def _package(entry: dict[str, Any], name: str, url: str) -> DistributionPackage | None:
    for given in (entry, {key: entry[key] for key in _NEEDED if key in entry}):
        try:
            return DistributionPackage.from_json_data(given, name, url)
        except ValueError:
            continue
    return None


def _from_html(name: str, body: bytes, base_url: str, parameters: str) -> Iterator[IndexFile | str]:
    charset = re.search(r"charset\s*=\s*[\"']?([\w.-]+)", parameters)
    api, links = read_links(body, base_url, charset[1] if charset else "utf-8")
    if api is not None:
        _checked_api(name, api)
    elif not any(map(_is_distribution, links)):
        # The standards ask nothing of a page without files: so does a page for logging in.
        raise IndexProblem(
            IndexFault.WRONG_CONTENT_TYPE,
            f"the page of {name} is HTML and no index's: it links to no file and names no version"
            " of the repository API",
        )
    for link in links:
        if not link.text:
            continue
        if not _is_readable(link.text):
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
        yield _file(package, name, bool(package.provenance_url) or None)


def _is_distribution(link: Link) -> bool:
    path = link.url.partition("#")[0].partition("?")[0]
    return any(it.lower().endswith(_DISTRIBUTIONS) for it in (link.text, path))


def _is_readable(filename: Any) -> bool:
    """Whether a name can be taken apart in a time that does not grow with its dashes."""
    if not isinstance(filename, str) or not 0 < len(filename) <= _LONGEST_NAME:
        return False
    return filename.isprintable() and (
        not filename.endswith(".whl") or filename.count("-") in (4, 5)
    )


def _file(package: DistributionPackage, name: str, attested: bool | None) -> IndexFile | str:
    if package.version is None or canonicalize_name(package.project or "") != name:
        return package.filename
    size = package.size
    return IndexFile(
        filename=package.filename,
        version=spelling(package.version)[1],
        kind=kind_of_file(package.filename),
        sha256=_sha256_in(package.digests),
        size_bytes=size if size is not None and 0 <= size < 1 << 63 else None,
        requires_python=package.requires_python,
        yanked=package.is_yanked,
        yanked_reason=package.yanked_reason or None,
        uploaded_at=_in_utc(package.upload_time),
        metadata_sha256=(_sha256_in(package.metadata_digests or {}) or "")
        if package.has_metadata
        else None,
        attested=attested,
        url=package.url,
    )


def _in_utc(moment: datetime | None) -> datetime | None:
    """``None`` also where the calendar has no such moment in UTC."""
    try:
        return moment and moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        return None


def _sha256_in(digests: Mapping[str, str]) -> str | None:
    digest = digests.get("sha256", "").lower()
    return digest if _SHA256.fullmatch(digest) else None


def _is_version(said: Any) -> bool:
    """Whether it may be one; numbers of thousands of digits are refused by Python."""
    return isinstance(said, str) and len(said) <= _LONGEST_VERSION


def _checked_api(name: str, declared: Any) -> Version:
    try:
        api = Version(declared if _is_version(declared) else "")
    except InvalidVersion:
        said = repr(cut(declared)) if isinstance(declared, str) else type(declared).__name__
        raise _malformed(name, f"has no version of the API: {said}") from None
    if api.major != 1:
        raise IndexProblem(
            IndexFault.UNSUPPORTED_VERSION,
            f"the page of {name} is of version {cut(api)} of the repository API, not of 1.x",
        )
    return api


def _malformed(name: str, what: str) -> IndexProblem:
    return IndexProblem(IndexFault.MALFORMED, f"the page of {name} {what}")
