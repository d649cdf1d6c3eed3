"""Files beneath a root, whose links never lead out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Protocol

from common.errors import InvalidDocument
from common.reasons import Reason

#: As many as Linux follows in one path.
_MOST_LINKS = 40
#: Configuration of the loader and of the system; real ones are some hundred bytes long.
TEXT_BYTES = 64 * 1024


class Tree(Protocol):
    """A root folder. Paths are relative to it, with ``/`` between the parts."""

    def link(self, path: str) -> str | None:
        """Where the link at ``path`` points, as it is written; ``None`` if it is no link."""

    def is_file(self, path: str) -> bool:
        """Whether a regular file, no link, is at ``path``."""

    def names(self, folder: str) -> list[str]:
        """What is in ``folder``, which is no link; empty if it is no folder. Sorted."""

    def text(self, path: str) -> str | None:
        """A short text file; ``None`` if there is none at ``path``."""

    def open_all(self, paths: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        """Regular files, each readable until the next one is asked for; in any order."""


def resolve(tree: Tree, path: str) -> str | None:
    """``path`` without links, found as if the tree's root were the system's.

    :returns: ``None`` if the links have no end; whether there is a file is not said
    """
    done: list[str] = []
    left = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    followed = 0
    while left:
        part = left.pop()
        if part == "..":
            done = done[:-1]  # the parent of the root is the root
            continue
        target = tree.link("/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        followed += 1
        if followed > _MOST_LINKS or len(target) > 4_096:
            return None
        if target.startswith("/"):
            done = []
        left.extend(it for it in reversed(target.split("/")) if it not in ("", "."))
    return "/".join(done)


def read_text(tree: Tree, path: str) -> str | None:
    """A short text file, by way of links within the tree."""
    real = resolve(tree, path)
    return None if real is None else tree.text(real)


class FolderTree:
    """A folder of this machine, or all of it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def link(self, path: str) -> str | None:
        try:
            return str((self._root / path).readlink())
        except (OSError, ValueError):  # a NUL in a path that a file of the tree names
            return None

    def is_file(self, path: str) -> bool:
        try:
            return stat.S_ISREG((self._root / path).lstat().st_mode)
        except (OSError, ValueError):
            return False

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / folder))  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def text(self, path: str) -> str | None:
        try:
            with self.open(path) as stream:
                return stream.read(TEXT_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def open_all(self, paths: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        for path in paths:
            try:
                stream = self.open(path)
            except PermissionError:
                continue
            except OSError as error:
                words = error.strerror or str(error)
                raise InvalidDocument(Reason.UNREADABLE, words, place=path) from error
            with stream:
                yield path, stream

    def open(self, path: str) -> IO[bytes]:
        """A regular file; ``path`` must be free of links but for those above the root."""
        # A pipe would wait for a writer, and a link may have come since we looked.
        number = os.open(self._root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        stream = os.fdopen(number, "rb")
        if not stat.S_ISREG(os.fstat(number).st_mode):
            stream.close()
            raise OSError(errno.EINVAL, "not a regular file")
        return stream
