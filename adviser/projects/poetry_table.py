"""Read ``[tool.poetry]``: dependencies, groups, extras and sources, with Poetry's constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from adviser.projects.indexes import index_named, required_url
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import (
    ParseContext,
    parse_marker,
    parse_project_requirement,
)
from common.formats.file_fields import FileTable, refuse, value_text
from model.packages.identity import DEFAULT_INDEX, public_index_url
from model.reasons import Reason

_Requirements = tuple[ProjectRequirement, ...]
_SOURCES = {
    "git": WarningCode.REPOSITORY,
    "path": WarningCode.LOCAL_PATH,
    "file": WarningCode.LOCAL_PATH,
    "url": WarningCode.ADDRESS,
}
#: A clause of a constraint: an operator and a version.
_CLAUSE = re.compile(r"(\^|~=|~|===|==|!=|>=|<=|>|<|=)?\s*([^\s,^~=!<>|]+)")
_SEPARATORS = re.compile(r"[\s,]*")
_ALTERNATIVES = re.compile(r"\s*\|\|?\s*")


@dataclass(frozen=True, slots=True)
class PoetryTable:
    """What ``[tool.poetry]`` says about requirements.

    :param requirements: of the project itself; optional ones only in :attr:`extras`
    :param groups: requirements by group; ``dev-dependencies`` are the group ``dev``
    :param sources: by package, markers (``None`` for everywhere) and the only index there
    :param prereleases: packages of the project whose pre-releases are admitted
    """

    requirements: _Requirements = ()
    extras: Mapping[str, _Requirements] = field(default_factory=dict)
    groups: Mapping[str, _Requirements] = field(default_factory=dict)
    indexes: tuple[ProjectIndex, ...] = ()
    sources: Mapping[str, Sequence[tuple[str | None, str]]] = field(default_factory=dict)
    prereleases: frozenset[str] = frozenset()
    requires_python: str | None = None


def has_poetry_requirements(content: Mapping[str, Any]) -> bool:
    """Whether a ``pyproject.toml`` has a table of Poetry that lists requirements."""
    tool = content.get("tool")
    table = tool.get("poetry") if isinstance(tool, Mapping) else None
    names = ("dependencies", "dev-dependencies", "group")
    return isinstance(table, Mapping) and any(it in table for it in names)


def read_poetry(content: FileTable, context: ParseContext) -> PoetryTable:
    """Read the table; without one, the result is empty.

    Dependencies that ``[project]`` lists are Poetry's own since version 2; the table then only adds
    groups and sources.

    :raises InvalidFile: with the path of the entry
    """
    table = content.nested("tool").nested("poetry")
    in_project = "dependencies" in content.nested("project")
    main = table.nested("dependencies")
    needed: list[ProjectRequirement] = []
    optional: dict[str, list[ProjectRequirement]] = {}
    for package, entry in () if in_project else _entries(main):
        if canonicalize_name(package) == "python":
            continue
        requirement = _requirement(package, entry, context)
        if requirement is None:
            continue
        if entry.flag("optional"):
            optional.setdefault(requirement.name, []).append(requirement)
        else:
            needed.append(requirement)
    extras = table.nested("extras")
    sources: dict[str, list[tuple[str | None, str]]] = {}
    for package, entry in _entries(main):
        if source := _source(entry):
            text = _marker(entry)
            marker = parse_marker(text, entry.at) if text else None
            sources.setdefault(canonicalize_name(package), []).append((marker, source))
    python = None if in_project else main.text("python")
    with context.optional():
        groups = _groups(table, context)
    return PoetryTable(
        requirements=tuple(needed),
        extras={
            canonicalize_name(key): tuple(
                requirement
                for package in extras.texts(key)
                for requirement in optional.get(canonicalize_name(package), ())
            )
            for key in (() if in_project else extras)
        },
        groups=groups,
        indexes=_indexes(table, context),
        sources=sources,
        prereleases=frozenset(
            canonicalize_name(package)
            for package, entry in _entries(main)
            if entry.flag("allow-prereleases")
        ),
        requires_python=" || ".join(map(str, _pythons(python or "", main.at / "python"))) or None,
    )


def _groups(table: FileTable, context: ParseContext) -> dict[str, _Requirements]:
    groups: dict[str, _Requirements] = {}
    named = table.nested("group")
    for key in named:
        group = named.nested(key)
        if "include-groups" in group:
            message = "groups that include others are not supported: name these with `--group`, too"
            context.warn(WarningCode.OPTION_IGNORED, message, group.at / "include-groups")
        groups[canonicalize_name(key)] = _all(group.nested("dependencies"), context)
    if listed := table.nested("dev-dependencies"):
        groups["dev"] = (*groups.get("dev", ()), *_all(listed, context))
    return groups


def _all(table: FileTable, context: ParseContext) -> _Requirements:
    parsed = (_requirement(package, entry, context) for package, entry in _entries(table))
    return tuple(it for it in parsed if it is not None)


def _entries(table: FileTable) -> Iterator[tuple[str, FileTable]]:
    """Names with each of their entries as a table; a package may have several entries."""
    for package, value in table.items():
        several = isinstance(value, list)
        for number, each in enumerate(value if several else [value]):
            keys = (package, number) if several else (package,)
            entry = {"version": each} if isinstance(each, str) else each
            if not isinstance(entry, dict):
                raise table.wrong_type(entry, "a version or a table", *keys)
            yield package, FileTable(entry, table, *keys)


def _requirement(
    package: str, entry: FileTable, context: ParseContext
) -> ProjectRequirement | None:
    at = entry.at
    for key, code in _SOURCES.items():
        if entry.get(key):
            context.count(at)
            local = key in ("path", "file")
            path = str(entry[key]) if local else None
            text = _marker(entry)
            marker = parse_marker(text, at) if text else None
            with context.optional(entry.flag("optional")):
                what = f"{package} @ {entry[key]}"
                context.leave_out(code, what, at, local=local, path=path, marker=marker)
            return None
    extras = ",".join(entry.texts("extras"))
    marker = _marker(entry)
    bounds, gaps = specifier_of(entry.text("version") or "*", at / "version")
    text = f"{package}{f'[{extras}]' if extras else ''}{bounds}{f' ; {marker}' if marker else ''}"
    requirement = parse_project_requirement(text, at, context)
    if requirement is None:
        return None
    return replace(
        requirement,
        excluded=gaps,
        index=_source(entry),
        prereleases=True if entry.flag("allow-prereleases") else None,
    )


def specifier_of(constraint: str, at: str) -> tuple[str, tuple[str, ...]]:
    """The specifier of PEP 440 for a constraint of Poetry, and specifiers of versions to exclude.

    >>> specifier_of("^1.2", "pyproject.toml:a"), specifier_of("~1.2.3", "pyproject.toml:a")
    (('<2,>=1.2', ()), ('<1.3,>=1.2.3', ()))

    Alternatives become one range. If PEP 440 cannot express it, gaps between them are excluded.

    >>> specifier_of("^2.1 || ^3.0", "pyproject.toml:a")
    ('<4,>=2.1', ())
    >>> specifier_of("1 || ^3", "pyproject.toml:a")
    ('<4,>=1', ('>=1,!=1,<=3,!=3',))

    :raises InvalidFile: if it is not a constraint
    """
    alternatives = _alternatives(constraint, at)
    exact = reduce(or_, (it.to_range() for it in alternatives)).to_specifier_set()
    if len(alternatives) == 1 or exact is not None:
        return str(alternatives[0] if len(alternatives) == 1 else exact), ()
    return _with_gaps(alternatives)


def _alternatives(text: str, at: str) -> list[SpecifierSet]:
    """The specifiers of a constraint, of which versions meet at least one.

    :raises InvalidFile: if it is not a constraint
    """
    try:
        if "|" in text and "===" in text:
            raise ValueError(text)  # arbitrary texts are no versions, so they have no order
        return [_specifiers(it) for it in _ALTERNATIVES.split(text.strip() or "*")]
    except (InvalidSpecifier, InvalidVersion, ValueError):
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(text)} is not a version constraint",
            at,
            "use the form of Poetry, such as `^1.2`, or of PEP 440, such as `>=1.2,<2`",
        )


def _specifiers(text: str) -> SpecifierSet:
    """:raises ValueError: if the text is not a constraint"""
    if not text:
        raise ValueError("an alternative is empty")
    return SpecifierSet("" if text == "*" else ",".join(_clauses(text)))


class _Bound(NamedTuple):
    """One end of a range.

    :param clause: of PEP 440
    :param beyond: clauses for the versions beyond this end
    """

    version: Version
    clause: str
    beyond: str


def _with_gaps(alternatives: Sequence[SpecifierSet]) -> tuple[str, tuple[str, ...]]:
    """One range over several, and the gaps in it.

    Neither ``<3`` nor ``>=3`` admits pre-releases of 3, but one range over both does.
    """
    ends = [list(zip(*map(_bounds, it), strict=True)) for it in alternatives]
    ranges = [
        (max(filter(None, lows), default=None), min(filter(None, highs), default=None))
        for lows, highs in ends
    ]
    ranges.sort(key=lambda it: (it[0] is not None, it[0] or ()))
    (lowest, highest), *others = ranges
    gaps = []
    for low, high in others:
        if highest is None or low is None:
            break
        between = not any(it.contains(low.version, prereleases=True) for it in alternatives)
        if low.version > highest.version or (between and low.version == highest.version):
            gaps.append(f"{highest.beyond},{low.beyond}")
        highest = None if high is None else max(highest, high)
    for exception in {clause for it in alternatives for clause in it if clause.operator == "!="}:
        version = exception.version.removesuffix(".*")
        if not any(it.contains(version, prereleases=True) for it in alternatives):
            gaps.append(f"=={exception.version}")
    hull = ",".join(it.clause for it in (lowest, highest) if it is not None)
    return str(SpecifierSet(hull)), tuple(sorted(gaps))


def _bounds(specifier: Specifier) -> tuple[_Bound | None, _Bound | None]:
    """The lower and the upper bound of one clause."""
    operator, text = specifier.operator, specifier.version.removesuffix(".*")
    version = Version(text)
    lower = _Bound(version, f">={text}", f"<={text},!={text}")
    upper = _Bound(version, f"<={text}", f">={text},!={text}")
    if operator == "~=" or specifier.version != text:
        release = version.release[:-1] if operator == "~=" else version.release
        end = Version(".".join(map(str, (*release[:-1], release[-1] + 1))))
        upper = _Bound(end, f"<{end}", f">={end}.dev0")
    if operator == ">":
        lower = _Bound(version, f">{text}", f"<={text}")
    if operator == "<":
        before = text if version.is_prerelease else f"{text}.dev0"
        upper = _Bound(version, f"<{text}", f">={before}")
    return lower if operator in (">", ">=", "==", "~=") else None, (
        upper if operator in ("<", "<=", "==", "~=") else None
    )


def _clauses(text: str) -> Iterator[str]:
    """Clauses of PEP 440.

    :raises ValueError: at text that is no clause
    """
    position = 0
    while position < len(text):
        clause = _CLAUSE.match(text, position)
        if clause is None:
            raise ValueError(text)
        operator, version = clause.groups()
        if operator in ("^", "~"):
            yield f">={version}"
            yield f"<{_next(version, caret=operator == '^')}"
        else:
            yield f"{'==' if operator in (None, '=') else operator}{version}"
        separator = _SEPARATORS.match(text, clause.end())
        position = separator.end() if separator else clause.end()


def _next(version: str, *, caret: bool) -> str:
    """The first version that a caret or a tilde excludes."""
    release = Version(version).release
    if caret:
        # The first number that is not zero may not change.
        last = next((place for place, it in enumerate(release) if it), len(release) - 1)
    else:
        last = min(1, len(release) - 1)
    return ".".join(map(str, (*release[:last], release[last] + 1)))


def _source(entry: FileTable) -> str | None:
    """The source of an entry; Poetry knows the public index by its name in any case."""
    source = entry.text("source")
    return DEFAULT_INDEX if source and source.lower() == DEFAULT_INDEX else source


def _marker(entry: FileTable) -> str:
    parts = [f"({whole})"] if (whole := entry.text("markers")) else []
    if python := entry.text("python"):
        parts += filter(None, [_python_marker(python, entry.at / "python")])
    if platform := entry.text("platform"):
        parts.append(f"sys_platform == {platform!r}")
    return " and ".join(parts)


def _python_marker(constraint: str, at: str) -> str:
    alternatives = []
    for specifiers in _pythons(constraint, at):
        clauses = []
        for specifier in sorted(specifiers, key=str):
            version, variable = specifier.version, "python_version"
            if version.removesuffix(".*").count(".") != 1:
                variable = "python_full_version"
            clauses.append(f"{variable} {specifier.operator} {version!r}")
        alternatives.append(" and ".join(clauses))
    return f"({' or '.join(alternatives)})" if all(alternatives) else ""


def _pythons(constraint: str, at: str) -> list[SpecifierSet]:
    """Specifiers of Python versions, of which one must hold; only one if it says the same."""
    whole, gaps = specifier_of(constraint, at)
    return _alternatives(constraint, at) if gaps else [SpecifierSet(whole)]


def _indexes(table: FileTable, context: ParseContext) -> tuple[ProjectIndex, ...]:
    indexes: list[ProjectIndex] = []
    public: list[ProjectIndex] = []  # searched after the primary sources
    supplemental: list[ProjectIndex] = []
    for number, source in enumerate(table.each("source")):
        called = source.text("name") or f"source-{number + 1}"
        is_secondary = source.flag("secondary")
        priority = source.text("priority") or ("secondary" if is_secondary else "primary")
        is_public = "url" not in source and called.lower() == DEFAULT_INDEX
        url = public_index_url() if is_public else required_url(source)
        # A primary source, or the public one with any priority, replaces the implicit public one.
        index = index_named(
            DEFAULT_INDEX if is_public else called, url, source.at, context,
            default=is_public or priority in ("default", "primary"),
            explicit=priority == "explicit",
        )  # fmt: skip
        if priority in ("supplemental", "secondary"):
            supplemental.append(index)
        else:
            (public if is_public else indexes).append(index)
    if supplemental and not any(it.default for it in (*indexes, *public, *supplemental)):
        public.append(ProjectIndex(DEFAULT_INDEX, public_index_url(), default=True))
    return (*indexes, *public, *supplemental)
