"""The benchmarks of watched projects: those that the files of a project name on this machine.

A night runs only commands that the user of this machine has confirmed, as they are in the files
now. Projects of the service's clients have no files here, and none of their commands is run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from adviser.projects.documents import MAX_BYTES
from adviser.projects.requirement_parsing import ParseContext
from adviser.projects.thoth_table import THOTH_TOML, own_benchmarks
from common.settings import Settings
from graph.record.watches import AdviceWatch, WatchKind, WatchSource
from model.errors import InvalidArgument
from model.measurements.evidence import COMMAND_FILES
from pis.commands import Command, command_of
from pis.confirmed_commands import unconfirmed

_LOG = logging.getLogger(__name__)

_FILES = ("pyproject.toml", THOTH_TOML)


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
