"""The project's own benchmarks: ``[tool.thoth]`` of a ``pyproject.toml``, or ``thoth.toml``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from adviser.projects.documents import table_of
from adviser.projects.project import WarningCode
from adviser.projects.requirement_parsing import ParseContext
from common.formats.file_fields import FileTable, value_text
from model.reasons import Reason

#: A file with the content of ``[tool.thoth]``, which it replaces.
THOTH_TOML = "thoth.toml"
_KEY = "benchmarks"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LONGEST_COMMAND = 2000
_MOST_BENCHMARKS = 100


def own_benchmarks(files: Mapping[str, bytes], context: ParseContext) -> dict[str, str]:
    """Commands that measure the project, by name, in the order of the file. None of them is run.

    :raises InvalidFile: with the path of the entry
    """
    table = _table(files, context)
    if table is None:
        return {}
    for key in table:
        if key != _KEY:
            message = "not a setting of Thoth, which reads only benchmarks"
            context.warn(WarningCode.OPTION_IGNORED, message, table.at / key)
    listed = table.nested(_KEY)
    if len(listed) > _MOST_BENCHMARKS:
        message = f"{len(listed)} benchmarks; the limit is {_MOST_BENCHMARKS}"
        raise table.invalid(Reason.OUT_OF_RANGE, message, _KEY)
    return {name: _command(listed, name) for name in listed}


def _table(files: Mapping[str, bytes], context: ParseContext) -> FileTable | None:
    own = table_of(THOTH_TOML, files[THOTH_TOML]) if THOTH_TOML in files else None
    manifest = "pyproject.toml"
    # Most projects have no such table, and a large manifest takes long to parse.
    if manifest not in files or b"thoth" not in files[manifest]:
        return own
    content = table_of(manifest, files[manifest])
    tool = content.get("tool")
    if not isinstance(tool, dict) or "thoth" not in tool:
        return own
    inner = content.nested("tool").nested("thoth")
    if own is None:
        return inner
    message = f"not read, because {THOTH_TOML} replaces it"
    context.warn(WarningCode.FILE_IGNORED, message, inner.at)
    return own


def _command(table: FileTable, name: str) -> str:
    if not _NAME.fullmatch(name):
        message = f"{value_text(name)} is no name: use letters, digits, `.`, `_` and `-`"
        raise table.invalid(Reason.OUT_OF_RANGE, message, name)
    command = table.required_text(name, 'write a command, such as "python bench.py"')
    if len(command) > _LONGEST_COMMAND or not command.isprintable() or not command.strip():
        message = f"a command is one printable line of at most {_LONGEST_COMMAND} characters"
        raise table.invalid(Reason.OUT_OF_RANGE, message, name)
    try:
        shlex.split(command)
    except ValueError as error:
        raise table.invalid(Reason.OUT_OF_RANGE, f"not a command: {error}", name) from None
    return command
