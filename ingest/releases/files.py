"""The files of a release document."""

from __future__ import annotations

import re
from datetime import datetime

from common.errors import InvalidDocument
from common.formats.fields import (
    Record,
    as_record,
    integer_of,
    list_of,
    optional_flag_of,
    path,
    text_of,
    time_of,
    too_long,
    wrong_type,
)
from common.reasons import Reason
from common.releases import ReleaseFile, kind_of_file
from ingest.privacy import scrub_words

#: What file systems take; beside a Package URL it still fits the key of an index.
MAX_FILENAME_BYTES = 255
#: Ten times what the release with the most wheels has.
MAX_FILES = 10_000
_MAX_REASON_LENGTH = 1_000

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def release_files_of(record: Record, now: datetime) -> tuple[ReleaseFile, ...]:
    """The files in ``record``, in the order of their names, each once.

    :raises InvalidDocument: a field of another type, or one file with two hashes
    """
    listed = list_of(record, "files", "$")
    if len(listed) > MAX_FILES:
        raise InvalidDocument(Reason.OUT_OF_RANGE, f"more than {MAX_FILES} files", field="$.files")
    files: dict[str, ReleaseFile] = {}
    for position, item in enumerate(listed):
        at = f"$.files[{position}]"
        file = _file(as_record(item, at), at, now)
        known = files.setdefault(file.filename, file)
        if known.sha256 != file.sha256:
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS,
                f"{file.filename!r} is listed with two hashes",
                field=path(at, "sha256"),
            )
    return tuple(files[name] for name in sorted(files))


def _file(record: Record, at: str, now: datetime) -> ReleaseFile:
    filename = filename_of(record, "filename", at)
    if filename is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "is missing", field=path(at, "filename"))
    yanked, reason = yanked_of(record, at)
    return ReleaseFile(
        filename=filename,
        sha256=_sha256_of(record, "sha256", at) or None,
        kind=kind_of_file(filename),
        size_bytes=integer_of(record, "size", at, 0, 2**53),
        requires_python=text_of(record, "requires_python", at),
        yanked=yanked,
        yanked_reason=reason,
        uploaded_at=_uploaded_at(record, at, now),
        metadata_sha256=_sha256_of(record, "metadata_sha256", at),
        attested=optional_flag_of(record, "attested", at),
    )


def _uploaded_at(record: Record, at: str, now: datetime) -> datetime | None:
    """Nothing of the future: one wrong clock must not cost the release all that is known."""
    try:
        return time_of(record, "upload_time", at, now)
    except InvalidDocument as error:
        if error.reason is not Reason.FUTURE_TIMESTAMP:
            raise
        return None


def filename_of(record: Record, key: str, at: str) -> str | None:
    """The name of a file, which is no path."""
    name = text_of(record, key, at)
    if name is None:
        return None
    if not name.isascii() and len(name.encode("utf-8", "replace")) > MAX_FILENAME_BYTES:
        raise too_long(path(at, key), MAX_FILENAME_BYTES)
    if len(name) > MAX_FILENAME_BYTES:
        raise too_long(path(at, key), MAX_FILENAME_BYTES)
    if "/" in name or "\\" in name or not name.isprintable():
        raise InvalidDocument(Reason.WRONG_TYPE, "not the name of a file", field=path(at, key))
    return name


def _sha256_of(record: Record, key: str, at: str) -> str | None:
    """Hexadecimal digits in lower case, or empty text, which means something else than nothing."""
    value = record.get(key)
    if value is None or value == "":
        return value
    if not isinstance(value, str):
        raise wrong_type(value, "text", path(at, key))
    digits = value.lower()
    if not _SHA256.match(digits):
        raise InvalidDocument(Reason.WRONG_TYPE, "not 64 hexadecimal digits", field=path(at, key))
    return digits


def yanked_of(record: Record, at: str) -> tuple[bool, str | None]:
    """Whether it is yanked and why; an index may write the reason in place of the flag."""
    value = record.get("yanked")
    reason = text_of(record, "yanked_reason", at, 2**26)
    if isinstance(value, str):
        reason = value or reason
    elif not (value is None or isinstance(value, bool)):
        raise wrong_type(value, "a boolean", path(at, "yanked"))
    if value is None or value is False:
        return False, None
    return True, scrub_words(reason, _MAX_REASON_LENGTH) or None if reason else None
