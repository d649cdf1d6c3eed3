"""``[tool.uv]`` of a ``pyproject.toml``: indexes, sources, constraints and overrides."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta

from packaging.utils import canonicalize_name

from adviser.projects.indexes import index_named, required_url
from adviser.projects.project import ProjectIndex, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import ParseContext, parse_marker, parse_requirement_list
from common.formats.file_decoding import FileTable, value_text
from model.packages.identity import DEFAULT_INDEX

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
class IndexSource:
    """An index in ``tool.uv.sources``, and the conditions under which it is used.

    :param extra: the extra whose requirements it is for; ``None`` for all
    :param group: the same for dependency groups
    """

    index: str
    marker: str | None = None
    extra: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class UvTable:
    """The content of ``[tool.uv]``.

    :param group_settings: settings of dependency groups by name
    :param default_groups: groups that uv installs by default, or only ``all``
    :param sources: indexes by package, the first that fits counts
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
    group_settings: Mapping[str, FileTable] = field(default_factory=dict)
    default_groups: Sequence[str] = ()
    sources: Mapping[str, Sequence[IndexSource]] = field(default_factory=dict)
    elsewhere: Mapping[str, _Source] = field(default_factory=dict)

    def with_indexes(
        self,
        requirements: Iterable[ProjectRequirement],
        extra: str | None = None,
        group: str | None = None,
    ) -> _Requirements:
        """Add the indexes to the requirements of a project, of an extra or of a group."""
        placed = []
        for requirement in requirements:
            fitting = [
                it
                for it in self.sources.get(requirement.name, ())
                if it.extra in (None, extra) and it.group in (None, group)
            ]
            always = next((it.index for it in fitting if it.marker is None), requirement.index)
            where = tuple((it.marker, it.index) for it in fitting if it.marker is not None)
            where = where or requirement.indexes_where
            placed.append(replace(requirement, index=always, indexes_where=where))
        return tuple(placed)

    def of_indexes(
        self, requirements: Iterable[ProjectRequirement], context: ParseContext
    ) -> _Requirements:
        """Leave out the requirements that come from no index, with a warning."""
        kept = []
        for requirement in requirements:
            if requirement.name in self.elsewhere:
                code, what, at, path = self.elsewhere[requirement.name]
                context.leave_out(code, what, at, path=path, marker=requirement.marker)
            else:
                kept.append(requirement)
        return tuple(kept)


def read_uv(content: FileTable, context: ParseContext) -> UvTable:
    """Read the settings that matter for advice; unsupported settings give a warning.

    :raises InvalidFile: with the path of the entry
    """
    table = content.nested("tool").nested("uv")
    _warn_of_unsupported(table, context)
    indexes = _indexes(table, context)
    declared = {it.name for it in indexes}
    sources, elsewhere = _sources(table.nested("sources"), declared, context)
    with context.optional():
        dev, constraints = (
            parse_requirement_list(table, f"{key}-dependencies", context)
            for key in ("dev", "constraint")
        )
        overrides = _overrides(table, context)
    groups = table.nested("dependency-groups")
    return UvTable(
        dev=dev,
        constraints=constraints,
        overrides=overrides,
        removed=frozenset(
            it.name for it in parse_requirement_list(table, "exclude-dependencies", context)
        ),
        published_before=_published_before(table, context),
        indexes=indexes,
        all_prereleases=table.text("prerelease") == "allow",
        group_settings={canonicalize_name(key): groups.nested(key) for key in groups},
        default_groups=_default_groups(table, context),
        sources=sources,
        elsewhere=elsewhere,
    )


def _indexes(table: FileTable, context: ParseContext) -> tuple[ProjectIndex, ...]:
    indexes = []
    for number, entry in enumerate(table.each("index")):
        name = entry.text("name") or f"index-{number + 1}"
        indexes.append(
            index_named(
                name, required_url(entry), entry.at, context,
                default=entry.flag("default"), explicit=entry.flag("explicit"),
            )
        )  # fmt: skip
    for number, url in enumerate(table.texts("extra-index-url")):
        here = table.at / "extra-index-url" / number
        indexes.append(index_named(f"extra-{number + 1}", url, here, context))
    default_url = table.text("index-url")
    if default_url is not None and not any(it.default for it in indexes):
        here = table.at / "index-url"
        indexes.append(index_named("index-url", default_url, here, context, default=True))
    # uv searches its default index last.
    return tuple(sorted(indexes, key=lambda it: it.default))


def _default_groups(table: FileTable, context: ParseContext) -> Sequence[str]:
    listed = ["all"] if table.get("default-groups") == "all" else table.texts("default-groups")
    groups = [canonicalize_name(it) for it in listed]
    if groups not in ([], ["dev"]):
        context.warn(
            WarningCode.OPTION_IGNORED,
            f"uv installs these groups by default ({', '.join(groups)}); here, `--dev` adds them",
            table.at / "default-groups",
        )
    return groups


def _overrides(table: FileTable, context: ParseContext) -> _Requirements:
    overrides = parse_requirement_list(table, "override-dependencies", context)
    for override in overrides:
        if override.extras:
            context.warn(
                WarningCode.OPTION_IGNORED,
                f"the extras of {value_text(override.text)} count only where the project itself "
                "requires the package",
                override.origin,
            )
    return overrides


def _published_before(table: FileTable, context: ParseContext) -> datetime | None:
    """The time of ``exclude-newer``; a date means the end of that day.

    Durations are refused with a warning, because their meaning changes from day to day.
    """
    text = table.text("exclude-newer")
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
            table.at / "exclude-newer",
        )
        return None


def _warn_of_unsupported(table: FileTable, context: ParseContext) -> None:
    for key in _UNSUPPORTED:
        if table.get(key):
            message = f"{key} is not supported, so uv may choose other versions"
            context.warn(WarningCode.OPTION_IGNORED, message, table.at / key)
    for host in table.texts("allow-insecure-host"):
        context.warn_of_host(host, table.at / "allow-insecure-host")


def _sources(
    table: FileTable, declared: Collection[str], context: ParseContext
) -> tuple[dict[str, list[IndexSource]], dict[str, _Source]]:
    sources: dict[str, list[IndexSource]] = {}
    elsewhere: dict[str, _Source] = {}
    for key in table:
        name, here = canonicalize_name(key), table.at / key
        for entry in table.each(key) if isinstance(table[key], list) else [table.nested(key)]:
            code = next((it for it in _SOURCE_CODES if entry.get(it)), None)
            index = entry.text("index")
            marker, extra, group = map(entry.text, ("marker", "extra", "group"))
            if code is not None and marker is extra is group is None:
                path = entry.text("path") if code == "path" else None
                elsewhere[name] = (_SOURCE_CODES[code], f"{key} ({code})", here, path)
                continue
            if code is not None:
                message = (
                    f"a source ({code}) under a condition is not supported: where the condition "
                    "holds, there is no advice, because no index may replace the source"
                )
                context.warn(WarningCode.OPTION_IGNORED, message, here)
                index = f"{here.partition(':')[2]} ({code})"
            elif index is not None and index not in declared:
                message = f"references an undeclared index: {value_text(index)}"
                context.warn(WarningCode.UNKNOWN_INDEX, message, here)
                if index == DEFAULT_INDEX:  # The public index must not match by its name.
                    index = f"tool.uv.index.{index}"
            if index is not None:
                sources.setdefault(name, []).append(
                    IndexSource(
                        index,
                        parse_marker(marker, here) if marker else None,
                        canonicalize_name(extra) if extra else None,
                        canonicalize_name(group) if group else None,
                    )
                )
    return sources, elsewhere
