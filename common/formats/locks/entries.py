"""Entries of locks, their checks and their markers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from packaging.markers import InvalidMarker, Marker, UndefinedComparison
from packaging.utils import canonicalize_name
from packaging.version import Version

from common.formats.file_decoding import FileTable, invalid_file, refuse, value_text
from common.formats.requirements_files import SourceKind
from model.errors import InvalidDocument, Reason
from model.json_fields import FieldPath
from model.packages.identity import is_project_name, version_of
from model.packages.releases import parse_requirement
from model.redaction import without_secrets
from model.text import first_few

#: What to do about a lock that cannot be read.
MAKE_AGAIN = "create the lock again"
#: Why it is not known which packages of a lock a project requires.
NO_MANIFEST = "there is no pyproject.toml beside it, which says what the project requires"
#: The marker of packages that a lock does not install by default.
NEVER = 'python_version < "0"'
ALWAYS = 'python_version >= "0"'
#: A quoted text, and what may follow it in markers of locks only.
_OF_LOCK = re.compile(r"""("[^"]*"|'[^']*')(?: (in|not in) (extras|dependency_groups)\b)?""")
_LONGEST_VERSION = 128
#: Keys and types of the source of a package that is a folder.
_FOLDERS = frozenset({"directory", "editable", "virtual"})
#: Requirements are limited to a few more characters.
_LONG_MARKER = 1_900
_CONSTANTS = re.compile(f"{NEVER}|{ALWAYS}|and|or|[ ()]")
#: A repository as Git writes it, such as ``git@host.example:me/it``.
_SCP = re.compile(r"(?P<host>[^/:@]+@[^/:]+):(?!//)(?P<path>.+)")
_HASH = re.compile(r"[a-z0-9_]{2,16}:[0-9a-f]{2,128}\Z")
#: Environment for a trial evaluation of markers.
_ANY_ENVIRONMENT = {
    "implementation_name": "cpython", "implementation_version": "3.11.0", "os_name": "posix",
    "platform_machine": "x86_64", "platform_python_implementation": "CPython",
    "platform_release": "6.1", "platform_system": "Linux", "platform_version": "#1",
    "python_full_version": "3.11.0", "python_version": "3.11", "sys_platform": "linux",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LockSelection:
    """Which packages of a lock are installed, by options of its tool. Names are normalised.

    :param groups: dependency groups besides the default ones
    :param members: members of a workspace that are installed instead of its root
    :param default_groups: install the groups that the tool installs by default
    """

    extras: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    all_members: bool = False
    default_groups: bool = True

    @classmethod
    def of(
        cls,
        *,
        extras: Iterable[str] = (),
        groups: Iterable[str] = (),
        members: Iterable[str] = (),
        all_members: bool = False,
        default_groups: bool = True,
    ) -> LockSelection:
        """The selection with normalised names."""
        names = [frozenset(map(canonicalize_name, it)) for it in (extras, groups, members)]
        return cls(names[0], names[1], names[2], all_members, default_groups)


#: What a lock installs if nothing is selected.
DEFAULT_SELECTION = LockSelection()


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Options for reading a lock.

    :param manifests: each ``pyproject.toml`` by its path from the folder of the lock
    :param markers: variables of PEP 508; ``None`` reads the entries of every environment
    """

    selection: LockSelection = DEFAULT_SELECTION
    manifests: Mapping[str, FileTable] = field(default_factory=dict)
    markers: Mapping[str, str] | None = None

    @property
    def manifest(self) -> FileTable | None:
        """The ``pyproject.toml`` beside the lock."""
        return self.manifests.get("pyproject.toml")


DEFAULT_REQUEST = LockRequest()


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
    """One package of a lock. A lock may have several entries of a package, with their markers.

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

    @property
    def requirement(self) -> str:
        """The line of a pinned package in a requirements file, without the hashes.

        >>> LockEntry("numpy", "2.0.1", marker="python_version < '3.13'").requirement
        "numpy==2.0.1 ; python_version < '3.13'"
        """
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}=={self.version}{marker}"

    def holds(self, markers: Mapping[str, str]) -> bool:
        """Whether the package is installed in an environment with these variables of PEP 508."""
        return marker_holds(self.marker, markers, self.groups)


@dataclass(frozen=True, slots=True)
class LockContent:
    """A lock as it is written.

    :param entries: in the order of the file, development entries last; an error in place of each
        entry that cannot be read
    :param sources: indexes that the lock describes, the default one first
    :param manifest_hash: hash of the Pipfile in a ``Pipfile.lock``
    :param requires_python: specifiers of supported Python versions, joined with ``||``
    :param environments: markers of which one must hold; empty for every environment
    :param uncovered: unknown parts of the lock, for people
    :param conda: names of packages from conda, which are not covered
    :param pins: name and version of every package, also of those that are not selected
    :param required: names of the packages that the project itself requires, if the lock says
    """

    entries: tuple[LockEntry | InvalidDocument, ...]
    sources: tuple[FileTable, ...] = ()
    manifest_hash: str | None = None
    python: str | None = None
    requires_python: str | None = None
    environments: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    pins: frozenset[tuple[str, str]] = frozenset()
    required: frozenset[str] = frozenset()


class LockTable(FileTable):
    """A table of a lock, which tools write and people do not correct."""

    __slots__ = ()
    hint = MAKE_AGAIN


def readable(
    read: Callable[..., LockEntry], items: Iterable[tuple[Any, ...]]
) -> Iterator[LockEntry | InvalidDocument]:
    """The entry of each item, or the error that reading it raises."""
    for item in items:
        try:
            yield read(*item)
        except InvalidDocument as error:
            yield error


def pins_of(packages: Iterable[LockTable]) -> frozenset[tuple[str, str]]:
    """Name and version of each package, except folders, such as the project itself."""
    return frozenset(
        pin_of(it.required_text("name"), version)
        for it in packages
        for source, version in ((it.nested("source"), it.text("version")),)
        if version and _FOLDERS.isdisjoint({*it, *source, source.text("type")})
    )


def pin_of(name: str, version: str) -> tuple[str, str]:
    """Name and version of a package in normal form, as far as the version has one."""
    parsed = version_of(version.strip()) if len(version) <= _LONGEST_VERSION else None
    return canonicalize_name(name), str(parsed or version)


def require_known(kind: str, wanted: Iterable[str], known: Iterable[str], at: FieldPath) -> None:
    """Refuse a selection with names that a lock does not have.

    :param kind: of the names, such as ``extra``
    :raises InvalidFile: naming the first unknown name
    """
    names = sorted({*known})
    for name in sorted({*wanted}.difference(names)):
        message = f"has no {kind} {value_text(name)}"
        hint = f"it has {first_few(names, 20)}" if names else f"it has no {kind}"
        raise invalid_file(Reason.MISSING_FIELD, message, at, hint)


def locked_file(file: LockTable) -> LockedFile:
    """A file that a lock of uv, Poetry or PDM lists."""
    url = file.text("url")
    place = (url or "").partition("#")[0] or file.text("path") or ""
    algorithm, _, digits = (file.text("hash") or "").partition(":")
    return LockedFile(
        file.text("file") or place.rpartition("/")[2],
        url and without_secrets(url),
        file.integer("size", high=2**53),
        digits if algorithm == "sha256" else None,
    )


def git_target(url: str, revision: str, folder: str | None) -> str:
    """The address of a repository as a requirement of PEP 508 names it.

    >>> git_target("git@host.example:me/it", "1f2e", "src")
    'git+ssh://git@host.example/me/it@1f2e#subdirectory=src'
    """
    if short := _SCP.fullmatch(url):
        url = f"ssh://{short['host']}/{short['path']}"
    at = f"@{revision}" if revision else ""
    return f"git+{url}{at}" + (f"#subdirectory={folder}" if folder else "")


class EntryFault(NamedTuple):
    """A part of an entry that violates the standards.

    :param field: the field of :class:`LockEntry`
    """

    field: str
    reason: Reason
    message: str

    def at(self, entry: LockEntry, keys: Mapping[str, str]) -> FieldPath:
        """The path of the part.

        :param keys: keys of the format, by field; other fields have no path of their own
        """
        origin = FieldPath(entry.origin)
        return origin / keys[self.field] if self.field in keys else origin


def faults_of(entry: LockEntry) -> Iterator[EntryFault]:
    """The faults of a pinned entry, at most one for each of its fields."""
    if not is_project_name(entry.name):
        message = f"{value_text(entry.name)} is not the name of a package"
        yield EntryFault("name", Reason.INVALID_REQUIREMENT, message)
    # Python refuses to convert numbers of thousands of digits; real versions are short.
    if len(entry.version) > _LONGEST_VERSION or version_of(entry.version.strip()) is None:
        message = f"{value_text(entry.version)} is not a version by PEP 440"
        yield EntryFault("version", Reason.INVALID_VERSION, message)
    if (fault := hash_fault(entry.hashes)) is not None:
        yield EntryFault("hashes", Reason.OUT_OF_RANGE, fault)
    if entry.marker and (fault := marker_fault(entry.marker)) is not None:
        message = f"{value_text(entry.marker)} is not a marker that can be evaluated: {fault}"
        yield EntryFault("marker", Reason.INVALID_REQUIREMENT, message)
    if not all(map(is_project_name, entry.extras)):
        message = "contains an invalid name of an extra"
        yield EntryFault("extras", Reason.INVALID_REQUIREMENT, message)


def hash_fault(hashes: Iterable[str]) -> str | None:
    """The fault of the first invalid hash."""
    wrong = next((it for it in hashes if not _HASH.match(it.strip())), None)
    if wrong is None:
        return None
    return f"{value_text(wrong)} is not a hash, such as `sha256:` and 64 hexadecimal digits"


def normalised_hashes(hashes: Iterable[str]) -> tuple[str, ...]:
    """Valid hashes, sorted and without duplicates."""
    # Tools that extract them from requirements files may keep trailing spaces.
    return tuple(sorted({it.strip() for it in hashes}))


def normalised(entry: LockEntry) -> LockEntry:
    """An entry without faults, with canonical name, version, hashes, marker and extras."""
    return replace(
        entry,
        name=canonicalize_name(entry.name),
        version=str(version_of(entry.version.strip())),
        hashes=normalised_hashes(entry.hashes),
        marker=_canonical_marker(entry.marker)[0] if entry.marker else None,
        extras=tuple(sorted(set(map(canonicalize_name, entry.extras)))),
    )


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
    return _parsed(marker).evaluate(variables, context="lock_file")


#: A lock repeats few markers many times.
_parsed = lru_cache(maxsize=16_384)(Marker)


@lru_cache(maxsize=16_384)
def marker_fault(marker: str) -> str | None:
    """Why a marker cannot be evaluated, such as ``os_name ~= "nt"``; ``None`` if it can.

    Cached, because a file may be read both as a manifest and as a lock.
    """
    canonical, problem = _canonical_marker(marker)
    if canonical is None:
        return problem[:200]
    try:
        marker_holds(canonical, _ANY_ENVIRONMENT)
    except (UndefinedComparison, KeyError, ValueError, RecursionError) as error:
        return (str(error) or type(error).__name__).splitlines()[0][:200]
    return None


def _canonical_marker(marker: str) -> tuple[str | None, str]:
    """The canonical text of a marker, or ``None`` and the problem of an invalid one."""
    if len(marker) > _LONG_MARKER:  # a tool has joined it
        try:
            return str(Marker(marker)), ""
        except (InvalidMarker, RecursionError) as error:
            return None, str(error).splitlines()[0]
    parsed = parse_requirement(f"name ; {marker}")
    return (None if parsed.name is None else parsed.marker), parsed.problem or "it is empty"


def resolved_marker(
    marker: str, groups: AbstractSet[str], extras: AbstractSet[str] = frozenset()
) -> str | None:
    """A marker of a ``pylock.toml`` without ``extras`` and ``dependency_groups``.

    :param marker: as ``packaging`` formats it
    :param groups: installed groups
    :param extras: installed extras
    :returns: ``None`` for always, and :data:`NEVER` for packages that are not installed

    >>> resolved_marker('"a" in dependency_groups or "b" in extras', {"a"}) is None
    True
    >>> resolved_marker('os_name == "nt" and "a" not in extras', set())
    'os_name == "nt"'
    """
    groups, extras = (frozenset(map(canonicalize_name, it)) for it in (groups, extras))

    def resolved(match: re.Match[str]) -> str:
        quoted, operator, variable = match.groups()
        if variable is None:
            return match[0]
        chosen = groups if variable == "dependency_groups" else extras
        is_in = canonicalize_name(quoted[1:-1]) in chosen
        return ALWAYS if is_in == (operator == "in") else NEVER

    text = _OF_LOCK.sub(resolved, marker)
    if not _CONSTANTS.sub("", text):
        return None if Marker(text).evaluate() else NEVER
    return text.replace(f" and {ALWAYS}", "").replace(f"{ALWAYS} and ", "")


#: Position of a package, and one of its extras; empty for the package itself.
Node = tuple[int, str]
#: Markers that must all hold.
Condition = frozenset[str]
#: A package that another one needs, and the marker of that need.
Edge = tuple[Node, str | None]

#: Limits of edges that are followed, and of conditions of a package; real locks stay far below.
_MOST_STEPS, _MOST_CONDITIONS = 200_000, 256


def conditions_of(
    starts: Iterable[Edge],
    edges: Callable[[Node], Iterable[Edge]],
    markers: Mapping[str, str] | None,
    at: str,
) -> dict[Node, list[Condition]]:
    """The alternative conditions of each reached node; a node comes after the nodes that need it.

    :param markers: variables of PEP 508; edges whose marker is false there are not followed
    :raises InvalidFile: if nodes need each other in too many ways
    """
    known: dict[Node, list[Condition]] = defaultdict(list)
    holds: dict[str, bool] = {}
    pending, steps = [(edge, Condition()) for edge in starts][::-1], 0
    while pending:
        ((node, marker), condition), steps = pending.pop(), steps + 1
        if marker is not None and marker != ALWAYS:
            if marker == NEVER:
                continue
            if markers is None or marker_fault(marker) is not None:
                condition |= {marker}  # the fault is reported with the entry
            elif not holds.setdefault(marker, marker_holds(marker, markers)):
                continue
        listed = known[node]
        if any(it <= condition for it in listed):
            continue
        if steps > _MOST_STEPS or len(listed) == _MOST_CONDITIONS:
            refuse(
                Reason.OUT_OF_RANGE,
                "is required under too many combinations of conditions",
                at,
                MAKE_AGAIN,
            )
        known[node] = [it for it in listed if not condition <= it] + [condition]
        pending += [(edge, condition) for edge in edges(node)][::-1]
    return dict(known)


def by_package(conditions: Mapping[Node, Iterable[Condition]]) -> dict[int, frozenset[Condition]]:
    """The conditions of each package, with or without extras."""
    joined: dict[int, frozenset[Condition]] = defaultdict(frozenset)
    for (place, _), listed in conditions.items():
        joined[place] |= {*listed}
    return joined


def marker_of(conditions: Collection[Condition]) -> str | None:
    """The marker that is equivalent to conditions; ``None`` for always."""
    joined = sorted(" and ".join(f"({it})" for it in sorted(each)) for each in conditions)
    return None if "" in joined else " or ".join(dict.fromkeys(joined))


class LockGraph(ABC):
    """The packages of a lock that names no groups, and their requirements."""

    def __init__(
        self, lock: LockTable, packages: Sequence[LockTable], request: LockRequest
    ) -> None:
        self._at, self._packages, self._markers = lock.at / "package", packages, request.markers
        #: Positions by name, the newest version first.
        self._named: dict[str, list[int]] = defaultdict(list)
        for place, package in enumerate(packages):
            self._named[canonicalize_name(package.required_text("name"))].append(place)
        for places in self._named.values():
            places.sort(key=self._version, reverse=True)

    def _version(self, place: int) -> Version:
        return version_of(self._packages[place].text("version") or "") or Version("0")

    def installed(self, groups: Collection[str]) -> list[tuple[int, str | None]]:
        """Positions of packages that some groups need, with the marker of that need."""
        conditions = conditions_of(self._starts(groups), self._edges, self._markers, self._at)
        return [(place, marker_of(it)) for place, it in sorted(by_package(conditions).items())]

    @abstractmethod
    def _starts(self, groups: Collection[str]) -> Iterable[Edge]:
        """Requirements of the project itself for some groups."""

    @abstractmethod
    def _edges(self, node: Node) -> Iterable[Edge]:
        """Requirements of a package."""
