"""Release documents: what one index says of one release, typed, checked and normalised.

Whatever brings releases — a crawl, a metadata dump, a solver's result — writes them as
such documents, and :func:`release_of` is the one door through which they get in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from common.errors import InvalidDocument
from common.formats.fields import (
    MAX_NAME_LENGTH,
    Record,
    as_record,
    flag_of,
    list_of,
    path,
    text_of,
    time_of,
    too_long,
    wrong_type,
)
from common.formats.json_documents import digest_bytes
from common.inspection import DocumentId
from common.packages import Purl
from common.reasons import Reason
from common.redaction import without_secrets
from common.releases import (
    Release,
    ReleaseFile,
    ReleaseProblem,
    ReleaseState,
    Requirement,
    parse_requirement,
    release_identity,
)
from ingest.parsers.index_names import index_name
from ingest.parsers.release_bodies import release_body
from ingest.parsers.release_files import filename_of, release_files_of, yanked_of
from ingest.privacy import scrub_words

#: A Package URL is a key of both stores, and holds the version with twelve bytes a character.
MAX_PROJECT_LENGTH = 200
MAX_VERSION_LENGTH = 100
#: The largest releases known require some hundreds of packages.
MAX_REQUIREMENTS = 10_000
#: Texts for people are cut, for some projects have a whole licence where its name should be.
_MAX_LICENSE_LENGTH = 200
_MAX_MESSAGE_LENGTH = 1_000
#: A whole licence is longer than a name, and a document is bounded anyway.
_ANY_LENGTH = 2**26

_PROJECT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")

#: Problems of what the index serves; with any other, nobody can know without building.
_BROKEN = frozenset(
    {
        ReleaseProblem.INVALID_VERSION,
        ReleaseProblem.BROKEN_METADATA,
        ReleaseProblem.OTHER_METADATA,
        ReleaseProblem.INVALID_REQUIREMENT,
    }
)


def release_of(document: Any, *, now: datetime | None = None) -> Release:
    """The release that ``document`` tells of.

    A version, a requirement or a Requires-Python that is none by the standards makes the
    release ``unparsable``, and requirements that are ``null`` make it ``unsolvable``, or
    ``unparsable`` where ``problem`` says that its metadata is broken. Reading the body of a
    release gives the same release again. Keys that are not known are passed over.

    :param document: ``name`` and ``version``; the other keys may be missing
    :param now: what times are checked against
    :raises InvalidDocument: if it is no release at all, or a field has another type
    """
    record = as_record(document, "$")
    moment = datetime.now(UTC) if now is None else now
    purl, name, version, index = _identity(record)
    lines = _lines_of(record)
    requirements = tuple(map(parse_requirement, lines or ()))
    requires_python = text_of(record, "requires_python", "$")
    state, problem, message = _judged(record, version, lines, requirements, requires_python)
    files = release_files_of(record, moment)
    yanked, yanked_reason = _yanked(record, files)
    facts: dict[str, Any] = {
        "requires_python": requires_python,
        "extras": _extras_of(record),
        "license": _license_of(record),
        "yanked": yanked,
        "yanked_reason": yanked_reason,
        "uploaded_at": time_of(record, "upload_time", "$", moment) or _first_upload(files),
        "metadata_source": text_of(record, "metadata_source", "$", 100),
        "metadata_file": filename_of(record, "metadata_file", "$"),
        "files": files,
        "files_complete": flag_of(record, "files_complete", "$"),
        "problem": problem,
        "problem_message": message,
    }
    body = release_body(name, version, index, lines, facts)
    return Release(
        purl, name, version, index, state, DocumentId(digest_bytes(body)), body,
        requirements=requirements, **facts,
    )  # fmt: skip


def _identity(record: Record) -> tuple[Purl, str, str, str]:
    name = text_of(record, "name", "$", MAX_PROJECT_LENGTH)
    if name is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field="$.name")
    if not _PROJECT_NAME.match(name):
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{name[:80]!r} is not the name of a package", field="$.name"
        )
    # A number of thousands of digits is none to Python, and no release has that long a name.
    version = (text_of(record, "version", "$", MAX_VERSION_LENGTH) or "").strip()
    if not version:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field="$.version")
    if not version.isprintable():
        raise InvalidDocument(Reason.WRONG_TYPE, "is not printable", field="$.version")
    index = index_name(text_of(record, "index", "$", 2_000))
    return release_identity(name, version, index)


def _lines_of(record: Record) -> list[str] | None:
    """Requirements as they were written, less what is secret; ``None`` if they are unknown."""
    if record.get("requires_dist") is None:
        return None
    lines = list_of(record, "requires_dist", "$")
    if len(lines) > MAX_REQUIREMENTS:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE,
            f"more than {MAX_REQUIREMENTS} requirements",
            field="$.requires_dist",
        )
    for position, line in enumerate(lines):
        if not isinstance(line, str):
            raise wrong_type(line, "text", f"$.requires_dist[{position}]")
    return list(map(without_secrets, lines))


_Judgement = tuple[ReleaseState, ReleaseProblem | None, str | None]


def _judged(
    record: Record,
    version: str,
    lines: list[str] | None,
    requirements: Iterable[Requirement],
    requires_python: str | None,
) -> _Judgement:
    """State of a release, with why it is not solved."""
    wrong = _what_is_wrong(version, requirements, requires_python)
    if wrong is not None:
        return ReleaseState.UNPARSABLE, *wrong
    if lines is not None:
        return ReleaseState.SOLVED, None, None
    problem = _problem_of(record)
    message = text_of(record, "problem_message", "$", _ANY_LENGTH)
    state = ReleaseState.UNPARSABLE if problem in _BROKEN else ReleaseState.UNSOLVABLE
    return state, problem, _short(message, _MAX_MESSAGE_LENGTH)


def _what_is_wrong(
    version: str, requirements: Iterable[Requirement], requires_python: str | None
) -> tuple[ReleaseProblem, str] | None:
    if not _is_version(version):
        return ReleaseProblem.INVALID_VERSION, f"{version!r} is not a version by PEP 440"
    for asked in requirements:
        if asked.name is None:
            return ReleaseProblem.INVALID_REQUIREMENT, f"{asked.raw[:200]!r}: {asked.problem}"
    if requires_python is not None and not _is_specifier(requires_python):
        words = f"Requires-Python {requires_python[:200]!r} is not a specifier by PEP 440"
        return ReleaseProblem.BROKEN_METADATA, words
    return None


@lru_cache(maxsize=65_536)
def _is_version(version: str) -> bool:
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


@lru_cache(maxsize=65_536)
def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _problem_of(record: Record) -> ReleaseProblem:
    value = text_of(record, "problem", "$")
    try:
        return ReleaseProblem.NOT_RECORDED if value is None else ReleaseProblem(value)
    except ValueError:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, f"{value!r} is no known problem", field="$.problem"
        ) from None


def _extras_of(record: Record) -> tuple[str, ...]:
    extras: set[str] = set()
    for position, extra in enumerate(list_of(record, "provides_extra", "$")):
        at = path("$.provides_extra", position)
        if not isinstance(extra, str):
            raise wrong_type(extra, "text", at)
        if len(extra) > MAX_NAME_LENGTH:
            raise too_long(at)
        extras.add(canonicalize_name(extra))
    return tuple(sorted(extras))


def _license_of(record: Record) -> str | None:
    """The first line: many projects have a whole licence where its name should be."""
    text = text_of(record, "license", "$", _ANY_LENGTH)
    if text is None:
        return None
    lines = text.strip().splitlines()
    return _short(lines[0], _MAX_LICENSE_LENGTH) if lines else None


def _short(text: str | None, most: int) -> str | None:
    """For people to read: nobody's address, no secret, and not more than fits a screen."""
    return scrub_words(text, most) or None if text else None


def _yanked(record: Record, files: Sequence[ReleaseFile]) -> tuple[bool, str | None]:
    """What the document says; if it does not, a release is yanked with all its files."""
    if record.get("yanked") is not None:
        return yanked_of(record, "$")
    if not files or not all(file.yanked for file in files):
        return False, None
    return True, next((file.yanked_reason for file in files if file.yanked_reason), None)


def _first_upload(files: Sequence[ReleaseFile]) -> datetime | None:
    return min((file.uploaded_at for file in files if file.uploaded_at), default=None)
