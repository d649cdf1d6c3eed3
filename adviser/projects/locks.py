"""Read the locks of a project, for the baseline of advice and for ``thoth guard``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from adviser.projects.documents import check_sizes, json_of, toml_of
from adviser.projects.indexes import index_named, public_url
from adviser.projects.project import (
    NonIndexPackage,
    ProjectIndex,
    ProjectRequirement,
    ProjectWarning,
    WarningCode,
)
from adviser.projects.requirement_parsing import ParseContext
from adviser.projects.requirements_files import read_requirements
from common.formats.file_fields import FileTable, refuse, value_text
from common.formats.locks.entries import (
    MAKE_AGAIN,
    NEVER,
    LockEntry,
    LockTable,
    faults_of,
    normalised,
)
from common.formats.locks.readers import LockReader, reader_of
from common.formats.requirements_files import exact_version
from model.errors import InvalidDocument
from model.json_fields import FieldPath
from model.reasons import Reason
from model.text import first_few


@dataclass(frozen=True, slots=True)
class ProjectLock:
    """A lock, with the entries of all its sections in the order of the file.

    :param complete: whether every entry pins one version from an index
    :param unpinned: the first line of a requirements file that pins no single version
    :param elsewhere: entries that do not come from an index, or leave their version open
    :param manifest_hash: hash of the Pipfile in a ``Pipfile.lock``
    """

    entries: tuple[LockEntry, ...]
    source: str
    complete: bool = True
    elsewhere: tuple[NonIndexPackage, ...] = ()
    indexes: tuple[ProjectIndex, ...] = ()
    manifest_hash: str | None = None
    python: str | None = None
    requires_python: str | None = None
    warnings: tuple[ProjectWarning, ...] = ()
    unpinned: ProjectRequirement | None = None

    def packages(self, markers: Mapping[str, str], *, dev: bool = True) -> dict[str, LockEntry]:
        """The packages that the lock installs in an environment, by name.

        :param dev: include packages that only development needs
        """
        held = [it for it in self.entries if (dev or not it.dev) and it.holds(markers)]
        return {it.name: it for it in reversed(held)}


def read_lock(name: str, files: Mapping[str, bytes]) -> ProjectLock:
    """Read one lock by itself.

    :param name: its key in ``files``, which decides the format: ``Pipfile.lock``,
        ``pylock.toml``, or any other name for a requirements file
    :param files: the lock, and the files that it includes
    :raises InvalidFile: with file, field and remedy
    """
    check_sizes(files)
    context = ParseContext()
    lock = lock_of(name, files, context)
    return replace(lock, warnings=tuple(context.warnings))


def require_pins(lock: ProjectLock) -> ProjectLock:
    """Return the lock unless it is a requirements file with a line that does not pin one version.

    :raises InvalidFile: at the first line that does not pin one version
    """
    if lock.unpinned is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"{value_text(lock.unpinned.text)} does not pin a version, so this is not a lock",
            lock.unpinned.origin,
            "create a lock first, for example with `thoth advise --format requirements`",
        )
    return lock


def lock_of(name: str, files: Mapping[str, bytes], context: ParseContext) -> ProjectLock:
    """Read a lock as part of a project."""
    before = len(context.elsewhere)
    with context.optional():
        lock = _lock_of(name, files, context)
    return replace(lock, elsewhere=tuple(context.elsewhere[before:]))


def _lock_of(name: str, files: Mapping[str, bytes], context: ParseContext) -> ProjectLock:
    if (reader := reader_of(name)) is not None:
        content = toml_of(name, files[name]) if reader.is_toml else json_of(name, files[name])
        lock = reader.read(LockTable(content, FieldPath(f"{name}:$")))
        entries = [_checked(it, reader, context) for it in lock.entries]
        kept = tuple(it for it in entries if it is not None)
        if others := [it.name for it in kept if it.marker == NEVER]:
            context.warn(
                WarningCode.LOCK_INCOMPLETE,
                f"{first_few(others, 5)}: only for extras or groups that are not installed by"
                " default",
                f"{name}:$",
            )
        addresses = dict.fromkeys(it.index for it in kept if it.index and "://" in it.index)
        return ProjectLock(
            kept,
            name,
            complete=None not in entries,
            indexes=tuple(_indexes(lock.sources, context))
            or tuple(ProjectIndex(it, it) for it in addresses),
            manifest_hash=lock.manifest_hash,
            python=lock.python,
            requires_python=lock.requires_python,
        )
    listed = read_requirements(name, files, context)
    return ProjectLock(
        tuple(listed.pins),
        name,
        complete=listed.is_lock,
        indexes=(*listed.indexes, *listed.places),
        unpinned=next(
            (it for it in listed.requirements if exact_version(it.specifier) is None), None
        ),
    )


def _indexes(sources: Sequence[FileTable], context: ParseContext) -> Iterator[ProjectIndex]:
    for number, source in enumerate(sources):
        if (url := source.text("url")) is not None:
            yield index_named(
                source.text("name") or f"source-{number + 1}", url, source.at, context,
                verify_ssl=source.flag("verify_ssl", True),
                default=number == 0, explicit=number > 0,
            )  # fmt: skip


def _checked(
    entry: LockEntry | InvalidDocument, reader: LockReader, context: ParseContext
) -> LockEntry | None:
    """The entry in normal form; ``None``, with a warning, if it pins no version of an index.

    :raises InvalidFile: if a part of it is invalid
    """
    if isinstance(entry, InvalidDocument):
        raise entry
    at = entry.origin
    if entry.source is not None:
        target = f"{entry.name} ({entry.target})" if entry.target else entry.name
        context.leave_out(WarningCode(entry.source), target, at, local=entry.local)
        return None
    if entry.index is not None and "://" in entry.index:
        entry = replace(entry, index=public_url(entry.index, at, context))
    if not entry.version:
        context.leave_open(f"{entry.name}{entry.target}", at)
        return None
    context.count(at)
    for fault in faults_of(entry):
        refuse(fault.reason, fault.message, fault.at(entry, reader.keys), MAKE_AGAIN)
    return normalised(entry)
