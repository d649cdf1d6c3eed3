"""Read ``[tool.poetry]`` and ``[tool.pdm]`` of a ``pyproject.toml``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named, required_url
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import (
    ParseContext,
    parse_marker,
    parse_project_requirement,
)
from common.formats.file_decoding import FileTable, value_text
from common.formats.poetry_constraints import (
    entries_of,
    marker_text,
    python_specifiers,
    specifier_of,
)
from model.packages.identity import DEFAULT_INDEX, public_index_url

_Requirements = tuple[ProjectRequirement, ...]
_SOURCES = {
    "git": WarningCode.REPOSITORY,
    "path": WarningCode.LOCAL_PATH,
    "file": WarningCode.LOCAL_PATH,
    "url": WarningCode.ADDRESS,
}


@dataclass(frozen=True, slots=True)
class PoetryTable:
    """The requirements in ``[tool.poetry]``.

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
    """Read the table; without a table, the result is empty.

    Dependencies that ``[project]`` lists are Poetry's own since version 2; the table then only adds
    groups and sources.

    :raises InvalidFile: with the path of the entry
    """
    table = content.nested("tool").nested("poetry")
    in_project = "dependencies" in content.nested("project")
    main = table.nested("dependencies")
    needed: list[ProjectRequirement] = []
    optional: dict[str, list[ProjectRequirement]] = {}
    for package, entry in () if in_project else entries_of(main):
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
    for package, entry in entries_of(main):
        if source := _source(entry):
            text = marker_text(entry)
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
            for package, entry in entries_of(main)
            if entry.flag("allow-prereleases")
        ),
        requires_python=" || ".join(map(str, python_specifiers(python or "", main.at / "python")))
        or None,
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
    parsed = (_requirement(package, entry, context) for package, entry in entries_of(table))
    return tuple(it for it in parsed if it is not None)


def _requirement(
    package: str, entry: FileTable, context: ParseContext
) -> ProjectRequirement | None:
    at = entry.at
    for key, code in _SOURCES.items():
        if entry.get(key):
            context.count(at)
            local = key in ("path", "file")
            path = str(entry[key]) if local else None
            text = marker_text(entry)
            marker = parse_marker(text, at) if text else None
            with context.optional(entry.flag("optional")):
                what = f"{package} @ {entry[key]}"
                context.leave_out(code, what, at, local=local, path=path, marker=marker)
            return None
    extras = ",".join(entry.texts("extras"))
    marker = marker_text(entry)
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


def _source(entry: FileTable) -> str | None:
    """The source of an entry; Poetry knows the public index by its name in any case."""
    source = entry.text("source")
    return DEFAULT_INDEX if source and source.lower() == DEFAULT_INDEX else source


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


_RESOLUTION = frozenset({"overrides", "excludes", "allow-prereleases", "respect-source-order"})


@dataclass(frozen=True, slots=True)
class PdmTable:
    """The requirements in ``[tool.pdm]``.

    :param groups: ``dev-dependencies``; PDM installs all of them by default
    :param removed: packages that must not be installed
    :param index_of: by package, the only index that it may come from
    """

    groups: Mapping[str, _Requirements] = field(default_factory=dict)
    overrides: _Requirements = ()
    removed: frozenset[str] = frozenset()
    indexes: tuple[ProjectIndex, ...] = ()
    index_of: Mapping[str, str] = field(default_factory=dict)
    all_prereleases: bool = False


def read_pdm(content: FileTable, context: ParseContext) -> PdmTable:
    """Read the table; settings that are not supported give a warning.

    :raises InvalidFile: with the path of the entry
    """
    table = content.nested("tool").nested("pdm")
    resolution = table.nested("resolution")
    for key in sorted(resolution.keys() - _RESOLUTION):
        _ignored(key, resolution.at / key, context)
    if "options" in table:
        _ignored("options", table.at / "options", context)
    dev = table.nested("dev-dependencies")
    index_of: dict[str, str] = {}
    with context.optional():
        groups: dict[str, _Requirements] = {
            canonicalize_name(key): tuple(_group(dev, key, context)) for key in dev
        }
    return PdmTable(
        groups=groups,
        overrides=tuple(_overrides(resolution.nested("overrides"), context)),
        removed=frozenset(map(canonicalize_name, resolution.texts("excludes"))),
        indexes=tuple(_pdm_indexes(table, index_of, context)),
        index_of=index_of,
        all_prereleases=resolution.flag("allow-prereleases"),
    )


def _ignored(key: str, at: str, context: ParseContext) -> None:
    message = f"{key} is not supported, so PDM may choose other versions"
    context.warn(WarningCode.OPTION_IGNORED, message, at)


def _group(table: FileTable, key: str, context: ParseContext) -> Iterator[ProjectRequirement]:
    for number, text in enumerate(table.texts(key)):
        here = table.at / key / number
        if text.startswith("-e "):
            context.leave_out(WarningCode.EDITABLE, text.removeprefix("-e ").strip(), here)
        elif (requirement := parse_project_requirement(text, here, context)) is not None:
            yield requirement


def _overrides(table: FileTable, context: ParseContext) -> Iterator[ProjectRequirement]:
    for package in table:
        here, version = table.at / package, (table.text(package) or "").strip()
        if "://" in version:
            message = f"{value_text(package)} is overridden by a URL, which is not supported"
            context.warn(WarningCode.OPTION_IGNORED, message, here)
            continue
        if version and version[0] not in "<>=!~*":
            version = f"=={version}"
        text = f"{package}{version.removeprefix('*')}"
        if (requirement := parse_project_requirement(text, here, context)) is not None:
            yield requirement


def _pdm_indexes(
    table: FileTable, index_of: dict[str, str], context: ParseContext
) -> Iterator[ProjectIndex]:
    """The sources in their order; adds packages that come from one of them only to ``index_of``."""
    for number, source in enumerate(table.each("source")):
        if source.text("type") == "find_links":
            message = "files outside of indexes are not supported"
            context.warn(WarningCode.OPTION_IGNORED, message, source.at)
            continue
        called = source.text("name") or f"source-{number + 1}"
        own = source.texts("include_packages")
        if source.get("exclude_packages"):
            _ignored("exclude_packages", source.at / "exclude_packages", context)
        if "*" in "".join(own):
            _ignored("a pattern", source.at / "include_packages", context)
        index_of |= {canonicalize_name(it): called for it in own}
        yield index_named(
            called, required_url(source), source.at, context,
            verify_ssl=source.flag("verify_ssl", True),
            # A source with this name replaces PDM's default index.
            default=called == DEFAULT_INDEX, explicit=bool(own),
        )  # fmt: skip
