"""Removal of credentials from the files of a request, before any part of it is stored."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace

import orjson
import tomli_w

from adviser.projects.documents import json_of, toml_of
from adviser.projects.indexes import public_text, public_values
from adviser.projects.parsing import PIPFILE, PIPFILE_LOCK, parse_project
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import Project, ProjectWarning, WarningCode
from common.formats.file_fields import refuse
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.formats.locks.pylock import is_pylock
from common.formats.requirements_files import logical_lines, split_words
from model.errors import InvalidFile, Reason

#: Locks in TOML whose names do not end in `.toml`.
_TOML_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
_CONTINUED = re.compile(r"\\\r?\n")
#: Text between two single quotes, matched in linear time.
_QUOTED = re.compile(r"(?<=')[^'\n]+(?=')")
#: Separates a URL from the quote behind it; no file contains it.
_ENDED = "<\0"
#: Quoting characters, and characters that end a URL unless it is quoted.
_QUOTING = re.compile(r"['\"\\]")
_SEPARATOR = re.compile(r"[\s\"'<>\\]")
#: An escape or line continuation that may hide a part of a URL.
_ESCAPE = re.compile(r"\\[uUx/\s]")


def public_project(
    files: Mapping[str, str],
    manifest: str | None = None,
    selection: LockSelection = DEFAULT_SELECTION,
) -> Project:
    """Parse a project after removing credentials from its files.

    The project has a warning for each address that had credentials. The project also keeps the
    hashes of the original Pipfile, because the lock contains one of these hashes.

    :param files: texts by path within the project
    :param manifest: path of the file that names the requirements; detected by default
    :param selection: what counts of its lock
    :raises InvalidFile: if a file cannot be read, or if quotes or backslashes in it hide an
        address with credentials
    """
    public = {name: public_file(name, text) for name, text in files.items()}
    removed: tuple[ProjectWarning, ...] = ()
    hashes: list[str] = []
    if public != files:
        removed, hashes = _facts_of_original(files, public, manifest)
    project = _parsed(public, manifest, hashes, selection)
    return replace(project, warnings=(*removed, *project.warnings))


def _parsed(
    files: Mapping[str, str],
    manifest: str | None,
    hashes: list[str],
    selection: LockSelection = DEFAULT_SELECTION,
) -> Project:
    encoded = {name: it.encode() for name, it in files.items()}
    return parse_project(encoded, manifest, hashes, selection=selection)


def _facts_of_original(
    files: Mapping[str, str], public: Mapping[str, str], manifest: str | None
) -> tuple[tuple[ProjectWarning, ...], list[str]]:
    """Warnings about removed credentials, and Pipfile hashes; only the original files have both."""
    try:
        warnings = _parsed(files, manifest, []).warnings
    except InvalidFile:
        return (), []  # the public files are invalid too, and their error is reported
    removed = tuple(it for it in warnings if it.code is WarningCode.CREDENTIALS_REMOVED)
    hashes: list[str] = []
    if PIPFILE in files and files[PIPFILE] != public[PIPFILE]:
        table = toml_of(PIPFILE, files[PIPFILE].encode())
        hashes = [pipfile_hash(table), pipfile_hash(table, as_written=True)]
    return removed, hashes


def public_file(name: str, text: str) -> str:
    """Remove credentials from a file of a project.

    >>> public_file("Pipfile.lock", '{"a": "https:\\\\/\\\\/me:word@host.example\\\\/simple"}')
    '{"a":"https://host.example/simple"}'

    :raises InvalidFile: if quotes or backslashes in a list of requirements hide one
    """
    base = posixpath.basename(name)
    if base not in (PIPFILE, PIPFILE_LOCK, *_TOML_LOCKS) and not base.endswith(".toml"):
        return _public_list(name, text)
    hiding = _ESCAPE.search(text) is not None
    if public_text(text) == text and not hiding:
        return text
    try:
        # Escapes may hide a URL, so the parsed values are checked.
        if base == PIPFILE_LOCK:
            value = json_of(name, text.encode())
            public = public_values(value)
            same = public == value and public_text(text) == text
            return text if same else orjson.dumps(public).decode()
        # Parsing a large lock takes as long as a hundred requests, so it is avoided.
        if base == PIPFILE or hiding or not (base in _TOML_LOCKS or is_pylock(base)):
            table = toml_of(name, text.encode())
            shown = public_values(table)
            same = shown == table and public_text(text) == text
            return text if same else tomli_w.dumps(shown)
    except InvalidFile:
        # The parser of the project will report the error.
        public = public_text(text)
        return text if public == text else public_file(name, public)
    return _public_lines(text)


def _public_list(name: str, text: str) -> str:
    """Remove credentials from a list of requirements, whose options are quoted as in a shell."""
    public = _public_lines(text)
    if _QUOTING.search(public) is None:
        return public
    for number, line in logical_lines(public):
        if line.count("/") > 1 and any(map(_holds_credentials, _words(line))):
            refuse(
                Reason.INVALID_REQUIREMENT,
                "a URL with credentials that is split by quotes or backslashes",
                f"{name}:{number}",
                "write the URL in one piece, and keep credentials in variables or a keyring",
            )
    return public


def _public_lines(text: str) -> str:
    """Remove credentials from text that has continuation lines and quoted URLs."""
    joined = _CONTINUED.sub("", text)
    public = public_text(_QUOTED.sub(_public_quoted, joined)).replace(_ENDED, "")
    return text if public == joined else public


def _public_quoted(match: re.Match[str]) -> str:
    before, sign, _ = match[0].partition("://")
    if not sign or _SEPARATOR.search(before):
        return match[0]
    return public_text(match[0]) + _ENDED


def _words(line: str) -> list[str]:
    try:
        return split_words(line, "")
    except InvalidFile:
        return [line]  # the parser of the project will report the error


def _holds_credentials(word: str) -> bool:
    bare = _SEPARATOR.sub("", word)
    return public_text(bare) != bare
