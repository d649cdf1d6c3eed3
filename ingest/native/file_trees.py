"""The files below a folder, as a program would see them whose root it is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from model.errors import InvalidDocument
from model.reasons import Reason

#: Linux's limits for links in a path and for the length of a path. The length limits all targets
#: together; otherwise a link of 4 KB would add two thousand steps to every path through it.
_MOST_LINKS, _LONGEST_TARGETS = 40, 4_096
#: Limit for levels of folders; real systems have less than a fifth of it.
_DEEPEST = 256
#: Limit for configuration files of the loader and the system; real ones have some hundred bytes.
_TEXT_BYTES = 64 * 1024


def is_there(path: str) -> bool:
    """Whether a path exists; ``False`` for paths that no file system accepts.

    >>> is_there("."), is_there(""), is_there("x" * 5_000), is_there("x\\0")
    (True, False, False, False)
    """
    try:
        return path != "" and Path(path).exists()
    except (OSError, ValueError):
        return False


class FileTree:
    """The files below ``root``. Paths are relative to it, and links never lead out of it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def resolve(self, path: str) -> str | None:
        """Resolve the links in ``path`` as if the root of the tree were the root of the system.

        Each part of the path and of its links takes one step. The number of steps is limited to
        some thousand.

        :returns: the resolved path, which need not exist; ``None`` if links are circular or lead
            deeper than 256 folders
        """
        resolved: list[str] = []
        remaining = _parts(path)
        followed = length = 0
        while remaining:
            part = remaining.pop()
            if part == "..":
                del resolved[-1:]  # the parent of the root is the root
                continue
            try:
                target = str((self.root.joinpath(*resolved) / part).readlink())
            except (OSError, ValueError):  # not a link, or a path with NUL
                resolved.append(part)
                if len(resolved) > _DEEPEST:
                    return None
                continue
            followed, length = followed + 1, length + len(target)
            if followed > _MOST_LINKS or length > _LONGEST_TARGETS:
                return None
            if target.startswith("/"):
                resolved.clear()
            remaining.extend(_parts(target))
        return "/".join(resolved)

    def is_file(self, path: str) -> bool:
        """Whether ``path`` is a regular file and not a link."""
        try:
            return stat.S_ISREG((self.root / path).lstat().st_mode)
        except (OSError, ValueError):
            return False

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in ``folder``; none if it is not a folder."""
        try:
            return sorted(os.listdir(self.root / folder))  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def text(self, path: str) -> str | None:
        """Return the beginning of a text file, following links within the tree."""
        real = self.resolve(path)
        try:
            if real is None:
                return None
            with self.open(real) as stream:
                return stream.read(_TEXT_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def open_all(self, paths: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield regular files that may be read; each is open until the next one is requested."""
        for path in paths:
            try:
                stream = self.open(path)
            except PermissionError:
                continue
            except OSError as error:
                message = error.strerror or str(error)
                raise InvalidDocument(Reason.UNREADABLE, message, place=path) from error
            with stream:
                yield path, stream

    def open(self, path: str) -> IO[bytes]:
        """Open a regular file; ``path`` must not contain links below the root."""
        # Without the flags, a pipe would wait for a writer, and a new link would be followed.
        number = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        stream = os.fdopen(number, "rb")
        if not stat.S_ISREG(os.fstat(number).st_mode):
            stream.close()
            raise OSError(errno.EINVAL, "not a regular file")
        return stream


def _parts(path: str) -> list[str]:
    """Return the parts of a path in reverse order."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
