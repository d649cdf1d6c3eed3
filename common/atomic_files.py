"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
    handle, temporary = tempfile.mkstemp(dir=folder or path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if mode is None:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
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
