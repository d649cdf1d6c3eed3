"""What a request for advice of our own asks: files of a project, and the options of the command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from packaging.utils import canonicalize_name

from adviser.answering.indexes import asked_indexes
from adviser.asked import Asked, Options
from adviser.projects.project import Project
from adviser.request_values import parse_bounds, parse_dependencies, parse_moment, parse_overrides
from adviser.scoring.criteria import RecommendationType
from api.index_policy import refuse_foreign_indexes
from api.privacy import project_in
from common.environments import Environment, environment
from common.errors import InvalidArgument
from common.settings import Settings
from graph.candidates import Dependency

Read = TypeVar("Read")

#: Where a stack is to run unless the request says so; not the machine that serves.
_PLATFORM = "linux_x86_64"
_MOMENTS = ("newer_than", "older_than")


def settled(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request with days counted from now as moments, so that it means the same tomorrow.

    :raises InvalidArgument: naming the field
    """
    now = datetime.now(UTC)
    found = {name: _moment(request, name, now) for name in _MOMENTS}
    return {**request, **{name: it and it.isoformat() for name, it in found.items()}}


def asked_of(settings: Settings, request: Mapping[str, Any]) -> Asked:
    """What is asked of the adviser, about no hardware class yet.

    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: naming the field
    :raises ApiError: 400 if an index is not one of this service
    """
    project = project_in(request)
    refuse_foreign_indexes(settings, project)
    now = datetime.now(UTC)
    options = Options(
        count=request["count"],
        dev=request["dev"],
        extras=tuple(request["extras"]),
        groups=tuple(request["groups"]),
        constraints=_of(parse_bounds, request, "constraints"),
        exclusions=_of(parse_bounds, request, "exclusions"),
        overrides=_of(parse_overrides, request, "overrides"),
        prereleases=frozenset(map(canonicalize_name, request["prereleases"])),
        published_before=_moment(request, "older_than", now) or project.published_before,
        published_after=_moment(request, "newer_than", now),
        allowed_vulnerabilities=frozenset(request["allowed_vulnerabilities"]),
        indexes=asked_indexes(settings, project, request["indexes"]),
        labels=request["labels"],
        time_s=request["time_limit_s"],
    )
    where = _environment(project, request["environment"])
    asked = Asked(project, where, RecommendationType(request["type"]), options)
    _ = asked.roots  # what is no requirement, extra or group needs no store to say so
    return asked


def hardware_of(request: Mapping[str, Any]) -> str | None:
    """The beginning of a hardware class' digest, if the request is about one."""
    found: str | None = request["environment"].get("hardware")
    return found


def requirement_of(text: str, field: str) -> Dependency:
    """One requirement without marker and address.

    :raises InvalidArgument: naming the field
    """
    try:
        (found,) = parse_dependencies([text])
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error}") from error
    return found


def _of(read: Callable[[Iterable[str]], Read], request: Mapping[str, Any], field: str) -> Read:
    try:
        return read(request[field])
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error}") from error


def _moment(request: Mapping[str, Any], field: str, now: datetime) -> datetime | None:
    try:
        return parse_moment(request.get(field), now)
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error}") from error


def _environment(project: Project, given: Mapping[str, Any]) -> Environment:
    """The project's Python where the request says none, if that is a version."""
    platform, cuda = given.get("platform") or _PLATFORM, given.get("cuda")
    python = given.get("python")
    if python is None and project.python is not None:
        try:
            return environment(project.python, platform, cuda)
        except InvalidArgument:
            pass  # a project's own word, such as "3", may be less than a version
    return environment(python, platform, cuda)
