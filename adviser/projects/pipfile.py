"""``Pipfile``: requirements, and the hash by which pipenv matches a lock to its Pipfile."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named, public_address, public_text, public_values
from adviser.projects.project import (
    Project,
    ProjectFormat,
    ProjectIndex,
    ProjectRequirement,
    WarningCode,
)
from adviser.projects.requirement_parsing import ParseContext, parse_asked
from common.formats.file_fields import (
    flag_in,
    inside,
    refuse,
    shown,
    table_in,
    tables_in,
    text_in,
    texts_in,
    wrong_type,
)
from common.formats.requirements_files import SOURCE_KEYS
from common.packages import DEFAULT_INDEX, public_index_url
from common.reasons import Reason

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
_BEGINS_WITH_OPERATOR = re.compile(r"\s*(?:[<>=!~]=?=?|\*\s*$|$)")


def read_pipfile(manifest: Mapping[str, Any], name: str, context: ParseContext) -> Project:
    """Read the content of a Pipfile as a project.

    ``[pipenv.thoth]`` may allow pre-releases of packages: ``allow_prereleases = {numpy = true}``.
    Existing clients write ``[thoth]`` instead, which pipenv refuses, because it reads every unknown
    table as packages.

    :raises InvalidFile: with the path of the entry
    """
    indexes = _indexes(manifest, name, context)
    pipenv = table_in(manifest, "pipenv", name)
    welcome = _welcome(manifest, name) | _welcome(pipenv, f"{name}:pipenv")
    sections = {
        key: _section(manifest, key, name, indexes, welcome, context)
        for key in manifest
        if key not in _OTHER_TABLES
    }
    requires = table_in(manifest, "requires", name)
    python = [text_in(requires, it, f"{name}:requires") for it in _PYTHONS]
    return Project(
        requirements=sections.pop(_DEFAULT, ()),
        dev=sections.pop(_DEVELOP, ()),
        groups=sections,
        indexes=indexes,
        prereleases=welcome,
        all_prereleases=flag_in(pipenv, "allow_prereleases", f"{name}:pipenv"),
        format=ProjectFormat.PIPFILE,
        source=name,
        manifest=public_values(manifest),
        manifest_hashes=(pipfile_hash(manifest), pipfile_hash(manifest, as_written=True)),
        python=next(filter(None, python), None),
    )


_PYTHONS = ("python_full_version", "python_version")


def _default_source() -> dict[str, Any]:
    """pipenv's source for a Pipfile that names none."""
    return {"name": DEFAULT_INDEX, "url": public_index_url(), "verify_ssl": True}


def _welcome(table: Mapping[str, Any], at: str) -> frozenset[str]:
    """Packages in ``thoth.allow_prereleases`` of a table."""
    thoth, thoth_at = table_in(table, "thoth", at), inside(at, "thoth")
    allowed = table_in(thoth, "allow_prereleases", thoth_at)
    allowed_at = inside(thoth_at, "allow_prereleases")
    return frozenset(canonicalize_name(key) for key in allowed if flag_in(allowed, key, allowed_at))


def pipfile_hash(manifest: Mapping[str, Any], *, as_written: bool = False) -> str:
    """The SHA-256 of a Pipfile that pipenv writes into its ``Pipfile.lock``.

    It covers the JSON of sources, Python requirements and packages, with sorted keys. Since 2026
    pipenv normalises the names of packages first. Without a source, pipenv's default source is
    used, not the one of this machine.

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
        named = sections.get(key, key)
        if key in _NOT_HASHED:
            continue
        data[named] = section if as_written else _normalised(section)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


#: Not part of the hash. ``default`` and ``develop`` are sections of the lock, not categories.
_NOT_HASHED = frozenset(
    {"source", "requires", "scripts", "pipenv", "pipfile", "thoth", "default", "develop"}
)


def pipfile_of(project: Project, indexes: Mapping[str, str]) -> dict[str, Any]:
    """The content of a Pipfile for a project; an original Pipfile is returned without secrets.

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
    """The indexes of a project, or else of the machine, in the format of a Pipfile."""
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


def _entries(asked: tuple[ProjectRequirement, ...]) -> dict[str, Any]:
    """Entries of a Pipfile; several requirements of a package are merged."""
    entries: dict[str, Any] = {}
    for it in asked:
        entry = {
            "version": it.specifier or "*",
            "extras": list(it.extras),
            "markers": it.marker,
            "index": it.index,
        }
        entry = {key: value for key, value in entry.items() if value}
        before = entries.get(it.name)
        if before is None:
            entries[it.name] = entry
        elif before != entry:
            entries[it.name] = _both(before, entry)
    return {
        name: entry["version"] if entry.keys() == {"version"} else entry
        for name, entry in sorted(entries.items())
    }


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two requirements of a package; the result is wider if their markers differ."""
    same = one.get("markers") == other.get("markers")
    bounds = sorted({one["version"], other["version"]} - {"*"}) if same else []
    extras = sorted({*one.get("extras", ()), *other.get("extras", ())})
    merged = {
        "version": ",".join(bounds) or "*",
        "extras": extras,
        "markers": one.get("markers") if same else None,
        "index": one.get("index") or other.get("index"),
    }
    return {key: value for key, value in merged.items() if value}


def _indexes(
    manifest: Mapping[str, Any], name: str, context: ParseContext
) -> tuple[ProjectIndex, ...]:
    indexes: dict[str, ProjectIndex] = {}
    for number, source in enumerate(tables_in(manifest, "source", name)):
        at = f"{name}:source[{number}]"
        url = text_in(source, "url", at)
        if url is None:
            refuse(Reason.MISSING_FIELD, "an index without a url", at, "add its url")
        called = text_in(source, "name", at) or f"source-{number + 1}"
        if called in indexes:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"two indexes are called {shown(called)}",
                at,
                "give each a name of its own",
            )
        indexes[called] = index_named(
            called, url, at, context,
            verify_ssl=flag_in(source, "verify_ssl", at, True), default=number == 0,
        )  # fmt: skip
    return tuple(indexes.values())


def _section(
    manifest: Mapping[str, Any],
    key: str,
    name: str,
    indexes: tuple[ProjectIndex, ...],
    welcome: frozenset[str],
    context: ParseContext,
) -> tuple[ProjectRequirement, ...]:
    section = table_in(manifest, key, name)
    at, seen, asked = inside(name, key), dict[str, str](), list[ProjectRequirement]()
    for package, entry in section.items():
        here = inside(at, package)
        if (first := seen.setdefault(canonicalize_name(package), package)) != package:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"{shown(first)} and {shown(package)} are one package",
                here,
                "keep one of the two",
            )
        if (one := _entry(package, entry, here, indexes, context)) is not None:
            asked.append(_welcoming(one, welcome))
    return tuple(asked)


def _welcoming(asked: ProjectRequirement, welcome: frozenset[str]) -> ProjectRequirement:
    return replace(asked, prereleases=True) if asked.name in welcome else asked


def _entry(
    package: str, entry: Any, at: str, indexes: tuple[ProjectIndex, ...], context: ParseContext
) -> ProjectRequirement | None:
    if isinstance(entry, str):
        entry = {"version": entry}
    if not isinstance(entry, Mapping):
        wrong_type(entry, "a version or a table", at)
    for key, kind in SOURCE_KEYS.items():
        if value := entry.get(key):
            context.leave_out(WarningCode(kind), package if value is True else str(value), at)
            return None
    for key in entry.keys() - _KNOWN:
        context.warn(
            WarningCode.OPTION_IGNORED, f"{shown(key)} has no meaning for advice", inside(at, key)
        )
    version = text_in(entry, "version", at) or ""
    if not _BEGINS_WITH_OPERATOR.match(version):
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{shown(version)} is not a bound of versions",
            at,
            f"write `=={version[:40]}` for that version alone, `*` for any",
        )
    extras = texts_in(entry, "extras", at)
    asked = parse_asked(_pep508(package, version, extras, _marker(entry, at)), at, context)
    return asked if asked is None else _from_index(asked, entry, at, indexes, context)


def _pep508(package: str, version: str, extras: list[str], marker: str) -> str:
    bounds = "" if version.strip() == "*" else version
    named = f"[{','.join(extras)}]" if extras else ""
    return f"{package}{named}{bounds}{f' ; {marker}' if marker else ''}"


def _marker(entry: Mapping[str, Any], at: str) -> str:
    """All conditions of an entry: its marker, and marker variables that are keys."""
    parts = [f"({whole})"] if (whole := text_in(entry, "markers", at)) else []
    for key in _MARKERS:
        if condition := text_in(entry, key, at):
            parts.append(f"{key} {condition}")
    return " and ".join(parts)


def _from_index(
    asked: ProjectRequirement,
    entry: Mapping[str, Any],
    at: str,
    indexes: tuple[ProjectIndex, ...],
    context: ParseContext,
) -> ProjectRequirement:
    index = text_in(entry, "index", at)
    if index is None:
        return asked
    if "://" in index:
        index = public_address(index, at, context)
        index = next((it.name for it in indexes if _same(it.url, index)), index)
    if index not in {it.name for it in indexes}:
        context.warn(
            WarningCode.UNKNOWN_INDEX,
            f"the index {shown(index)} is none of the project's sources",
            inside(at, "index"),
        )
    return replace(asked, index=index)


def _same(url: str, other: str) -> bool:
    return url.rstrip("/") == other.rstrip("/")
