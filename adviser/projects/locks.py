"""Read the locks of a project, for the baseline of advice and for ``thoth guard``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from packaging.pylock import Package
from packaging.version import InvalidVersion, Version

from adviser.projects.documents import check_sizes, json_of, toml_of
from adviser.projects.indexes import index_named, public_url
from adviser.projects.project import (
    NonIndexPackage,
    ProjectIndex,
    ProjectRequirement,
    ProjectWarning,
    WarningCode,
)
from adviser.projects.requirement_parsing import ParseContext, check_marker, checked_hashes
from adviser.projects.requirements_files import read_requirements
from common.formats.file_fields import (
    flag_in,
    inside,
    refuse,
    table_in,
    tables_in,
    text_in,
    value_text,
    wrong_type,
)
from common.formats.locks import NEVER, LockEntry, parse_pylock, pipfile_lock_entry, pylock_entry
from common.formats.requirements_files import exact_version
from model.errors import InvalidDocument
from model.packages.releases import MAX_REQUIREMENT_LENGTH, parse_requirement
from model.reasons import Reason
from model.text import first_few

_MAKE_AGAIN = "create the lock again"


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
    base = name.rpartition("/")[2]
    if base == "Pipfile.lock" or base.endswith(".json"):
        return _pipfile_lock(json_of(name, files[name]), name, context)
    if is_pylock(base):
        return _pylock(toml_of(name, files[name]), name, context)
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


def is_pylock(name: str) -> bool:
    """Whether a file has a name that PEP 751 prescribes.

    >>> is_pylock("pylock.toml"), is_pylock("pylock.dev.toml"), is_pylock("lock.toml")
    (True, True, False)
    """
    parts = name.split(".")
    return parts[0] == "pylock" and parts[-1] == "toml" and len(parts) in (2, 3) and all(parts)


def names_indexes(name: str) -> bool:
    """Whether locks with this name record the index of each package.

    >>> names_indexes("Pipfile.lock"), names_indexes("requirements.txt")
    (True, False)
    """
    base = name.rpartition("/")[2]
    return base == "Pipfile.lock" or base.endswith(".json") or is_pylock(base)


def _pipfile_lock(value: Any, name: str, context: ParseContext) -> ProjectLock:
    if not isinstance(value, Mapping):
        wrong_type(value, "an object", f"{name}:$")
    meta = table_in(value, "_meta", name)
    requires = table_in(meta, "requires", f"{name}:_meta")
    entries = list(_sections(value, name, context))
    versions = [text_in(requires, it, f"{name}:_meta.requires") for it in _PYTHONS]
    return ProjectLock(
        tuple(it for it in entries if it is not None),
        name,
        complete=None not in entries,
        indexes=tuple(_pipfile_indexes(meta, name, context)),
        manifest_hash=text_in(table_in(meta, "hash", f"{name}:_meta"), "sha256", f"{name}:_meta"),
        python=next(filter(None, versions), None),
    )


_PYTHONS = ("python_full_version", "python_version")


def _pipfile_indexes(
    meta: Mapping[str, Any], name: str, context: ParseContext
) -> Iterator[ProjectIndex]:
    for number, source in enumerate(tables_in(meta, "sources", f"{name}:_meta")):
        at = f"{name}:_meta.sources[{number}]"
        url = text_in(source, "url", at)
        if url is not None:
            index = text_in(source, "name", at) or f"source-{number + 1}"
            verified = flag_in(source, "verify_ssl", at, True)
            yield index_named(
                index, url, at, context,
                verify_ssl=verified, default=number == 0, explicit=number > 0,
            )  # fmt: skip


def _sections(
    lock: Mapping[str, Any], name: str, context: ParseContext
) -> Iterator[LockEntry | None]:
    """Entries of all sections, those for development last."""
    keys = sorted(lock.keys() - {"_meta"}, key=lambda key: (key != "default", key))
    for key in keys:
        for package, entry in table_in(lock, key, name).items():
            at = inside(inside(name, key), package)
            yield _pipfile_entry(package, entry, at, key != "default", context)


def _pipfile_entry(
    package: str, value: Any, at: str, dev: bool, context: ParseContext
) -> LockEntry | None:
    with _refusing_file():
        entry = pipfile_lock_entry(package, value, at, inside, dev=dev)
    if entry.source is None:
        return _checked(entry, f"{package}{entry.target}", inside(at, "hashes"), context)
    target = f"{package} ({entry.target})" if entry.target else package
    context.leave_out(WarningCode(entry.source), target, at, local=entry.local)
    return None


@contextmanager
def _refusing_file() -> Iterator[None]:
    """Turn errors of the readers in ``common`` into errors that name the file and a remedy."""
    try:
        yield
    except InvalidDocument as error:
        refuse(error.reason, error.message, error.field, _MAKE_AGAIN)


def _pylock(content: Mapping[str, Any], name: str, context: ParseContext) -> ProjectLock:
    try:
        lock = parse_pylock(content)
    except InvalidDocument as error:
        field = error.field if error.field != "$" else ""
        refuse(error.reason, error.message, inside(name, field or "$"), _MAKE_AGAIN)
    groups = frozenset(lock.default_groups or ())
    entries = [
        _pylock_entry(package, f"{name}:packages[{number}]", groups, context)
        for number, package in enumerate(lock.packages)
    ]
    kept = tuple(it for it in entries if it is not None)
    if others := [it.name for it in kept if it.marker == NEVER]:
        context.warn(
            WarningCode.LOCK_INCOMPLETE,
            f"{first_few(others, 5)}: only for extras or groups that are not installed by default",
            f"{name}:$",
        )
    addresses = dict.fromkeys(it.index for it in kept if it.index is not None)
    return ProjectLock(
        kept,
        name,
        complete=None not in entries,
        indexes=tuple(ProjectIndex(it, it) for it in addresses),
        requires_python=None if lock.requires_python is None else str(lock.requires_python),
    )


def _pylock_entry(
    package: Package, at: str, groups: frozenset[str], context: ParseContext
) -> LockEntry | None:
    with _refusing_file():
        entry = pylock_entry(package, at, groups)
    if entry.source is not None:
        context.leave_out(WarningCode(entry.source), entry.name, at, local=entry.local)
        return None
    if entry.index is not None:
        entry = replace(entry, index=public_url(entry.index, at, context))
    return _checked(entry, entry.name, at, context)


def _checked(
    entry: LockEntry, text: str, hashes_at: str, context: ParseContext
) -> LockEntry | None:
    """The entry in normal form; ``None``, with a warning, if it pins no version.

    :param text: the entry as it is shown in that warning
    """
    if not entry.version:
        context.leave_open(text, entry.origin)
        return None
    return _locked(replace(entry, hashes=checked_hashes(entry.hashes, hashes_at)), context)


def _locked(entry: LockEntry, context: ParseContext) -> LockEntry:
    """The entry with normalised name, version, extras and marker.

    :raises InvalidFile: if one of them is invalid
    """
    at = entry.origin
    context.count(at)
    try:
        version = str(Version(entry.version[:MAX_REQUIREMENT_LENGTH]))
    except (InvalidVersion, ValueError):
        refuse(
            Reason.INVALID_VERSION,
            f"{value_text(entry.version)} is not a version by PEP 440",
            at,
            _MAKE_AGAIN,
        )
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    marker = f" ; {entry.marker}" if entry.marker else ""
    parsed = parse_requirement(f"{entry.name}{extras}{marker}")
    if parsed.name is None or parsed.specifier or parsed.url is not None:
        refuse(
            Reason.INVALID_REQUIREMENT,
            f"name, extras or marker of {value_text(entry.name)} violate the standards",
            at,
            _MAKE_AGAIN,
        )
    check_marker(parsed.marker, at)
    return replace(
        entry, name=parsed.name, version=version, extras=parsed.extras, marker=parsed.marker
    )
