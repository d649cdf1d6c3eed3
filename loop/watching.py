"""Makes watches from requests for advice: by a person, or by clients of the service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from packaging.utils import canonicalize_name
from sqlalchemy import Connection

from adviser.projects.parsing import parse_project
from adviser.projects.project import Project
from adviser.reports.serialization import dataclass_from_json, dataclass_of, plain
from adviser.scoring.criteria import RecommendationType
from adviser.stack_request import StackRequest
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
from model.packages.releases import parse_requirement
from model.text import first_few

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
        new = NewWatch(
            WatchKind.PROJECT, service_project_name(request), plain(_unlabelled(request)),
            WatchSource.SERVICE, float(weighed.requests),
        )  # fmt: skip
        before = wanted.get(new.watch_id)  # requests that differ in their labels only
        weight = new.weight + (0.0 if before is None else before.weight)
        wanted[new.watch_id] = replace(new, weight=weight)
    return [key for key, new in wanted.items() if add_watch(connection, new)]


def service_project_name(request: StackRequest) -> str:
    """A name for a project of the service, by which people tell it from others."""
    roots = first_few([*dict.fromkeys(it.name for it in request.roots)], _NAMED_ROOTS)
    kind = [] if request.kind is RecommendationType.BEST else [request.kind.value]
    python = f"Python {request.environment.python_version}"
    return f"{roots or 'no requirements'} ({', '.join([request.project.source, python, *kind])})"


def _unlabelled(request: StackRequest) -> StackRequest:
    """The request without what describes its client, so that equal projects are one watch."""
    options = replace(
        request.options, labels={}, described=None, stack_info=(), justification=(), debug=False
    )
    return replace(request, options=options)


def identifiers_of(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Identifiers of watches by what a person wrote: a name, a package or an identifier.

    :raises InvalidArgument: naming the first that is not watched
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
