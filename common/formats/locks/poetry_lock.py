"""``poetry.lock`` of Poetry 1 and 2.

From version 2.1 of the format on, each package names the groups that need it, and the markers of
that need. An earlier lock has only the dependencies between packages, so it is followed from those
of the ``pyproject.toml`` beside it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from common.formats.file_decoding import FileTable, refuse, value_text
from common.formats.locks.entries import (
    ALWAYS,
    MAKE_AGAIN,
    NEVER,
    NO_MANIFEST,
    Edge,
    LockContent,
    LockedFile,
    LockEntry,
    LockGraph,
    LockRequest,
    LockTable,
    Node,
    git_target,
    locked_file,
    marker_fault,
    marker_holds,
    pins_of,
    readable,
    require_known,
)
from common.formats.poetry_constraints import allows, entries_of, marker_text, python_specifiers
from common.formats.requirements_files import SourceKind
from model.errors import Reason
from model.packages.identity import version_of
from model.packages.releases import parse_requirement

#: Keys of a package, by field of :class:`LockEntry`.
KEYS = {"name": "name", "version": "version"}
#: Majors of the format that current Poetry reads.
_MAJORS = (1, 2)
#: The group of the dependencies of the project itself.
_MAIN = "main"
_EXTRA = re.compile(r"""extra (==|!=) ["']([^"']+)["']""")
#: The name with which a requirement begins.
_NAME = re.compile(r"\s*([A-Za-z0-9._-]+)")


def read_poetry_lock(lock: LockTable, request: LockRequest) -> LockContent:
    """Read the packages that a lock installs for its project and the selected extras and groups.

    Like ``poetry export``, a lock has no default groups. Without an environment, also the entries
    of all groups that are not optional are read, as ``dev``.

    :raises InvalidFile: if anything except a package has the wrong type, the version of the format
        is unknown, or the lock lacks a selected name
    """
    metadata = lock.nested("metadata")
    form = metadata.text("lock-version") or "1.0"
    if (parsed := version_of(form)) is None or parsed.major not in _MAJORS:
        message = f"version {value_text(form)} of poetry.lock is not known, only 1 and 2"
        refuse(Reason.UNKNOWN_SCHEMA, message, metadata.at / "lock-version", MAKE_AGAIN)
    packages = list(lock.each("package"))
    by_metadata = all("groups" in it for it in packages) and parsed >= Version("2.1")
    project = _Project(lock, packages, request)
    needed = frozenset({_MAIN}) | request.selection.groups
    wanted = needed | (frozenset() if request.markers else project.groups - project.optional)
    graph = None if by_metadata else _Graph(lock, packages, project, request)
    installed: list[tuple[int, str | None, bool]] = []
    for groups, dev in ((needed, False), (wanted - needed, True)):
        for place, package in enumerate(packages) if graph is None else ():
            if (marker := _marker_in(package, groups, project.extras)) != NEVER:
                installed.append((place, marker, dev))
        if graph is not None:
            installed += [(it, marker, dev) for it, marker in graph.installed(groups)]
    hashes = _FileTable(metadata, packages)
    entries = readable(_entry, ((packages[place], hashes, *rest) for place, *rest in installed))
    python = metadata.text("python-versions")
    return LockContent(
        tuple(entries),
        requires_python=" || ".join(
            map(str, python_specifiers(python or "*", metadata.at / "python-versions"))
        ),
        uncovered=project.uncovered if graph is not None else (),
        pins=pins_of(packages),
    )


def _marker_in(package: LockTable, groups: Collection[str], extras: Collection[str]) -> str | None:
    """When one of some groups needs a package; :data:`NEVER` if none does."""
    named = [it for it in package.texts("groups") if canonicalize_name(it) in groups]
    markers = package.get("markers")
    if isinstance(markers, dict):
        table = package.nested("markers")
        listed = [table.text(it) for it in named]
    else:
        listed = [package.text("markers")] * bool(named)
    chosen = [None if it is None else _resolved(it, extras) for it in listed]
    if None in chosen or ALWAYS in chosen:
        return None
    return " or ".join(f"({it})" for it in dict.fromkeys(chosen) if it != NEVER) or NEVER


def _resolved(marker: str, extras: Collection[str]) -> str:
    """A marker without extras of the project."""

    def constant(condition: re.Match[str]) -> str:
        operator, extra = condition.groups()
        return ALWAYS if (canonicalize_name(extra) in extras) == (operator == "==") else NEVER

    return _EXTRA.sub(constant, marker)


class _Project:
    """Requirements of the project that a lock does not contain.

    :ivar extras: the selected ones
    :ivar groups: names of all groups
    :ivar optional: groups that Poetry installs only if they are named
    :ivar requirements: entries of dependencies by group, empty without a manifest
    :ivar uncovered: unknown parts without a manifest
    """

    def __init__(self, lock: LockTable, packages: list[LockTable], request: LockRequest) -> None:
        manifest = request.manifest or FileTable({}, lock.at)
        project, table = manifest.nested("project"), manifest.nested("tool").nested("poetry")
        self.requirements: dict[str, list[tuple[str, FileTable]]] = defaultdict(list)
        self.requirements[_MAIN] += entries_of(table.nested("dependencies"))
        if not table.nested("dependencies"):
            listed = project.texts("dependencies")
            self.requirements[_MAIN] += map(_entry_of_line, listed, [project] * len(listed))
        self.optional = frozenset[str]()
        for name in table.nested("group"):
            group, key = table.nested("group").nested(name), canonicalize_name(name)
            self.requirements[key] += entries_of(group.nested("dependencies"))
            self.optional |= {key} if group.flag("optional") else set()
        self.requirements["dev"] += entries_of(table.nested("dev-dependencies"))
        self.groups = frozenset(self.requirements) | {
            canonicalize_name(group)
            for package in packages
            for group in (*package.texts("groups"), package.text("category") or _MAIN)
        }
        self.groups |= {*map(canonicalize_name, manifest.nested("dependency-groups"))}
        self.extras, extras = request.selection.extras, lock.nested("extras")
        #: Names of packages that the selected extras require.
        self.of_extras = {
            canonicalize_name(match[1])
            for key in extras
            if canonicalize_name(key) in self.extras
            for text in extras.texts(key)
            if (match := _NAME.match(text))
        }
        known = {*map(canonicalize_name, extras)}
        require_known("extra", self.extras, known, lock.at / "extras")
        require_known("group", request.selection.groups, self.groups, lock.at)
        self.uncovered: tuple[str, ...] = ()
        if request.manifest is None:
            self.uncovered = (f"{NO_MANIFEST}: every package counts that no extra needs",)


def _entry_of_line(line: str, table: FileTable) -> tuple[str, FileTable]:
    """A requirement of PEP 508 as an entry of Poetry."""
    parsed = parse_requirement(line)
    content = {"version": parsed.specifier or "*", "extras": list(parsed.extras or ())}
    if parsed.marker is not None:
        content["markers"] = parsed.marker
    if parsed.url is not None:
        content["url"] = parsed.url
    return parsed.name or line, FileTable(content, table.at / "dependencies")


class _Graph(LockGraph):
    """The packages of a lock; what the project has chosen decides for others."""

    def __init__(
        self,
        lock: LockTable,
        packages: Sequence[LockTable],
        project: _Project,
        request: LockRequest,
    ) -> None:
        super().__init__(lock, packages, request)
        self._project = project
        #: Versions that the project itself has chosen in the environment; others must follow.
        self._decided: dict[str, int] = {}

    def _starts(self, groups: Collection[str]) -> list[Edge]:
        starts = list(self._required(groups))
        for (place, _), marker in starts:
            if self._markers is not None and self._holds(marker):
                name = canonicalize_name(self._packages[place].required_text("name"))
                self._decided.setdefault(name, place)
        return starts

    def _holds(self, marker: str | None) -> bool:
        return marker is None or (
            marker_fault(marker) is None and marker_holds(marker, self._markers or {})
        )

    def _required(self, groups: Collection[str]) -> Iterator[Edge]:
        if self._project.uncovered:
            yield from self._required_without_manifest(groups)
            return
        for group in sorted(groups, key=lambda it: it != _MAIN):
            for name, entry in self._project.requirements.get(group, ()):
                key = canonicalize_name(name)
                if not entry.flag("optional") or key in self._project.of_extras:
                    yield from self._targets(key, entry)
        if _MAIN in groups:  # dependencies that only [project.optional-dependencies] names
            named = {canonicalize_name(it) for it, _ in self._project.requirements[_MAIN]}
            for key in sorted(self._project.of_extras - named):
                yield from (((place, ""), None) for place in self._named.get(key, ())[:1])

    def _required_without_manifest(self, groups: Collection[str]) -> Iterator[Edge]:
        needed = {
            canonicalize_name(name)
            for package in self._packages
            for name in package.nested("dependencies")
        }
        for key, places in self._named.items():
            for place in places:
                package = self._packages[place]
                optional = package.flag("optional") and key not in self._project.of_extras
                is_root = key not in needed or key in self._project.of_extras
                if is_root and not optional and (package.text("category") or _MAIN) in groups:
                    yield (place, ""), package.text("marker")

    def _edges(self, node: Node) -> Iterator[Edge]:
        place, extra = node
        package = self._packages[place]
        extras = package.nested("extras")
        of_extra = {
            canonicalize_name(match[1])
            for key in extras
            if extra and canonicalize_name(key) == extra
            for text in extras.texts(key)
            if (match := _NAME.match(text))
        }
        for name, entry in entries_of(package.nested("dependencies")):
            key = canonicalize_name(name)
            if key in of_extra if extra else not entry.flag("optional"):
                yield from self._targets(key, entry)

    def _targets(self, key: str, entry: FileTable) -> Iterator[Edge]:
        """The package that an entry requires, with every extra that it asks for."""
        marker = _EXTRA.sub(ALWAYS, marker_text(entry)) or None
        constraint = entry.text("version")
        compatible = [
            it for it in self._named.get(key, ())
            if constraint is None or allows(constraint, self._version(it), entry.at)
        ]  # fmt: skip
        if self._markers is not None:
            compatible = [it for it in compatible if self._runs_here(it)]
            if (decided := self._decided.get(key)) in compatible:
                compatible = [decided]
        for place in compatible[:1]:
            extras = ("", *map(canonicalize_name, entry.texts("extras")))
            yield from (((place, extra), marker) for extra in extras)

    def _runs_here(self, place: int) -> bool:
        python = (self._markers or {})["python_full_version"]
        package = self._packages[place]
        return allows(package.text("python-versions") or "*", Version(python), package.at)


class _FileTable:
    """Files of packages; earlier locks list them apart from the packages."""

    def __init__(self, metadata: LockTable, packages: list[LockTable]) -> None:
        self._files, self._hashes = metadata.nested("files"), metadata.nested("hashes")
        self._several = len({it.text("name") for it in packages}) < len(packages)

    def of(self, package: LockTable) -> tuple[tuple[LockedFile, ...], tuple[str, ...]]:
        """The files of a package, and their hashes."""
        name = package.required_text("name")
        files, version = [*package.each("files")], package.text("version") or ""
        if not files:
            listed = [*self._files.each(name)]
            # A name may have the files of several versions.
            own = [it for it in listed if f"-{version}" in (it.text("file") or "")]
            files = own if self._several and own else listed
        hashes = [*(it.text("hash") or "" for it in files), *self._apart(name)]
        return tuple(map(locked_file, files)), tuple(sorted(filter(None, hashes)))

    def _apart(self, name: str) -> Iterator[str]:
        for text in self._hashes.texts(name):
            yield text if ":" in text else f"sha256:{text}"


def _entry(package: LockTable, table: _FileTable, marker: str | None, dev: bool) -> LockEntry:
    source = package.nested("source")
    entry = LockEntry(
        package.required_text("name"),
        package.text("version") or "",
        marker=marker,
        dev=dev,
        dependencies=tuple(sorted(map(canonicalize_name, package.nested("dependencies")))),
        origin=package.at,
    )
    kind, url = source.text("type"), source.text("url") or ""
    if kind in ("git", "url", "file", "directory"):
        source_kind = {
            "git": SourceKind.REPOSITORY, "url": SourceKind.ADDRESS, "file": SourceKind.LOCAL_PATH,
            "directory": SourceKind.EDITABLE if package.flag("develop") else SourceKind.LOCAL_PATH,
        }[kind]  # fmt: skip
        target = url
        if kind == "git":
            revision = source.text("resolved_reference") or source.text("reference") or ""
            target = git_target(url, revision, source.text("subdirectory"))
        local = kind in ("file", "directory")
        return replace(entry, version="", source=source_kind, target=target, local=local)
    files, hashes = table.of(package)
    return replace(entry, index=url or None, hashes=hashes, files=files)
