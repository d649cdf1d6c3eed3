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
    """One file of a project, from the index's page.

    :param version: normalised by PEP 440, or as in the file's name if it is no version
    :param kind: ``wheel``, ``sdist`` or ``other``, as :func:`common.releases.kind_of_file`
    :param sha256: hexadecimal digits in lower case; ``None`` if the page has no such hash
    :param metadata_sha256: of the separate metadata file (PEP 658); empty if it has no hash,
        ``None`` if there is no such file
    :param attested: whether attestations exist (PEP 740); ``None`` if unknown
    :param url: may contain a token, so it is neither shown nor stored
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
        """The file as in a release document; the page's digest is computed from it."""
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
    """All files of one project, as of the time ``as_of``.

    :param name: normalised
    :param releases: files by version, in the page's order; a version that violates PEP 440 is kept
        as in file names, and one that is only listed (PEP 700) has no files
    :param digest: of ``files``, independent of their order and URLs; :data:`NO_FILES` if there
        are none
    :param as_of: when the index sent or last confirmed the page (this machine's clock, UTC)
    :param from_cache: whether the page was not transferred again, because it was recent enough or
        the index confirmed it
    :param skipped: names of files that belong to no version of this project, and of invalid entries
    :param conflicts: version, name, first and other hash of files that are listed with two hashes;
        the first one counts
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
    """Group files by version; of two files with one name the first counts.

    :param entries: files, and names of invalid entries
    :param versions: listed by the index, whose spelling wins over that of files, such as ``1.0``
        over ``1.0.0``; versions without files come last
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
    """Key and spelling of a version; equal versions have the same key.

    The key is text, because a hostile page can contain many versions with colliding hashes.
    """
    try:
        known = Version(version)
    except InvalidVersion:
        return version, version
    return canonicalize_version(known), str(known)


def _digest(files: Iterable[IndexFile], conflicts: Iterable[tuple[str, ...]] = ()) -> str:
    described = sorted((it.as_document() for it in files), key=lambda it: str(it["filename"]))
    content = orjson.dumps([*described, *conflicts])
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


#: Digest of a page that lists no file.
NO_FILES = _digest(())


logger = logging.getLogger(__name__)


@contextmanager
def as_malformed(what: str) -> Iterator[None]:
    """Turn unexpected parser errors for hostile values into ``malformed``, and log them.

    Known cases are handled where they arise; an unknown one must not end the crawl of many
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

#: File name endings of distributions, including obsolete ones.
_DISTRIBUTIONS = (
    ".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar.z", ".tar", ".egg", ".exe",
    ".msi", ".rpm", ".deb", ".dmg",
)  # fmt: skip
#: Limit of file names on common file systems.
_LONGEST_NAME = 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Keys without which a file is unusable; broken values of other keys are dropped.
_NEEDED = ("filename", "url", "hashes", "yanked")
#: Since this version of the JSON API, a missing key means that there are no attestations.
_ATTESTED_SINCE = Version("1.3")
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


def parse_page(name: str, text: PageText, as_of: datetime, from_cache: bool = False) -> ProjectPage:
    """Parse a page in either format.

    :param name: of the project, normalised
    :raises IndexProblem: if it has another format, is broken, or has another major version
    """
    with as_malformed(f"the page of {name}"):
        entries, versions = _read(name, text)
        return page_of(name, entries, versions, as_of, from_cache)


def _read(name: str, text: PageText) -> tuple[Iterable[IndexFile | str], list[str]]:
    kind, _, parameters = text.content_type.partition(";")
    kind, base_url = kind.strip().lower(), base_of(text.url)
    if base_url is None:
        raise _malformed(name, "has a URL that cannot be the base of others")
    if kind in _JSON:
        return _from_json(name, text.body, base_url)
    if kind in _HTML:
        return _from_html(name, text.body, base_url, parameters), []
    content_type = kind if kind.isprintable() and kind else "of no type"
    raise IndexProblem(IndexFault.WRONG_CONTENT_TYPE, f"the page of {name} is {cut(content_type)}")


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
    # Overlong versions are reported like invalid files.
    return chain(entries, (cut(it) for it in listed if not _is_version(it))), [
        it for it in listed if _is_version(it)
    ]


def _entry_of_json(name: str, entry: Any, url: str, api: Version) -> IndexFile | str:
    if not isinstance(entry, dict) or not _is_readable(entry.get("filename")):
        named = entry.get("filename") if isinstance(entry, dict) else None
        return cut(named) if isinstance(named, str) and named else "(an entry without a name)"
    # PEP 714 renamed a key. Only the presence of attestations is kept, not their URL.
    fields = {"core-metadata": entry.get("dist-info-metadata")} | entry
    attested = bool(fields.pop("provenance", None))
    package = _package(fields, name, url)
    known = attested or api >= _ATTESTED_SINCE or "provenance" in entry
    return _file(package, name, attested if known else None) if package else str(entry["filename"])


def _package(entry: dict[str, Any], name: str, url: str) -> DistributionPackage | None:
    for fields in (entry, {key: entry[key] for key in _NEEDED if key in entry}):
        try:
            return DistributionPackage.from_json_data(fields, name, url)
        except ValueError:
            continue
    return None


def _from_html(name: str, body: bytes, base_url: str, parameters: str) -> Iterator[IndexFile | str]:
    charset = re.search(r"charset\s*=\s*[\"']?([\w.-]+)", parameters)
    api, links = read_links(body, base_url, charset[1] if charset else "utf-8")
    if api is not None:
        _checked_api(name, api)
    elif not any(map(_is_distribution, links)):
        # A valid page without files looks like any HTML page, such as a login page.
        raise IndexProblem(
            IndexFault.WRONG_CONTENT_TYPE,
            f"the page of {name} is not one of an index: it links to no file and names no version"
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
    """Whether a file name can be parsed in bounded time."""
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
    """The time in UTC; ``None`` also if it is out of range there."""
    try:
        return moment and moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        return None


def _sha256_in(digests: Mapping[str, str]) -> str | None:
    digest = digests.get("sha256", "").lower()
    return digest if _SHA256.fullmatch(digest) else None


def _is_version(value: Any) -> bool:
    """Whether it is short enough to be a version; Python refuses thousands of digits."""
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
