"""Read a ``Pipfile``, and compute the hash by which pipenv matches a lock to its Pipfile."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.indexes import (
    index_named,
    public_text,
    public_url,
    public_values,
    required_url,
)
from adviser.projects.project import (
    Project,
    ProjectFormat,
    ProjectIndex,
    ProjectRequirement,
    WarningCode,
)
from adviser.projects.requirement_parsing import (
    ParseContext,
    parse_marker,
    parse_project_requirement,
)
from common.formats.file_fields import (
    flag_in,
    inside,
    refuse,
    table_in,
    tables_in,
    text_in,
    texts_in,
    value_text,
    wrong_type,
)
from common.formats.requirements_files import SOURCE_KEYS, SourceKind, is_remote, local_path
from model.packages.identity import DEFAULT_INDEX, index_identity, public_index_url
from model.reasons import Reason

#: Tables without packages; every other table is a category, as in pipenv.
_OTHER_TABLES = frozenset(
    {"source", "requires", "scripts", "pipenv", "pipfile", "thoth", "build-system"}
)
_DEFAULT, _DEVELOP = "packages", "dev-packages"
#: Marker variables that may be keys of an entry.
_MARKERS = (
    "implementation_name", "implementation_version", "os_name", "platform_machine",
    "platform_python_implementation", "platform_release", "platform_system", "platform_version",
    "python_full_version", "python_version", "sys_platform",
)  # fmt: skip
_KNOWN = {"version", "extras", "markers", "index", *_MARKERS, *SOURCE_KEYS}
#: Keys that name a source other than an index, in the order in which pipenv looks for them.
_SOURCES = [it for it in SOURCE_KEYS if it != "editable"]
_REPOSITORY = re.compile(r"(?P<tool>git|hg|svn|bzr)\+")
_BEGINS_WITH_OPERATOR = re.compile(r"\s*(?:[<>=!~]=?=?|\*\s*$|$)")


def read_pipfile(manifest: Mapping[str, Any], name: str, context: ParseContext) -> Project:
    """Read the content of a Pipfile as a project.

    ``[pipenv.thoth]`` may allow pre-releases of packages: ``allow_prereleases = {numpy = true}``.
    Existing clients write ``[thoth]`` instead. pipenv refuses this table, because it reads every
    unknown table as packages.

    :raises InvalidFile: with the path of the entry
    """
    indexes = _indexes(manifest, name, context)
    pipenv = table_in(manifest, "pipenv", name)
    prereleases = _allowed_prereleases(manifest, name) | _allowed_prereleases(
        pipenv, f"{name}:pipenv"
    )
    sections = {}
    for key in (it for it in manifest if it not in _OTHER_TABLES):
        with context.optional(key != _DEFAULT):
            sections[key] = _section(manifest, key, name, indexes, prereleases, context)
    requires = table_in(manifest, "requires", name)
    python = [text_in(requires, it, f"{name}:requires") for it in _PYTHONS]
    return Project(
        requirements=sections.pop(_DEFAULT, ()),
        dev=sections.pop(_DEVELOP, ()),
        groups=sections,
        indexes=indexes,
        prereleases=prereleases,
        all_prereleases=flag_in(pipenv, "allow_prereleases", f"{name}:pipenv"),
        format=ProjectFormat.PIPFILE,
        source=name,
        manifest=public_values(manifest),
        manifest_hashes=(pipfile_hash(manifest), pipfile_hash(manifest, as_written=True)),
        python=next(filter(None, python), None),
    )


_PYTHONS = ("python_full_version", "python_version")


def _default_source() -> dict[str, Any]:
    """The source that pipenv uses for a Pipfile without sources."""
    return {"name": DEFAULT_INDEX, "url": public_index_url(), "verify_ssl": True}


def _allowed_prereleases(table: Mapping[str, Any], at: str) -> frozenset[str]:
    """Packages whose pre-releases a table allows with ``thoth.allow_prereleases``."""
    thoth, thoth_at = table_in(table, "thoth", at), inside(at, "thoth")
    allowed = table_in(thoth, "allow_prereleases", thoth_at)
    allowed_at = inside(thoth_at, "allow_prereleases")
    return frozenset(canonicalize_name(key) for key in allowed if flag_in(allowed, key, allowed_at))


def pipfile_hash(manifest: Mapping[str, Any], *, as_written: bool = False) -> str:
    """The SHA-256 of a Pipfile that pipenv writes into its ``Pipfile.lock``.

    The hash covers the sources, the Python requirements and the packages, as JSON with sorted keys.
    Since 2026 pipenv normalises the names of packages first. For a Pipfile without sources, the
    hash covers pipenv's own default source, not this machine's.

    :param manifest: as it is written, including passwords
    :param as_written: do not normalise names, like older versions of pipenv
    """
    sections = {_DEFAULT: "default", _DEVELOP: "develop"}
    data: dict[str, Any] = {
        "_meta": {
            "sources": manifest.get("source", [_default_source()]),
            "requires": manifest.get("requires", {}),
        },
        "default": {},
        "develop": {},
    }
    for key, section in manifest.items():
        if key not in _NOT_HASHED:
            data[sections.get(key, key)] = section if as_written else _normalised(section)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


#: Not part of the hash. ``default`` and ``develop`` are sections of the lock, not categories.
_NOT_HASHED = frozenset(
    {"source", "requires", "scripts", "pipenv", "pipfile", "thoth", "default", "develop"}
)


def pipfile_of(project: Project, indexes: Mapping[str, str]) -> dict[str, Any]:
    """A Pipfile for a project, as data: the project's own without secrets, or a new one.

    :param indexes: name to URL, for a project without indexes
    """
    if project.manifest is not None:
        manifest = dict(project.manifest)
        if "source" in manifest:
            return manifest
        return {"source": sources_of(project, indexes), **manifest}
    requires = {"python_version": project.python} if project.python else {}
    return {
        "source": sources_of(project, indexes),
        _DEFAULT: _entries(project.requirements),
        _DEVELOP: _entries(project.dev),
        "requires": requires,
    }


def sources_of(project: Project, indexes: Mapping[str, str]) -> list[dict[str, Any]]:
    """The indexes of a project or, by default, of this machine, as sources of a Pipfile."""
    if project.indexes:
        return [
            {"name": it.name, "url": it.url, "verify_ssl": it.verify_ssl} for it in project.indexes
        ]
    return [
        {"name": name, "url": public_text(url), "verify_ssl": url.startswith("https")}
        for name, url in indexes.items()
    ]


def _normalised(section: Any) -> Any:
    if not isinstance(section, Mapping):
        return section
    return {canonicalize_name(key): value for key, value in section.items()}


def _entries(requirements: tuple[ProjectRequirement, ...]) -> dict[str, Any]:
    """Entries of a Pipfile; several requirements of a package are merged."""
    entries: dict[str, Any] = {}
    for requirement in requirements:
        entry = {
            "version": requirement.specifier or "*",
            "extras": list(requirement.extras),
            "markers": requirement.marker,
            "index": requirement.index or next((it for _, it in requirement.indexes_where), None),
        }
        entry = {key: value for key, value in entry.items() if value}
        name = requirement.name
        first = entries.setdefault(name, entry)
        if first != entry:
            entries[name] = _merged(first, entry)
    return {
        name: entry["version"] if entry.keys() == {"version"} else entry
        for name, entry in sorted(entries.items())
    }


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two requirements of a package; with different markers, the result has no bounds."""
    same = first.get("markers") == second.get("markers")
    bounds = sorted({first["version"], second["version"]} - {"*"}) if same else []
    extras = sorted({*first.get("extras", ()), *second.get("extras", ())})
    merged = {
        "version": ",".join(bounds) or "*",
        "extras": extras,
        "markers": first.get("markers") if same else None,
        "index": first.get("index") or second.get("index"),
    }
    return {key: value for key, value in merged.items() if value}


def _indexes(
    manifest: Mapping[str, Any], name: str, context: ParseContext
) -> tuple[ProjectIndex, ...]:
    indexes: dict[str, ProjectIndex] = {}
    for number, source in enumerate(tables_in(manifest, "source", name)):
        at = f"{name}:source[{number}]"
        url = required_url(source, at)
        index = text_in(source, "name", at) or f"source-{number + 1}"
        if index in indexes:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"two indexes have the name {value_text(index)}",
                at,
                "rename one of them",
            )
        indexes[index] = index_named(
            index, url, at, context,
            verify_ssl=flag_in(source, "verify_ssl", at, True),
            # pipenv takes packages that name no index from the first source only.
            default=number == 0, explicit=number > 0,
        )  # fmt: skip
    return tuple(indexes.values())


def _section(
    manifest: Mapping[str, Any],
    key: str,
    name: str,
    indexes: tuple[ProjectIndex, ...],
    prereleases: frozenset[str],
    context: ParseContext,
) -> tuple[ProjectRequirement, ...]:
    section = table_in(manifest, key, name)
    at, seen = inside(name, key), dict[str, str]()
    requirements: list[ProjectRequirement] = []
    for package, entry in section.items():
        here = inside(at, package)
        if (first := seen.setdefault(canonicalize_name(package), package)) != package:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"{value_text(first)} and {value_text(package)} are the same package",
                here,
                "keep one of them",
            )
        requirement = _entry(package, entry, here, indexes, context)
        if requirement is not None:
            allowed = True if requirement.name in prereleases else None
            requirements.append(replace(requirement, prereleases=allowed))
    return tuple(requirements)


def _entry(
    package: str, entry: Any, at: str, indexes: tuple[ProjectIndex, ...], context: ParseContext
) -> ProjectRequirement | None:
    if isinstance(entry, str):
        repository = _REPOSITORY.match(entry)
        entry = {repository["tool"] if repository else "version": entry}
    if not isinstance(entry, Mapping):
        wrong_type(entry, "a version or a table", at)
    if (source := next((it for it in _SOURCES if entry.get(it)), None)) is not None:
        _leave_out(package, entry, source, at, context)
        return None
    for key in entry.keys() - _KNOWN:
        context.warn(
            WarningCode.OPTION_IGNORED,
            f"{value_text(key)} has no effect on advice",
            inside(at, key),
        )
    version = text_in(entry, "version", at) or ""
    if not _BEGINS_WITH_OPERATOR.match(version):
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(version)} is not a version specifier",
            at,
            f"write `=={version[:40]}` for this version only, or `*` for any",
        )
    extras = texts_in(entry, "extras", at)
    text = _pep508(package, version, extras, _marker(entry, at))
    requirement = parse_project_requirement(text, at, context)
    if requirement is None:
        return None
    return replace(requirement, index=_index(entry, at, indexes, context))


def _leave_out(
    package: str, entry: Mapping[str, Any], source: str, at: str, context: ParseContext
) -> None:
    target = str(entry[source])
    path = local_path(target) if source in ("path", "file") else None
    kind = SOURCE_KEYS[source]
    if entry.get("editable"):
        kind = SourceKind.EDITABLE
    elif source in ("path", "file"):
        kind = SourceKind.ADDRESS if is_remote(target) else SourceKind.LOCAL_PATH
    marker = _marker(entry, at)
    context.leave_out(
        WarningCode(kind),
        f"{package} @ {target}",
        at,
        path=path,
        marker=parse_marker(marker, at) if marker else None,
    )


def _pep508(package: str, version: str, extras: list[str], marker: str) -> str:
    bounds = "" if version.strip() == "*" else version
    suffix = f"[{','.join(extras)}]" if extras else ""
    return f"{package}{suffix}{bounds}{f' ; {marker}' if marker else ''}"


def _marker(entry: Mapping[str, Any], at: str) -> str:
    """The marker of an entry: its ``markers`` and all marker variables among its keys, joined."""
    parts = [f"({whole})"] if (whole := text_in(entry, "markers", at)) else []
    for key in _MARKERS:
        if condition := text_in(entry, key, at):
            parts.append(f"{key} {condition}")
    return " and ".join(parts)


def _index(
    entry: Mapping[str, Any], at: str, indexes: tuple[ProjectIndex, ...], context: ParseContext
) -> str | None:
    """The name of an entry's index; the entry may give the URL of the index instead."""
    index = text_in(entry, "index", at)
    if index is None:
        return None
    if "://" in index:
        index = public_url(index, at, context)
        same = (it.name for it in indexes if index_identity(it.url) == index_identity(index))
        index = next(same, index)
    if index not in {it.name for it in indexes}:
        context.warn(
            WarningCode.UNKNOWN_INDEX,
            f"the index {value_text(index)} is not one of the project's sources",
            inside(at, "index"),
        )
    return index
