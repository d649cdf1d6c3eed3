"""Locks of specifications: every package pinned, with the hashes of its wheels.

Only releases on a configured index are installed, and only files whose hashes are in the lock.
Repositories, paths, URLs and version ranges are refused.
"""

import os
import platform
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name

from common.formats.installer_configuration import pip_options
from common.formats.locks import pipfile_lock, pylock
from common.formats.locks.entries import (
    NEVER,
    EntryFault,
    LockEntry,
    LockTable,
    faults_of,
    marker_holds,
    normalised,
)
from common.formats.requirements_files import (
    Line,
    SourceKind,
    exact_version,
    logical_lines,
    parse_line,
)
from model.errors import InvalidDocument, Reason
from model.json_fields import FieldPath
from model.packages.identity import DEFAULT_INDEX, index_identity, package_version, public_index_url
from model.packages.releases import parse_requirement
from pis.amun.schema import SpecificationProblem

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

_HASH = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})\Z")
#: Limit for markers and requirements without hashes; real ones have a few hundred characters.
_MOST_CHARACTERS = 2_000
#: Installers parse markers recursively: deeper nesting would exhaust their stack.
_MOST_BRACKETS = 100
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
#: Variables that are resolved when a lock is made, not when it is installed.
_RESOLVED_BEFORE = re.compile(r"\b(?:extras?|dependency_groups)\b")
_PYTHON = re.compile(r"([0-9]{1,4}\.[0-9]{1,4})(\.[0-9]{1,4})?\Z")


@dataclass(frozen=True, slots=True)
class Lock:
    """All packages of a stack.

    :param packages: pinned with hashes, sorted by name
    :param python_version: Python that the lock was made for, such as ``3.11``, if known
    """

    packages: tuple[LockEntry, ...] = ()
    python_version: str | None = None

    def version_of(self, *names: str) -> str | None:
        """Return the locked version of the first name in ``names`` that the lock contains."""
        versions = {package.name: package.version for package in self.packages}
        return next((versions[name] for name in names if name in versions), None)

    def by_index(self) -> dict[str, list[LockEntry]]:
        """Return the packages by the name of their index."""
        packages: dict[str, list[LockEntry]] = defaultdict(list)
        for package in self.packages:
            packages[package.index or DEFAULT_INDEX].append(package)
        return dict(sorted(packages.items()))


LockAndProblems = tuple[Lock, list[SpecificationProblem]]


def read_pipfile_lock(value: Any, at: str, python_version: str | None = None) -> LockAndProblems:
    """Read a ``Pipfile.lock`` without its ``develop`` section, which is never installed."""
    if not isinstance(value, dict) or not isinstance(value.get("default"), dict):
        message = "missing: give the object of locked packages of a Pipfile.lock"
        return Lock(), [SpecificationProblem(FieldPath(at) / "default", message)]
    entries = pipfile_lock.entries_of(LockTable(value, FieldPath(at)), "default")
    return _lock_of(entries, python_version, pipfile_lock.KEYS)


def read_requirements(text: str, at: str, python_version: str | None = None) -> LockAndProblems:
    """Read a requirements file with hashes on every line."""
    return _lock_of(_entries_of_lines(text, at), python_version)


def read_pylock(
    text: str, at: str, indexes: Mapping[str, str], python_version: str | None = None
) -> LockAndProblems:
    """Read a ``pylock.toml`` (PEP 751). The hashes in the lock are used; its URLs are not.

    :param indexes: configured indexes, name to URL; any other URL means the default index
    """
    try:
        content = LockTable(tomllib.loads(text), FieldPath(f"{at}:$"))
        lock = pylock.read_pylock(content, wheels_only=True)
    except InvalidDocument as error:
        return Lock(), [_problem_of(error)]
    except (ValueError, RecursionError) as error:
        message = "nested too deep" if isinstance(error, RecursionError) else str(error)[:300]
        return Lock(), [SpecificationProblem(at, f"not a pylock.toml: {message}")]
    return _lock_of(lock.entries, python_version, pylock.KEYS, indexes)


def _lock_of(
    entries: Iterable[LockEntry | InvalidDocument],
    python_version: str | None,
    keys: Mapping[str, str] | None = None,
    indexes: Mapping[str, str] | None = None,
) -> LockAndProblems:
    """Return one entry per package; if there are several, the entry whose marker is true here.

    :param keys: keys of an entry in the lock, by field of :class:`LockEntry`
    """
    problems: list[SpecificationProblem] = []
    by_name: dict[str, list[LockEntry]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry, InvalidDocument):
            problems.append(_problem_of(entry))
        elif entry.marker == NEVER:
            continue
        elif faults := list(_faults(entry)):
            named = "" if entry.origin.endswith(entry.name) else f"{entry.name[:80]}: "
            problems += [
                SpecificationProblem(it.at(entry, keys or {}), f"{named}{it.message}")
                for it in {it.field: it for it in reversed(faults)}.values()
            ]
        else:
            by_name[canonicalize_name(entry.name)].append(_installable(entry, indexes or {}))
    environment = environment_of(python_version)
    kept = []
    for name, locked in sorted(by_name.items()):
        chosen = [it for it in locked if len(locked) == 1 or marker_holds(it.marker, environment)]
        if len(chosen) > 1:
            message = f"{name} is locked {len(chosen)} times for this platform"
            problems.append(SpecificationProblem(chosen[1].origin, message))
        kept += [replace(it, origin="") for it in chosen[:1]]
    return Lock(tuple(kept), python_version), problems


def _problem_of(error: InvalidDocument) -> SpecificationProblem:
    path = [it for it in (error.place, error.field) if it and it != "$"]
    return SpecificationProblem(":".join(path), error.message)


def _installable(entry: LockEntry, indexes: Mapping[str, str]) -> LockEntry:
    """Return the installed form of an entry without faults; the marker is unchanged."""
    checked = normalised(entry)
    return LockEntry(
        checked.name,
        checked.version,
        tuple(it for it in checked.hashes if not it.startswith("md5:")),
        entry.marker or None,
        index_name(entry.index, indexes),
        tuple(sorted(entry.extras)),
        origin=entry.origin,
    )


def _entries_of_lines(text: str, at: str) -> Iterator[LockEntry | InvalidDocument]:
    for number, line in logical_lines(text):
        origin = f"{at}:{number}"
        try:
            yield _entry_of_line(parse_line(line, number, origin), origin)
        except InvalidDocument as error:
            yield error


def _entry_of_line(line: Line, at: str) -> LockEntry:
    """:raises InvalidDocument: if the line has more than a requirement, or no valid one"""

    def refusal(message: str) -> InvalidDocument:
        return InvalidDocument(Reason.INVALID_REQUIREMENT, message, field=at)

    if line.ignored:
        raise refusal(f"{line.ignored.split()[0]} is not supported: only --hash is")
    if not line.requirement:
        option = line.options[0][0]
        raise refusal(f"the option {option} is not supported: list every package here")
    if other := next((name for name, _ in line.options if name != "--hash"), None):
        raise refusal(f"the option {other} is not supported: only --hash is")
    if not _is_short(line.requirement):
        raise refusal(
            f"over {_MOST_CHARACTERS} characters or {_MOST_BRACKETS} brackets, without the hashes"
        )
    requirement = parse_requirement(line.requirement)
    if requirement.name is None:
        raise refusal(f"not a valid requirement: {requirement.problem}")
    version = exact_version(requirement.specifier)
    is_pin = version is not None and not requirement.specifier.startswith("===")
    return LockEntry(
        requirement.name,
        version if version is not None and is_pin else "",
        tuple(line.values("--hash")),
        requirement.marker,
        extras=requirement.extras,
        origin=at,
        source=SourceKind.ADDRESS if requirement.url else None,
        target=requirement.specifier,
    )


def _faults(entry: LockEntry) -> Iterator[EntryFault]:
    """Yield the faults that prevent the installation of ``entry``."""
    if entry.source is not None:
        message = _ONLY_RELEASES.format(what=_SOURCES[entry.source])
        yield EntryFault(entry.source_key, Reason.INVALID_REQUIREMENT, message)
        return
    if not entry.version:
        message = "missing: give `==` and one version"
        if entry.target:
            message = f"{entry.target!r} does not pin a version: give `==` and one version"
        yield EntryFault("version", Reason.INVALID_VERSION, message)
        return
    if entry.marker and not _is_for_installers(entry.marker):
        message = f"{entry.marker[:80]!r} is not a supported marker (PEP 508)"
        yield EntryFault("marker", Reason.INVALID_REQUIREMENT, message)
    hashes = [it for it in entry.hashes if not it.startswith("md5:")]
    if not hashes:
        yield EntryFault("hashes", Reason.MISSING_FIELD, NEEDS_HASHES)
    if wrong := next((it for it in hashes if not _HASH.match(it.strip())), None):
        message = f"{wrong[:80]!r} is not `sha256:` and 64 hex digits"
        yield EntryFault("hashes", Reason.OUT_OF_RANGE, message)
    try:
        index_name(entry.index, {})
    except ValueError:  # a URL that cannot be parsed
        yield EntryFault("index", Reason.OUT_OF_RANGE, "not the name of an index")
    yield from faults_of(entry)


def index_name(name_or_url: str | None, indexes: Mapping[str, str]) -> str:
    """Return the name of an index; the URL of an index that is not configured is unchanged.

    :raises ValueError: if a URL cannot be split

    >>> index_name("pypi-org", {}), index_name("https://a.example/simple/", {"a": "https://a.example/simple"})
    ('pypi', 'a')
    """
    if not name_or_url:
        return DEFAULT_INDEX
    if "://" in name_or_url:
        variables = [os.environ.get(it) for it in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")]
        defaults = (public_index_url(), *variables, pip_options(os.environ).get("index-url"))
        known = {index_identity(url): DEFAULT_INDEX for url in defaults if url}
        known |= {index_identity(url): name for name, url in indexes.items()}
        urlsplit(name_or_url)
        identity = index_identity(name_or_url)
        return known.get(identity, identity)
    return package_version("any", "1", name_or_url).index


def _is_for_installers(marker: str) -> bool:
    """Whether ``marker`` needs neither extras nor groups, and an installer can read it.

    A line break in a quoted text would start a new line in the installer's requirements.
    """
    resolved = not _RESOLVED_BEFORE.search(_QUOTED.sub("", marker))
    return resolved and marker.isprintable() and _is_short(marker)


def _is_short(text: str) -> bool:
    """Whether ``text`` is short and flat enough for the parser of markers and requirements."""
    return len(text) <= _MOST_CHARACTERS and text.count("(") <= _MOST_BRACKETS


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
