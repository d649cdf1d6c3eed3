"""Read the inline metadata of a Python script (PEP 723)."""

from __future__ import annotations

import re
from dataclasses import replace

from adviser.projects.documents import table_of
from adviser.projects.project import Project, ProjectFormat
from adviser.projects.pyproject import read_pyproject
from adviser.projects.requirement_parsing import ParseContext
from common.formats.file_fields import FileTable, refuse
from model.reasons import Reason

#: A block of metadata, as PEP 723 defines it.
_BLOCK = re.compile(
    r"^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$", re.MULTILINE
)
_KEYS = ("dependencies", "requires-python")


def read_script(data: bytes, name: str, context: ParseContext) -> Project:
    """Read a script as a project: its dependencies, its Python and ``[tool.uv]``.

    Only the comments of the metadata are read.

    :raises InvalidFile: without metadata, with several blocks, or at an invalid entry
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    blocks = [it["content"] for it in _BLOCK.finditer(text) if it["type"] == "script"]
    if len(blocks) != 1:
        refuse(
            Reason.CONFLICTING_FIELDS if blocks else Reason.MISSING_FIELD,
            f"a script needs one block of metadata, and this one has {len(blocks)}",
            f"{name}:$",
            "list its dependencies between `# /// script` and `# ///` (PEP 723)",
        )
    lines = [re.sub("^# ?", "", line) for line in blocks[0].splitlines(keepends=True)]
    content = table_of(name, "".join(lines).encode())
    project = {key: content[key] for key in _KEYS if key in content}
    table = FileTable({"project": project, "tool": content.get("tool", {})}, content.at)
    return replace(read_pyproject(table, name, context), format=ProjectFormat.SCRIPT)
