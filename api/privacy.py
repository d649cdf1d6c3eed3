"""What a request says, without its passwords: the one door before anything of it is kept."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

import orjson
import tomli_w

from adviser.projects.documents import json_of, toml_of
from adviser.projects.indexes import public_text, public_values
from adviser.projects.parsing import CONSTRAINTS, PIPFILE, PIPFILE_LOCK
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.problems import InvalidProject

#: Texts of projects, by path; and the two of them that clients of the original service send.
FILES, STACK = "files", "application_stack"
#: Where a request keeps the hashes of a Pipfile as it was sent: its lock names one of them.
HASHES = "manifest_hashes"
#: Set by the service alone: whether what the advice lacks may be asked of indexes.
MAY_FETCH = "may_fetch"
_OURS = (HASHES, MAY_FETCH)
_STACK_FILES = {"requirements": PIPFILE, "requirements_lock": PIPFILE_LOCK}
_CONTINUED = re.compile(r"\\\r?\n")
_QUOTED = re.compile(r"'[^'\s]*://[^'\n]*'")


def public_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request for advice or a check, less what addresses in it keep to themselves.

    Files stay as they are written if they have no secret, and are written anew if they have.
    Variables stay.
    """
    public = {k: public_values(v) for k, v in request.items() if k not in (FILES, STACK, *_OURS)}
    if isinstance(bounds := request.get("constraints"), str):
        public["constraints"] = public_file(CONSTRAINTS, bounds)
    pipfile, changed = None, False
    if FILES in request:
        texts = request[FILES]
        public[FILES] = {public_text(k): public_file(k, text) for k, text in texts.items()}
        pipfile = texts.get(PIPFILE)
        changed = pipfile != public[FILES].get(PIPFILE)
    if STACK in request:
        stack = request[STACK]
        public[STACK] = {
            k: public_file(_STACK_FILES[k], v) if k in _STACK_FILES and v else public_values(v)
            for k, v in stack.items()
        }
        pipfile = stack["requirements"]
        changed = pipfile != public[STACK]["requirements"]
    if pipfile and changed and (hashes := _hashes(pipfile)):
        public[HASHES] = hashes
    return public


def public_file(name: str, text: str) -> str:
    """A file of a project without the secrets in it.

    >>> public_file("Pipfile.lock", '{"a": "https:\\\\/\\\\/me:word@host.example\\\\/simple"}')
    '{"a":"https://host.example/simple"}'
    """
    if public_text(text) == text and "\\" not in text:
        return text
    base = posixpath.basename(name)
    try:
        # Escapes may hide an address, so it is the values that are looked at.
        if base == PIPFILE_LOCK:
            value = json_of(name, text.encode())
            public = public_values(value)
            same = public == value and public_text(text) == text
            return text if same else orjson.dumps(public).decode()
        if base == PIPFILE or base.endswith(".toml"):
            table = toml_of(name, text.encode())
            shown = public_values(table)
            same = shown == table and public_text(text) == text
            return text if same else tomli_w.dumps(shown)
    except InvalidProject:
        # Whoever reads it says what is wrong.
        public = public_text(text)
        return text if public == text else public_file(name, public)
    joined = _CONTINUED.sub("", text)
    public = public_text(_QUOTED.sub(lambda found: f"'{public_text(found[0][1:-1])}'", joined))
    return text if public == joined else public


def _hashes(pipfile: str) -> list[str]:
    try:
        manifest = toml_of(PIPFILE, pipfile.encode())
    except InvalidProject:
        return []
    return [pipfile_hash(manifest), pipfile_hash(manifest, as_written=True)]
