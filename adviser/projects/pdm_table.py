"""``[tool.pdm]`` of a ``pyproject.toml``: development groups, overrides, exclusions and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named, required_url
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import ParseContext, parse_project_requirement
from common.formats.file_fields import (
    flag_in,
    inside,
    table_in,
    tables_in,
    text_in,
    texts_in,
    value_text,
)
from model.packages.identity import DEFAULT_INDEX

_Requirements = tuple[ProjectRequirement, ...]
_RESOLUTION = frozenset({"overrides", "excludes", "allow-prereleases", "respect-source-order"})


@dataclass(frozen=True, slots=True)
class PdmTable:
    """What ``[tool.pdm]`` says about requirements.

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


def read_pdm(content: Mapping[str, Any], name: str, context: ParseContext) -> PdmTable:
    """Read the table; settings that are not supported give a warning.

    :raises InvalidFile: with the path of the entry
    """
    at = f"{name}:tool.pdm"
    table = table_in(table_in(content, "tool", name), "pdm", f"{name}:tool")
    resolution, resolution_at = table_in(table, "resolution", at), f"{at}.resolution"
    for key in sorted(resolution.keys() - _RESOLUTION):
        _ignored(key, inside(resolution_at, key), context)
    if "options" in table:
        _ignored("options", f"{at}.options", context)
    dev, dev_at = table_in(table, "dev-dependencies", at), f"{at}.dev-dependencies"
    index_of: dict[str, str] = {}
    with context.optional():
        groups: dict[str, _Requirements] = {
            canonicalize_name(key): tuple(_group(dev, key, dev_at, context)) for key in dev
        }
    return PdmTable(
        groups=groups,
        overrides=tuple(_overrides(resolution, resolution_at, context)),
        removed=frozenset(map(canonicalize_name, texts_in(resolution, "excludes", resolution_at))),
        indexes=tuple(_indexes(table, at, index_of, context)),
        index_of=index_of,
        all_prereleases=flag_in(resolution, "allow-prereleases", resolution_at),
    )


def _ignored(key: str, at: str, context: ParseContext) -> None:
    message = f"{key} is not supported, so PDM may choose other versions"
    context.warn(WarningCode.OPTION_IGNORED, message, at)


def _group(
    table: Mapping[str, Any], key: str, at: str, context: ParseContext
) -> Iterator[ProjectRequirement]:
    for number, text in enumerate(texts_in(table, key, at)):
        here = f"{inside(at, key)}[{number}]"
        if text.startswith("-e "):
            context.leave_out(WarningCode.EDITABLE, text.removeprefix("-e ").strip(), here)
        elif (requirement := parse_project_requirement(text, here, context)) is not None:
            yield requirement


def _overrides(
    resolution: Mapping[str, Any], at: str, context: ParseContext
) -> Iterator[ProjectRequirement]:
    table, at = table_in(resolution, "overrides", at), f"{at}.overrides"
    for package in table:
        here, version = inside(at, package), (text_in(table, package, at) or "").strip()
        if "://" in version:
            message = f"{value_text(package)} is overridden by a URL, which is not supported"
            context.warn(WarningCode.OPTION_IGNORED, message, here)
            continue
        if version and version[0] not in "<>=!~*":
            version = f"=={version}"
        text = f"{package}{version.removeprefix('*')}"
        if (requirement := parse_project_requirement(text, here, context)) is not None:
            yield requirement


def _indexes(
    table: Mapping[str, Any], at: str, index_of: dict[str, str], context: ParseContext
) -> Iterator[ProjectIndex]:
    """The sources in their order; adds packages that come from one of them only to ``index_of``."""
    for number, source in enumerate(tables_in(table, "source", at)):
        here = f"{at}.source[{number}]"
        if text_in(source, "type", here) == "find_links":
            message = "files outside of indexes are not supported"
            context.warn(WarningCode.OPTION_IGNORED, message, here)
            continue
        called = text_in(source, "name", here) or f"source-{number + 1}"
        own = texts_in(source, "include_packages", here)
        if source.get("exclude_packages"):
            _ignored("exclude_packages", f"{here}.exclude_packages", context)
        if "*" in "".join(own):
            _ignored("a pattern", f"{here}.include_packages", context)
        index_of |= {canonicalize_name(it): called for it in own}
        yield index_named(
            called, required_url(source, here), here, context,
            verify_ssl=flag_in(source, "verify_ssl", here, True),
            # A source with this name replaces PDM's default index.
            default=called == DEFAULT_INDEX, explicit=bool(own),
        )  # fmt: skip
