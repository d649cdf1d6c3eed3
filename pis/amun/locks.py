"""Locks of specifications: every package pinned, with the hashes of its wheels.

Only releases on a configured index are installed, and only files whose hashes are in the lock.
Repositories, paths, URLs and version ranges are refused.
"""

from __future__ import annotations

import platform
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from common.formats.locks import NEVER, LockEntry, parse_pylock, pipfile_lock_entry, pylock_entry
from common.formats.requirements_files import SourceKind, exact_version, logical_lines, parse_line
from model.errors import InvalidDocument
from model.packages.identity import DEFAULT_INDEX
from model.packages.releases import parse_requirement
from model.reasons import Reason
from pis.amun.indexes import index_name
from pis.amun.schema import SpecificationProblem, inside

NEEDS_HASHES = (
    "missing: only files with a locked hash are installed; lock the package with hashes, "
    "as `thoth pi pin` does"
)
_ONLY_RELEASES = "only releases of a package index can be installed, not {what}"
_SOURCES = {
    SourceKind.REPOSITORY: "a repository",
    SourceKind.LOCAL_PATH: "a local path",
    SourceKind.ADDRESS: "a URL",
    SourceKind.EDITABLE: "an editable folder",
}

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_HASH = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})\Z")
#: Python refuses to convert longer digit strings to numbers.
_LONGEST_VERSION = 128
#: Limit for markers and requirements without hashes; real ones have a few hundred characters.
_MOST_CHARACTERS = 2_000
#: The marker parser is recursive: deeper nesting would exhaust the stack.
_MOST_BRACKETS = 100
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
#: Variables that are resolved when a lock is made, not when it is installed.
_RESOLVED_BEFORE = re.compile(r"\b(?:extras?|dependency_groups)\b")
_PYTHON = re.compile(r"([0-9]{1,4}\.[0-9]{1,4})(\.[0-9]{1,4})?\Z")


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One release with the hashes of its files.

    :param name: normalised (PEP 503)
    :param version: normalised (PEP 440)
    :param hashes: ``algorithm:hex``, sorted
    :param marker: when it is installed (PEP 508), ``None`` for always
    :param index: the name of the index that serves it
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str | None = None
    index: str = DEFAULT_INDEX
    extras: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """The package's line in a requirements file, without the hashes.

        >>> LockedPackage("numpy", "2.0.1", (), "python_version < '3.13'").requirement
        "numpy==2.0.1 ; python_version < '3.13'"
        """
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}=={self.version}{marker}"

    def served_by(self, index: str) -> LockedPackage:
        """Return a copy of this package with the index ``index``."""
        return replace(self, index=index)


@dataclass(frozen=True, slots=True)
class Lock:
    """All packages of a stack.

    :param packages: sorted by name
    :param python_version: Python that the lock was made for, such as ``3.11``, if known
    """

    packages: tuple[LockedPackage, ...] = ()
    python_version: str | None = None

    def version_of(self, *names: str) -> str | None:
        """Return the locked version of the first name in ``names`` that the lock contains."""
        versions = {package.name: package.version for package in self.packages}
        return next((versions[name] for name in names if name in versions), None)


def read_pipfile_lock(
    value: Any, at: str, python_version: str | None = None
) -> tuple[Lock, list[SpecificationProblem]]:
    """Read a ``Pipfile.lock`` without its ``develop`` section, which is never installed.

    :param python_version: overrides the version in the lock
    """
    if not isinstance(value, Mapping):
        message = "not a JSON object: give the content of a Pipfile.lock"
        return Lock(), [SpecificationProblem(at, message)]
    default = value.get("default")
    if not isinstance(default, Mapping):
        message = "missing: give the object of locked packages"
        return Lock(), [SpecificationProblem(inside(at, "default"), message)]
    meta = value.get("_meta")
    requires = meta.get("requires") if isinstance(meta, Mapping) else None
    python = requires.get("python_version") if isinstance(requires, Mapping) else None
    reader = _Reader()
    for name, entry in default.items():
        field = inside(inside(at, "default"), str(name))
        with reader.collecting():
            reader.add(_pinned(pipfile_lock_entry(str(name), entry, field, inside)), field)
    return reader.lock(python_version or (python if isinstance(python, str) else None))


def read_requirements(
    text: str, at: str, python_version: str | None = None
) -> tuple[Lock, list[SpecificationProblem]]:
    """Read a requirements file with hashes on every line."""
    reader = _Reader()
    for number, line in logical_lines(text):
        field = f"{at}: line {number}"
        with reader.collecting(field):
            entry = _entry_of_line(line, number, field)
            reader.add(entry, f"{field}: {entry.name}")
    return reader.lock(python_version)


def read_pylock(
    text: str, at: str, indexes: Mapping[str, str], python_version: str | None = None
) -> tuple[Lock, list[SpecificationProblem]]:
    """Read a ``pylock.toml`` (PEP 751). The hashes in the lock are used; its URLs are not.

    :param indexes: configured indexes, name to URL; any other URL means the default index
    """
    try:
        pylock = parse_pylock(tomllib.loads(text))
    except RecursionError:
        return Lock(), [SpecificationProblem(at, "not a pylock.toml: nested too deep")]
    except InvalidDocument as error:
        return Lock(), [SpecificationProblem(at, f"not a pylock.toml: {error.message}")]
    except ValueError as error:
        return Lock(), [SpecificationProblem(at, f"not a pylock.toml: {str(error)[:300]}")]
    reader = _Reader()
    groups = frozenset(pylock.default_groups or ())
    for number, package in enumerate(pylock.packages):
        field = f"{inside(f'{at}: packages', number)} ({package.name})"
        with reader.collecting(field):
            entry = pylock_entry(package, field, groups, wheels_only=True)
            if entry.marker == NEVER:
                continue
            entry = _pinned(entry)
            if _is_index(entry.index):
                entry = replace(entry, index=index_name(entry.index, indexes))
            reader.add(entry, field)
    return reader.lock(python_version)


class _Reader:
    """Collects valid packages, and all problems of invalid ones."""

    def __init__(self) -> None:
        self._problems: list[SpecificationProblem] = []
        self._packages: list[tuple[str, LockedPackage]] = []

    @contextmanager
    def collecting(self, field: str | None = None) -> Iterator[None]:
        """Turn an error inside the block into a problem of the lock.

        :param field: path in the problem; that of the error if unset
        """
        try:
            yield
        except InvalidDocument as error:
            self._problems.append(SpecificationProblem(field or error.field, error.message))

    def add(self, entry: LockEntry, at: str) -> None:
        """Add an entry, or its problems if any part is invalid."""
        release = _version(entry.version)
        hashes = tuple(sorted({it for it in entry.hashes if not it.startswith("md5:")}))
        faults = list(_faults(entry, release, hashes))
        for key, message in faults:
            self._problems.append(SpecificationProblem(inside(at, key) if key else at, message))
        if not faults and release is not None:
            package = LockedPackage(
                name=canonicalize_name(entry.name),
                version=release,
                hashes=hashes,
                marker=entry.marker or None,
                index=index_name(entry.index, {}),
                extras=tuple(sorted(entry.extras)),
            )
            self._packages.append((entry.origin, package))

    def lock(self, python_version: str | None) -> tuple[Lock, list[SpecificationProblem]]:
        """Return one entry per package; of several, keep the entry whose marker is true here."""
        environment = environment_of(python_version)
        by_name: dict[str, list[tuple[str, LockedPackage]]] = defaultdict(list)
        for at, package in self._packages:
            by_name[package.name].append((at, package))
        kept = []
        for name, entries in sorted(by_name.items()):
            chosen = [
                entry
                for entry in entries
                if len(entries) == 1 or holds(entry[1].marker, environment)
            ]
            if len(chosen) > 1:
                message = f"{name} is locked {len(chosen)} times for this platform"
                self._problems.append(SpecificationProblem(chosen[1][0], message))
            kept += [package for _, package in chosen[:1]]
        return Lock(tuple(kept), python_version), self._problems


def _pinned(entry: LockEntry) -> LockEntry:
    """Return ``entry`` if it pins one release of an index.

    :raises InvalidDocument: otherwise
    """
    at = entry.origin
    if entry.source is not None:
        field = inside(at, entry.source_key) if entry.source_key else at
        message = _ONLY_RELEASES.format(what=_SOURCES[entry.source])
        raise InvalidDocument(Reason.INVALID_REQUIREMENT, message, field=field)
    if not entry.version:
        message = "missing: give `==` and one version"
        if entry.target:
            message = f"{entry.target!r} does not pin a version: give `==` and one version"
        raise InvalidDocument(Reason.INVALID_VERSION, message, field=inside(at, "version"))
    return entry


def _entry_of_line(text: str, number: int, at: str) -> LockEntry:
    line = parse_line(text, number, at)
    if line.ignored:
        raise _refusal(f"{line.ignored.split()[0]} is not supported: only --hash is")
    if not line.requirement:
        option = line.options[0][0]
        raise _refusal(f"the option {option} is not supported: list every package here")
    if other := next((name for name, _ in line.options if name != "--hash"), None):
        raise _refusal(f"the option {other} is not supported: only --hash is")
    if not _is_short(line.requirement):
        raise _refusal(
            f"over {_MOST_CHARACTERS} characters or {_MOST_BRACKETS} brackets, without the hashes"
        )
    requirement = parse_requirement(line.requirement)
    name, version = requirement.name, exact_version(requirement.specifier)
    if name is None:
        raise _refusal(f"not a valid requirement: {requirement.problem}")
    if requirement.url:
        raise _refusal(f"{name}: {_ONLY_RELEASES.format(what=_SOURCES[SourceKind.ADDRESS])}")
    if version is None or requirement.specifier.startswith("==="):
        raise _refusal(f"{name}: does not pin a version: give `==` and one version")
    hashes = tuple(line.values("--hash"))
    return LockEntry(
        name, version, hashes, requirement.marker, extras=requirement.extras, origin=at
    )


def _refusal(message: str) -> InvalidDocument:
    return InvalidDocument(Reason.INVALID_REQUIREMENT, message)


def _faults(
    entry: LockEntry, release: str | None, hashes: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """Yield key and message of every invalid part of ``entry``."""
    if not _NAME.match(entry.name):
        yield "", f"{entry.name[:80]!r} is not the name of a package"
    if release is None:
        yield "version", f"{entry.version[:80]!r} is not a version (PEP 440)"
    if not hashes:
        yield "hashes", NEEDS_HASHES
    wrong = next((digest for digest in hashes if not _HASH.match(digest)), None)
    if wrong is not None:
        yield "hashes", f"{wrong[:80]!r} is not `sha256:` and 64 hex digits"
    if entry.marker is not None and not _is_marker(entry.marker):
        yield "markers", f"{str(entry.marker)[:80]!r} is not a supported marker (PEP 508)"
    if not all(map(_NAME.match, entry.extras)):
        yield "extras", "contains an invalid name of an extra"
    if not _is_index(entry.index):
        yield "index", "not the name of an index"


def _version(text: str) -> str | None:
    if len(text) > _LONGEST_VERSION:
        return None
    try:
        return str(Version(text.strip()))
    except InvalidVersion:
        return None


def _is_index(text: Any) -> bool:
    try:
        return text is None or (isinstance(text, str) and bool(index_name(text, {})))
    except ValueError:  # a URL that cannot be parsed
        return False


def pipfile_lock_of(lock: Lock) -> dict[str, Any]:
    """Return the content of a ``Pipfile.lock``, the format that ingest reads."""
    requires = {"python_version": lock.python_version} if lock.python_version else {}
    entries = {}
    for package in lock.packages:
        entry = {
            "version": f"=={package.version}",
            "hashes": list(package.hashes),
            "markers": package.marker,
            "index": None if package.index == DEFAULT_INDEX else package.index,
            "extras": list(package.extras) or None,
        }
        entries[package.name] = {key: value for key, value in entry.items() if value is not None}
    return {"_meta": {"requires": requires}, "default": entries, "develop": {}}


def holds(marker: str | None, environment: Mapping[str, str]) -> bool:
    """Whether ``marker`` is true in ``environment``; a missing marker is always true."""
    return marker is None or Marker(marker).evaluate(dict(environment))


def _is_marker(text: Any) -> bool:
    """Whether ``text`` is a marker that can be evaluated for an interpreter.

    Some markers can be parsed but not evaluated, such as ``platform_system ~= 'Linux'``. A line
    break in a quoted text would start a new line in the installer's requirements.
    """
    if not isinstance(text, str) or not text.isprintable() or not _is_short(text):
        return False
    if _RESOLVED_BEFORE.search(_QUOTED.sub("", text)):
        return False
    try:
        Marker(text).evaluate()
    except (InvalidMarker, ValueError):
        return False
    return True


def _is_short(text: str) -> bool:
    """Whether ``text`` is short and flat enough for the parser of markers and requirements."""
    return len(text) <= _MOST_CHARACTERS and text.count("(") <= _MOST_BRACKETS


def environment_of(python_version: str | None) -> dict[str, str]:
    """Return variables for markers before the target interpreter is known.

    For ``3.11``, the patch level is that of the running interpreter if its version is 3.11;
    otherwise, it is 0.
    """
    version = _PYTHON.match(python_version or "")
    if version is None:
        return {}
    running, short = platform.python_version(), version[1]
    if not version[2]:
        full = running if running.startswith(f"{short}.") else f"{short}.0"
        return {"python_version": short, "python_full_version": full}
    return {"python_version": short, "python_full_version": version[0]}
