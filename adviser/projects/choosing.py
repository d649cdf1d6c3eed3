"""Which of a project's requirements one request is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from common.errors import InvalidFile
from common.formats.file_fields import refuse, shown
from common.reasons import Reason
from common.terminal import first_few

if TYPE_CHECKING:
    from adviser.projects.project import AskedRequirement, Project


def asked_of(
    project: Project, *, dev: bool = False, extras: Iterable[str] = (), groups: Iterable[str] = ()
) -> tuple[AskedRequirement, ...]:
    """Those that always count, then development's, those of extras and of groups.

    :raises InvalidFile: naming what there is, if the project has no such extra or group
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


def overridden(
    asked: Iterable[AskedRequirement],
    overrides: Iterable[AskedRequirement],
    markers: Mapping[str, str],
) -> tuple[AskedRequirement, ...]:
    """Requirements with each that is overridden replaced by what holds of that, as uv does.

    Where nothing of it holds, the requirement is gone. Its own marker stays.
    """
    instead: dict[str, list[AskedRequirement]] = {}
    for it in overrides:
        held = instead.setdefault(it.name, [])
        if it.holds(markers):
            held.append(it)
    return tuple(
        replace(it, specifier=other.specifier, extras=other.extras) if other is not it else it
        for it in asked
        for other in instead.get(it.name, [it])
    )


def check_python(project: Project, markers: Mapping[str, str]) -> None:
    """Refuse a Python that the project itself excludes.

    :raises InvalidFile: naming both
    """
    python = markers["python_full_version"]
    wanted = project.requires_python
    if wanted is not None and not SpecifierSet(wanted).contains(python, prereleases=True):
        refuse(
            Reason.CONFLICTING_FIELDS,
            f"Python {python} is asked about, and the project requires {wanted}",
            f"{project.source}:requires-python",
            "ask about a Python that it admits (`--python`), or change the bound",
        )


def _named(
    project: Project, kind: str, known: Mapping[str, tuple[AskedRequirement, ...]], name: str
) -> tuple[AskedRequirement, ...]:
    found = known.get(name, known.get(canonicalize_name(name)))
    if found is None:
        raise InvalidFile(
            Reason.MISSING_FIELD,
            f"has no {kind} {shown(name)}",
            place=project.source,
            field=f"{kind}s",
            hint=f"it has {first_few(sorted(known), 20) or 'none'}",
        )
    return found
