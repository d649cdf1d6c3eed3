"""The readers of locks, one line for each format."""

import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from common.formats.locks import pdm_lock, pipfile_lock, pixi_lock, poetry_lock, pylock, uv_lock
from common.formats.locks.entries import LockContent, LockRequest, LockTable
from common.formats.locks.pdm_lock import read_pdm_lock
from common.formats.locks.pipfile_lock import read_pipfile_lock
from common.formats.locks.pixi_lock import read_pixi_lock
from common.formats.locks.poetry_lock import read_poetry_lock
from common.formats.locks.pylock import is_pylock, read_pylock
from common.formats.locks.uv_lock import read_uv_lock


class Syntax(Enum):
    """The syntax of a lock."""

    JSON = auto()
    TOML = auto()
    YAML = auto()


class LockReader(NamedTuple):
    """Reads one format of locks.

    :param matches: whether a file with this name, without its folder, has the format
    :param keys: keys of an entry, by field of :class:`LockEntry`
    :param with_manifest: whether a ``pyproject.toml`` beside the lock says what is installed
    """

    matches: Callable[[str], bool]
    syntax: Syntax
    read: Callable[[LockTable, LockRequest], LockContent]
    keys: Mapping[str, str]
    with_manifest: bool = False


def _ends(*names: str) -> Callable[[str], bool]:
    """Whether a file has one of some names, or is a copy such as ``old.uv.lock``."""
    pattern = re.compile(rf"(?:.*[._-])?(?:{'|'.join(map(re.escape, names))})")
    return lambda name: pattern.fullmatch(name) is not None


READERS = (
    LockReader(
        lambda name: name == "Pipfile.lock" or name.endswith(".json"),
        Syntax.JSON, read_pipfile_lock, pipfile_lock.KEYS,
    ),
    LockReader(is_pylock, Syntax.TOML, read_pylock, pylock.KEYS),
    LockReader(_ends("uv.lock", "py.lock"), Syntax.TOML, read_uv_lock, uv_lock.KEYS, True),
    LockReader(_ends("poetry.lock"), Syntax.TOML, read_poetry_lock, poetry_lock.KEYS, True),
    LockReader(_ends("pdm.lock"), Syntax.TOML, read_pdm_lock, pdm_lock.KEYS, True),
    LockReader(_ends("pixi.lock"), Syntax.YAML, read_pixi_lock, pixi_lock.KEYS),
)  # fmt: skip


def reader_of(name: str) -> LockReader | None:
    """The reader of the lock with this path; ``None`` for a requirements file.

    >>> reader_of("app/Pipfile.lock") is READERS[0], reader_of("requirements.txt")
    (True, None)
    >>> reader_of("old.uv.lock") is reader_of("uv.lock"), reader_of("requirements.lock")
    (True, None)
    """
    base = name.rpartition("/")[2]
    return next((it for it in READERS if it.matches(base)), None)
