"""Pages of the repository API in both of its formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage

from common.errors import IndexFault, IndexProblem
from common.indexes.links import read_links
from common.indexes.pages import IndexFile, ProjectPage, page_of, spelling
from common.releases import kind_of_file

_JSON = ("application/vnd.pypi.simple.v1+json", "application/json")
_HTML = ("application/vnd.pypi.simple.v1+html", "text/html")

#: Names of files are shorter than this on every file system that they could be kept on.
_LONGEST_NAME = 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: What a file can be used without; left out where it is broken.
_NEEDED = ("filename", "url", "hashes", "yanked")
#: From this version of the JSON API on, a file without attestations is one that has none.
_ATTESTED_SINCE = Version("1.3")


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
    kind, _, parameters = text.content_type.partition(";")
    kind, versions = kind.strip().lower(), list[str]()
    entries: Iterable[IndexFile | str]
    if kind in _JSON:
        entries, versions = _from_json(name, text)
    elif kind in _HTML:
        entries = _from_html(name, text, parameters)
    else:
        said = kind if kind.isprintable() and kind else "of no type"
        raise IndexProblem(IndexFault.WRONG_CONTENT_TYPE, f"the page of {name} is {said[:80]}")
    return page_of(name, entries, versions, as_of, from_cache)


def _from_json(name: str, text: PageText) -> tuple[Iterator[IndexFile | str], list[str]]:
    try:
        page = orjson.loads(text.body)
    except orjson.JSONDecodeError as error:
        raise _malformed(name, f"is broken JSON: {error}") from None
    meta = page.get("meta") if isinstance(page, dict) else None
    if not isinstance(meta, dict) or not isinstance(page.get("files"), list):
        raise _malformed(name, "has no `meta` or no list of `files`")
    api = _checked_api(name, meta.get("api-version"))
    versions = page.get("versions")
    spelled = [it for it in versions if isinstance(it, str)] if isinstance(versions, list) else []
    return (_entry_of_json(name, it, text.url, api) for it in page["files"]), spelled


def _entry_of_json(name: str, entry: Any, url: str, api: Version) -> IndexFile | str:
    if not isinstance(entry, dict) or not _is_readable(entry.get("filename")):
        return "(an entry without a name)"
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


def _from_html(name: str, text: PageText, parameters: str) -> Iterator[IndexFile | str]:
    charset = re.search(r"charset\s*=\s*[\"']?([\w.-]+)", parameters)
    api, links = read_links(text.body, text.url, charset[1] if charset else "utf-8")
    if api is not None:
        _checked_api(name, api)
    for link in links:
        if not link.text:
            continue
        if not _is_readable(link.text):
            yield link.text[:_LONGEST_NAME]
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
    uploaded = package.upload_time
    if uploaded is not None:
        uploaded = uploaded.replace(tzinfo=uploaded.tzinfo or UTC).astimezone(UTC)
    size = package.size
    return IndexFile(
        filename=package.filename,
        version=spelling(package.version)[1],
        kind=kind_of_file(package.filename),
        sha256=_sha256(package.digests),
        size_bytes=size if size is not None and 0 <= size < 1 << 63 else None,
        requires_python=package.requires_python,
        yanked=package.is_yanked,
        yanked_reason=package.yanked_reason or None,
        uploaded_at=uploaded,
        metadata_sha256=(_sha256(package.metadata_digests or {}) or "")
        if package.has_metadata
        else None,
        attested=attested,
        url=package.url,
    )


def _sha256(digests: Mapping[str, str]) -> str | None:
    digest = digests.get("sha256", "").lower()
    return digest if _SHA256.fullmatch(digest) else None


def _checked_api(name: str, declared: Any) -> Version:
    try:
        api = Version(declared)
    except (InvalidVersion, TypeError):
        raise _malformed(name, f"has no version of the API: {declared!r}") from None
    if api.major != 1:
        raise IndexProblem(
            IndexFault.UNSUPPORTED_VERSION,
            f"the page of {name} is of version {api} of the repository API, not of 1.x",
        )
    return api


def _malformed(name: str, what: str) -> IndexProblem:
    return IndexProblem(IndexFault.MALFORMED, f"the page of {name} {what}")
