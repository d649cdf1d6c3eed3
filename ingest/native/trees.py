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

#: As many as Linux follows in one path, and the longest path that it takes: of all targets
#: together, or a link of four kilobytes would cost two thousand steps for every path through it.
_MOST_LINKS, _LONGEST_TARGETS = 40, 4_096
#: Folders within one another; no real system has a fifth of it.
DEEPEST = 256
#: Configuration of the loader and of the system; real ones are some hundred bytes long.
TEXT_BYTES = 64 * 1024


class Walker(Protocol):
    """A place in a tree, from the root on; each step costs the same, however deep it is."""

    def enter(self, name: str) -> str | None:
        """Go to ``name``; if that is a link, stay, and say where it points, as it is written."""

    def leave(self) -> None:
        """Go to the folder above; not asked at the root."""

    def restart(self) -> None:
        """Go to the root."""


class Tree(Protocol):
    """A root folder. Paths are relative to it, with ``/`` between the parts."""

    def walker(self) -> Walker:
        """A new one, at the root."""

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

    Costs a step for each part of the path and of the links in it, some thousands at most.

    :returns: ``None`` if the links have no end, or lead deeper than :data:`DEEPEST` folders;
        whether there is a file is not said
    """
    walker = tree.walker()
    done: list[str] = []
    left = _parts(path)
    followed = length = 0
    while left:
        part = left.pop()
        if part == "..":
            if done:  # the parent of the root is the root
                done.pop()
                walker.leave()
            continue
        target = walker.enter(part)
        if target is None:
            done.append(part)
            if len(done) > DEEPEST:
                return None
            continue
        followed, length = followed + 1, length + len(target)
        if followed > _MOST_LINKS or length > _LONGEST_TARGETS:
            return None
        if target.startswith("/"):
            done.clear()
            walker.restart()
        left.extend(_parts(target))
    return "/".join(done)


def _parts(path: str) -> list[str]:
    """The last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def is_there(path: str) -> bool:
    """Whether anything is at a path; there is nothing at one that no file system takes.

    >>> is_there("."), is_there(""), is_there("x" * 5_000), is_there("x\\0")
    (True, False, False, False)
    """
    try:
        return path != "" and Path(path).exists()
    except (OSError, ValueError):
        return False


def read_text(tree: Tree, path: str) -> str | None:
    """A short text file, by way of links within the tree."""
    real = resolve(tree, path)
    return None if real is None else tree.text(real)


class _FolderWalker:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._parts: list[str] = []

    def enter(self, name: str) -> str | None:
        try:
            return str(self._root.joinpath(*self._parts, name).readlink())
        except (OSError, ValueError):  # a NUL in a path that a file of the tree names
            self._parts.append(name)
            return None

    def leave(self) -> None:
        self._parts.pop()

    def restart(self) -> None:
        self._parts.clear()


class FolderTree:
    """A folder of this machine, or all of it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def walker(self) -> Walker:
        return _FolderWalker(self._root)

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
