"""``[tool.uv]`` of a ``pyproject.toml``: where packages come from, and bounds for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
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
)
from common.reasons import Reason

_Asked = tuple[ProjectRequirement, ...]

_ELSEWHERE = {
    "git": WarningCode.REPOSITORY, "path": WarningCode.LOCAL_PATH,
    "workspace": WarningCode.LOCAL_PATH, "url": WarningCode.ADDRESS,
}  # fmt: skip


#: What else of uv's settings changes which versions it takes.
_NOT_FOLLOWED = (
    "exclude-newer-package", "index-strategy", "resolution", "find-links", "no-index",
    "dependency-metadata",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UvTable:
    """What ``[tool.uv]`` adds to a project.

    :param index_of: index by package
    :param elsewhere: packages that no index serves: kind, where from, place
    """

    dev: _Asked = ()
    constraints: _Asked = ()
    overrides: _Asked = ()
    removed: frozenset[str] = frozenset()
    published_before: datetime | None = None
    indexes: tuple[ProjectIndex, ...] = ()
    all_prereleases: bool = False
    index_of: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[WarningCode, str, str]] = field(default_factory=dict)

    def placed(self, asked: Iterable[ProjectRequirement], context: ParseContext) -> _Asked:
        """Requirements with their index; those from elsewhere are left out and told."""
        kept = []
        for it in asked:
            if it.name in self.elsewhere:
                context.leave_out(*self.elsewhere[it.name])
            else:
                kept.append(replace(it, index=self.index_of.get(it.name)))
        return tuple(kept)


def read_uv(content: Mapping[str, Any], name: str, context: ParseContext) -> UvTable:
    """What counts for advice; what else would change the choice is told.

    :raises InvalidFile: naming the entry
    """
    at = f"{name}:tool.uv"
    table = table_in(table_in(content, "tool", name), "uv", f"{name}:tool")
    _tell_of_others(table, at, context)
    index_of, elsewhere = _sources(table_in(table, "sources", at), f"{at}.sources", context)
    return UvTable(
        dev=_lines(table, "dev-dependencies", at, context),
        constraints=_lines(table, "constraint-dependencies", at, context),
        overrides=_overrides(table, at, context),
        removed=frozenset(it.name for it in _lines(table, "exclude-dependencies", at, context)),
        published_before=_published_before(table, at, context),
        indexes=_indexes(table, at, context),
        all_prereleases=text_in(table, "prerelease", at) == "allow",
        index_of=index_of,
        elsewhere=elsewhere,
    )


def _lines(table: Mapping[str, Any], key: str, at: str, context: ParseContext) -> _Asked:
    lines = (
        parse_asked(text, f"{inside(at, key)}[{number}]", context)
        for number, text in enumerate(texts_in(table, key, at))
    )
    return tuple(it for it in lines if it is not None)


def _indexes(table: Mapping[str, Any], at: str, context: ParseContext) -> tuple[ProjectIndex, ...]:
    found = []
    for number, entry in enumerate(tables_in(table, "index", at)):
        here = f"{at}.index[{number}]"
        url = text_in(entry, "url", here)
        if url is None:
            refuse(Reason.MISSING_FIELD, "an index without a url", here, "add its url")
        found.append(
            index_named(
                text_in(entry, "name", here) or f"index-{number + 1}", url, here, context,
                default=flag_in(entry, "default", here), explicit=flag_in(entry, "explicit", here),
            )
        )  # fmt: skip
    for number, url in enumerate(texts_in(table, "extra-index-url", at)):
        here = f"{at}.extra-index-url[{number}]"
        found.append(index_named(f"extra-{number + 1}", url, here, context))
    url = text_in(table, "index-url", at)
    if url is not None and not any(it.default for it in found):
        found.append(index_named("index-url", url, f"{at}.index-url", context, default=True))
    # uv searches its default index last.
    return tuple(sorted(found, key=lambda it: it.default))


def _overrides(table: Mapping[str, Any], at: str, context: ParseContext) -> _Asked:
    overrides = _lines(table, "override-dependencies", at, context)
    for it in overrides:
        if it.extras:
            context.warn(
                WarningCode.OPTION_IGNORED,
                f"the extras of {shown(it.text)} count only where the project itself asks for it",
                it.origin,
            )
    return overrides


def _published_before(table: Mapping[str, Any], at: str, context: ParseContext) -> datetime | None:
    """A moment as it is, a day to its end; what counts from now says nothing that stays."""
    said, here = text_in(table, "exclude-newer", at), f"{at}.exclude-newer"
    if said is None:
        return None
    try:
        if len(said) == len("2026-01-31"):
            day = date.fromisoformat(said) + timedelta(days=1)
            return datetime.combine(day, time(), UTC)
        moment = datetime.fromisoformat(said)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        context.warn(
            WarningCode.OPTION_IGNORED,
            f"{shown(said)} is neither a day nor a time: `--older-than 7d` asks for the same",
            here,
        )
        return None


def _tell_of_others(table: Mapping[str, Any], at: str, context: ParseContext) -> None:
    for key in _NOT_FOLLOWED:
        if table.get(key):
            message = f"{key} is not followed, so uv may choose other versions"
            context.warn(WarningCode.OPTION_IGNORED, message, f"{at}.{key}")
    for host in texts_in(table, "allow-insecure-host", at):
        context.warn_of_host(host, f"{at}.allow-insecure-host")


def _sources(
    table: Mapping[str, Any], at: str, context: ParseContext
) -> tuple[dict[str, str], dict[str, tuple[WarningCode, str, str]]]:
    index_of: dict[str, str] = {}
    elsewhere: dict[str, tuple[WarningCode, str, str]] = {}
    for key in table:
        name, here = canonicalize_name(key), inside(at, key)
        several = isinstance(table[key], list)
        entries = tables_in(table, key, at) if several else [table_in(table, key, at)]
        for entry in entries:
            code = next((it for it in _ELSEWHERE if entry.get(it)), None)
            if "marker" in entry or len(entries) > 1:
                context.warn(
                    WarningCode.OPTION_IGNORED,
                    "a source for some environments only is not followed: the package counts as "
                    "one of the other indexes",
                    here,
                )
            elif code is not None:
                elsewhere[name] = (_ELSEWHERE[code], f"{key} ({code})", here)
            elif index := text_in(entry, "index", here):
                index_of[name] = index
    return index_of, elsewhere
