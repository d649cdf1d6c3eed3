"""Locks: entries of ``Pipfile.lock`` (pipenv) and ``pylock.toml`` (PEP 751).

Entries are read as they are written. Callers check names, versions and hashes by their own rules.
They also decide whether to refuse the whole lock because of one invalid entry. Requirements files
that serve as locks are read by :mod:`common.formats.requirements_files`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from packaging.markers import Marker
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockValidationError
from packaging.utils import canonicalize_name

from common.formats.requirements_files import SOURCE_KEYS, SourceKind, is_remote
from model.errors import InvalidDocument
from model.json_fields import Record, as_record, path, record_of, text_of, too_long, wrong_type
from model.measurements.inspection import Stack
from model.packages.identity import PackageVersion, package_version
from model.reasons import Reason
from model.redaction import without_secrets

NO_LOCK = "the document names no locked packages"
#: A Package URL contains project, version and index, with up to twelve bytes for a character,
#: and is a key of both stores.
MAX_PROJECT_LENGTH = 200
MAX_INDEX_LENGTH = 128

_PROJECT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")

#: The marker of packages that a lock does not install by default.
NEVER = 'python_version < "0"'
_ALWAYS = 'python_version >= "0"'
#: A quoted text, and what may follow it in markers of locks only.
_OF_LOCK = re.compile(r"""("[^"]*"|'[^']*')(?: (in|not in) (extras|dependency_groups)\b)?""")
_CONSTANTS = re.compile(f"{NEVER}|{_ALWAYS}|and|or|[ ()]")

#: Joins the path of a table and a key: each room writes paths in its own notation.
Join = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class LockedFile:
    """One file of a package, in a lock that lists files.

    :param url: without secrets; ``None`` for a file beside the lock
    """

    filename: str
    url: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class LockEntry:
    """One package of a lock.

    :param version: empty if the entry leaves it open
    :param hashes: ``sha256:…`` and others, sorted; empty where the lock names none
    :param marker: when it is installed (PEP 508), ``None`` for always
    :param index: its index as the lock names it, ``None`` if the lock does not say
    :param dev: whether only development needs it
    :param dependencies: normalised names, if the lock lists them
    :param origin: place in the lock, such as ``Pipfile.lock:default.flask``
    :param groups: dependency groups that ``marker`` may refer to, in documents of earlier versions
    :param files: in a lock that lists them, such as ``pylock.toml``
    :param source: where it comes from instead of an index
    :param source_key: key of the entry that names it, in a ``Pipfile.lock``
    :param target: instead of a version: address or path of that source, or an open specifier
    :param local: whether that source is a file or a folder beside the lock
    """

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    marker: str | None = None
    index: str | None = None
    extras: tuple[str, ...] = ()
    dev: bool = False
    dependencies: tuple[str, ...] = ()
    origin: str = ""
    groups: frozenset[str] = frozenset()
    files: tuple[LockedFile, ...] = ()
    source: SourceKind | None = None
    source_key: str = ""
    target: str = ""
    local: bool = False

    def holds(self, markers: Mapping[str, str]) -> bool:
        """Whether the package is installed in an environment with these variables of PEP 508."""
        return marker_holds(self.marker, markers, self.groups)


def marker_holds(
    marker: str | None, markers: Mapping[str, str], groups: frozenset[str] = frozenset()
) -> bool:
    """Whether a marker holds without extras.

    :param groups: installed dependency groups, which only markers of locks can refer to
    """
    if marker is None:
        return True
    variables: dict[str, str | AbstractSet[str]] = {
        "extra": "",
        **markers,
        "dependency_groups": groups,
    }
    return Marker(marker).evaluate(variables, context="lock_file")


def resolved_marker(marker: str, groups: AbstractSet[str]) -> str | None:
    """A marker of a ``pylock.toml`` without ``extras`` and ``dependency_groups``.

    :param marker: as ``packaging`` formats it
    :param groups: the lock's default groups; no extra is installed by default
    :returns: ``None`` for always, and :data:`NEVER` for packages that are not installed by default

    >>> resolved_marker('"a" in dependency_groups or "b" in extras', {"a"}) is None
    True
    >>> resolved_marker('os_name == "nt" and "a" not in extras', set())
    'os_name == "nt"'
    """
    installed = frozenset(map(canonicalize_name, groups))

    def resolved(match: re.Match[str]) -> str:
        quoted, operator, variable = match.groups()
        if variable is None:
            return match[0]
        chosen = installed if variable == "dependency_groups" else frozenset()
        is_in = canonicalize_name(quoted[1:-1]) in chosen
        return _ALWAYS if is_in == (operator == "in") else NEVER

    text = _OF_LOCK.sub(resolved, marker)
    if not _CONSTANTS.sub("", text):
        return None if Marker(text).evaluate() else NEVER
    return text.replace(f" and {_ALWAYS}", "").replace(f"{_ALWAYS} and ", "")


def pinned_version(specifier: str | None) -> str | None:
    """The version after ``==``, as it is written; ``None`` if the specifier pins no version.

    >>> pinned_version("== 1.0RC1"), pinned_version(">=1")
    ('1.0RC1', None)
    """
    pins = specifier is not None and specifier.startswith("==")
    return specifier.lstrip("=").strip() if specifier and pins else None


def pipfile_lock_entry(
    name: str, value: Any, at: str, join: Join, *, dev: bool = False
) -> LockEntry:
    """Read one entry of a section of a ``Pipfile.lock``.

    :param at: path of the entry, for errors
    :raises InvalidDocument: if a field has the wrong type
    """
    if not isinstance(value, Mapping):
        raise wrong_type(value, "an object", at)
    for key, source in SOURCE_KEYS.items():
        if target := value.get(key):
            target = "" if target is True else str(target)
            local = _is_beside_lock(value)
            return LockEntry(
                name, "", dev=dev, origin=at, source=source, source_key=key, target=target,
                local=local,
            )  # fmt: skip
    for key in ("version", "markers", "index"):
        if not isinstance(value.get(key), str | None):
            raise wrong_type(value[key], "text", join(at, key))
    for key in ("hashes", "extras"):
        texts = [] if value.get(key) is None else value[key]
        if not isinstance(texts, list) or not all(isinstance(it, str) for it in texts):
            raise wrong_type(texts, "a list of texts", join(at, key))
    specifier = value.get("version") or ""
    version = pinned_version(specifier) or ""
    is_open = not version or version.endswith("*")
    return LockEntry(
        name,
        "" if is_open else version,
        tuple(value.get("hashes") or ()),
        value.get("markers"),
        value.get("index"),
        tuple(value.get("extras") or ()),
        dev,
        origin=at,
        target=specifier if is_open else "",
    )


def _is_beside_lock(entry: Mapping[str, Any]) -> bool:
    kinds = {SOURCE_KEYS[key] for key in SOURCE_KEYS if entry.get(key)}
    targets = [it for it in (entry.get("path"), entry.get("file")) if it]
    if SourceKind.REPOSITORY in kinds or not targets:
        return False
    return not any(is_remote(str(it)) for it in targets)


def parse_pylock(content: Mapping[str, Any]) -> Pylock:
    """Check the shape of a ``pylock.toml``.

    :raises InvalidDocument: if it does not follow PEP 751; ``field`` is relative to the file
    """
    try:
        return Pylock.from_dict(content)
    except PylockValidationError as error:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA if "version" in str(error) else Reason.WRONG_TYPE,
            f"not a lock by PEP 751: {error.message[:200]}",
            field=str(error.context or "$"),
        ) from None
    except (ValueError, TypeError, RecursionError) as error:
        message = f"not a lock by PEP 751: {(str(error) or type(error).__name__)[:200]}"
        raise InvalidDocument(Reason.WRONG_TYPE, message) from None


def pylock_entry(
    package: Package, at: str, groups: frozenset[str], *, wheels_only: bool = False
) -> LockEntry:
    """Read one package of a ``pylock.toml``.

    :param at: path of the package
    :param groups: dependency groups that the lock installs by default
    :param wheels_only: leave out source distributions and their hashes
    :raises InvalidDocument: if a file has no name
    """
    if package.vcs is not None:
        local = package.vcs.url is None
        return _from_source(package.name, at, SourceKind.REPOSITORY, local=local)
    if package.directory is not None:
        kind = SourceKind.EDITABLE if package.directory.editable else SourceKind.LOCAL_PATH
        return _from_source(package.name, at, kind, local=True)
    if package.archive is not None:
        local = package.archive.url is None or not is_remote(package.archive.url)
        return _from_source(package.name, at, SourceKind.ADDRESS, local=local)
    if package.version is None:
        return LockEntry(package.name, "", origin=at)
    sdist = None if wheels_only else package.sdist
    files = [it for it in (*(package.wheels or ()), sdist) if it is not None]
    names = (it.get("name") for it in package.dependencies or ())
    return LockEntry(
        package.name,
        str(package.version),
        tuple(sorted({f"{key}:{value}" for it in files for key, value in it.hashes.items()})),
        None if package.marker is None else resolved_marker(str(package.marker), groups),
        package.index,
        dependencies=tuple(
            sorted({canonicalize_name(name) for name in names if isinstance(name, str)})
        ),
        origin=at,
        files=tuple(_locked_file(it, at) for it in files),
    )


def _from_source(name: str, at: str, kind: SourceKind, *, local: bool) -> LockEntry:
    return LockEntry(name, "", origin=at, source=kind, local=local)


def _locked_file(file: PackageWheel | PackageSdist, at: str) -> LockedFile:
    try:
        filename = file.filename
    except (PylockValidationError, ValueError):
        raise InvalidDocument(Reason.MISSING_FIELD, "a file without a name", field=at) from None
    url = None if file.url is None else without_secrets(file.url)
    sha256 = file.hashes.get("sha256")
    return LockedFile(filename, url, file.size, None if sha256 is None else str(sha256).lower())


def stack_of(locked: Record, at: str) -> tuple[Stack | None, str | None]:
    """The pinned packages of a ``Pipfile.lock``, and a note about unpinned entries.

    Development packages are excluded, because they are not installed for measurements.
    """
    default = record_of(locked, "default", at)
    pinned: list[PackageVersion] = []
    skipped: list[str] = []
    for name, entry in default.items():
        release = _release(name, entry, path(path(at, "default"), name))
        if release is None:
            skipped.append(name)
        else:
            pinned.append(release)
    if not pinned:
        return None, NO_LOCK
    note = f"without entries that name no version: {', '.join(sorted(skipped))}"
    twice = [name for name, count in Counter(it.name for it in pinned).items() if count > 1]
    if twice:
        raise InvalidDocument(
            Reason.CONFLICTING_FIELDS, f"{twice[0]} is locked twice, in two spellings", field=at
        )
    return Stack.of(tuple(pinned)), note[:500] if skipped else None


def _release(name: str, entry: Any, at: str) -> PackageVersion | None:
    """The release of an entry; ``None`` for a repository, a path or a range."""
    if isinstance(entry, str):
        entry = {"version": entry}
    record = as_record(entry, at)
    version = text_of(record, "version", at)
    if len(name) > MAX_PROJECT_LENGTH:
        raise too_long(at, MAX_PROJECT_LENGTH)
    if not _PROJECT_NAME.match(name):
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"{name[:80]!r} is not the name of a package", field=at
        )
    release = pinned_version(version)
    if version is None or release is None:
        return None
    # int() refuses numbers of thousands of digits; real versions are short.
    if len(version) > 100:
        raise InvalidDocument(
            Reason.INVALID_VERSION, "a version of over 100 characters", field=path(at, "version")
        )
    index = text_of(record, "index", at, MAX_INDEX_LENGTH)
    try:
        return package_version(name, release, index)
    except InvalidDocument as error:
        raise InvalidDocument(error.reason, error.message, field=path(at, "version")) from None
