"""What a request says, without its passwords: the one door before anything of it is kept."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import tomli_w

from adviser.projects.documents import json_of, toml_of
from adviser.projects.indexes import public_text, public_values
from adviser.projects.locks import is_pylock
from adviser.projects.parsing import CONSTRAINTS, PIPFILE, PIPFILE_LOCK, parse_project
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import Project, ProjectWarning, WarningCode
from common.errors import InvalidFile
from common.formats.file_fields import refuse
from common.formats.requirements_files import logical_lines, words_of
from common.reasons import Reason

#: Texts of projects, by path; and the two of them that clients of the original service send.
FILES, STACK = "files", "application_stack"
#: Where a request keeps the hashes of a Pipfile as it was sent: its lock names one of them.
HASHES = "manifest_hashes"
#: Set by the service alone: whether what the advice lacks may be asked of indexes.
MAY_FETCH = "may_fetch"
#: Where it keeps from which addresses of a project passwords were taken: message and field.
REMOVED = "credentials_removed"
_OURS = (HASHES, MAY_FETCH, REMOVED)
_STACK_FILES = {"requirements": PIPFILE, "requirements_lock": PIPFILE_LOCK}
_CONTINUED = re.compile(r"\\\r?\n")
#: Between two quotes; no part of a text is tried from more than one of them.
_QUOTED = re.compile(r"(?<=')[^'\n]+(?=')")
#: Keeps the quote behind an address apart from it; no file has it.
_ENDED = "<\0"
#: What quoting writes, and what ends an address although a quoted one may hold it.
_QUOTING = re.compile(r"['\"\\]")
_APART = re.compile(r"[\s\"'<>\\]")
#: An escape, or the end of a line, that may stand for a part of an address.
_HIDING = re.compile(r"\\[uUx/\s]")


def public_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request for advice or a check, less what addresses in it keep to themselves.

    Files stay as they are written if they have no secret, and are written anew if they have.
    Variables stay.

    :raises InvalidFile: if quotes or backslashes hide an address with credentials
    """
    public = {k: public_values(v) for k, v in request.items() if k not in (FILES, STACK, *_OURS)}
    if isinstance(bounds := request.get("constraints"), str):
        public["constraints"] = public_file(CONSTRAINTS, bounds)
    if FILES in request:
        public[FILES] = {name: public_file(name, text) for name, text in request[FILES].items()}
    if STACK in request:
        public[STACK] = {
            k: public_file(_STACK_FILES[k], v) if k in _STACK_FILES and v else public_values(v)
            for k, v in request[STACK].items()
        }
    given, kept = files_in(request), files_in(public)
    if given != kept:
        public |= _of_the_original(request, given, kept)
    return public


def files_in(request: Mapping[str, Any]) -> dict[str, str]:
    """The project's files of a request, by path."""
    if FILES in request:
        return dict(request[FILES])
    stack = request[STACK]
    texts = {name: stack.get(key) for key, name in _STACK_FILES.items()}
    texts[CONSTRAINTS] = request.get("constraints")
    return {name: text for name, text in texts.items() if text}


def project_in(request: Mapping[str, Any]) -> Project:
    """The project of a request that :func:`public_request` gave.

    :raises InvalidFile: naming file, field and remedy
    """
    removed = tuple(
        ProjectWarning(WarningCode.CREDENTIALS_REMOVED, message, field)
        for message, field in request.get(REMOVED, ())
    )
    project = _read(request, files_in(request), request.get(HASHES, ()))
    return replace(project, warnings=(*removed, *project.warnings))


def _read(request: Mapping[str, Any], files: Mapping[str, str], hashes: list[str]) -> Project:
    manifest = request.get("manifest") if FILES in request else PIPFILE
    return parse_project({k: v.encode() for k, v in files.items()}, manifest, hashes)


def _of_the_original(
    request: Mapping[str, Any], given: Mapping[str, str], kept: Mapping[str, str]
) -> dict[str, Any]:
    """What the files as they were sent tell, and those that are kept do not."""
    found: dict[str, Any] = {}
    try:
        warnings = _read(request, given, []).warnings
    except InvalidFile:
        return found  # so are those that are kept
    if removed := [
        [it.message, it.field] for it in warnings if it.code is WarningCode.CREDENTIALS_REMOVED
    ]:
        found[REMOVED] = removed
    if PIPFILE in given and given[PIPFILE] != kept[PIPFILE]:
        found[HASHES] = _hashes(given[PIPFILE])
    return found


def public_file(name: str, text: str) -> str:
    """A file of a project without the secrets in it.

    >>> public_file("Pipfile.lock", '{"a": "https:\\\\/\\\\/me:word@host.example\\\\/simple"}')
    '{"a":"https://host.example/simple"}'

    :raises InvalidFile: if quotes or backslashes in a list of requirements hide one
    """
    base = posixpath.basename(name)
    if base not in (PIPFILE, PIPFILE_LOCK) and not base.endswith(".toml"):
        return _public_list(name, text)
    hiding = _HIDING.search(text) is not None
    if public_text(text) == text and not hiding:
        return text
    try:
        # Escapes may hide an address, so it is the values that are looked at.
        if base == PIPFILE_LOCK:
            value = json_of(name, text.encode())
            public = public_values(value)
            same = public == value and public_text(text) == text
            return text if same else orjson.dumps(public).decode()
        # Locks are large, and reading one takes as long as a hundred requests.
        if base == PIPFILE or (base.endswith(".toml") and (hiding or not is_pylock(base))):
            table = toml_of(name, text.encode())
            shown = public_values(table)
            same = shown == table and public_text(text) == text
            return text if same else tomli_w.dumps(shown)
    except InvalidFile:
        # Whoever reads it says what is wrong.
        public = public_text(text)
        return text if public == text else public_file(name, public)
    return _public_lines(text)


def _public_list(name: str, text: str) -> str:
    """A list of requirements: options are read as a shell's words, and looked at as such."""
    public = _public_lines(text)
    if _QUOTING.search(public) is None:
        return public
    for number, line in logical_lines(public):
        if line.count("/") > 1 and any(map(_holds_credentials, _words(line))):
            refuse(
                Reason.INVALID_REQUIREMENT,
                "an address with credentials, which quotes or backslashes part",
                f"{name}:{number}",
                "write the address whole, and keep credentials in variables or a keyring",
            )
    return public


def _public_lines(text: str) -> str:
    """Text of which each line may go on in the next one, and has addresses between quotes."""
    joined = _CONTINUED.sub("", text)
    public = public_text(_QUOTED.sub(_public_quoted, joined)).replace(_ENDED, "")
    return text if public == joined else public


def _public_quoted(found: re.Match[str]) -> str:
    before, sign, _ = found[0].partition("://")
    if not sign or _APART.search(before):
        return found[0]
    return public_text(found[0]) + _ENDED


def _words(line: str) -> list[str]:
    try:
        return words_of(line, "")
    except InvalidFile:
        return [line]  # whoever reads it says what is wrong


def _holds_credentials(word: str) -> bool:
    bare = _APART.sub("", word)
    return public_text(bare) != bare


def _hashes(pipfile: str) -> list[str]:
    manifest = toml_of(PIPFILE, pipfile.encode())
    return [pipfile_hash(manifest), pipfile_hash(manifest, as_written=True)]
