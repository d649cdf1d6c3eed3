"""Parses release documents, which hold what one index says about one release and its files.

:func:`release_of` reads documents of metadata dumps and solvers. A crawl already has typed values,
so it calls :func:`checked_release`, which checks and normalises all releases.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from ingest.personal_data import scrub_words
from model.errors import InvalidDocument, Reason
from model.json_documents import as_json_time, canonical_json, digest_bytes
from model.json_fields import FUTURE_TOLERANCE, MAX_NAME_LENGTH, ROOT, Fields, Record, too_long
from model.measurements.inspection import DocumentId
from model.packages.identity import Purl, is_project_name
from model.packages.import_names import ImportNames, ImportSource, is_import_name
from model.packages.project_pages import ProjectStatus
from model.packages.releases import (
    Release,
    ReleaseFile,
    ReleaseMetadata,
    ReleaseProblem,
    ReleaseState,
    Requirement,
    fault_of,
    first_upload,
    kind_of_file,
    parse_requirement,
    release_identity,
)
from model.redaction import without_secrets

#: The limit of file systems. With a Package URL it still fits into the key of a database index.
MAX_FILENAME_BYTES = 255
#: Ten times the number of the release with the most wheels.
MAX_FILES = 10_000
_MAX_REASON_LENGTH = 1_000
_MAX_SIZE = 2**53
#: Longest text that is read; the document itself is bounded, too.
_ANY_LENGTH = 2**26

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def checked_files(files: Sequence[ReleaseFile], now: datetime) -> tuple[ReleaseFile, ...]:
    """Check the files of a release; returns each once, sorted by name.

    :param now: upper bound of upload times; later ones are removed, because one wrong clock must
        not cost all other data
    :raises InvalidDocument: if a value is invalid, or a file is listed with two hashes
    """
    if len(files) > MAX_FILES:
        raise InvalidDocument(Reason.OUT_OF_RANGE, f"more than {MAX_FILES} files", field="$.files")
    by_name: dict[str, ReleaseFile] = {}
    for position, file in enumerate(files):
        at = ROOT / "files" / position
        if checked_filename(file.filename, at / "filename") is None:
            raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field=at / "filename")
        if len(file.requires_python or "") > MAX_NAME_LENGTH:
            raise too_long(at / "requires_python")
        if not 0 <= (file.size_bytes or 0) <= _MAX_SIZE:
            raise InvalidDocument(
                Reason.OUT_OF_RANGE, f"not within 0 … {_MAX_SIZE}", field=at / "size"
            )
        in_future = file.uploaded_at is not None and file.uploaded_at > now + FUTURE_TOLERANCE
        known = by_name.setdefault(
            file.filename, replace(file, uploaded_at=None) if in_future else file
        )
        if known.sha256 != file.sha256:
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS,
                f"{file.filename!r} is listed with two hashes",
                field=at / "sha256",
            )
    return tuple(by_name[name] for name in sorted(by_name))


def _file(record: Fields, now: datetime) -> ReleaseFile:
    """A file in a release document; its values are not checked yet."""
    try:
        uploaded_at = record.time("upload_time", now)
    except InvalidDocument as error:
        if error.reason is not Reason.FUTURE_TIMESTAMP:  # of a wrong clock
            raise
        uploaded_at = None
    filename = record.text("filename", _ANY_LENGTH) or ""
    yanked, reason = yanked_of(record)
    return ReleaseFile(
        filename=filename,
        sha256=_sha256_of(record, "sha256") or None,
        kind=kind_of_file(filename),
        size_bytes=record.integer("size", 0, _MAX_SIZE),
        requires_python=record.text("requires_python"),
        yanked=yanked,
        yanked_reason=reason,
        uploaded_at=uploaded_at,
        metadata_sha256=_sha256_of(record, "metadata_sha256"),
        attested=record.optional_flag("attested"),
    )


def checked_filename(name: str | None, field: str) -> str | None:
    """Return the name of a file; ``None`` if it is missing.

    :raises InvalidDocument: if it is a path, too long or not printable
    """
    if not name:
        return None
    if len(name.encode("utf-8", "replace")) > MAX_FILENAME_BYTES:
        raise too_long(field, MAX_FILENAME_BYTES)
    if "/" in name or "\\" in name or not name.isprintable():
        raise InvalidDocument(Reason.WRONG_TYPE, "not the name of a file", field=field)
    return name


def _sha256_of(record: Fields, key: str) -> str | None:
    """Return hexadecimal digits in lower case; an empty text is returned as it is."""
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise record.wrong_type(value, "text", key)
    digits = value.lower()
    if digits and not _SHA256.match(digits):
        message = "not 64 hexadecimal digits"
        raise record.invalid(Reason.WRONG_TYPE, message, key)
    return digits


def yanked_of(record: Fields) -> tuple[bool, str | None]:
    """Return whether and why a file is yanked; a document may give the reason instead of a flag."""
    value = record.get("yanked")
    reason = record.text("yanked_reason", _ANY_LENGTH)
    if isinstance(value, str):
        reason = value or reason
    elif not (value is None or isinstance(value, bool)):
        raise record.wrong_type(value, "a boolean", "yanked")
    if value is None or value is False:
        return False, None
    return True, public_reason(reason)


def public_status(status: ProjectStatus) -> ProjectStatus:
    """Return the state of a project, with its reason cleaned by :func:`public_reason`."""
    return replace(status, reason=public_reason(status.reason))


def public_reason(reason: str | None) -> str | None:
    """Return the reason for a yank, cut to its limit, without e-mail addresses and secrets."""
    return scrub_words(reason, _MAX_REASON_LENGTH) or None if reason else None


MAX_INDEX_LENGTH = 128

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")


def index_name(index: str | None, field: str = "$.index") -> str | None:
    """Return the name of an index; for a URL, the name consists of its host and path.

    User and password of a URL are never part of the name.

    :raises InvalidDocument: if ``index`` is neither a name nor a URL

    >>> index_name("https://user:secret@builds.example/fedora/30/jemalloc/simple/")
    'builds-example-fedora-30-jemalloc'
    >>> index_name("avx2-builds"), index_name(None)
    ('avx2-builds', None)
    """
    if index is None:
        return None
    name = index
    if "://" in index:
        try:
            parts = urlsplit(index)
            host = f"{parts.hostname or ''} {parts.port or ''}"
            path = parts.path.rstrip("/").removesuffix("/simple")
            name = _NO_NAME.sub("-", f"{host} {path}").strip("-").lower()
        except ValueError:
            name = ""
    if len(name) > MAX_INDEX_LENGTH or not _NAME.match(name):
        raise InvalidDocument(
            Reason.WRONG_TYPE,
            f"an index is named by letters, digits, '.', '_' and '-', at most {MAX_INDEX_LENGTH}",
            field=field,
        )
    return name


#: A Package URL is a key of both stores; a character of the version takes up to twelve bytes in it.
MAX_PROJECT_LENGTH = 200
MAX_VERSION_LENGTH = 100
#: The largest releases known require some hundreds of packages.
MAX_REQUIREMENTS = 10_000
#: Texts for people are cut: some projects write a whole licence where its name should be.
_MAX_LICENSE_LENGTH = 200
_MAX_MESSAGE_LENGTH = 1_000
#: With namespaces: more than :func:`model.packages.import_names.names_in_wheel` returns.
_MAX_IMPORTS = 10_000


@dataclass(frozen=True, slots=True)
class ReleaseDraft:
    """Content of a release before its values are checked, from a document or from an index.

    :param yanked: ``None`` if only the files say so
    """

    name: str
    version: str
    index: str | None
    metadata: ReleaseMetadata
    files: Sequence[ReleaseFile] = ()
    files_complete: bool = False
    yanked: bool | None = None
    yanked_reason: str | None = None
    uploaded_at: datetime | None = None


def release_of(document: Any, *, now: datetime | None = None) -> Release:
    """Parse and check a release document.

    Parsing the body of a release gives the same release again. Unknown keys are ignored.

    :param document: ``name`` and ``version``; the other keys may be missing
    :param now: upper bound of times
    :raises InvalidDocument: if it is not a release, or a field is invalid
    """
    moment = datetime.now(UTC) if now is None else now
    record = Fields(document)
    yanked, yanked_reason = yanked_of(record)
    lines = None if record.get("requires_dist") is None else record.texts("requires_dist")
    metadata = ReleaseMetadata(
        requires_dist=None if lines is None else tuple(lines),
        requires_python=record.text("requires_python", _ANY_LENGTH),
        provides_extra=tuple(record.texts("provides_extra")),
        license=record.text("license", _ANY_LENGTH),
        metadata_source=record.text("metadata_source", _ANY_LENGTH),
        metadata_file=record.text("metadata_file", _ANY_LENGTH),
        problem=record.choice("problem", ReleaseProblem, "problem")
        if record.text("problem")
        else None,
        problem_message=record.text("problem_message", _ANY_LENGTH),
        imports=_imports_of(record),
    )
    draft = ReleaseDraft(
        record.text("name", _ANY_LENGTH) or "",
        record.text("version", _ANY_LENGTH) or "",
        record.text("index", 2_000),
        metadata,
        files=[_file(it, moment) for it in record.each("files")],
        files_complete=record.flag("files_complete"),
        yanked=None if record.get("yanked") is None else yanked,
        yanked_reason=yanked_reason,
        uploaded_at=record.time("upload_time", moment),
    )
    return checked_release(draft, now=moment)


def checked_release(draft: ReleaseDraft, *, now: datetime | None = None) -> Release:
    """Check and normalise a release.

    An invalid version, requirement or Requires-Python makes the release ``unparsable``. Without
    known requirements, the release is ``unsolvable``, or ``unparsable`` if its ``problem`` is
    broken metadata.

    :param now: upper bound of the upload times of files
    :raises InvalidDocument: if a value is invalid; ``field`` is its path in a release document
    """
    purl, name, version, index = _identity(draft)
    lines = _public_lines(draft.metadata.requires_dist)
    requirements = tuple(map(parse_requirement, lines or ()))
    requires_python = _bounded(draft.metadata.requires_python, "$.requires_python", MAX_NAME_LENGTH)
    state, problem, message = _judged(draft, version, lines, requirements, requires_python)
    files = checked_files(draft.files, datetime.now(UTC) if now is None else now)
    yanked, yanked_reason = draft.yanked, draft.yanked_reason
    if yanked is None:  # a release is yanked if all its files are
        yanked = bool(files) and all(it.yanked for it in files)
        reasons = (it.yanked_reason for it in files if yanked and it.yanked_reason)
        yanked_reason = next(reasons, None)
    for position, extra in enumerate(draft.metadata.provides_extra):
        _bounded(extra, ROOT / "provides_extra" / position, MAX_NAME_LENGTH)
    license_lines = (draft.metadata.license or "").strip().splitlines()
    facts: dict[str, Any] = {
        "requires_python": requires_python,
        "extras": tuple(sorted(set(map(canonicalize_name, draft.metadata.provides_extra)))),
        # Many projects write the whole text of a licence here.
        "license": _short(next(iter(license_lines), None), _MAX_LICENSE_LENGTH),
        "yanked": yanked,
        "yanked_reason": yanked_reason,
        "uploaded_at": draft.uploaded_at or first_upload(files),
        "metadata_source": _bounded(draft.metadata.metadata_source, "$.metadata_source", 100),
        "metadata_file": checked_filename(draft.metadata.metadata_file or None, "$.metadata_file"),
        "files": files,
        "files_complete": draft.files_complete,
        "problem": problem,
        "problem_message": message,
        "imports": draft.metadata.imports,
    }
    body = release_body(name, version, index, lines, facts)
    return Release(
        purl, name, version, index, state, document_id=DocumentId(digest_bytes(body)), body=body,
        requirements=requirements, **facts,
    )  # fmt: skip


def _bounded(text: str | None, field: str, most: int) -> str | None:
    if text is not None and len(text) > most:
        raise too_long(field, most)
    return text or None


def _identity(draft: ReleaseDraft) -> tuple[Purl, str, str, str]:
    name = _bounded(draft.name, "$.name", MAX_PROJECT_LENGTH)
    if name is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field="$.name")
    if not is_project_name(name):
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{name[:80]!r} is not the name of a package", field="$.name"
        )
    # Python refuses to convert numbers of thousands of digits; real versions are short.
    version = (_bounded(draft.version, "$.version", MAX_VERSION_LENGTH) or "").strip()
    if not version:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field="$.version")
    if not version.isprintable():
        raise InvalidDocument(Reason.WRONG_TYPE, "is not printable", field="$.version")
    return release_identity(name, version, index_name(draft.index))


def _public_lines(lines: Sequence[str] | None) -> list[str] | None:
    """Return requirement lines as written, without secrets."""
    if lines is None:
        return None
    if len(lines) > MAX_REQUIREMENTS:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE,
            f"more than {MAX_REQUIREMENTS} requirements",
            field="$.requires_dist",
        )
    return list(map(without_secrets, lines))


def _judged(
    draft: ReleaseDraft,
    version: str,
    lines: list[str] | None,
    requirements: Iterable[Requirement],
    requires_python: str | None,
) -> tuple[ReleaseState, ReleaseProblem | None, str | None]:
    """Return the state of a release and, if it is not solved, the reason."""
    fault = fault_of(version, requirements, requires_python)
    if fault is not None:
        return ReleaseState.UNPARSABLE, *fault
    if lines is not None:
        return ReleaseState.SOLVED, None, None
    problem = draft.metadata.problem or ReleaseProblem.NOT_RECORDED
    return problem.state, problem, _short(draft.metadata.problem_message, _MAX_MESSAGE_LENGTH)


def _imports_of(record: Fields) -> ImportNames | None:
    """Return the names that a document lists; each is checked, because they become keys."""
    if record.get("imports") is None:
        return None
    names = record.texts("imports")
    if len(names) > _MAX_IMPORTS:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE, f"more than {_MAX_IMPORTS} names", field="$.imports"
        )
    for position, name in enumerate(names):
        if not is_import_name(name):
            message = f"{name[:80]!r} is not the name of a module"
            raise InvalidDocument(Reason.WRONG_TYPE, message, field=ROOT / "imports" / position)
    source = record.choice("imports_source", ImportSource, "source")
    return ImportNames(tuple(sorted(set(names))), source)


def _short(text: str | None, most: int) -> str | None:
    """Return a text for people, cut to ``most``, without e-mail addresses and secrets."""
    return scrub_words(text, most) or None if text else None


def release_body(
    name: str, version: str, index: str, lines: list[str] | None, facts: dict[str, Any]
) -> bytes:
    """Return the document of a release, without unknown values; it parses to the same release.

    :raises InvalidDocument: if a text holds NUL or half a surrogate pair, which stores refuse
    """
    own = dict(facts)
    extras, uploaded_at, files = (own.pop(it) for it in ("extras", "uploaded_at", "files"))
    imports: ImportNames | None = own["imports"]
    document = own | {
        "name": name,
        "version": version,
        "index": index,
        "requires_dist": lines,
        "provides_extra": extras,
        "upload_time": as_json_time(uploaded_at),
        "files": [_file_body(file) for file in files],
        "imports": None if imports is None else imports.names,
        "imports_source": None if imports is None else imports.source,
    }
    kept = {key: it for key, it in document.items() if it is not None or key == "requires_dist"}
    try:
        body = canonical_json(kept)
    except TypeError:
        raise InvalidDocument(Reason.LONE_SURROGATE, "half a surrogate pair") from None
    if b"\\u0000" in body and _holds_nul(kept):
        raise InvalidDocument(Reason.NUL_CHARACTER, "text holds a NUL")
    return body


def _file_body(file: ReleaseFile) -> Record:
    body = {
        "filename": file.filename,
        "sha256": file.sha256,
        "size": file.size_bytes,
        "requires_python": file.requires_python,
        "yanked": file.yanked or None,
        "yanked_reason": file.yanked_reason,
        "upload_time": as_json_time(file.uploaded_at),
        "metadata_sha256": file.metadata_sha256,
        "attested": file.attested,
    }
    return {key: it for key, it in body.items() if it is not None}


def _holds_nul(value: Any) -> bool:
    """Whether a text contains a NUL; ``u0000`` after an escaped backslash is not a NUL."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(map(_holds_nul, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_nul, value))
