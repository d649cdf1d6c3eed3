"""Makes watches from requests for advice, and finds the benchmarks of watched projects.

The files of a project name its benchmarks on this machine. Such a command runs only after a person
has confirmed it. A changed command, or the same command in another folder, is another command.
Projects of the service's clients have no files here, and none of their commands is run.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name
from sqlalchemy import Connection

from adviser.advice_request import StackRequest
from adviser.projects.parsing import parse_project
from adviser.projects.project import Project
from adviser.projects.pyproject import THOTH_TOML, own_benchmarks
from adviser.projects.requirement_parsing import ParseContext
from adviser.reports.serialization import dataclass_from_json, dataclass_of, plain
from adviser.scoring.criteria import RecommendationType
from common.files import private_folder, write_atomically
from common.formats.file_decoding import MAX_BYTES
from common.settings import Settings
from graph.record.documents import body_of
from graph.record.watches import (
    AdviceWatch,
    NewWatch,
    WatchKind,
    WatchSource,
    add_watch,
    requests_by_weight,
    watch_of,
    watches,
)
from model.errors import InvalidArgument, InvalidDocument
from model.json_documents import canonical_json, digest
from model.measurements.evidence import COMMAND_FILES
from model.packages.releases import parse_requirement
from model.text import first_few
from pis.command_specifications import Command, command_of

#: Direct requirements that the name of a project has at most.
_NAMED_ROOTS = 3
#: Projects of the service that are watched at most.
MOST_PROJECTS = 100


def package_project(text: str) -> Project:
    """The project of a watched package: its only requirement is the package.

    :raises InvalidArgument: if the text is not a requirement, or has a URL or a marker
    """
    requirement = parse_requirement(text)
    if requirement.name is None or requirement.url is not None or requirement.marker is not None:
        raise InvalidArgument(
            f"{text!r} is neither a folder nor a package: give a path, or a requirement such as"
            " 'numpy>=2'"
        )
    return parse_project({"requirements.txt": f"{text}\n".encode()}, None)


def project_watch(name: str, request: StackRequest) -> NewWatch:
    """The watch of a project.

    :param name: its folder, which people recognise
    """
    return NewWatch(WatchKind.PROJECT, name, plain(request))


def package_watch(text: str, request: StackRequest) -> NewWatch:
    """The watch of a package, as :func:`package_project` reads it."""
    name = canonicalize_name(parse_requirement(text).name or text)
    return NewWatch(WatchKind.PACKAGE, name, plain(request))


def request_of_watch(watch: AdviceWatch) -> StackRequest:
    """The request for advice of a watch.

    :raises InvalidDocument: if another version of Thoth stored it
    """
    return dataclass_of(dict(watch.request), StackRequest)


def adopt_requests(connection: Connection, settings: Settings) -> list[str]:
    """Watch the projects that clients of the service ask about most; known watches get new weights.

    Requests that another version of Thoth stored are skipped.

    :returns: identifiers of the new watches
    """
    wanted: dict[str, NewWatch] = {}
    for weighed in requests_by_weight(connection, MOST_PROJECTS):
        body = body_of(connection, settings, weighed.document_id)
        try:
            request = dataclass_from_json(body or b"", StackRequest)
        except InvalidDocument:
            continue
        # The request without what describes its client, so that equal projects are one watch.
        options = replace(
            request.options, labels={}, described=None, stack_info=(), justification=(), debug=False
        )
        name, document = service_project_name(request), plain(replace(request, options=options))
        weight = float(weighed.requests)
        new = NewWatch(WatchKind.PROJECT, name, document, WatchSource.SERVICE, weight)
        before = wanted.get(new.watch_id)  # requests that differ in their labels only
        weight = new.weight + (0.0 if before is None else before.weight)
        wanted[new.watch_id] = replace(new, weight=weight)
    return [key for key, new in wanted.items() if add_watch(connection, new)]


def service_project_name(request: StackRequest) -> str:
    """A name by which people distinguish a project of the service from others."""
    roots = first_few([*dict.fromkeys(it.name for it in request.roots)], _NAMED_ROOTS)
    kind = [] if request.kind is RecommendationType.BEST else [request.kind.value]
    python = f"Python {request.environment.python_version}"
    return f"{roots or 'no requirements'} ({', '.join([request.project.source, python, *kind])})"


def identifiers_of(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Identifiers of the watches that texts name: by name, package or identifier.

    :raises InvalidArgument: naming the first text without a watch
    """
    known = {}
    by_name = {it.name: it.watch_id for it in watches(connection, enabled=False)}
    for name in names:
        wanted = (
            by_name.get(name, name),
            NewWatch(WatchKind.PROJECT, name, {}).watch_id,
            NewWatch(WatchKind.PACKAGE, canonicalize_name(name), {}).watch_id,
        )
        match = next((it for it in wanted if watch_of(connection, it) is not None), None)
        if match is None:
            raise InvalidArgument(f"{name!r} is not watched: see `thoth watch list`")
        known[name] = match
    return known


_LOG = logging.getLogger(__name__)

_FILES = ("pyproject.toml", THOTH_TOML)
_CONFIRMED = "confirmed-commands"


def unconfirmed(settings: Settings, folder: Path, commands: Mapping[str, str]) -> dict[str, str]:
    """Commands of a project, by name, that were not confirmed on this machine."""
    return {
        name: command
        for name, command in commands.items()
        if not _place_of_command(settings, folder, command).is_file()
    }


def confirm_commands(settings: Settings, folder: Path, commands: Mapping[str, str]) -> None:
    """Remember that the user confirmed these commands of the project in ``folder``.

    :raises OSError: if the confirmation cannot be written
    """
    for command in commands.values():
        place = _place_of_command(settings, folder, command)
        private_folder(place.parent)
        text = canonical_json({"folder": os.fsdecode(folder.resolve()), "command": command})
        write_atomically(place, text + b"\n")


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
    :returns: omits commands whose files cannot be read
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
