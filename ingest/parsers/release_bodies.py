"""Bodies of releases: the one spelling of a release document, by which it is named."""

from __future__ import annotations

from typing import Any

from common.errors import InvalidDocument
from common.formats.fields import Record
from common.formats.json_documents import canonical_json
from common.reasons import Reason
from common.releases import ReleaseFile, as_json_time


def release_body(
    name: str, version: str, index: str, lines: list[str] | None, facts: dict[str, Any]
) -> bytes:
    """The document that gives the same release; what is not known is left out.

    :raises InvalidDocument: if a text holds what the stores cannot: NUL, or half a character
    """
    document = {
        "name": name,
        "version": version,
        "index": index,
        "requires_dist": lines,
        "requires_python": facts["requires_python"],
        "provides_extra": facts["extras"],
        "license": facts["license"],
        "yanked": facts["yanked"],
        "yanked_reason": facts["yanked_reason"],
        "upload_time": as_json_time(facts["uploaded_at"]),
        "metadata_source": facts["metadata_source"],
        "metadata_file": facts["metadata_file"],
        "files": [_file_body(file) for file in facts["files"]],
        "files_complete": facts["files_complete"],
        "problem": facts["problem"],
        "problem_message": facts["problem_message"],
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
    """Look closer: an escaped backslash before ``u0000`` is no NUL."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(map(_holds_nul, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_nul, value))
