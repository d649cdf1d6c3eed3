"""Files of other tools that are not read, with what to do instead."""

import posixpath
import re

from common.formats.file_decoding import refuse
from model.errors import Reason

_CONDA = (
    "conda",
    "only packages of Python indexes are advised: list those that pip installs in a "
    "requirements.in, or pass the output of `pip list --format=freeze`",
)
_PIXI = (
    "pixi",
    "only packages of Python indexes are advised: list them in project.dependencies of a "
    "pyproject.toml, or in a requirements.in",
)
_SETUPTOOLS = (
    "setuptools",
    "list the requirements in project.dependencies of a pyproject.toml, or in a requirements.in",
)
#: How a lock of uv, Poetry, PDM or PEP 751 lists its packages.
_OF_LOCK = re.compile(r"^\[\[packages?\]\]", re.MULTILINE)
#: Tool and remedy by file name.
FOREIGN_FILES = {
    "meta.yaml": _CONDA, "conda-lock.yml": _CONDA, "pixi.toml": _PIXI, "mojoproject.toml": _PIXI,
    "setup.cfg": _SETUPTOOLS, "setup.py": _SETUPTOOLS,
}  # fmt: skip
#: Environments of conda in any file: the output of `conda list`, or a list in YAML.
_OF_CONDA = re.compile(
    r"^(?:# \$ (?:conda|mamba|micromamba) create |# packages in environment at |@EXPLICIT\b"
    r"|\w[\w.-]*=[\w.!+*]+(?:=\w+)?[ \t\r]*$"
    r"|dependencies:[ \t\r]*(?:#.*)?\n(?:[ \t\r]*(?:#.*)?\n)*+[ \t]*- )",
    re.MULTILINE,
)


def refuse_foreign(name: str, text: str = "") -> None:
    """Refuse a file of another tool that is not read, known by its name or its content.

    The name also says how a lock is read, so a lock under any other name is refused, too.

    :raises InvalidFile: with the tool and the remedy
    """
    known = FOREIGN_FILES.get(posixpath.basename(name))
    if tool_and_hint := known or (_CONDA if _OF_CONDA.search(text) else None):
        tool, hint = tool_and_hint
        refuse(Reason.UNKNOWN_SCHEMA, f"a file of {tool}, which is not read", f"{name}:$", hint)
    if _OF_LOCK.search(text):
        message = "a lock in TOML, whose kind this name does not say"
        hint = "call a copy old.uv.lock, old.poetry.lock, old.pdm.lock or pylock.old.toml"
        refuse(Reason.UNKNOWN_SCHEMA, message, f"{name}:$", hint)
