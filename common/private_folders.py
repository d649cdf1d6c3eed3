"""Folders that only their owner may read, whichever command makes them."""

from contextlib import suppress
from pathlib import Path


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
