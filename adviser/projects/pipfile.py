"""Read a ``Pipfile``, and compute the hash by which pipenv matches a lock to its Pipfile."""

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
from common.formats.file_decoding import FileTable, refuse, value_text
from common.formats.requirements_files import SOURCE_KEYS, SourceKind, is_remote, local_path
from model.errors import Reason
from model.packages.identity import DEFAULT_INDEX, index_identity, public_index_url

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


def read_pipfile(manifest: FileTable, name: str, context: ParseContext) -> Project:
    """Read the content of a Pipfile as a project.

    ``[pipenv.thoth]`` may allow pre-releases of packages: ``allow_prereleases = {numpy = true}``.
    Existing clients write ``[thoth]`` instead. pipenv refuses this table, because it reads every
    unknown table as packages.

    :raises InvalidFile: with the path of the entry
    """
    indexes = _indexes(manifest, context)
    pipenv = manifest.nested("pipenv")
    prereleases = _allowed_prereleases(manifest) | _allowed_prereleases(pipenv)
    sections = {}
    for key in (it for it in manifest if it not in _OTHER_TABLES):
        with context.optional(key != _DEFAULT):
            sections[key] = _section(manifest.nested(key), indexes, prereleases, context)
    python = map(manifest.nested("requires").text, _PYTHONS)
    return Project(
        requirements=sections.pop(_DEFAULT, ()),
        dev=sections.pop(_DEVELOP, ()),
        groups=sections,
        indexes=indexes,
        prereleases=prereleases,
        all_prereleases=pipenv.flag("allow_prereleases"),
        format=ProjectFormat.PIPFILE,
        source=name,
        manifest=public_values(manifest.record),
        manifest_hashes=(
            pipfile_hash(manifest.record),
            pipfile_hash(manifest.record, as_written=True),
        ),
        python=next(filter(None, python), None),
    )


_PYTHONS = ("python_full_version", "python_version")


def _allowed_prereleases(table: FileTable) -> frozenset[str]:
    """Packages whose pre-releases a table allows with ``thoth.allow_prereleases``."""
    allowed = table.nested("thoth").nested("allow_prereleases")
    return frozenset(canonicalize_name(key) for key in allowed if allowed.flag(key))


def pipfile_hash(manifest: Mapping[str, Any], *, as_written: bool = False) -> str:
    """The SHA-256 of a Pipfile that pipenv writes into its ``Pipfile.lock``.

    The hash covers the sources, the Python requirements and the packages, as JSON with sorted keys.
    Since 2026 pipenv normalises the names of packages first. For a Pipfile without sources, the
    hash covers pipenv's own default source, not this machine's.

    :param manifest: as it is written, including passwords
    :param as_written: do not normalise names, like older versions of pipenv
    """
    sections = {_DEFAULT: "default", _DEVELOP: "develop"}
    # The source that pipenv uses for a Pipfile without sources.
    data: dict[str, Any] = {
        "_meta": {
            "sources": manifest.get(
                "source", [{"name": DEFAULT_INDEX, "url": public_index_url(), "verify_ssl": True}]
            ),
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
        entry: dict[str, Any] = {
            "version": requirement.specifier or "*",
            "extras": list(requirement.extras),
            "markers": requirement.marker,
            "index": requirement.index or next((it for _, it in requirement.indexes_where), None),
        }
        entry = {key: value for key, value in entry.items() if value}
        name = requirement.name
        first = entries.setdefault(name, entry)
        if first != entry:
            # Merge two requirements of a package; with different markers, the result has no bounds.
            same = first.get("markers") == entry.get("markers")
            bounds = sorted({first["version"], entry["version"]} - {"*"}) if same else []
            extras = sorted({*first.get("extras", ()), *entry.get("extras", ())})
            merged = {
                "version": ",".join(bounds) or "*",
                "extras": extras,
                "markers": first.get("markers") if same else None,
                "index": first.get("index") or entry.get("index"),
            }
            entries[name] = {key: value for key, value in merged.items() if value}
    return {
        name: entry["version"] if entry.keys() == {"version"} else entry
        for name, entry in sorted(entries.items())
    }


def _indexes(manifest: FileTable, context: ParseContext) -> tuple[ProjectIndex, ...]:
    indexes: dict[str, ProjectIndex] = {}
    for number, source in enumerate(manifest.each("source")):
        url = required_url(source)
        index = source.text("name") or f"source-{number + 1}"
        if index in indexes:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"two indexes have the name {value_text(index)}",
                source.at,
                "rename one of them",
            )
        indexes[index] = index_named(
            index, url, source.at, context,
            verify_ssl=source.flag("verify_ssl", True),
            # pipenv takes packages that name no index from the first source only.
            default=number == 0, explicit=number > 0,
        )  # fmt: skip
    return tuple(indexes.values())


def _section(
    section: FileTable,
    indexes: tuple[ProjectIndex, ...],
    prereleases: frozenset[str],
    context: ParseContext,
) -> tuple[ProjectRequirement, ...]:
    seen: dict[str, str] = {}
    requirements: list[ProjectRequirement] = []
    for package in section:
        if (first := seen.setdefault(canonicalize_name(package), package)) != package:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"{value_text(first)} and {value_text(package)} are the same package",
                section.at / package,
                "keep one of them",
            )
        requirement = _entry(section, package, indexes, context)
        if requirement is not None:
            allowed = True if requirement.name in prereleases else None
            requirements.append(replace(requirement, prereleases=allowed))
    return tuple(requirements)


def _entry(
    section: FileTable, package: str, indexes: tuple[ProjectIndex, ...], context: ParseContext
) -> ProjectRequirement | None:
    value, at = section[package], section.at / package
    if isinstance(value, str):
        repository = _REPOSITORY.match(value)
        value = {repository["tool"] if repository else "version": value}
    if not isinstance(value, dict):
        raise section.wrong_type(value, "a version or a table", package)
    entry = FileTable(value, at)
    if (source := next((it for it in _SOURCES if entry.get(it)), None)) is not None:
        _leave_out(package, entry, source, context)
        return None
    for key in entry.keys() - _KNOWN:
        context.warn(
            WarningCode.OPTION_IGNORED, f"{value_text(key)} has no effect on advice", at / key
        )
    version = entry.text("version") or ""
    if not _BEGINS_WITH_OPERATOR.match(version):
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(version)} is not a version specifier",
            at,
            f"write `=={version[:40]}` for this version only, or `*` for any",
        )
    text = _pep508(package, version, entry.texts("extras"), _marker(entry))
    requirement = parse_project_requirement(text, at, context)
    if requirement is None:
        return None
    return replace(requirement, index=_index(entry, indexes, context))


def _leave_out(package: str, entry: FileTable, source: str, context: ParseContext) -> None:
    target = str(entry[source])
    path = local_path(target) if source in ("path", "file") else None
    kind = SOURCE_KEYS[source]
    if entry.get("editable"):
        kind = SourceKind.EDITABLE
    elif source in ("path", "file"):
        kind = SourceKind.ADDRESS if is_remote(target) else SourceKind.LOCAL_PATH
    marker = _marker(entry)
    context.leave_out(
        WarningCode(kind),
        f"{package} @ {target}",
        entry.at,
        path=path,
        marker=parse_marker(marker, entry.at) if marker else None,
    )


def _pep508(package: str, version: str, extras: list[str], marker: str) -> str:
    bounds = "" if version.strip() == "*" else version
    suffix = f"[{','.join(extras)}]" if extras else ""
    return f"{package}{suffix}{bounds}{f' ; {marker}' if marker else ''}"


def _marker(entry: FileTable) -> str:
    """The marker of an entry: its ``markers`` and all marker variables among its keys, joined."""
    parts = [f"({whole})"] if (whole := entry.text("markers")) else []
    for key in _MARKERS:
        if condition := entry.text(key):
            parts.append(f"{key} {condition}")
    return " and ".join(parts)


def _index(
    entry: FileTable, indexes: tuple[ProjectIndex, ...], context: ParseContext
) -> str | None:
    """The name of an entry's index; the entry may give the URL of the index instead."""
    index = entry.text("index")
    if index is None:
        return None
    if "://" in index:
        index = public_url(index, entry.at, context)
        same = (it.name for it in indexes if index_identity(it.url) == index_identity(index))
        index = next(same, index)
    if index not in {it.name for it in indexes}:
        context.warn(
            WarningCode.UNKNOWN_INDEX,
            f"the index {value_text(index)} is not one of the project's sources",
            entry.at / "index",
        )
    return index
