"""A folder that is written as a whole: the old or the new content, never a part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from model.errors import InvalidArgument


@contextmanager
def target_folder(target: Path, *, replace: bool, marker: str) -> Iterator[Path]:
    """Yield a new folder beside ``target``, and rename it to ``target`` after the block.

    If the block fails, ``target`` stays as it was. An interrupted replacement leaves the complete
    old folder, the complete new one, or for a moment neither under its name but the old one with
    the suffix ``.old``.

    :param replace: replace an earlier content, if it has the file ``marker``
    :raises InvalidArgument: if ``target`` cannot be written or must not be replaced
    """
    target = Path(os.path.realpath(target))
    _check(target, replace=replace, marker=marker)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    old = target.with_name(f".{target.name}.old")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        _check(target, replace=replace, marker=marker)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        part.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise InvalidArgument(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(target: Path, *, replace: bool, marker: str) -> None:
    if target.exists() and not target.is_dir():
        raise InvalidArgument(f"{target}: exists and is not a folder", hint="name a new folder")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not (target / marker).is_file():
        message = f"{target}: the folder has other content than an export"
        raise InvalidArgument(message, hint="name a new or an empty folder")
    if not replace:
        raise InvalidArgument(
            f"{target}: the folder has an export already", hint="--replace replaces it"
        )
