"""``[tool.uv]`` of a ``pyproject.toml``: where packages come from, and bounds for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.utils import canonicalize_name

from adviser.projects.fields import flag_in, inside, table_in, tables_in, text_in, texts_in
from adviser.projects.indexes import index_named
from adviser.projects.lines import Reading, asked_by
from adviser.projects.problems import refuse
from adviser.projects.project import AskedRequirement, ProjectIndex, WarningCode
from common.reasons import Reason

_Asked = tuple[AskedRequirement, ...]

_ELSEWHERE = {
    "git": WarningCode.REPOSITORY, "path": WarningCode.LOCAL_PATH,
    "workspace": WarningCode.LOCAL_PATH, "url": WarningCode.ADDRESS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UvTable:
    """What ``[tool.uv]`` adds to a project.

    :param index_of: index by package
    :param elsewhere: packages that no index serves: kind, where from, place
    """

    dev: _Asked = ()
    constraints: _Asked = ()
    overrides: _Asked = ()
    indexes: tuple[ProjectIndex, ...] = ()
    all_prereleases: bool = False
    index_of: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[WarningCode, str, str]] = field(default_factory=dict)

    def placed(self, asked: Iterable[AskedRequirement], reading: Reading) -> _Asked:
        """Requirements with their index; those from elsewhere are left out and told."""
        kept = []
        for it in asked:
            if it.name in self.elsewhere:
                reading.leave_out(*self.elsewhere[it.name])
            else:
                kept.append(replace(it, index=self.index_of.get(it.name)))
        return tuple(kept)


def read_uv(content: Mapping[str, Any], name: str, reading: Reading) -> UvTable:
    """What counts for advice; uv's other settings are about installing.

    :raises InvalidProject: naming the entry
    """
    at = f"{name}:tool.uv"
    table = table_in(table_in(content, "tool", name), "uv", f"{name}:tool")
    index_of, elsewhere = _sources(table_in(table, "sources", at), f"{at}.sources", reading)
    return UvTable(
        dev=_lines(table, "dev-dependencies", at, reading),
        constraints=_lines(table, "constraint-dependencies", at, reading),
        overrides=_lines(table, "override-dependencies", at, reading),
        indexes=_indexes(table, at, reading),
        all_prereleases=text_in(table, "prerelease", at) == "allow",
        index_of=index_of,
        elsewhere=elsewhere,
    )


def _lines(table: Mapping[str, Any], key: str, at: str, reading: Reading) -> _Asked:
    lines = (
        asked_by(text, f"{inside(at, key)}[{number}]", reading)
        for number, text in enumerate(texts_in(table, key, at))
    )
    return tuple(it for it in lines if it is not None)


def _indexes(table: Mapping[str, Any], at: str, reading: Reading) -> tuple[ProjectIndex, ...]:
    found = []
    for number, entry in enumerate(tables_in(table, "index", at)):
        here = f"{at}.index[{number}]"
        url = text_in(entry, "url", here)
        if url is None:
            refuse(Reason.MISSING_FIELD, "an index without a url", here, "add its url")
        found.append(
            index_named(
                text_in(entry, "name", here) or f"index-{number + 1}", url, here, reading,
                default=flag_in(entry, "default", here), explicit=flag_in(entry, "explicit", here),
            )
        )  # fmt: skip
    # uv searches its default index last.
    return tuple(sorted(found, key=lambda it: it.default))


def _sources(
    table: Mapping[str, Any], at: str, reading: Reading
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
                reading.warn(
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
