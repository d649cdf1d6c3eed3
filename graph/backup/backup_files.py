"""The file of a backup: a local file, or an object such as ``s3://bucket/thoth.tar``."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from graph.record.document_store import client_errors, file_system_of
from model.errors import InvalidArgument, NoSpace

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextmanager
def new_file(name: str) -> Iterator[BinaryIO]:
    """A file that gets its name at the end of the block, or disappears.

    A local file has the mode 0600; who may read an object depends on its bucket. A local file that
    appears within the block is not replaced; an object is.

    :raises InvalidArgument: if there is such a file already, or it cannot be written
    :raises NoSpace: if its disk is full
    """
    with _new_object(name) if "://" in name else _new_local_file(Path(name)) as file:
        yield file


@contextmanager
def open_for_reading(name: str) -> Iterator[BinaryIO]:
    """A file to read.

    :raises InvalidArgument: if it cannot be read
    """
    with _reading(name):
        filesystem, path = file_system_of(name)
        file: BinaryIO = filesystem.open(path, "rb")
    with file:
        yield file


def size_of(name: str) -> int:
    """Size of a file in bytes.

    :raises InvalidArgument: if it cannot be read
    """
    with _reading(name):
        filesystem, path = file_system_of(name)
        size: int = filesystem.size(path)
    return size


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except client_errors(ImportError, ValueError) as error:
        raise InvalidArgument(f"{name}: cannot be read: {_cause_of(error)}") from error


@contextmanager
def _new_object(url: str) -> Iterator[BinaryIO]:
    with _write_errors(url, ImportError, ValueError):
        filesystem, path = file_system_of(url)
        if filesystem.exists(path):
            raise FileExistsError
        file = filesystem.open(path, "wb", autocommit=False)
    try:
        yield cast(BinaryIO, _NewObject(file, url))
        with _write_errors(url):
            file.close()
            file.commit()
    except BaseException:
        with suppress(Exception):
            file.discard()
        file.closed = True  # otherwise it is written when it is collected as garbage
        raise


@contextmanager
def _new_local_file(path: Path) -> Iterator[BinaryIO]:
    with _write_errors(str(path)):
        if os.path.lexists(path):
            raise FileExistsError
        descriptor, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".part", dir=path.parent
        )
    temporary = Path(name)
    try:
        with io.BufferedWriter(_NewFile(descriptor, str(path))) as file:
            yield file
            file.flush()
            with _write_errors(str(path)):
                os.fsync(descriptor)
        with _write_errors(str(path)):
            if os.path.lexists(path):
                raise FileExistsError
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


class _NewFile(io.FileIO):
    """A file whose errors name the path that it gets later."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(descriptor, "wb")
        self._name = name

    def write(self, data: ReadableBuffer) -> int:
        with _write_errors(self._name):
            return super().write(data)


class _NewObject(io.RawIOBase):
    """An object whose errors name its URL."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url

    def write(self, data: ReadableBuffer) -> int:
        with _write_errors(self._url):
            return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())


@contextmanager
def _write_errors(name: str, *more: type[Exception]) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise InvalidArgument(f"{name}: exists", hint="name a new file") from None
    except client_errors(*more) as error:
        message = f"{name}: cannot be written: {_cause_of(error)}"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpace(message, hint="name a file on a disk with free space") from error
        folder = "a bucket" if "://" in name else "a folder"
        hint = f"name a file in {folder} that you may write to"
        raise InvalidArgument(message, hint=hint) from error


def _cause_of(error: Exception) -> str:
    """The cause without what a client library may repeat of its configuration."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, ImportError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "no such file or bucket"
    return type(error).__name__
