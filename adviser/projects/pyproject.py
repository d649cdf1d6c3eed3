"""Read ``pyproject.toml``: ``[project]`` (PEP 621), groups (PEP 735), tables of tools, ours too.

The inline metadata of a Python script (PEP 723) has the same tables. The project's own benchmarks
stand in ``[tool.thoth]`` or in ``thoth.toml``.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from adviser.projects.poetry_and_pdm import (
    PoetryTable,
    has_poetry_requirements,
    read_pdm,
    read_poetry,
)
from adviser.projects.project import Project, ProjectFormat, ProjectRequirement, WarningCode
from adviser.projects.requirement_parsing import (
    ParseContext,
    parse_project_requirement,
    parse_requirement_list,
)
from adviser.projects.uv_table import IndexSource, read_uv
from common.formats.file_decoding import FileTable, refuse, table_of, value_text
from model.errors import Reason
from model.json_fields import FieldPath
from model.text import first_few

_Requirements = tuple[ProjectRequirement, ...]

#: Limit of steps when extras and groups are followed; real projects need a few thousand.
_MAX_STEPS = 200_000
#: Limit of conditions under which one extra may be required.
_MAX_CONDITIONS = 64

#: The group for development, which uv installs by default.
DEVELOPMENT = "dev"
#: Tables of other tools with requirements or sources that are not read.
_UNREAD_TABLES = (
    "pixi.dependencies", "pixi.pypi-dependencies", "pixi.feature", "pixi.target",
    "pixi.pypi-options", "rye.dev-dependencies", "rye.sources", "hatch.envs", "pip-tools",
    "flit.metadata.requires", "flit.metadata.requires-extra",
)  # fmt: skip
#: A block of metadata, as PEP 723 defines it.
_BLOCK = re.compile(
    r"^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$", re.MULTILINE
)
_SCRIPT_KEYS = ("dependencies", "requires-python")


def has_requirements(content: Mapping[str, Any]) -> bool:
    """Whether a ``pyproject.toml`` has requirements, not only settings of tools."""
    listed = "project" in content or "dependency-groups" in content
    return listed or has_poetry_requirements(content)


def unread_tables(content: Mapping[str, Any]) -> Iterator[str]:
    """Paths of the tables of other tools that change what is installed, and are not read."""
    for path in _UNREAD_TABLES:
        table: Any = content.get("tool")
        for key in path.split("."):
            table = table.get(key) if isinstance(table, Mapping) else None
        if table:
            yield f"tool.{path}"


def read_pyproject(content: FileTable, name: str, context: ParseContext) -> Project:
    """Read the content of a ``pyproject.toml`` as a project.

    If an extra requires other extras of the same project, it includes their requirements.

    :raises InvalidFile: with the path of the entry; for a cycle, with all its groups
    """
    project = content.nested("project")
    poetry = read_poetry(content, context)
    pdm = read_pdm(content, context)
    uv = read_uv(content, context)
    of_pdm = {name: [IndexSource(index)] for name, index in pdm.index_of.items()}
    uv = replace(uv, sources=of_pdm | dict(uv.sources))
    for path in unread_tables(content):
        message = "not read: list its requirements in [project] or [dependency-groups]"
        context.warn(WarningCode.OPTION_IGNORED, message, f"{name}:{path}")
    overrides = uv.with_indexes((*uv.overrides, *pdm.overrides))
    for override in overrides:
        message = f"{override.text} replaces every other requirement on {override.name}"
        context.warn(WarningCode.OVERRIDDEN, message, override.origin)
    _warn_of_dynamic(project, context, poetry)
    own = canonicalize_name(project.text("name") or "")
    optional = project.nested("optional-dependencies")
    with context.optional():
        extras: dict[str, _Requirements] = {
            canonicalize_name(key): parse_requirement_list(optional, key, context)
            for key in optional
        }
        flat = _groups(content.nested("dependency-groups"), context)
    groups = {key: members for key, (members, _) in flat.items()}
    for key, members in (*poetry.groups.items(), *pdm.groups.items()):
        groups[key] = (*groups.get(key, ()), *members)
    if uv.dev:
        groups[DEVELOPMENT] = (*groups.get(DEVELOPMENT, ()), *uv.dev)
    groups = {key: uv.with_indexes(members, group=key) for key, members in groups.items()}
    extras = {
        key: uv.with_indexes(members, extra=key)
        for key, members in {**poetry.extras, **extras}.items()
    }
    listed = parse_requirement_list(project, "dependencies", context)
    listed = tuple(
        replace(
            requirement,
            index=dict(poetry.sources.get(requirement.name, ())).get(None),
            indexes_where=tuple(
                (marker, index)
                for marker, index in poetry.sources.get(requirement.name, ())
                if marker is not None
            ),
            prereleases=True if requirement.name in poetry.prereleases else None,
        )
        for requirement in listed
    )
    base = uv.with_indexes((*listed, *poetry.requirements))
    expansion = _ExtraExpansion(own, extras, base, optional.at)
    requirements = uv.of_indexes(expansion.expand(base), context)
    with context.optional():
        expanded = {
            key: uv.of_indexes(expansion.expand(group), context) for key, group in groups.items()
        }
        extras = {
            key: uv.of_indexes(expansion.expand(extra, key), context)
            for key, extra in extras.items()
        }
    default = groups if uv.default_groups == ["all"] else uv.default_groups
    development = dict.fromkeys([DEVELOPMENT, *pdm.groups, *default])
    dev = [it for key in development for it in expanded.get(key, ())]
    python_of = {key: _requires_python(table) for key, table in uv.group_settings.items()}
    pythons = {
        option: text
        for option, keys in [("--dev", development), *((f"--group {key}", [key]) for key in flat)]
        if (
            text := ",".join(
                sorted(
                    {
                        python
                        for key in keys
                        if key in flat
                        for inner in flat[key][1]
                        if (python := python_of.get(inner))
                    }
                )
            )
        )
    }
    return Project(
        requirements=requirements,
        dev=tuple({replace(it, origin=""): it for it in dev}.values()),
        extras=extras,
        groups=expanded,
        constraints=uv.constraints,
        overrides=overrides,
        removed=uv.removed | pdm.removed,
        published_before=uv.published_before,
        indexes=uv.indexes or pdm.indexes or poetry.indexes,
        all_prereleases=uv.all_prereleases or pdm.all_prereleases,
        format=ProjectFormat.PYPROJECT,
        source=name,
        requires_python=_requires_python(project) or poetry.requires_python,
        option_pythons=pythons,
    )


def read_script(data: bytes, name: str, context: ParseContext) -> Project:
    """Read a script as a project: its dependencies, its Python and ``[tool.uv]``.

    Only the comments of the metadata are read.

    :raises InvalidFile: without metadata, with several blocks, or at an invalid entry
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    blocks = [it["content"] for it in _BLOCK.finditer(text) if it["type"] == "script"]
    if len(blocks) != 1:
        refuse(
            Reason.CONFLICTING_FIELDS if blocks else Reason.MISSING_FIELD,
            f"a script needs one block of metadata, and this one has {len(blocks)}",
            f"{name}:$",
            "list its dependencies between `# /// script` and `# ///` (PEP 723)",
        )
    lines = [re.sub("^# ?", "", line) for line in blocks[0].splitlines(keepends=True)]
    content = table_of(name, "".join(lines).encode())
    project = {key: content[key] for key in _SCRIPT_KEYS if key in content}
    table = FileTable({"project": project, "tool": content.get("tool", {})}, content.at)
    return replace(read_pyproject(table, name, context), format=ProjectFormat.SCRIPT)


#: Markers that must all hold; a set, because order and repetition do not matter.
_Condition = frozenset[str]


class _ExtraExpansion:
    """Replaces requirements on the project's own extras by the requirements of these extras."""

    def __init__(
        self, own: str, extras: Mapping[str, _Requirements], base: _Requirements, at: str
    ) -> None:
        self._own, self._extras, self._base, self._at = own, extras, base, at
        self._steps = _Steps(at)

    def expand(
        self, requirements: Iterable[ProjectRequirement], extra: str | None = None
    ) -> _Requirements:
        """The expanded requirements in their order, without duplicates.

        :param extra: the extra that these requirements belong to
        """
        expanded: dict[ProjectRequirement, None] = {}
        seen: dict[str | None, list[_Condition]] = {extra: [frozenset()]} if extra else {}
        pending = [(it, _Condition()) for it in requirements][::-1]
        while pending:
            requirement, condition = pending.pop()
            self._steps.take(1 + len(condition))
            if not self._own or requirement.name != self._own:
                expanded[_narrowed(requirement, condition)] = None
                continue
            if requirement.marker is not None:
                condition |= {requirement.marker}
            included = [(key, self._extras.get(key, ())) for key in requirement.extras]
            for key, members in reversed([(None, self._base), *included]):
                if self._is_new(condition, seen.setdefault(key, []), key):
                    pending += [(member, condition) for member in members][::-1]
        return tuple(expanded)

    def _is_new(self, condition: _Condition, known: list[_Condition], extra: str | None) -> bool:
        """Whether a condition requires an extra in cases that the known conditions do not cover."""
        self._steps.take(len(known))
        if any(it <= condition for it in known):
            return False
        if len(known) == _MAX_CONDITIONS:
            refuse(
                Reason.OUT_OF_RANGE,
                f"{value_text(extra or self._own)} is required under more than {_MAX_CONDITIONS} "
                "conditions",
                self._at,
                "require it directly where it is needed, not through other extras",
            )
        known.append(condition)
        return True


class _Steps:
    """A budget of steps, which keeps a small file from taking a long time."""

    def __init__(self, at: str) -> None:
        self._left, self._at = _MAX_STEPS, at

    def take(self, steps: int = 1) -> None:
        """Use some of the budget.

        :raises InvalidFile: if it is exhausted
        """
        self._left -= steps
        if self._left < 0:
            refuse(
                Reason.OUT_OF_RANGE,
                "extras or groups refer to each other too often",
                self._at,
                "list requirements in the groups and extras that need them",
            )


def _narrowed(requirement: ProjectRequirement, condition: _Condition) -> ProjectRequirement:
    """The requirement with the condition added to its marker."""
    markers = sorted(condition | ({requirement.marker} if requirement.marker else frozenset()))
    if not condition or markers == [requirement.marker]:
        return requirement
    marker = markers[0] if len(markers) == 1 else " and ".join(f"({it})" for it in markers)
    return replace(requirement, marker=marker)


def _requires_python(table: FileTable) -> str | None:
    specifier = table.text("requires-python")
    if specifier is None:
        return None
    try:
        return str(SpecifierSet(specifier))
    except InvalidSpecifier:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(specifier)} is not a version specifier",
            table.at / "requires-python",
            "use the form of PEP 440, such as `>=3.11`",
        )


def _warn_of_dynamic(project: FileTable, context: ParseContext, poetry: PoetryTable) -> None:
    known = {"dependencies": poetry.requirements, "optional-dependencies": poetry.extras}
    for key in project.texts("dynamic"):
        if key in known and not known[key]:
            context.warn(
                WarningCode.DYNAMIC,
                f"{key} are computed by the build and not part of the advice: pass a requirements "
                "file that lists them",
                project.at / "dynamic",
            )


def _groups(table: FileTable, context: ParseContext) -> dict[str, tuple[_Requirements, set[str]]]:
    """The requirements of every group, without duplicates, and the groups that it consists of.

    ``packaging`` can resolve includes, too, but repeats a group that is included twice. Forty small
    groups could then exhaust the memory.
    """
    names: dict[str, str] = {}
    for key in table:
        if (first := names.setdefault(canonicalize_name(key), key)) != key:
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"{value_text(first)} and {value_text(key)} are the same group",
                table.at,
                "keep one of them",
            )
    members = {group: list(_members(table, key, context)) for group, key in names.items()}
    steps = _Steps(table.at)
    return {group: _flat(group, members, table.at, steps) for group in members}


def _members(
    table: FileTable, key: str, context: ParseContext
) -> Iterator[ProjectRequirement | str]:
    """Requirements of a group, and names of groups that it includes."""
    for number, member in enumerate(table.sequence(key)):
        here = table.at / key / number
        if isinstance(member, str):
            requirement = parse_project_requirement(member, here, context)
            if requirement is not None:
                yield requirement
        elif isinstance(member, dict) and member.keys() == {"include-group"}:
            yield canonicalize_name(FileTable(member, here).text("include-group") or "")
        else:
            expected = "a requirement or a table with only `include-group`"
            raise table.wrong_type(member, expected, key, number)


def _flat(
    group: str, members: Mapping[str, list[ProjectRequirement | str]], at: FieldPath, steps: _Steps
) -> tuple[_Requirements, set[str]]:
    """The requirements of a group and of all groups that it includes, and the names of these."""
    flat: dict[ProjectRequirement, None] = {}
    seen, path = {group}, {group: None}  # a dictionary, because it is an ordered set
    stack = [iter(members[group])]
    while stack:
        steps.take()
        member = next(stack[-1], None)
        if member is None:
            stack.pop(), path.popitem()
        elif isinstance(member, ProjectRequirement):
            flat[member] = None
        elif member in path:
            cycle = [*path, member][list(path).index(member) :]
            refuse(
                Reason.INCLUDE_CYCLE,
                f"groups include each other: {' → '.join(cycle)}",
                at / next(reversed(path)),
                "remove one of these includes",
            )
        elif member not in members:
            refuse(
                Reason.INCLUDE_MISSING,
                f"includes the group {value_text(member)}, which does not exist",
                at / next(reversed(path)),
                f"groups of this file: {first_few(sorted(members), 20)}",
            )
        elif member not in seen:
            seen.add(member)
            path[member] = None
            stack.append(iter(members[member]))
    return tuple(flat), seen


#: A file with the content of ``[tool.thoth]``, which it replaces.
THOTH_TOML = "thoth.toml"
_KEY = "benchmarks"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LONGEST_COMMAND = 2000
_MOST_BENCHMARKS = 100


def own_benchmarks(files: Mapping[str, bytes], context: ParseContext) -> dict[str, str]:
    """Commands that measure the project, by name, in the order of the file. None of them is run.

    :raises InvalidFile: with the path of the entry
    """
    table = _table(files, context)
    if table is None:
        return {}
    for key in table:
        if key != _KEY:
            message = "not a setting of Thoth, which reads only benchmarks"
            context.warn(WarningCode.OPTION_IGNORED, message, table.at / key)
    listed = table.nested(_KEY)
    if len(listed) > _MOST_BENCHMARKS:
        message = f"{len(listed)} benchmarks; the limit is {_MOST_BENCHMARKS}"
        raise table.invalid(Reason.OUT_OF_RANGE, message, _KEY)
    return {name: _command(listed, name) for name in listed}


def _table(files: Mapping[str, bytes], context: ParseContext) -> FileTable | None:
    own = table_of(THOTH_TOML, files[THOTH_TOML]) if THOTH_TOML in files else None
    manifest = "pyproject.toml"
    # Most projects have no such table, and a large manifest takes long to parse.
    if manifest not in files or b"thoth" not in files[manifest]:
        return own
    content = table_of(manifest, files[manifest])
    tool = content.get("tool")
    if not isinstance(tool, dict) or "thoth" not in tool:
        return own
    inner = content.nested("tool").nested("thoth")
    if own is None:
        return inner
    message = f"not read, because {THOTH_TOML} replaces it"
    context.warn(WarningCode.FILE_IGNORED, message, inner.at)
    return own


def _command(table: FileTable, name: str) -> str:
    if not _NAME.fullmatch(name):
        message = f"{value_text(name)} is no name: use letters, digits, `.`, `_` and `-`"
        raise table.invalid(Reason.OUT_OF_RANGE, message, name)
    command = table.required_text(name, 'write a command, such as "python bench.py"')
    if len(command) > _LONGEST_COMMAND or not command.isprintable() or not command.strip():
        message = f"a command is one printable line of at most {_LONGEST_COMMAND} characters"
        raise table.invalid(Reason.OUT_OF_RANGE, message, name)
    try:
        shlex.split(command)
    except ValueError as error:
        raise table.invalid(Reason.OUT_OF_RANGE, f"not a command: {error}", name) from None
    return command
