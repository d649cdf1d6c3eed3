"""The files of a release document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ingest.personal_data import scrub_words
from model.errors import InvalidDocument, Reason
from model.json_fields import FUTURE_TOLERANCE, MAX_NAME_LENGTH, ROOT, Fields, too_long
from model.packages.project_pages import ProjectStatus
from model.packages.releases import ReleaseFile, kind_of_file

#: The limit of file systems. With a Package URL it still fits into the key of a database index.
MAX_FILENAME_BYTES = 255
#: Ten times the number of the release with the most wheels.
MAX_FILES = 10_000
_MAX_REASON_LENGTH = 1_000
_MAX_SIZE = 2**53
#: Bounded by the size of the document.
_ANY_LENGTH = 2**26

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def release_files_of(record: Fields, now: datetime) -> list[ReleaseFile]:
    """The files in a release document; their values are not checked yet.

    :raises InvalidDocument: if a field has the wrong type
    """
    return [_file(it, now) for it in record.each("files")]


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
        uploaded_at=_uploaded_at(record, now),
        metadata_sha256=_sha256_of(record, "metadata_sha256"),
        attested=record.optional_flag("attested"),
    )


def _uploaded_at(record: Fields, now: datetime) -> datetime | None:
    """Return the upload time; ``None`` if a wrong clock put it in the future."""
    try:
        return record.time("upload_time", now)
    except InvalidDocument as error:
        if error.reason is not Reason.FUTURE_TIMESTAMP:
            raise
        return None


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
