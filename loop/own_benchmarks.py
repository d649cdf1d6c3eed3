"""The benchmarks of watched projects: those that the files of a project name on this machine.

Such a command runs only after a person has seen it. A changed command, or the same command in
another folder, is another command. Projects of the service's clients have no files here, and none
of their commands is run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from adviser.projects.documents import MAX_BYTES
from adviser.projects.pyproject import THOTH_TOML, own_benchmarks
from adviser.projects.requirement_parsing import ParseContext
from common.private_folders import private_folder
from common.settings import Settings
from graph.record.watches import AdviceWatch, WatchKind, WatchSource
from model.errors import InvalidArgument
from model.json_documents import canonical_json, digest
from model.measurements.evidence import COMMAND_FILES
from pis.commands import Command, command_of

_LOG = logging.getLogger(__name__)

_FILES = ("pyproject.toml", THOTH_TOML)
_CONFIRMED = "confirmed-commands"


def unconfirmed(settings: Settings, folder: Path, commands: Mapping[str, str]) -> dict[str, str]:
    """Those of a project's commands, by name, that were not confirmed on this machine."""
    return {
        name: command
        for name, command in commands.items()
        if not _place_of_command(settings, folder, command).is_file()
    }


def confirm_commands(settings: Settings, folder: Path, commands: Mapping[str, str]) -> None:
    """Remember that the user confirmed these commands of the project in ``folder``.

    :raises OSError: if that cannot be written
    """
    for command in commands.values():
        place = _place_of_command(settings, folder, command)
        private_folder(place.parent)
        text = canonical_json({"folder": os.fsdecode(folder.resolve()), "command": command})
        # Renamed, so that a command is confirmed or not, also after a crash.
        beside = place.with_suffix(f".{os.getpid()}")
        beside.write_bytes(text + b"\n")
        beside.replace(place)


def _place_of_command(settings: Settings, folder: Path, command: str) -> Path:
    key = digest([os.fsdecode(folder.resolve()), command]).removeprefix("sha256:")
    return settings.home / _CONFIRMED / f"{key}.json"


def benchmarks_of(folder: Path) -> dict[str, str]:
    """Commands by name that the files of the project in ``folder`` name; none of them is run.

    :raises InvalidFile: with the field
    :raises InvalidArgument: if a file cannot be read
    """
    files = {}
    for path in (folder / it for it in _FILES):
        try:
            with path.open("rb") as file:
                files[path.name] = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InvalidArgument(f"{path}: {error.strerror or error}") from None
    return own_benchmarks(files, ParseContext())


def benchmark_files(place: Path, commands: Mapping[str, str]) -> dict[str, str]:
    """Digests of the files that commands name now, by the names of the commands; none of them runs.

    :param place: folder or file of the project
    :returns: without those whose files cannot be read
    """
    folder, digests = place if place.is_dir() else place.parent, {}
    for name, text in commands.items() if folder.is_dir() else ():
        with suppress(InvalidArgument):
            digests[name] = str(command_of([text], folder).identity[COMMAND_FILES])
    return digests


def confirmed_benchmarks(settings: Settings, watch: AdviceWatch) -> dict[str, Command]:
    """The confirmed benchmarks of a project that a person watches on this machine, by name."""
    place = place_of(watch)
    if place is None or settings.loop_runner != "local":
        return {}
    folder = place if place.is_dir() else place.parent
    try:
        commands = benchmarks_of(folder)
        new = unconfirmed(settings, folder, commands)
        return {
            name: command_of([text], folder) for name, text in commands.items() if name not in new
        }
    except InvalidArgument as error:
        extra = {"watch": watch.watch_id, "error": str(error)}
        _LOG.warning("own_benchmarks_unreadable", extra=extra)
        return {}


def place_of(watch: AdviceWatch) -> Path | None:
    """Folder or file of a project that a person watches on this machine; ``None`` for others."""
    of_person = watch.kind is WatchKind.PROJECT and watch.source is WatchSource.PERSON
    place = Path(watch.name)
    return place if of_person and place.is_absolute() else None
