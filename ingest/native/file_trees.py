"""File trees whose links never leave the root, and decompression with limits."""

import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

import zstandard

from model.errors import InvalidDocument, Reason

#: Linux's limits for links in a path and for the length of a path. The length limits all targets
#: together; otherwise a link of 4 KB would add two thousand steps to every path through it.
_MOST_LINKS, _LONGEST_TARGETS = 40, 4_096
#: Limit for levels of folders; real systems have less than a fifth of it.
DEEPEST = 256
#: Limit for configuration files of the loader and the system; real ones have some hundred bytes.
TEXT_BYTES = 64 * 1024


class Tree(Protocol):
    """A root folder with its files. Paths are relative to it, with ``/`` between the parts."""

    @property
    def root(self) -> Any:
        """The root folder, from which :meth:`enter` begins."""

    def enter(self, folder: Any, name: str) -> Any:
        """The entry ``name`` of a folder; a text is the unresolved target of a link."""

    def is_file(self, path: str) -> bool:
        """Whether ``path`` is a regular file and not a link."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in ``folder``; none if ``folder`` is a link or not a folder."""

    def text(self, path: str) -> str | None:
        """Return the beginning of a text file; ``None`` if there is no file at ``path``."""

    def open_all(self, paths: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield regular files in any order; each is readable until the next one is requested."""


def resolve(tree: Tree, path: str) -> str | None:
    """Resolve the links in ``path`` as if the root of the tree were the root of the system.

    Each part of the path and of its links takes one step. The number of steps is limited to some
    thousand.

    :returns: the resolved path, which need not exist; ``None`` if links are circular or lead deeper
        than :data:`DEEPEST` folders
    """
    folders = [tree.root]
    resolved: list[str] = []
    remaining = _parts(path)
    followed = length = 0
    while remaining:
        part = remaining.pop()
        if part == "..":
            if resolved:  # the parent of the root is the root
                resolved.pop()
                folders.pop()
            continue
        target = tree.enter(folders[-1], part)
        if not isinstance(target, str):
            folders.append(target)
            resolved.append(part)
            if len(resolved) > DEEPEST:
                return None
            continue
        followed, length = followed + 1, length + len(target)
        if followed > _MOST_LINKS or length > _LONGEST_TARGETS:
            return None
        if target.startswith("/"):
            resolved.clear()
            del folders[1:]
        remaining.extend(_parts(target))
    return "/".join(resolved)


def _parts(path: str) -> list[str]:
    """Return the parts of a path in reverse order."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def is_there(path: str) -> bool:
    """Whether a path exists; ``False`` for paths that no file system accepts.

    >>> is_there("."), is_there(""), is_there("x" * 5_000), is_there("x\\0")
    (True, False, False, False)
    """
    try:
        return path != "" and Path(path).exists()
    except (OSError, ValueError):
        return False


def read_text(tree: Tree, path: str) -> str | None:
    """Return a short text file, following links within the tree."""
    real = resolve(tree, path)
    return None if real is None else tree.text(real)


class FolderTree:
    """A file tree in a folder of this machine, such as ``/``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def enter(self, folder: Path, name: str) -> Path | str:
        try:
            return str((folder / name).readlink())
        except (OSError, ValueError):  # not a link, or a path with NUL
            return folder / name

    def is_file(self, path: str) -> bool:
        try:
            return stat.S_ISREG((self.root / path).lstat().st_mode)
        except (OSError, ValueError):
            return False

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / folder))  # noqa: PTH208 - names, not paths
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


MEBIBYTE = 1024 * 1024
#: Real headers of archives are shorter; only a forged header requests more.
_LONGEST_READ = 64 * MEBIBYTE
#: Errors that broken compressed data raises.
BROKEN_STREAM = (gzip.BadGzipFile, zlib.error, EOFError, zstandard.ZstdError)


class Bounded(io.RawIOBase):
    """A forward-only stream that refuses decompression bombs.

    ``tarfile`` skips members by seeking, so seeking forwards is supported by reading.

    :param limit: largest number of unpacked bytes
    :param name: name for the error
    """

    def __init__(self, stream: IO[bytes], limit: int, name: str) -> None:
        self._stream = stream
        self._limit = limit
        self._name = name
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0 or size > _LONGEST_READ:
            raise self._bomb("a header claims to be longer than 64 MiB")
        parts = []
        while size and (part := self._stream.read(size)):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
            if self._at > self._limit:
                raise self._bomb(f"unpacks to more than {self._limit} bytes")
        return b"".join(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        remaining = offset - self._at
        if whence != io.SEEK_SET or remaining < 0:
            raise io.UnsupportedOperation("the stream can only be read forwards")
        while remaining > 0 and (part := self.read(min(remaining, MEBIBYTE))):
            remaining -= len(part)
        return self._at

    def tell(self) -> int:
        return self._at

    def _bomb(self, message: str) -> InvalidDocument:
        return InvalidDocument(Reason.ARCHIVE_BOMB, message, place=self._name)


def open_decompressed(stream: IO[bytes], limit: int, name: str) -> BinaryIO:
    """Unpack ``stream``; its first bytes tell whether it is gzip, Zstandard or uncompressed."""
    start = stream.read(4)
    stream.seek(-len(start), io.SEEK_CUR)
    if start[:2] == b"\x1f\x8b":
        plain: Any = gzip.GzipFile(fileobj=stream)
    elif start == b"\x28\xb5\x2f\xfd":
        # The header of a frame determines the memory; this is the limit of the zstd tool.
        unpacker = zstandard.ZstdDecompressor(max_window_size=128 * MEBIBYTE)
        plain = unpacker.stream_reader(stream, read_across_frames=True)
    else:
        plain = stream
    return cast(BinaryIO, Bounded(plain, limit, name))


def copy_bounded(source: IO[bytes], target: IO[bytes], limit: int) -> None:
    """Copy a stream of at most ``limit`` bytes.

    :raises InvalidDocument: if the stream is longer
    """
    remaining = limit
    while chunk := source.read(MEBIBYTE):
        remaining -= len(chunk)
        if remaining < 0:
            raise InvalidDocument(
                Reason.ARCHIVE_BOMB, f"longer than the {limit} bytes that it claims"
            )
        target.write(chunk)
