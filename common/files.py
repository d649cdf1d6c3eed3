"""Writes files completely or not at all, and makes folders that only their owner may read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

#: Mode of a file that only its owner may read.
PRIVATE = 0o600


@contextmanager
def atomic_file(
    path: Path, mode: int | None = None, *, folder: Path | None = None
) -> Iterator[BinaryIO]:
    """Yield a new file, and rename it to ``path`` after the block; remove it if the block fails.

    :param mode: by default, everyone who can read the folder may read the file
    :param folder: where the new file is until then, on the same disk; by default beside ``path``
    """
    temporary = (folder or path.parent) / f".{path.name}.{token_hex(4)}"
    # The kernel applies the umask, which only a process without other threads could read.
    flags, at_first = os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else PRIVATE
    handle = os.open(temporary, flags, at_first)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file completely or not at all.

    :param mode: of :func:`atomic_file`
    :raises OSError: naming ``path``, not the new file
    """
    try:
        with atomic_file(path, mode) as file:
            file.write(data)
    except OSError as error:
        error.filename = str(path)
        raise


def private_folder(folder: Path) -> Path:
    """Make ``folder`` and its missing parents with mode 0700, and tighten an existing ``folder``.

    Existing parents keep their mode, because they may have other uses.

    :raises OSError: if it cannot be made
    """
    for each in reversed((folder, *folder.parents)):
        each.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        with suppress(PermissionError):  # of another owner, who decides
            folder.chmod(0o700)
    return folder
