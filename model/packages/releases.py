"""Releases of packages: files, requirements and problems.

Version specifiers that violate PEP 440 and that older installers accepted are read as uv does.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Protocol

from packageurl import PackageURL
from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from model.declared_fields import REQUIRES_PYTHON, Field
from model.errors import InvalidDocument
from model.measurements.inspection import DocumentId
from model.packages.identity import DEFAULT_INDEX, Purl, package_version, version_of
from model.packages.import_names import ImportNames

_QUOTES = re.compile(r"['\"]")
#: What is mended, in this order; the list has the kinds that uv reads.
_MENDED = (
    (_QUOTES, ""),  # >=3.6'
    (re.compile(r"(?<=[\d*])(?=[<>=~!])"), ","),  # >=7.2<8
    (re.compile(r"!=~\s*(\d+(?:\.\d+)*)"), r"!=\1.*"),  # !=~5.0
    (re.compile(r"((?:<=|>=|<|>)\s*\d+(?:\.\d+)*)\.\*"), r"\1"),  # >=1.9.*
    (re.compile(r"(?<=\d)\*"), ".*"),  # !=3.0*
    (re.compile(r",\s*(?=\)?\s*$)"), ""),  # >=3.6,
    (re.compile(r">\s*dev\b"), ">0.0.0dev"),
    (re.compile(r"(\d(?:a|b|rc|post|dev)\d+)\.0\b"), r"\1"),  # >=9.0a1.0
)
_NAME = re.compile(r"\s*[\w.-]+\s*(?:\[[^\]]*\]\s*)?")


def readings(specifier: str) -> Iterator[str]:
    """The possible readings of a specifier: itself, then with one fault after the other mended.

    >>> list(readings(">=1.9.*"))
    ['>=1.9.*', '>=1.9']
    """
    yield specifier
    for pattern, replacement in _MENDED:
        mended = pattern.sub(replacement, specifier)
        if mended != specifier:
            yield (specifier := mended)


def readings_of_requirement(raw: str) -> Iterator[str]:
    """The possible readings of a requirement by PEP 508; markers and URLs are unchanged.

    >>> list(readings_of_requirement("numpy2 (>=1.9.*); os_name == 'nt'"))[-1]
    "numpy2 (>=1.9); os_name == 'nt'"
    """
    yield raw
    head, semicolon, marker = raw.partition(";")
    head = _QUOTES.sub("", head)
    if (name := _NAME.match(head)) is not None and "@" not in head:
        for specifier in readings(head[name.end() :]):
            yield f"{name[0]}{specifier}{semicolon}{marker}"


def is_specifier(text: str) -> bool:
    """Whether a text is a specifier by PEP 440."""
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


@lru_cache(maxsize=4_096)
def specifier_set(text: str) -> SpecifierSet:
    """A specifier, read leniently.

    :raises InvalidSpecifier: if no reading is valid

    >>> specifier_set("!=3.0*,>=2.7,")
    <SpecifierSet('!=3.0.*,>=2.7')>
    """
    for reading in readings(text):
        try:
            return SpecifierSet(reading)
        except InvalidSpecifier:
            continue
    raise InvalidSpecifier(f"Invalid specifier: {text!r}")


#: Longer texts are refused, because parsing time grows with length.
MAX_REQUIREMENT_LENGTH = 2_000
#: Metadata source of requirements seen by a solver in one environment: no markers, no extras.
SOLVER = "solver"
#: Metadata source of requirements that a build of the source distribution may change.
SDIST_LIKELY = "sdist-likely"
#: Metadata source of requirements that a build of the source distribution gave, in one environment.
SDIST_BUILT = "sdist-built"


class ReleaseState(StrEnum):
    """How much is known about a release; only solved releases are chosen."""

    #: A stack or a lock names it, but its metadata was not read.
    UNREAD = "unread"
    #: Its requirements are known.
    SOLVED = "solved"
    #: Its requirements are unknown without a build.
    UNSOLVABLE = "unsolvable"
    #: Its version or its metadata violates the standards.
    UNPARSABLE = "unparsable"


class ReleaseProblem(StrEnum):
    """Why a release is not solved; the values are stored and never renamed."""

    #: Only a source distribution with dynamic metadata.
    DYNAMIC_METADATA = "dynamic_metadata"
    #: The release has no installable file.
    NO_FILES = "no_files"
    #: A metadata dump has the release without its requirements.
    NOT_RECORDED = "not_recorded"
    #: Its version violates PEP 440.
    INVALID_VERSION = "invalid_version"
    #: Its metadata, or the archive around it, is broken.
    BROKEN_METADATA = "broken_metadata"
    #: Its metadata is beyond a size limit; ``INDEX_ARCHIVE_MB`` and others set it.
    TOO_LARGE = "too_large"
    #: Its metadata describes another release.
    OTHER_METADATA = "other_metadata"
    #: One of its requirements violates PEP 508.
    INVALID_REQUIREMENT = "invalid_requirement"

    @property
    def state(self) -> ReleaseState:
        """State of a release with this problem."""
        broken = (
            ReleaseProblem.INVALID_VERSION,
            ReleaseProblem.BROKEN_METADATA,
            ReleaseProblem.OTHER_METADATA,
            ReleaseProblem.INVALID_REQUIREMENT,
        )
        return ReleaseState.UNPARSABLE if self in broken else ReleaseState.UNSOLVABLE


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of a release, as written and parsed.

    The marker stays text and is only evaluated for an environment.
    """

    raw: Annotated[
        str, Field("The requirement as written.", 'colorama; platform_system == "Windows"')
    ]
    name: Annotated[str | None, Field("Name of the required package; null if it cannot be parsed.")]
    specifier: Annotated[str, Field("Version specifier; empty for any version.", ">=3.1.2")] = ""
    marker: Annotated[str | None, Field("Environment marker; null if it always applies.")] = None
    extras: Annotated[tuple[str, ...], Field("Extras of the required package.", [])] = ()
    for_extras: Annotated[
        tuple[str, ...], Field("Extras of this release that the marker names.", [])
    ] = ()
    url: Annotated[str | None, Field("URL of a direct reference.")] = None
    problem: Annotated[
        str | None, Field("Why it cannot be parsed, or how it was read nevertheless.")
    ] = None


@dataclass(frozen=True, slots=True)
class ReleaseMetadata:
    """Metadata of a release, or the problem that prevents reading the metadata.

    :param requires_dist: requirement lines as written; ``None`` if they are not known
    :param metadata_file: the file that was read, even if it was broken
    :param imports: from the wheel that was read, or declared by the metadata; ``None`` if unknown
    """

    requires_dist: tuple[str, ...] | None = None
    requires_python: str | None = None
    provides_extra: tuple[str, ...] = ()
    license: str | None = None
    metadata_source: str | None = None
    metadata_file: str | None = None
    problem: ReleaseProblem | None = None
    problem_message: str | None = None
    imports: ImportNames | None = None


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """One file of a release."""

    filename: Annotated[str, Field("Name of the file.", "flask-3.1.2-py3-none-any.whl")]
    sha256: Annotated[str | None, Field("SHA-256 in hexadecimal.")]
    kind: Annotated[str, Field("Kind of file.", values=("wheel", "sdist", "other"))]
    size_bytes: Annotated[int | None, Field("Size of the file.", 103308)] = None
    requires_python: Annotated[str | None, REQUIRES_PYTHON] = None
    yanked: Annotated[bool, Field("Whether the file is yanked.")] = False
    yanked_reason: Annotated[str | None, Field("Why it is yanked.")] = None
    uploaded_at: Annotated[datetime | None, Field("When it was uploaded.")] = None
    metadata_sha256: Annotated[
        str | None, Field("SHA-256 of the metadata file beside it (PEP 658); empty without a hash.")
    ] = None
    attested: Annotated[bool | None, Field("Whether the index offers attestations (PEP 740).")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class ReleaseListing:
    """A release as one index lists it.

    :param files: files that the index offers
    :param gone: files that it offered earlier
    :param complete: whether all files are known
    :param as_of: time of the listing
    :param addresses: URL by file name, without secrets, as far as known
    """

    index: str
    files: tuple[ReleaseFile, ...]
    gone: tuple[ReleaseFile, ...] = ()
    complete: bool = True
    yanked: bool = False
    yanked_reason: str | None = None
    as_of: datetime | None = None
    addresses: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ReleaseFields:
    """The known fields of one release on one index, in a document and in the record.

    :param version: normalised by PEP 440; as written if it is not a version
    :param metadata_source: source of the requirements: ``metadata-file``, ``wheel-range``,
        ``wheel``, ``sdist``, or a name from a metadata dump
    :param metadata_file: the file with that metadata, or whose metadata could not be read
    :param imports: names that it makes importable; ``None`` if nobody read them
    """

    purl: Purl
    name: str
    version: str
    index: str
    state: ReleaseState
    problem_message: str | None = None
    requires_python: str | None = None
    requirements: tuple[Requirement, ...] = ()
    extras: tuple[str, ...] = ()
    license: str | None = None
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None
    metadata_source: str | None = None
    metadata_file: str | None = None
    imports: ImportNames | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(ReleaseFields):
    """A release according to one document.

    :param files_complete: whether ``files`` are all files of the release
    :param document_id: digest of ``body``
    :param body: canonical JSON of the release document
    """

    document_id: DocumentId
    body: bytes
    problem: ReleaseProblem | None = None
    files: tuple[ReleaseFile, ...] = ()
    files_complete: bool = True


def release_identity(
    name: str, version: str, index: str | None = None
) -> tuple[Purl, str, str, str]:
    """Package URL, normalised name, normalised version and index of a release.

    A version that violates PEP 440 is kept as written.

    >>> release_identity("Zope.Interface", "1!2.0-1", None)
    ('pkg:pypi/zope-interface@1%212.0.post1', 'zope-interface', '1!2.0.post1', 'pypi')
    >>> release_identity("pytz", "2004b-final", None)[2]
    '2004b-final'
    """
    try:
        known = package_version(name, version, index)
    except InvalidDocument:
        served = package_version(name, "0", index)
        qualifiers = None if served.index == DEFAULT_INDEX else {"index": served.index}
        purl = PackageURL("pypi", None, served.name, version, qualifiers).to_string()
        return Purl(purl), served.name, version, served.index
    return known.purl, known.name, known.version, known.index


@lru_cache(maxsize=131_072)
def parse_requirement(raw: str) -> Requirement:
    """Parse one requirement by PEP 508; an invalid line gets a ``problem``.

    A line that :mod:`model.packages.releases` can read has a name and a ``problem``.

    >>> line = parse_requirement("Requests[SOCKS] (>=2.0,<3) ; extra == 'Net' and os_name == 'nt'")
    >>> line.name, line.specifier, line.extras, line.for_extras
    ('requests', '<3,>=2.0', ('socks',), ('net',))
    >>> line.marker
    'extra == "net" and os_name == "nt"'
    >>> parse_requirement("ipython doctest plugin==0.1").name is None
    True
    """
    if len(raw) > MAX_REQUIREMENT_LENGTH:
        return Requirement(raw, None, problem=f"longer than {MAX_REQUIREMENT_LENGTH} characters")
    problems = []
    for reading in readings_of_requirement(raw):
        try:
            head, marker = _parsed(reading)
            break
        except _NO_REQUIREMENT as error:
            problems.append((str(error) or type(error).__name__).splitlines()[0])
    else:
        return Requirement(raw, None, problem=problems[0])
    read = f"{head.name}{head.specifier}"
    return Requirement(
        raw=raw,
        name=canonicalize_name(head.name),
        specifier=str(head.specifier),
        marker=None if marker is None else marker[0],
        extras=tuple(sorted(map(canonicalize_name, head.extras))),
        for_extras=() if marker is None else marker[1],
        url=head.url,
        problem=f"{raw!r} is not valid and is read as {read}; pip 24.1 and later refuse it"
        if problems
        else None,
    )


def fault_of(
    version: str, requirements: Iterable[Requirement], requires_python: str | None
) -> tuple[ReleaseProblem, str] | None:
    """The first violation of a standard in a release, and a message; ``None`` if there is none."""
    if version_of(version) is None:
        return ReleaseProblem.INVALID_VERSION, f"{version!r} is not a version by PEP 440"
    for requirement in requirements:
        if requirement.name is None:
            message = f"{requirement.raw[:200]!r}: {requirement.problem}"
            return ReleaseProblem.INVALID_REQUIREMENT, message
    if requires_python is not None and not _is_specifier(requires_python):
        message = f"Requires-Python {requires_python[:200]!r} is not a specifier by PEP 440"
        return ReleaseProblem.BROKEN_METADATA, message
    return None


@lru_cache(maxsize=65_536)
def _is_specifier(text: str) -> bool:
    try:
        specifier_set(text)
    except InvalidSpecifier:
        return False
    return True


_NO_REQUIREMENT = (InvalidRequirement, InvalidVersion, RecursionError)
#: Text of a marker and the extras that it names.
_MarkerText = tuple[str, tuple[str, ...]]


def _parsed(raw: str) -> tuple[Parsed, _MarkerText | None]:
    """Parse name and specifier separately from the marker; parsed markers are cached.

    Markers repeat more often than whole lines. In a measurement, this read a metadata dump in a
    quarter of the time. A line with a URL is parsed as a whole, because URLs may contain
    semicolons. An invalid line is parsed as a whole, so that the message names the position of the
    error.
    """
    head, semicolon, marker = raw.partition(";")
    if semicolon and "@" not in head:
        with suppress(*_NO_REQUIREMENT, InvalidMarker):
            return Parsed(head), _parsed_marker(marker.strip())
    whole = Parsed(raw)
    return whole, None if whole.marker is None else _marker_text(whole.marker)


@lru_cache(maxsize=16_384)
def _parsed_marker(text: str) -> _MarkerText:
    return _marker_text(Marker(text))


def _marker_text(marker: Marker) -> _MarkerText:
    text = str(marker)
    named = {canonicalize_name(it[1] or it[2]) for it in _EXTRA.finditer(text)}
    return text, tuple(sorted(named))


_EXTRA = re.compile(
    r"""\bextra\s*(?:==|!=)\s*["']([^"']+)["']"""
    r"""|["']([^"']+)["']\s*(?:==|!=)\s*extra\b"""
)


def kind_of_file(filename: str) -> str:
    """``wheel``, ``sdist`` or ``other``.

    >>> kind_of_file("flask-3.0.0.tar.gz"), kind_of_file("x-1-py3.7.egg")
    ('sdist', 'other')
    """
    if filename.endswith(".whl"):
        return "wheel"
    return (
        "sdist"
        if filename.endswith((".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz"))
        else "other"
    )


def wheel_tags(files: tuple[ReleaseFile, ...]) -> list[str]:
    """Compressed tag sets of the wheels that are not yanked, such as ``py3-none-any``; sorted.

    >>> wheel_tags((ReleaseFile("a-1-1build-cp311-cp311-linux_x86_64.whl", None, "wheel"),))
    ['cp311-cp311-linux_x86_64']
    """
    names = (
        it.filename.removesuffix(".whl") for it in files if it.kind == "wheel" and not it.yanked
    )
    return sorted({"-".join(parts[-3:]) for name in names if len(parts := name.split("-")) >= 5})


class _Uploaded(Protocol):
    @property
    def uploaded_at(self) -> datetime | None: ...


def first_upload(files: Iterable[_Uploaded]) -> datetime | None:
    """When the first of ``files`` was uploaded; ``None`` if no file has a time."""
    return min((it.uploaded_at for it in files if it.uploaded_at), default=None)
