"""``[tool.pdm]`` of a ``pyproject.toml``: development groups, overrides, exclusions and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named, required_url
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import ParseContext, parse_project_requirement
from common.formats.file_fields import FileTable, value_text
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
        indexes=tuple(_indexes(table, index_of, context)),
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


def _indexes(
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
