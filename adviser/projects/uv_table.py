"""``[tool.uv]`` of a ``pyproject.toml``: indexes, sources, constraints and overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named, required_url
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import ParseContext, parse_requirement_list
from common.formats.file_fields import (
    flag_in,
    inside,
    table_in,
    tables_in,
    text_in,
    texts_in,
    value_text,
)

_Requirements = tuple[ProjectRequirement, ...]
_Source = tuple[WarningCode, str, str, str | None]

_SOURCE_CODES = {
    "git": WarningCode.REPOSITORY, "path": WarningCode.LOCAL_PATH,
    "workspace": WarningCode.LOCAL_PATH, "url": WarningCode.ADDRESS,
}  # fmt: skip


#: Settings that change which versions uv selects, and that are not supported here.
_UNSUPPORTED = (
    "exclude-newer-package", "index-strategy", "resolution", "find-links", "no-index",
    "dependency-metadata", "no-build", "no-build-package", "no-binary", "no-binary-package",
    "no-sources", "pip",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UvTable:
    """The content of ``[tool.uv]``.

    :param group_settings: settings of dependency groups by name
    :param default_groups: groups that uv installs by default, or only ``all``
    :param index_of: index by package
    :param elsewhere: packages that do not come from an index, each with the kind of its source, a
        description, the place in the file, and the path if it is beside the project
    """

    dev: _Requirements = ()
    constraints: _Requirements = ()
    overrides: _Requirements = ()
    removed: frozenset[str] = frozenset()
    published_before: datetime | None = None
    indexes: tuple[ProjectIndex, ...] = ()
    all_prereleases: bool = False
    group_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default_groups: Sequence[str] = ()
    index_of: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, _Source] = field(default_factory=dict)

    def with_indexes(
        self, requirements: Iterable[ProjectRequirement], context: ParseContext
    ) -> _Requirements:
        """Add the index to each requirement; leave out those without an index, with a warning."""
        kept = []
        for requirement in requirements:
            if requirement.name in self.elsewhere:
                code, what, at, path = self.elsewhere[requirement.name]
                context.leave_out(code, what, at, path=path, marker=requirement.marker)
            else:
                index = self.index_of.get(requirement.name, requirement.index)
                kept.append(replace(requirement, index=index))
        return tuple(kept)


def read_uv(content: Mapping[str, Any], name: str, context: ParseContext) -> UvTable:
    """Read the settings that matter for advice; unsupported settings give a warning.

    :raises InvalidFile: with the path of the entry
    """
    at = f"{name}:tool.uv"
    table = table_in(table_in(content, "tool", name), "uv", f"{name}:tool")
    _warn_of_unsupported(table, at, context)
    index_of, elsewhere = _sources(table_in(table, "sources", at), f"{at}.sources", context)
    with context.optional():
        dev, constraints = (
            parse_requirement_list(table, f"{key}-dependencies", at, context)
            for key in ("dev", "constraint")
        )
        overrides = _overrides(table, at, context)
    groups = table_in(table, "dependency-groups", at)
    return UvTable(
        dev=dev,
        constraints=constraints,
        overrides=overrides,
        removed=frozenset(
            it.name for it in parse_requirement_list(table, "exclude-dependencies", at, context)
        ),
        published_before=_published_before(table, at, context),
        indexes=_indexes(table, at, context),
        all_prereleases=text_in(table, "prerelease", at) == "allow",
        group_settings={
            canonicalize_name(key): table_in(groups, key, f"{at}.dependency-groups")
            for key in groups
        },
        default_groups=_default_groups(table, at, context),
        index_of=index_of,
        elsewhere=elsewhere,
    )


def _indexes(table: Mapping[str, Any], at: str, context: ParseContext) -> tuple[ProjectIndex, ...]:
    indexes = []
    for number, entry in enumerate(tables_in(table, "index", at)):
        here = f"{at}.index[{number}]"
        url = required_url(entry, here)
        indexes.append(
            index_named(
                text_in(entry, "name", here) or f"index-{number + 1}", url, here, context,
                default=flag_in(entry, "default", here), explicit=flag_in(entry, "explicit", here),
            )
        )  # fmt: skip
    for number, url in enumerate(texts_in(table, "extra-index-url", at)):
        here = f"{at}.extra-index-url[{number}]"
        indexes.append(index_named(f"extra-{number + 1}", url, here, context))
    default_url = text_in(table, "index-url", at)
    if default_url is not None and not any(it.default for it in indexes):
        indexes.append(
            index_named("index-url", default_url, f"{at}.index-url", context, default=True)
        )
    # uv searches its default index last.
    return tuple(sorted(indexes, key=lambda it: it.default))


def _default_groups(table: Mapping[str, Any], at: str, context: ParseContext) -> Sequence[str]:
    listed = (
        ["all"] if table.get("default-groups") == "all" else texts_in(table, "default-groups", at)
    )
    groups = [canonicalize_name(it) for it in listed]
    if groups not in ([], ["dev"]):
        context.warn(
            WarningCode.OPTION_IGNORED,
            f"uv installs these groups by default ({', '.join(groups)}); here, `--dev` adds them",
            f"{at}.default-groups",
        )
    return groups


def _overrides(table: Mapping[str, Any], at: str, context: ParseContext) -> _Requirements:
    overrides = parse_requirement_list(table, "override-dependencies", at, context)
    for override in overrides:
        if override.extras:
            context.warn(
                WarningCode.OPTION_IGNORED,
                f"the extras of {value_text(override.text)} count only where the project itself "
                "requires the package",
                override.origin,
            )
    return overrides


def _published_before(table: Mapping[str, Any], at: str, context: ParseContext) -> datetime | None:
    """The time of ``exclude-newer``; a date means the end of that day.

    Durations are refused with a warning, because their meaning changes from day to day.
    """
    text, here = text_in(table, "exclude-newer", at), f"{at}.exclude-newer"
    if text is None:
        return None
    try:
        if len(text) == len("2026-01-31"):
            day = date.fromisoformat(text) + timedelta(days=1)
            return datetime.combine(day, time(), UTC)
        instant = datetime.fromisoformat(text)
        return instant.replace(tzinfo=instant.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        context.warn(
            WarningCode.OPTION_IGNORED,
            f"{value_text(text)} is neither a date nor a time: use `--older-than 7d` instead",
            here,
        )
        return None


def _warn_of_unsupported(table: Mapping[str, Any], at: str, context: ParseContext) -> None:
    for key in _UNSUPPORTED:
        if table.get(key):
            message = f"{key} is not supported, so uv may choose other versions"
            context.warn(WarningCode.OPTION_IGNORED, message, f"{at}.{key}")
    for host in texts_in(table, "allow-insecure-host", at):
        context.warn_of_host(host, f"{at}.allow-insecure-host")


def _sources(
    table: Mapping[str, Any], at: str, context: ParseContext
) -> tuple[dict[str, str], dict[str, _Source]]:
    index_of: dict[str, str] = {}
    elsewhere: dict[str, _Source] = {}
    for key in table:
        name, here = canonicalize_name(key), inside(at, key)
        several = isinstance(table[key], list)
        entries = tables_in(table, key, at) if several else [table_in(table, key, at)]
        for entry in entries:
            code = next((it for it in _SOURCE_CODES if entry.get(it)), None)
            if "marker" in entry or len(entries) > 1:
                context.warn(
                    WarningCode.OPTION_IGNORED,
                    "a source for some environments only is not supported: the package is taken "
                    "from the other indexes",
                    here,
                )
            elif code is not None:
                path = text_in(entry, "path", here) if code == "path" else None
                elsewhere[name] = (_SOURCE_CODES[code], f"{key} ({code})", here, path)
            elif index := text_in(entry, "index", here):
                index_of[name] = index
    return index_of, elsewhere
