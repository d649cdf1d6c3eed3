"""The readers of locks, one line for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from common.formats.locks import pipfile_lock, pylock, uv_lock
from common.formats.locks.entries import LockContent, LockTable
from common.formats.locks.pipfile_lock import read_pipfile_lock
from common.formats.locks.pylock import is_pylock, read_pylock
from common.formats.locks.uv_lock import read_uv_lock


class LockReader(NamedTuple):
    """Reads one format of locks.

    :param matches: whether a file with this name, without its folder, has the format
    :param is_toml: whether the file is TOML; otherwise it is JSON
    :param keys: keys of an entry, by field of :class:`LockEntry`
    """

    matches: Callable[[str], bool]
    is_toml: bool
    read: Callable[[LockTable], LockContent]
    keys: Mapping[str, str]


READERS = (
    LockReader(
        lambda name: name == "Pipfile.lock" or name.endswith(".json"),
        False, read_pipfile_lock, pipfile_lock.KEYS,
    ),
    LockReader(is_pylock, True, read_pylock, pylock.KEYS),
    LockReader(lambda name: name == "uv.lock", True, read_uv_lock, uv_lock.KEYS),
)  # fmt: skip


def reader_of(name: str) -> LockReader | None:
    """The reader of the lock with this path; ``None`` for a requirements file.

    >>> reader_of("app/Pipfile.lock") is READERS[0], reader_of("requirements.txt")
    (True, None)
    """
    base = name.rpartition("/")[2]
    return next((it for it in READERS if it.matches(base)), None)
