"""``uv.lock`` of uv: a graph, in which the members of the workspace need everything else."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from packaging.utils import canonicalize_name

from common.formats.file_decoding import refuse
from common.formats.locks.entries import (
    ALWAYS,
    MAKE_AGAIN,
    NEVER,
    Condition,
    Edge,
    LockContent,
    LockEntry,
    LockRequest,
    LockTable,
    Node,
    by_package,
    conditions_of,
    git_target,
    locked_file,
    marker_of,
    pins_of,
    readable,
    require_known,
)
from common.formats.requirements_files import SourceKind
from model.errors import Reason
from model.text import first_few

#: Keys of a package, by field of :class:`LockEntry`.
KEYS = {"name": "name", "version": "version"}
_SOURCES = {
    "editable": SourceKind.EDITABLE, "virtual": SourceKind.LOCAL_PATH,
    "directory": SourceKind.LOCAL_PATH, "path": SourceKind.LOCAL_PATH,
    "git": SourceKind.REPOSITORY, "url": SourceKind.ADDRESS,
}  # fmt: skip
#: How uv writes in a marker that a member, one of its extras or of its groups is installed.
_CHOSEN = re.compile(r"extra (==|!=) '((?:extra|group|project)-\d+-[^']+)'")
_MEMBER = re.compile(
    r'name = "(?P<name>[^"]+)"[^\[]*?source = \{ (?:editable|virtual) = "(?P<path>[^"]+)"'
)


def read_uv_lock(lock: LockTable, request: LockRequest) -> LockContent:
    """Read what a lock installs for its project, or for all members of a workspace without one.

    Entries that only default groups need are ``dev``.

    :raises InvalidFile: if anything except a package has the wrong type, if the lock lacks a
        selected name, or if the selection installs extras or groups that exclude each other
    """
    if (version := lock.integer("version", high=2**31)) != 1:
        message = f"version {version} of uv.lock is not known, only version 1"
        refuse(Reason.UNKNOWN_SCHEMA, message, lock.at / "version", MAKE_AGAIN)
    graph = _Graph(lock, request)
    needed, wanted = graph.installed(request.selection.groups), graph.installed(graph.groups)
    # As in other locks, entries for development come last. A package may have both.
    installed = [(place, it, False) for place, it in sorted(needed.items())]
    installed += [(at, it, True) for at, it in sorted(wanted.items()) if needed.get(at) != it]
    entries = readable(_entry, ((graph.packages[place], *rest) for place, *rest in installed))
    return LockContent(
        tuple(entries),
        requires_python=lock.text("requires-python"),
        environments=tuple(lock.texts("supported-markers")),
        pins=pins_of(graph.packages),
        required=graph.required(),
    )


def member_folders(data: bytes, names: Collection[str]) -> Iterator[str]:
    """Folders of members of a workspace, from the folder of its ``uv.lock``."""
    for member in _MEMBER.finditer(data.decode("utf-8", "replace")):
        if canonicalize_name(member["name"]) in names and member["path"] != ".":
            yield member["path"]


class _Graph:
    """The packages of a lock, and which of them a selection installs."""

    def __init__(self, lock: LockTable, request: LockRequest) -> None:
        self._lock, self._request = lock, request
        self.packages = list(lock.each("package"))
        self._named: dict[str, list[int]] = defaultdict(list)
        for place, package in enumerate(self.packages):
            self._named[package.required_text("name")].append(place)
        self._roots = self._chosen_roots()
        self.groups = request.selection.groups | self._default_groups()
        self._check_names()
        # Find all installed extras, also those that packages need of others.
        names = [self._name(it) for it in self._roots]
        chosen = [("extra", request.selection.extras), ("group", self.groups)]
        self._chosen: set[str] = {_choice("project", name, "") for name in names} | {
            _choice(kind, name, it) for kind, listed in chosen for name in names for it in listed
        }
        conflicts = self._lock.sequence("conflicts")
        if not conflicts:
            return
        reached = self._conditions(self.groups)
        self._chosen |= {_choice("extra", self._name(at), extra) for at, extra in reached if extra}
        for number, _ in enumerate(conflicts):
            at = self._lock.at / "conflicts" / number
            items = (LockTable(it, at) for it in conflicts[number])
            if len(excluded := [label for it in items for label in self._excluding(it)]) > 1:
                message = (
                    f"{first_few(excluded, 5)} exclude each other, so one cannot have them all"
                )
                refuse(Reason.CONFLICTING_FIELDS, message, at, "select only one of them")

    def _chosen_roots(self) -> list[int]:
        selection, listed = self._request.selection, self._lock.nested("manifest").texts("members")
        own: list[int] = []
        here: list[int] = []
        for place, package in enumerate(self.packages):
            source = package.nested("source")
            if "editable" in source or "virtual" in source:
                is_root = "." in source.values()
                (here if is_root else own).append(place)
        self._top = here
        members = [it for it in here + own if self._name(it) in listed] if listed else here or own
        if selection.members:
            names = {self._name(it): it for it in members}
            known: dict[str, int] = {canonicalize_name(name): at for name, at in names.items()}
            require_known("member", selection.members, known, self._lock.at / "manifest.members")
            return [known[it] for it in sorted(selection.members)]
        return members if selection.all_members or not here else here

    def _default_groups(self) -> frozenset[str]:
        if not self._request.selection.default_groups:
            return frozenset()
        folder = ""
        if len(self._request.selection.members) == 1:
            path = next(iter(self.packages[self._roots[0]].nested("source").values()))
            folder = "" if path == "." else f"{path}/"
        manifest = self._request.manifests.get(f"{folder}pyproject.toml")
        settings = None if manifest is None else manifest.nested("tool").nested("uv")
        if settings is None or "default-groups" not in settings:
            return frozenset({"dev"})
        if settings["default-groups"] == "all":
            return frozenset(it for place in self._roots for it in self._groups_of(place))
        return frozenset(map(canonicalize_name, settings.texts("default-groups")))

    def _check_names(self) -> None:
        """:raises InvalidFile: if the selection names an unknown extra or group"""
        extras: set[str] = set()
        groups = {*self._lock.nested("manifest").nested("dependency-groups")}
        for place in self._roots:
            package = self.packages[place]
            extras |= {*package.nested("optional-dependencies")}
            extras |= {*package.nested("metadata").texts("provides-extras")}
            groups |= self._groups_of(place)
        for place in self._top if len(self._roots) == 1 else ():
            groups |= self._groups_of(place)
        manifest = self._request.manifest
        if not self._lock.integer("revision") and manifest is not None:
            # A lock without a revision does not name extras without requirements.
            extras |= {*manifest.nested("project").nested("optional-dependencies")}
        at, selection = self._lock.at, self._request.selection
        require_known("extra", selection.extras, map(canonicalize_name, extras), at)
        require_known("group", selection.groups, map(canonicalize_name, groups), at)

    def _groups_of(self, place: int) -> set[str]:
        package = self.packages[place]
        return {
            *package.nested("dev-dependencies"),
            *package.nested("metadata").nested("requires-dev"),
        }

    def _excluding(self, item: LockTable) -> Iterator[str]:
        """The item of a conflict as text, if it is installed."""
        kind = next((it for it in ("extra", "group") if it in item), "project")
        package, name = item.required_text("package"), item.text(kind) or ""
        if _choice(kind, package, name) in self._chosen:
            yield f"the {kind} {name or package}"

    def installed(self, groups: Iterable[str]) -> dict[int, frozenset[Condition]]:
        """The alternative conditions of each installed package, by its position."""
        conditions = by_package(self._conditions(groups))
        return {place: it for place, it in conditions.items() if not self._is_own(place)}

    def required(self) -> frozenset[str]:
        """Names of the packages that the project itself, or a chosen member, requires."""

        def edges(node: Node) -> Iterable[Edge]:
            return self._edges(node) if node[0] in self._roots else ()

        starts, markers = self._starts(self.groups), self._request.markers
        reached = conditions_of(starts, edges, markers, self._lock.at / "package")
        places = {place for place, _ in reached}.difference(self._roots)
        return frozenset(canonicalize_name(self._name(it)) for it in places)

    def _is_own(self, place: int) -> bool:
        """Whether it is the project itself, or a member that is not a package."""
        source = self.packages[place].nested("source")
        return "virtual" in source or "." in source.values() or self._roots == [place]

    def _conditions(self, groups: Iterable[str]) -> dict[Node, list[Condition]]:
        return conditions_of(
            self._starts(groups), self._edges, self._request.markers, self._lock.at / "package"
        )

    def _starts(self, groups: Iterable[str]) -> Iterator[Edge]:
        extras = sorted(self._request.selection.extras)
        for root in self._roots:
            yield from (((root, extra), None) for extra in ("", *extras))
        manifest = self._lock.nested("manifest")
        members = self._request.selection.members
        for group in sorted(groups):
            holders = [it for it in self._roots if group in self._groups_of(it)]
            # A single member without a group has that of the root of the workspace.
            named = group in self._request.selection.groups and len(members) == 1
            with_root = (named and not holders) or not members
            for root in (*holders, *(self._top if with_root else ())):
                for edge in self.packages[root].nested("dev-dependencies").each(group):
                    yield from self._targets(edge)
            for requirement in (
                manifest.nested("dependency-groups").each(group) if with_root else ()
            ):
                yield from self._required(requirement)
        for requirement in manifest.each("requirements"):
            yield from self._required(requirement)

    def _required(self, requirement: LockTable) -> Iterator[Edge]:
        """Packages for a requirement without a version; forks of a package have markers."""
        for (place, extra), marker in self._targets(requirement):
            forks = self.packages[place].texts("resolution-markers")
            parts = [*([marker] if marker else ()), *([" or ".join(forks)] if forks else ())]
            yield (place, extra), " and ".join(f"({it})" for it in parts) or None

    def _edges(self, node: Node) -> Iterator[Edge]:
        place, extra = node
        package = self.packages[place]
        table, key = (
            (package.nested("optional-dependencies"), extra) if extra else (package, "dependencies")
        )
        for edge in table.each(key):
            yield from self._targets(edge)

    def _targets(self, edge: LockTable) -> Iterator[Edge]:
        """The packages to which an edge leads, each with every extra that it asks for."""
        if marker := edge.text("marker"):
            marker = _CHOSEN.sub(self._constant, marker)
        wanted = {key: edge[key] for key in ("version", "source") if key in edge}
        extras = ("", *edge.texts("extra"), *edge.texts("extras"))
        for place in self._named.get(edge.required_text("name"), ()):
            if all(self.packages[place].get(key) == it for key, it in wanted.items()):
                yield from (((place, extra), marker) for extra in extras)

    def _constant(self, condition: re.Match[str]) -> str:
        operator, chosen = condition.groups()
        return ALWAYS if (chosen in self._chosen) == (operator == "==") else NEVER

    def _name(self, place: int) -> str:
        return self.packages[place].required_text("name")


def _choice(kind: str, package: str, name: str) -> str:
    """How a marker names an installed extra or group, or a whole member (kind ``project``)."""
    return f"{kind}-{len(package)}-{package}" + (f"-{name}" if name else "")


def _entry(package: LockTable, conditions: Collection[Condition], dev: bool) -> LockEntry:
    source = package.nested("source")
    entry = LockEntry(
        package.required_text("name"),
        package.text("version") or "",
        marker=marker_of(conditions),
        dev=dev,
        dependencies=tuple(sorted({it.text("name") or "" for it in package.each("dependencies")})),
        origin=package.at,
    )
    for key, kind in _SOURCES.items():
        if key in source:
            local = kind in (SourceKind.EDITABLE, SourceKind.LOCAL_PATH)
            target = _target(key, source.required_text(key), source)
            return replace(entry, version="", source=kind, local=local, target=target)
    files = [*package.each("wheels"), *([package.nested("sdist")] if "sdist" in package else ())]
    hashes = tuple(sorted(filter(None, {it.text("hash") for it in files})))
    registry, locked = source.text("registry"), tuple(map(locked_file, files))
    return replace(entry, index=registry, hashes=hashes, files=locked)


def _target(key: str, value: str, source: LockTable) -> str:
    """The address of a source, as a requirement of PEP 508 names it."""
    if key != "git":
        return value
    parts = urlsplit(value)
    (folder,) = parse_qs(parts.query).get("subdirectory", [None])
    return git_target(parts._replace(query="", fragment="").geturl(), parts.fragment, folder)
