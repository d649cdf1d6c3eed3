"""``pyproject.toml``: ``[project]`` (PEP 621), groups (PEP 735), and what uv is told of indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from adviser.projects.project import Project, ProjectFormat, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import ParseContext, parse_asked
from adviser.projects.uv_table import read_uv
from common.formats.file_fields import (
    inside,
    refuse,
    shown,
    table_in,
    text_in,
    texts_in,
    wrong_type,
)
from common.reasons import Reason
from common.terminal import first_few

_Asked = tuple[ProjectRequirement, ...]

#: How often something may be followed in all: real projects need some thousands of steps.
_MAX_STEPS = 200_000
#: Of one extra, under how many conditions it may be asked for.
_MAX_CONDITIONS = 64

#: The group that uv installs unless told otherwise, and that people mean by development.
DEVELOPMENT = "dev"


def has_requirements(content: Mapping[str, Any]) -> bool:
    """Whether a ``pyproject.toml`` says what is required, or is only a tool's settings."""
    return "project" in content or "dependency-groups" in content


def read_pyproject(content: Mapping[str, Any], name: str, context: ParseContext) -> Project:
    """The content of a ``pyproject.toml`` as a project.

    An extra that asks for other extras of the project itself brings theirs.

    :raises InvalidFile: naming the entry; a cycle of groups is told with its path
    """
    project = table_in(content, "project", name)
    uv = read_uv(content, name, context)
    _tell_of_dynamic(project, name, context)
    at = f"{name}:project"
    own = canonicalize_name(text_in(project, "name", at) or "")
    optional = table_in(project, "optional-dependencies", at)
    extras: dict[str, _Asked] = {
        canonicalize_name(key): _lines(optional, key, f"{at}.optional-dependencies", context)
        for key in optional
    }
    groups = _groups(table_in(content, "dependency-groups", name), name, context)
    base = _lines(project, "dependencies", at, context)
    follow = _Extras(own, extras, base, f"{at}.optional-dependencies")
    known = {key: uv.placed(follow.of(asked), context) for key, asked in groups.items()}
    dev = (*known.get(DEVELOPMENT, ()), *uv.placed(uv.dev, context))
    if dev:
        known[DEVELOPMENT] = dev
    return Project(
        requirements=uv.placed(follow.of(base), context),
        dev=dev,
        extras={key: uv.placed(follow.of(asked, key), context) for key, asked in extras.items()},
        groups=known,
        constraints=uv.constraints,
        overrides=uv.overrides,
        removed=uv.removed,
        published_before=uv.published_before,
        indexes=uv.indexes,
        all_prereleases=uv.all_prereleases,
        format=ProjectFormat.PYPROJECT,
        source=name,
        requires_python=_requires_python(project, at),
    )


#: Markers that all have to hold; a set, for twice is once and the order tells nothing.
_Condition = frozenset[str]


class _Extras:
    """Requirements with those of the project itself replaced by what they stand for."""

    def __init__(self, own: str, extras: Mapping[str, _Asked], base: _Asked, at: str) -> None:
        self._own, self._extras, self._base, self._at = own, extras, base, at
        self._steps = _Steps(at)

    def of(self, asked: Iterable[ProjectRequirement], extra: str | None = None) -> _Asked:
        """In their order, each once.

        :param extra: of which these are the requirements
        """
        found: dict[ProjectRequirement, None] = {}
        seen: dict[str | None, list[_Condition]] = {extra: [frozenset()]} if extra else {}
        pending = [(it, _Condition()) for it in asked][::-1]
        while pending:
            it, condition = pending.pop()
            self._steps.take(1 + len(condition))
            if not self._own or it.name != self._own:
                found[_narrowed(it, condition)] = None
                continue
            if it.marker is not None:
                condition |= {it.marker}
            brought = [(None, self._base), *((key, self._extras.get(key, ())) for key in it.extras)]
            for key, lines in reversed(brought):
                if self._is_new(condition, seen.setdefault(key, []), key):
                    pending += [(line, condition) for line in lines][::-1]
        return tuple(found)

    def _is_new(self, condition: _Condition, known: list[_Condition], extra: str | None) -> bool:
        """Whether a condition asks for an extra where those known before do not."""
        self._steps.take(len(known))
        if any(it <= condition for it in known):
            return False
        if len(known) == _MAX_CONDITIONS:
            refuse(
                Reason.OUT_OF_RANGE,
                f"{shown(extra or self._own)} is asked for under more than {_MAX_CONDITIONS} "
                "conditions",
                self._at,
                "ask for it where it is needed, rather than by way of other extras",
            )
        known.append(condition)
        return True


class _Steps:
    """How much may be followed in all, so that a small file takes no long time."""

    def __init__(self, at: str) -> None:
        self._left, self._at = _MAX_STEPS, at

    def take(self, steps: int = 1) -> None:
        """Count some.

        :raises InvalidFile: if it is too much
        """
        self._left -= steps
        if self._left < 0:
            refuse(
                Reason.OUT_OF_RANGE,
                "what refers to what is more than any project needs",
                self._at,
                "let groups and extras name what they need themselves",
            )


def _narrowed(asked: ProjectRequirement, condition: _Condition) -> ProjectRequirement:
    if not condition:
        return asked
    markers = sorted(condition | ({asked.marker} if asked.marker else frozenset()))
    return replace(asked, marker=_all_of(markers))


def _all_of(markers: Collection[str]) -> str:
    if len(markers) == 1:
        return next(iter(markers))
    return " and ".join(f"({it})" for it in markers)


def _lines(table: Mapping[str, Any], key: str, at: str, context: ParseContext) -> _Asked:
    place = inside(at, key)
    lines = (
        parse_asked(text, f"{place}[{number}]", context)
        for number, text in enumerate(texts_in(table, key, at))
    )
    return tuple(it for it in lines if it is not None)


def _requires_python(project: Mapping[str, Any], at: str) -> str | None:
    said = text_in(project, "requires-python", at)
    if said is None:
        return None
    try:
        return str(SpecifierSet(said))
    except InvalidSpecifier:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{shown(said)} is not a bound of versions",
            f"{at}.requires-python",
            "write it as PEP 440 says, such as `>=3.11`",
        )


def _tell_of_dynamic(project: Mapping[str, Any], name: str, context: ParseContext) -> None:
    at = f"{name}:project.dynamic"
    for key in texts_in(project, "dynamic", f"{name}:project"):
        if key in ("dependencies", "optional-dependencies"):
            context.warn(
                WarningCode.DYNAMIC,
                f"{key} are known only to the build: none of them is advised on; give a "
                "requirements file that has them",
                at,
            )


def _groups(table: Mapping[str, Any], name: str, context: ParseContext) -> dict[str, _Asked]:
    """Every group with what it includes, each requirement once.

    ``packaging`` can follow includes, too, but two includes of one group double what it
    holds, so that forty small groups would fill the memory.
    """
    names: dict[str, str] = {}
    for key in table:
        if (first := names.setdefault(canonicalize_name(key), key)) != key:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"{shown(first)} and {shown(key)} are one group",
                f"{name}:dependency-groups",
                "keep one of the two",
            )
    lines = {
        group: list(_members(table, key, f"{name}:dependency-groups", context))
        for group, key in names.items()
    }
    steps = _Steps(f"{name}:dependency-groups")
    return {group: _flat(group, lines, name, steps) for group in lines}


def _members(
    table: Mapping[str, Any], key: str, at: str, context: ParseContext
) -> Iterator[ProjectRequirement | str]:
    """Requirements of a group, and names of groups that it includes."""
    place, members = inside(at, key), table[key]
    if not isinstance(members, list):
        wrong_type(members, "a list", place)
    for number, member in enumerate(members):
        here = f"{place}[{number}]"
        if isinstance(member, str):
            if (asked := parse_asked(member, here, context)) is not None:
                yield asked
        elif isinstance(member, Mapping) and member.keys() == {"include-group"}:
            yield canonicalize_name(text_in(member, "include-group", here) or "")
        else:
            wrong_type(member, "a requirement, or a table with `include-group` alone,", here)


def _flat(
    group: str, lines: Mapping[str, list[ProjectRequirement | str]], name: str, steps: _Steps
) -> _Asked:
    """A group with its includes, where they stand."""
    found: dict[ProjectRequirement, None] = {}
    seen, path = {group}, {group: None}  # a dictionary, for it is ordered and quick to ask
    stack = [iter(lines[group])]
    while stack:
        steps.take()
        member = next(stack[-1], None)
        if member is None:
            stack.pop(), path.popitem()
        elif isinstance(member, ProjectRequirement):
            found[member] = None
        elif member in path:
            cycle = [*path, member][list(path).index(member) :]
            refuse(
                Reason.INCLUDE_CYCLE,
                f"groups include each other: {' → '.join(cycle)}",
                f"{name}:dependency-groups.{next(reversed(path))}",
                "take out one of these includes",
            )
        elif member not in lines:
            refuse(
                Reason.INCLUDE_MISSING,
                f"includes the group {shown(member)}, which there is not",
                f"{name}:dependency-groups.{next(reversed(path))}",
                f"there are {first_few(sorted(lines), 20)}",
            )
        elif member not in seen:
            seen.add(member)
            path[member] = None
            stack.append(iter(lines[member]))
    return tuple(found)
