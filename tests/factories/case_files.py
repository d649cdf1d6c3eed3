"""Cases in text files: the files that are read, and a description of what they mean.

A case is a line ``=== what it shows``, a line ``--- NAME`` before the content of each file, and
``--- expected``. ``THOTH_WRITE_GOLDEN=1`` writes what is expected again.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from adviser.projects.project import ProjectRequirement
from common.formats.locks.entries import LockEntry
from model.errors import InvalidDocument
from model.packages.identity import public_index_url
from tests.factories.golden import DATA, compare_with_golden

#: Passwords and tokens of cases.
SECRET = "hidden"


def check_cases(name: str, read: Callable[[Mapping[str, bytes]], object]) -> None:
    """Check that each case of a file is described as it says; there has to be one.

    :param read: gets the files of a case by name
    """
    text = (DATA / name).read_text(encoding="utf-8")
    blocks = []
    for case in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        title, *parts = re.split(r"^--- (.*)\n", case, flags=re.MULTILINE)
        files = {
            it: part for it, part in zip(parts[::2], parts[1::2], strict=True) if it != "expected"
        }
        try:
            found = described(read({it: part.encode() for it, part in files.items()}))
            lines = [it.replace(public_index_url(), "PUBLIC_INDEX") for it in found]
        except InvalidDocument as error:
            lines = [f"refused: {error}", f"hint: {error.hint}"]
        assert not [it for it in lines if SECRET in it]
        contents = "".join(f"--- {it}\n{part}" for it, part in files.items())
        blocks.append("\n".join([f"=== {title}{contents}--- expected", *lines, ""]))
    assert blocks
    compare_with_golden(name, "\n".join(blocks))


def described(value: Any, path: str = "", *, item: bool = False) -> Iterator[str]:
    """A line for each part of a dataclass that is not as by default.

    :param item: whether it is one of several, which has a line of its own
    """
    if isinstance(value, (ProjectRequirement, LockEntry)):
        text = value.text if isinstance(value, ProjectRequirement) else value.requirement
        hidden = {"name", "specifier", "version", "extras", "marker"}
        yield " ".join([f"{path}: {text}", *_changed(value, hidden)])
    elif is_dataclass(value) and item:
        yield " ".join([f"{path}:", *_changed(value)])
    elif is_dataclass(value):
        for name, part in _parts(value):
            if isinstance(part, bytes):
                continue
            yield from described(part, f"{path}.{name}" if path else name)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from described(part, f"{path}.{key}")
    elif isinstance(value, (tuple, list)) and value:
        for part in value:
            yield from described(part, path, item=True)
    else:
        yield f"{path}: {_text(value)}"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Fields that are not as by default."""
    for field in fields(value):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        part = getattr(value, field.name)
        if part != default:
            yield field.name, part


def _changed(value: Any, hidden: Set[str] = frozenset()) -> Iterator[str]:
    for name, part in _parts(value):
        if name not in hidden:
            yield f"{name}={_text(part)}"


def _text(value: Any) -> str:
    if is_dataclass(value):
        return f"({' '.join(_changed(value))})"
    if isinstance(value, (tuple, list, frozenset)):
        parts = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(map(_text, parts))}]"
    return str(value)
