"""Which of a project's requirements one request is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from adviser.projects.problems import InvalidProject, shown
from common.reasons import Reason

if TYPE_CHECKING:
    from adviser.projects.project import AskedRequirement, Project


def asked_of(
    project: Project, *, dev: bool = False, extras: Iterable[str] = (), groups: Iterable[str] = ()
) -> tuple[AskedRequirement, ...]:
    """Those that always count, then development's, those of extras and of groups.

    :raises InvalidProject: naming what there is, if the project has no such extra or group
    """
    asked = [*project.requirements, *(project.dev if dev else ())]
    for kind, known, wanted in (
        ("extra", project.extras, extras), ("group", project.groups, groups)
    ):  # fmt: skip
        for name in wanted:
            asked += _named(project, kind, known, name)
    # Where it stands is no difference; the first place is told.
    first: dict[AskedRequirement, AskedRequirement] = {}
    for it in asked:
        first.setdefault(replace(it, origin=""), it)
    return tuple(first.values())


def _named(
    project: Project, kind: str, known: Mapping[str, tuple[AskedRequirement, ...]], name: str
) -> tuple[AskedRequirement, ...]:
    found = known.get(name, known.get(canonicalize_name(name)))
    if found is None:
        raise InvalidProject(
            Reason.MISSING_FIELD,
            f"has no {kind} {shown(name)}",
            place=project.source,
            field="$",
            hint=f"it has {', '.join(sorted(known)[:20]) or 'none'}",
        )
    return found
