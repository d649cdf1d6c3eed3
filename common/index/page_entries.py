"""Entries of pages of the repository API, as files of a release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from packaging.utils import canonicalize_name
from packaging.version import Version

from model.packages.project_pages import IndexFile, spelling
from model.packages.releases import kind_of_file
from model.redaction import cut

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage

#: Limit of file names on common file systems.
_LONGEST_NAME = 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Keys without which a file is unusable; broken values of other keys are dropped.
_NEEDED = ("filename", "url", "hashes", "yanked")
#: Since this version of the JSON API, a missing key means that there are no attestations.
_ATTESTED_SINCE = Version("1.3")
#: Version as written, kind as :func:`model.packages.releases.kind_of_file`, and tag set of a wheel.
FilenameParts = tuple[str, str, str]
_VERSION = r"[0-9][A-Za-z0-9_.!+]*"
#: With these, a file that looks like a source distribution is a binary one.
_PLATFORMS = "aix|cygwin|darwin|linux|macosx|solaris|sunos|[wW]in"
#: Usual names of files: project, version and tags of a wheel; project and version of an archive.
_USUAL_NAME = re.compile(
    rf"([A-Za-z0-9._]+)-({_VERSION})(?:-[0-9][\w.]*)?-([\w.+]+-[\w.+]+-[\w.+]+)\.whl"
    rf"|(?!.*\.(?:{_PLATFORMS}))([A-Za-z0-9._-]+)-({_VERSION})\.(?:tar\.gz|zip)",
    re.ASCII,
)
#: Older and unusual names without their project: installers and archives with a platform, then
#: archives whose version has a dash.
_REST_OF_NAME = re.compile(
    rf"-([A-Za-z0-9_.!+-]+?)(?:\.(?:{_PLATFORMS})[-.\w]*?(?:-py\d+\.\d+)?\.(?:exe|msi)"
    rf"|(?:\.(?:{_PLATFORMS})[-.\w]*)?"
    r"\.(?:tar\.(?:bz2|gz|lz|lzma|xz|Z)|tar|tbz|tgz|tlz|txz|zip))",
    re.ASCII,
)
#: Endings of distributions that pypi_simple knows. Before the last two, it needs a platform.
_KNOWN_ENDING = re.compile(
    r".*\.(?:egg|rpm|whl|tar\.(?:bz2|gz|lz|lzma|xz|Z)|tar|tbz|tgz|tlz|txz|zip)"
    rf"|.*\.(?:{_PLATFORMS}).*\.(?:exe|msi)",
    re.ASCII | re.DOTALL,
)
#: Names of eggs and packages of systems: project and version.
_SYSTEM_NAME = re.compile(
    rf"([A-Za-z0-9._]+)-({_VERSION})(?:-py\d+\.\d+(?:-(?:{_PLATFORMS})[-.\w]*)?)?\.egg"
    rf"|([A-Za-z0-9._-]+)-({_VERSION})-[^-]+\.[\w.]+\.rpm",
    re.ASCII,
)
#: A time in UTC, as pages in JSON have it.
UTC_TIME = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
    r"(?:\.\d{1,6})?Z",
    re.ASCII,
)
#: Lengths of a text that :data:`UTC_TIME` matches.
_UTC_TIME_LENGTHS = frozenset((20, *range(22, 28)))
#: The usual beginnings of URLs: absolute ones, and paths, which many mirrors and proxies send.
_PLAIN_URL = re.compile(r"https?://|/(?!/)|(?:\.\./)+")
#: What a path may have that is not as it is in a URL: segments of dots, two slashes, parameters.
_UNUSUAL_PATH = re.compile(r"//|/\.|[?#;\s\x00-\x1f]")


class FilenameParser:
    """Parses the names of a project's files, except very odd names, which need a slow parser."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._spellings: dict[str, bool] = {}
        self._own: re.Pattern[str] | None = None

    def parts(self, entry: Any) -> FilenameParts | None:
        """Parts of the filename of an entry; ``None`` if unknown or not of this project."""
        filename = entry.get("filename") if type(entry) is dict else None
        if type(filename) is not str or len(filename) > _LONGEST_NAME:
            return None
        match = _USUAL_NAME.fullmatch(filename)
        if match is not None:
            wheel_of, version, tags, archive_of, archived = match.groups()
            if self._is_own(wheel_of or archive_of):
                return (version, "wheel", tags) if wheel_of else (archived, "sdist", "")
        match = _SYSTEM_NAME.fullmatch(filename)
        if match is not None:
            egg_of, egg, package_of, package = match.groups()
            version = egg or package
            return (version, "other", "") if self._is_own(egg_of or package_of) else None
        if self._own is None:
            spelled = self._project.replace("-", "[-_.]+")
            self._own = re.compile(rf"{spelled}(?=-)", re.ASCII | re.IGNORECASE)
        own = self._own.match(filename)
        rest = own and _REST_OF_NAME.fullmatch(filename, own.end())
        return (rest[1], kind_of_file(filename), "") if rest else None

    def _is_own(self, name: str) -> bool:
        known = self._spellings.get(name)
        if known is None:
            known = self._spellings[name] = canonicalize_name(name) == self._project
        return known


def file_of_entry(
    name: str, entry: Any, url: str, api: Version, names: FilenameParser
) -> IndexFile | str:
    """The file that an entry of a page in JSON describes; its name if the file is unusable.

    :param name: of the project, normalised
    :param url: of the page
    :param api: version of the API of the page
    """
    if not isinstance(entry, dict) or not is_readable_name(entry.get("filename")):
        named = entry.get("filename") if isinstance(entry, dict) else None
        return cut(named) if isinstance(named, str) and named else "(an entry without a name)"
    parts = names.parts(entry)
    if parts is not None and has_usual_types(entry):
        file = _plain_file(entry, *parts[:2], url, api)
        if file is not None:
            return file
    if parts is None and not _KNOWN_ENDING.fullmatch(entry["filename"]):
        return str(entry["filename"])
    # PEP 714 renamed a key. Only the presence of attestations is kept, not their URL.
    fields = {"core-metadata": entry.get("dist-info-metadata")} | entry
    attested = bool(fields.pop("provenance", None))
    package = _package(fields, name, url)
    known = attested or api >= _ATTESTED_SINCE or "provenance" in entry
    if package is None:
        return str(entry["filename"])
    return file_of_package(package, name, attested if known else None)


def is_readable_name(filename: Any) -> bool:
    """Whether a file name can be parsed in bounded time."""
    if not isinstance(filename, str) or not 0 < len(filename) <= _LONGEST_NAME:
        return False
    return filename.isprintable() and (
        not filename.endswith(".whl") or filename.count("-") in (4, 5)
    )


def has_usual_types(entry: dict[str, Any]) -> bool:
    """Whether all keys have the usual types."""
    return _has_plain_summary(entry) and _has_plain_details(entry)


def _has_plain_summary(entry: dict[str, Any]) -> bool:
    """Whether the keys that a summary uses have the usual types; such entries are read faster."""
    get = entry.get
    url, hashes, yanked = get("url"), get("hashes"), get("yanked", False)
    python, uploaded = get("requires-python"), get("upload-time")
    return (
        type(url) is str
        and _PLAIN_URL.match(url) is not None
        and url.isascii()
        and "[" not in url
        and type(hashes) is dict
        and len(hashes) == 1
        and type(hashes.get("sha256")) is str
        and (yanked is False or yanked is True or type(yanked) is str)
        and (python is None or type(python) is str)
        and (
            uploaded is None
            or (
                type(uploaded) is str and len(uploaded) in _UTC_TIME_LENGTHS and uploaded[-1] == "Z"
            )
        )
    )


def _has_plain_details(entry: dict[str, Any]) -> bool:
    """Whether the keys that a summary does not use have the usual types.

    If one of them is broken, nothing but :data:`_NEEDED` counts of the entry.
    """
    size, metadata = entry.get("size"), _metadata_key(entry)
    return (
        (size is None or type(size) is int)
        and (type(entry.get("gpg-sig")) in (bool, type(None)))
        and (
            type(metadata) in (bool, type(None))
            or (type(metadata) is dict and all(type(it) is str for it in metadata.values()))
        )
    )


def _metadata_key(entry: dict[str, Any]) -> Any:
    """The value of ``core-metadata``, or of the key's earlier name before PEP 714."""
    return entry.get("core-metadata", entry.get("dist-info-metadata"))


def _plain_file(
    entry: dict[str, Any], version: str, kind: str, base_url: str, api: Version
) -> IndexFile | None:
    """Read a file whose keys all have the usual types; ``None`` if its upload time is invalid."""
    yanked, metadata, size = entry.get("yanked", False), _metadata_key(entry), entry.get("size")
    uploaded, url = entry.get("upload-time"), entry["url"]
    if uploaded and not UTC_TIME.fullmatch(uploaded):
        return None
    try:
        uploaded_at = datetime.fromisoformat(uploaded) if uploaded else None
    except ValueError:
        return None
    digests = metadata if type(metadata) is dict else {}
    attested = bool(entry.get("provenance"))
    return IndexFile(
        filename=entry["filename"],
        version=spelling(version)[1],
        kind=kind,
        sha256=_sha256_in(entry["hashes"]),
        size_bytes=size if size is not None and 0 <= size < 1 << 63 else None,
        requires_python=entry.get("requires-python"),
        yanked=yanked is not False,
        yanked_reason=yanked or None if type(yanked) is str else None,
        uploaded_at=uploaded_at,
        metadata_sha256=None if metadata in (None, False) else _sha256_in(digests) or "",
        attested=attested if attested or api >= _ATTESTED_SINCE or "provenance" in entry else None,
        url=_joined(base_url, url),
    )


def _joined(base_url: str, url: str) -> str:
    """:func:`urllib.parse.urljoin`, in most cases without parsing."""
    if url.startswith("https://"):
        return url
    usual = url[:1] == "/" and not _UNUSUAL_PATH.search(url)
    if not usual or not base_url.startswith(("http://", "https://")):
        return urljoin(base_url, url)
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}{url}"


def _package(entry: dict[str, Any], name: str, url: str) -> DistributionPackage | None:
    # Loading it takes longer than reading a page, and few entries need it.
    from pypi_simple import DistributionPackage

    for fields in (entry, {key: entry[key] for key in _NEEDED if key in entry}):
        try:
            return DistributionPackage.from_json_data(fields, name, url)
        except ValueError:
            continue
    return None


def file_of_package(
    package: DistributionPackage, name: str, attested: bool | None
) -> IndexFile | str:
    """The file of a parsed link or entry, or only its name if another project owns it."""
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
    """The time in UTC; ``None`` if it is missing, or out of range in UTC."""
    try:
        return moment and moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        return None


def _sha256_in(digests: Mapping[str, str]) -> str | None:
    digest = digests.get("sha256", "").lower()
    return digest if _SHA256.fullmatch(digest) else None
