"""Commands of project files that the user of this machine has confirmed.

A command that a file names runs only after a person has seen it. A changed command, or the same
command in another folder, is another command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from common.private_folders import private_folder
from common.settings import Settings
from model.json_documents import canonical_json, digest

_FOLDER = "confirmed-commands"


def unconfirmed(settings: Settings, folder: Path, commands: Mapping[str, str]) -> dict[str, str]:
    """Those of a project's commands, by name, that were not confirmed on this machine."""
    return {
        name: command
        for name, command in commands.items()
        if not _place(settings, folder, command).is_file()
    }


def confirm_commands(settings: Settings, folder: Path, commands: Mapping[str, str]) -> None:
    """Remember that the user confirmed these commands of the project in ``folder``.

    :raises OSError: if that cannot be written
    """
    for command in commands.values():
        place = _place(settings, folder, command)
        private_folder(place.parent)
        text = canonical_json({"folder": os.fsdecode(folder.resolve()), "command": command})
        # Renamed, so that a command is confirmed or not, also after a crash.
        beside = place.with_suffix(f".{os.getpid()}")
        beside.write_bytes(text + b"\n")
        beside.replace(place)


def _place(settings: Settings, folder: Path, command: str) -> Path:
    key = digest([os.fsdecode(folder.resolve()), command]).removeprefix("sha256:")
    return settings.home / _FOLDER / f"{key}.json"
