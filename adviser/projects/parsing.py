"""Read a project from the content of its files."""

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from adviser.projects.foreign_files import FOREIGN_FILES, refuse_foreign
from adviser.projects.locks import ProjectLock, lock_of
from adviser.projects.pipfile import read_pipfile
from adviser.projects.project import Project, ProjectFormat, ProjectRequirement, WarningCode
from adviser.projects.pyproject import (
    THOTH_TOML,
    has_requirements,
    own_benchmarks,
    read_pyproject,
    read_script,
    unread_tables,
)
from adviser.projects.requirement_parsing import ParseContext, PathExists
from adviser.projects.requirements_files import RequirementList, included, read_requirements
from common.formats import conda_environment
from common.formats.file_decoding import (
    check_sizes,
    refuse,
    requirements_text_of,
    table_of,
    toml_of,
    value_text,
)
from common.formats.locks.entries import DEFAULT_SELECTION, NEVER, LockSelection
from common.formats.locks.pylock import is_pylock
from common.formats.requirements_files import exact_version, lines_of
from model.errors import InvalidFile, Reason
from model.text import counted, first_few

PIPFILE, PIPFILE_LOCK, PYPROJECT = "Pipfile", "Pipfile.lock", "pyproject.toml"
#: Locks that only their tool writes, by name.
LOCKS_OF_TOOLS = {"uv.lock": "uv", "poetry.lock": "Poetry", "pdm.lock": "PDM", "pixi.lock": "pixi"}
REQUIREMENTS_IN, REQUIREMENTS_TXT = "requirements.in", "requirements.txt"
CONSTRAINTS = "constraints.txt"
#: Common names of files with requirements for development, in order of precedence.
DEVELOPMENT_FILES = tuple(
    f"{stem}.{ending}"
    for ending in ("in", "txt")
    for stem in ("requirements-dev", "requirements_dev", "dev-requirements", "dev_requirements")
)
#: Files that are read from a project's folder, besides ``pylock.NAME.toml``.
PROJECT_FILES = (
    PIPFILE, PIPFILE_LOCK, PYPROJECT, "pylock.toml", REQUIREMENTS_IN, REQUIREMENTS_TXT,
    CONSTRAINTS, THOTH_TOML, *LOCKS_OF_TOOLS, *sorted(conda_environment.NAMES), *DEVELOPMENT_FILES,
)  # fmt: skip


def parse_project(
    files: Mapping[str, bytes],
    name: str | None = None,
    manifest_hashes: Collection[str] = (),
    path_exists: PathExists | None = None,
    selection: LockSelection = DEFAULT_SELECTION,
) -> Project:
    """Read the requirements of a project and its lock.

    The manifest is the first existing file of ``Pipfile``, ``pyproject.toml`` (if it has
    ``[project]`` or groups), ``requirements.in`` and ``requirements.txt``. Without a manifest, the
    packages of a lock are required in any version. ``constraints.txt`` always applies.

    :param files: content by path within the project's folder, with ``/``; nothing else is read
    :param name: file to use as the manifest
    :param manifest_hashes: hashes of the Pipfile before credentials were removed from it
    :param path_exists: local paths for which it is false are the project's ``missing_paths``
    :param selection: parts of its lock that count; a lock that lacks one of them is outdated
    :raises InvalidFile: with file, field and remedy
    """
    check_sizes(files)
    context = ParseContext(path_exists)
    project = _read(files, name or _manifest(files), context, selection)
    if manifest_hashes and project.format is ProjectFormat.PIPFILE:
        project = replace(project, manifest_hashes=tuple(manifest_hashes))
    if project.format is not ProjectFormat.SCRIPT:
        # Files beside a script belong to another project.
        project = _with_constraints(_with_lock(project, files, context, selection), files, context)
        project = replace(project, benchmarks=own_benchmarks(files, context))
    for requirements in (project.requirements, project.dev):
        seen: dict[str, ProjectRequirement] = {}
        for requirement in requirements:
            first = seen.setdefault(requirement.name, requirement)
            if first is not requirement and first.marker == requirement.marker:
                context.warn(
                    WarningCode.ASKED_TWICE,
                    f"{value_text(requirement.name)} is also required at {first.origin}; "
                    "both count",
                    requirement.origin,
                )
    return replace(
        project,
        warnings=tuple(context.warnings),
        missing_paths=tuple(dict.fromkeys(context.missing_paths)),
    )


def missing_includes(files: Mapping[str, bytes], known: Collection[str] = ()) -> frozenset[str]:
    """Included files that are missing from ``files``; call again after adding them.

    :param known: files that were examined by an earlier call
    :raises InvalidFile: if an include leaves the project's folder, or a file cannot be read
    """
    check_sizes(files)
    return frozenset(
        include
        for name, data in files.items()
        if name not in known and _is_requirements(name)
        for line in lines_of(requirements_text_of(name, data), name)
        for option in ("--requirement", "--constraint")
        for value in line.values(option)
        if (include := included(value, name, f"{name}:{line.number}")) not in files
    )


def _is_requirements(name: str) -> bool:
    return name.endswith((".txt", ".in")) or "." not in posixpath.basename(name) != PIPFILE


def _manifest(files: Mapping[str, bytes]) -> str:
    """The name of the manifest."""
    manifests = (PIPFILE, PYPROJECT, REQUIREMENTS_IN, REQUIREMENTS_TXT)
    candidates = [it for it in manifests if it in files]
    if PYPROJECT in candidates and not has_requirements(toml_of(PYPROJECT, files[PYPROJECT])):
        candidates.remove(PYPROJECT)
    candidates += _pylocks(files) + [it for it in (*LOCKS_OF_TOOLS, PIPFILE_LOCK) if it in files]
    lists = filter(_is_requirements, files)
    others = [it for it in lists if "constraints" not in posixpath.basename(it)]
    if not candidates and len(others) == 1:
        candidates = others
    if not candidates:
        candidates = [it for it in files if posixpath.basename(it) in conda_environment.NAMES]
    if not candidates:
        candidates = [it for it in files if posixpath.basename(it) in FOREIGN_FILES]
    if not candidates and PYPROJECT in files:
        candidates = [PYPROJECT]  # reading it gives an error with what is missing
    if not candidates:
        names = first_few(sorted(files), 5) or "no file"
        refuse(
            Reason.MISSING_FIELD,
            f"no file lists requirements: {names}",
            "project:$",
            f"add a {PIPFILE}, a {PYPROJECT} with [project], a {REQUIREMENTS_IN} or a "
            f"{REQUIREMENTS_TXT}",
        )
    return candidates[0]


def _pylocks(files: Iterable[str]) -> list[str]:
    """Names of locks in the format of PEP 751, ``pylock.toml`` first."""
    return sorted(filter(is_pylock, files), key=lambda it: (it != "pylock.toml", it))


def _read(
    files: Mapping[str, bytes], name: str, context: ParseContext, selection: LockSelection
) -> Project:
    if name not in files:
        refuse(Reason.UNREADABLE, "does not exist", f"{name}:$", "check the path")
    refuse_foreign(name)
    base = posixpath.basename(name)
    if base == PIPFILE:
        return read_pipfile(table_of(name, files[name]), name, context)
    if (
        base == PIPFILE_LOCK
        or is_pylock(base)
        or (base in LOCKS_OF_TOOLS and base not in conda_environment.NAMES)
    ):
        return _project_of_lock(lock_of(name, files, context, selection), context)
    if base.endswith(".py"):
        return read_script(files[name], name, context)
    if base == THOTH_TOML:
        refuse(
            Reason.MISSING_FIELD, "has no requirements", f"{name}:$", "name the project's folder"
        )
    if base.endswith(".toml"):
        content = table_of(name, files[name])
        if not has_requirements(content):
            _refuse_settings(name, content)
        return read_pyproject(content, name, context)
    return _project_of_requirements(name, files, context)


def _refuse_settings(name: str, content: Mapping[str, Any]) -> None:
    poetry = "poetry" in str(content.get("tool", ""))
    unread = "".join(f"; {it} is not read" for it in unread_tables(content))
    refuse(
        Reason.MISSING_FIELD,
        f"has neither [project] nor [dependency-groups]{unread}",
        f"{name}:$",
        "list the requirements in tool.poetry.dependencies or project.dependencies"
        if poetry else "list the requirements in project.dependencies",
    )  # fmt: skip


def _project_of_requirements(
    name: str, files: Mapping[str, bytes], context: ParseContext
) -> Project:
    listed = read_requirements(name, files, context)
    dev = RequirementList()
    for other in DEVELOPMENT_FILES:
        # Only the first is read: a .txt file beside an .in file is its lock.
        if other in files and other != name:
            with context.optional():
                dev = read_requirements(other, files, context)
            break
    return Project(
        requirements=tuple(listed.requirements),
        dev=tuple(it for it in dev.requirements if it not in listed.requirements),
        constraints=(*listed.constraints, *dev.constraints),
        indexes=listed.indexes or dev.indexes,
        places=(*listed.places, *dev.places),
        prereleases=frozenset(listed.prereleases | dev.prereleases),
        all_prereleases=listed.all_prereleases,
        wheels_of=frozenset(listed.wheels_of),
        builds_of=frozenset(listed.builds_of),
        format=ProjectFormat.REQUIREMENTS,
        source=name,
    )


def _project_of_lock(lock: ProjectLock, context: ParseContext) -> Project:
    """Make a project from a lock; it requires the packages that no other package requires."""
    required = {name for it in lock.entries for name in it.dependencies}
    installed = [it for it in lock.entries if it.marker != NEVER]
    roots = [it for it in installed if it.name not in required] or installed
    number = len({it.name for it in roots})
    context.warn(
        WarningCode.LOCK_ONLY,
        f"no manifest was given: any version of {counted(number, 'package')} of the lock counts; "
        "add the manifest for exact requirements",
        f"{lock.source}:$",
    )
    always = {(it.name, it.marker) for it in roots if not it.dev}
    requirements = [
        (it.dev, ProjectRequirement(it.name, "", it.extras, it.marker, it.index, origin=it.origin))
        for it in roots
        if not (it.dev and (it.name, it.marker) in always)
    ]
    return Project(
        requirements=tuple(it for dev, it in requirements if not dev),
        dev=tuple(it for dev, it in requirements if dev),
        indexes=lock.indexes,
        format=ProjectFormat.LOCK,
        source=lock.source,
        python=lock.python,
        requires_python=lock.requires_python,
    )


def _with_lock(
    project: Project, files: Mapping[str, bytes], context: ParseContext, selection: LockSelection
) -> Project:
    """Add the first usable lock to the project, and warn about the others."""
    names = _lock_names(project, files)
    chosen: ProjectLock | None = None
    for name in names:
        if chosen is not None:
            context.warn(
                WarningCode.FILE_IGNORED,
                f"not read, because {chosen.source} is used as the lock",
                f"{name}:$",
            )
            continue
        if not files[name].strip():
            context.warn(WarningCode.LOCK_INCOMPLETE, "the lock is empty", f"{name}:$")
            continue
        own = name == project.source and project.format is ProjectFormat.REQUIREMENTS
        # A file that was read as the manifest has given its warnings already.
        reading = ParseContext() if name == project.source else context
        try:
            lock = lock_of(name, files, reading, selection)
        except InvalidFile as error:
            if selection == DEFAULT_SELECTION or error.reason != Reason.MISSING_FIELD:
                raise
            context.warn(WarningCode.LOCK_OUTDATED, error.message, f"{name}:$")
            lock = lock_of(name, files, reading)
        if own and not lock.complete:
            continue
        chosen = _usable(lock, project, context)
    if chosen is None:
        return project
    first = {it.name: it for it in reversed(chosen.entries)}
    return replace(
        project,
        locked=first,
        lock_entries=chosen.entries,
        lock_source=chosen.source,
        lock_indexes=chosen.indexes,
        lock_elsewhere=chosen.elsewhere,
        python=project.python or chosen.python,
    )


def _lock_names(project: Project, files: Mapping[str, bytes]) -> list[str]:
    """Names of locks; those written by the tool of the manifest come first."""
    if project.format is ProjectFormat.LOCK:
        return [project.source]
    pylocks, own = _pylocks(files), project.source
    if project.format is ProjectFormat.PIPFILE:
        names = [PIPFILE_LOCK, *pylocks, REQUIREMENTS_TXT]
    elif project.format is ProjectFormat.PYPROJECT:
        names = [*LOCKS_OF_TOOLS, *pylocks, REQUIREMENTS_TXT, PIPFILE_LOCK]
    else:
        own = own.removesuffix(".in") + ".txt" if own.endswith(".in") else own
        names = [*dict.fromkeys([own, *pylocks, PIPFILE_LOCK])]
    return [it for it in names if it in files]


def _usable(lock: ProjectLock, project: Project, context: ParseContext) -> ProjectLock | None:
    """The lock if it can serve as a baseline; otherwise warn and return ``None``."""
    at = f"{lock.source}:$"
    if not lock.complete and lock.source.endswith(".txt"):
        context.warn(
            WarningCode.FILE_IGNORED,
            f"not used as the lock of {project.source}, because not every line pins a version",
            at,
        )
        return None
    if any(it.code is WarningCode.LOCK_INCOMPLETE for it in lock.elsewhere):
        context.warn(
            WarningCode.LOCK_INCOMPLETE,
            "not used as a baseline, because it leaves versions open: lock the project again",
            at,
        )
        return None
    if not lock.complete:
        context.warn(
            WarningCode.LOCK_INCOMPLETE,
            "packages that do not come from an index are left out of the baseline",
            at,
        )
    if _is_outdated(lock, project):
        context.warn(
            WarningCode.LOCK_OUTDATED,
            f"made for another {project.source}: lock again for an exact baseline",
            at,
        )
    return lock


def _is_outdated(lock: ProjectLock, project: Project) -> bool:
    """Whether a lock was made for another Pipfile.

    For a Pipfile without sources, pipenv hashes the default source of the machine that it runs on,
    which is unknown here.
    """
    if lock.manifest_hash is None or "source" not in (project.manifest or {}):
        return False
    return lock.manifest_hash not in project.manifest_hashes


def _with_constraints(
    project: Project, files: Mapping[str, bytes], context: ParseContext
) -> Project:
    included = any(it.origin.startswith(f"{CONSTRAINTS}:") for it in project.constraints)
    if CONSTRAINTS in files and project.source != CONSTRAINTS and not included:
        listed = read_requirements(CONSTRAINTS, files, context, constraint=True)
        project = replace(
            project,
            constraints=(*project.constraints, *listed.constraints),
            places=(*project.places, *listed.indexes, *listed.places),
        )
    pins = [exact_version(it.specifier) for it in project.requirements]
    if pins and None not in pins and project.format is not ProjectFormat.LOCK:
        context.warn(
            WarningCode.ALL_PINNED,
            "every requirement pins a version, so there is little to choose: ranges such as "
            "`>=3,<4` leave room for advice",
            f"{project.source}:$",
        )
    return project
