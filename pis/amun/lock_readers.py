"""Locks of three formats, read into one form.

Only what a named index serves is installed, and only if its hash is in the lock: a
repository, a path, an address and a range of versions are refused, naming the entry.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.pylock import Package, Pylock, PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pis.amun.indexes import index_name
from pis.amun.locks import (
    MOST_CHARACTERS,
    Lock,
    LockedPackage,
    environment_of,
    holds,
    is_marker,
    is_short,
)
from pis.amun.problems import Problem, inside

NEEDS_HASHES = (
    "missing: only what a lock names by its hash is installed; lock it with hashes, "
    "as `thoth pi pin` does"
)
_ONLY_RELEASES = "only releases that an index serves are installed, no {what}"

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_HASH = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})\Z")
_HASH_OPTION = re.compile(r"\s+--hash(?:=|\s+)(\S+)")
#: More digits than Python reads as a number are no version either.
_LONGEST_VERSION = 128
_COMMENT = re.compile(r"(?:^|\s)#.*$")
#: Keys of entries that come from elsewhere than an index, and what a person calls them.
_ELSEWHERE = {
    "git": "repository", "hg": "repository", "svn": "repository", "bzr": "repository",
    "path": "folder", "file": "address", "editable": "editable folder",
}  # fmt: skip

_Add = Callable[[str, str], None]


def read_pipfile_lock(
    value: Any, at: str, python_version: str | None = None
) -> tuple[Lock, list[Problem]]:
    """Read a ``Pipfile.lock``; its ``develop`` part is not installed where a stack is measured.

    :param python_version: if more is known of it than the lock itself says
    """
    problems: list[Problem] = []
    add = _adder(problems)
    if not isinstance(value, Mapping):
        return Lock(), [Problem(at, "not an object: the content of a Pipfile.lock was expected")]
    default = value.get("default")
    if not isinstance(default, Mapping):
        return Lock(), [Problem(inside(at, "default"), "missing: the object of locked packages")]
    meta = value.get("_meta")
    requires = meta.get("requires") if isinstance(meta, Mapping) else None
    python = requires.get("python_version") if isinstance(requires, Mapping) else None
    packages = [
        (where, package)
        for name, entry in default.items()
        for where in [inside(inside(at, "default"), str(name))]
        if (package := _of_pipfile(str(name), entry, where, add)) is not None
    ]
    python = python if isinstance(python, str) else None
    return _lock(packages, python_version or python, add), problems


def read_requirements(
    text: str, at: str, python_version: str | None = None
) -> tuple[Lock, list[Problem]]:
    """Read a requirements file in which every line has its hashes."""
    problems: list[Problem] = []
    add = _adder(problems)
    packages = [
        (f"{at}: line {number}", package)
        for number, line in _logical_lines(text)
        if (package := _of_line(line, f"{at}: line {number}", add)) is not None
    ]
    return _lock(packages, python_version, add), problems


def read_pylock(
    text: str, at: str, indexes: Mapping[str, str], python_version: str | None = None
) -> tuple[Lock, list[Problem]]:
    """Read a ``pylock.toml`` (PEP 751). Its addresses are not used, its hashes are.

    :param indexes: configured indexes, name to URL; others count as the default one
    """
    problems: list[Problem] = []
    add = _adder(problems)
    try:
        lock = Pylock.from_dict(tomllib.loads(text))
    except RecursionError:
        return Lock(), [Problem(at, "not a pylock.toml: nested too deep")]
    except (ValueError, PylockValidationError) as error:
        return Lock(), [Problem(at, f"not a pylock.toml: {str(error)[:300]}")]
    packages = [
        (where, package)
        for index, entry in enumerate(lock.packages)
        for where in [inside(f"{at}: packages", index)]
        if (package := _of_pylock(entry, where, indexes, add)) is not None
    ]
    return _lock(packages, python_version, add), problems


def _adder(problems: list[Problem]) -> _Add:
    return lambda field, message: problems.append(Problem(field, message))


def _of_pipfile(name: str, entry: Any, at: str, add: _Add) -> LockedPackage | None:
    if not isinstance(entry, Mapping):
        add(at, "not an object with version and hashes")
        return None
    elsewhere = next((key for key in _ELSEWHERE if entry.get(key)), None)
    if elsewhere is not None:
        add(inside(at, elsewhere), _ONLY_RELEASES.format(what=_ELSEWHERE[elsewhere]))
        return None
    version = entry.get("version")
    if not isinstance(version, str) or not version.startswith("=="):
        add(inside(at, "version"), f"{version!r} pins nothing: `==` and one version was expected")
        return None
    hashes, extras = _texts(entry.get("hashes")), _texts(entry.get("extras"))
    if hashes is None or extras is None:
        add(inside(at, "hashes" if hashes is None else "extras"), "not a list of text")
        return None
    pin, marker, index = version.removeprefix("=="), entry.get("markers"), entry.get("index")
    return _package(_Entry(name, pin, hashes, marker, index, extras), at, add)


def _of_line(line: str, at: str, add: _Add) -> LockedPackage | None:
    if line.startswith("-"):
        option = line.split(maxsplit=1)[0]
        add(at, f"the option {option.partition('=')[0]} is not followed: list every package here")
        return None
    wanted, hashes = _HASH_OPTION.sub("", line).strip(), _HASH_OPTION.findall(line)
    if " --" in wanted:
        add(at, f"--{wanted.partition(' --')[2][:80]}: only --hash is known here")
        return None
    requirement = _requirement(wanted, at, add)
    if requirement is None:
        return None
    if requirement.url:
        add(at, f"{requirement.name}: {_ONLY_RELEASES.format(what='address')}")
        return None
    pins = list(requirement.specifier)
    if len(pins) != 1 or pins[0].operator != "==" or pins[0].version.endswith(".*"):
        add(at, f"{requirement.name}: pins nothing: `==` and one version was expected")
        return None
    marker = str(requirement.marker) if requirement.marker else None
    read = _Entry(
        requirement.name, pins[0].version, hashes, marker, extras=tuple(requirement.extras)
    )
    return _package(read, f"{at}: {requirement.name}", add)


def _requirement(text: str, at: str, add: _Add) -> Requirement | None:
    if not is_short(text):
        add(at, f"over {MOST_CHARACTERS} characters, or too many brackets, without the hashes")
        return None
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        first = str(error).partition("\n")[0]
        add(at, f"not a requirement that can be read: {first}")
        return None


def _of_pylock(
    entry: Package, at: str, indexes: Mapping[str, str], add: _Add
) -> LockedPackage | None:
    at = f"{at} ({entry.name})"
    if entry.vcs or entry.directory or entry.archive:
        what = "repository" if entry.vcs else "folder" if entry.directory else "address"
        add(at, _ONLY_RELEASES.format(what=what))
        return None
    if entry.version is None:
        add(inside(at, "version"), "missing: one version was expected")
        return None
    hashes = [
        f"{name}:{value}" for wheel in entry.wheels or () for name, value in wheel.hashes.items()
    ]
    read = _Entry(
        entry.name,
        str(entry.version),
        hashes,
        str(entry.marker) if entry.marker else None,
        index_name(entry.index, indexes) if _is_index(entry.index) else entry.index,
    )
    return _package(read, at, add)


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a lock says of one package, not yet checked."""

    name: str
    version: str
    hashes: Sequence[str]
    marker: Any = None
    index: Any = None
    extras: tuple[str, ...] = ()


def _package(entry: _Entry, at: str, add: _Add) -> LockedPackage | None:
    """A package whose parts are all right; what is not is added to the problems."""
    release = _version(entry.version)
    hashes = tuple(sorted({it for it in entry.hashes if not it.startswith("md5:")}))
    found = list(_faults(entry, release, hashes))
    for key, message in found:
        add(inside(at, key) if key else at, message)
    if found or release is None:
        return None
    return LockedPackage(
        name=canonicalize_name(entry.name),
        version=release,
        hashes=hashes,
        marker=entry.marker or None,
        index=index_name(entry.index, {}),
        extras=tuple(sorted(entry.extras)),
    )


def _faults(
    entry: _Entry, release: str | None, hashes: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """What is wrong with the parts of ``entry``, by their keys."""
    if not _NAME.match(entry.name):
        yield "", f"{entry.name[:80]!r} is not the name of a package"
    if release is None:
        yield "version", f"{entry.version[:80]!r} is not a version (PEP 440)"
    if not hashes:
        yield "hashes", NEEDS_HASHES
    wrong = next((it for it in hashes if not _HASH.match(it)), None)
    if wrong is not None:
        yield "hashes", f"{wrong[:80]!r} is not `sha256:` and 64 hex digits"
    if entry.marker is not None and not is_marker(entry.marker):
        yield "markers", f"{str(entry.marker)[:80]!r} is not a marker (PEP 508) that is known here"
    if not all(map(_NAME.match, entry.extras)):
        yield "extras", "not all are names of extras"
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
    except ValueError:  # of an address that cannot be split
        return False


def _texts(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(it, str) for it in value):
        return None
    return tuple(value)


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Lines with their continuations, without comments, and the number that each begins at."""
    held, began = "", 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        began = began or number
        comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not comment:
            held += line[:-1] + " "
            continue
        whole = _COMMENT.sub("", held if comment else held + line).strip()
        if whole:
            yield began, whole
        held, began = "", 0


def _lock(
    packages: Iterable[tuple[str, LockedPackage]], python_version: str | None, add: _Add
) -> Lock:
    """One entry a package: of several, that whose marker holds on this platform, if one does."""
    environment = environment_of(python_version)
    by_name: dict[str, list[tuple[str, LockedPackage]]] = defaultdict(list)
    for at, package in packages:
        by_name[package.name].append((at, package))
    kept = []
    for name, entries in sorted(by_name.items()):
        chosen = [it for it in entries if len(entries) == 1 or holds(it[1].marker, environment)]
        if len(chosen) > 1:
            add(chosen[1][0], f"{name} is locked {len(chosen)} times for this platform")
        kept += [package for _, package in chosen[:1]]
    return Lock(tuple(kept), python_version)
