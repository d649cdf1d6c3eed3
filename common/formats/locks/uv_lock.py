"""``uv.lock`` of uv.

Such a lock is a graph, whose edges have markers. A package is installed if a path leads to it from
the project, so its marker combines the markers of all paths.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

from common.formats.file_fields import refuse
from common.formats.locks.entries import (
    ALWAYS,
    MAKE_AGAIN,
    NEVER,
    LockContent,
    LockedFile,
    LockEntry,
    LockTable,
    readable,
)
from common.formats.requirements_files import SourceKind
from model.reasons import Reason
from model.redaction import without_secrets

#: Keys of a package, by field of :class:`LockEntry`.
KEYS = {"name": "name", "version": "version"}
_SOURCES = {
    "editable": SourceKind.EDITABLE, "virtual": SourceKind.LOCAL_PATH,
    "directory": SourceKind.LOCAL_PATH, "path": SourceKind.LOCAL_PATH,
    "git": SourceKind.REPOSITORY, "url": SourceKind.ADDRESS,
}  # fmt: skip
#: How uv writes in a marker that an extra or a group of the project is installed.
_CHOSEN = re.compile(r"extra (==|!=) '((?:extra|group)-\d+-[^']+)'")
#: Limits of edges that are followed, and of conditions of a package; real locks stay far below.
_MOST_STEPS, _MOST_CONDITIONS = 200_000, 64

#: Markers that must all hold.
_Condition = frozenset[str]


def read_uv_lock(
    lock: LockTable, extras: Collection[str] = (), groups: Collection[str] = ("dev",)
) -> LockContent:
    """Read what a lock installs for its project, or for all members of a workspace without one.

    :param extras: chosen extras of the project
    :param groups: chosen dependency groups; entries that only these need are ``dev``
    :raises InvalidFile: if anything except a package has the wrong type
    """
    graph = _Graph(lock, extras, groups)
    needed, wanted = graph.conditions(()), graph.conditions(groups)
    # As in other locks, entries for development come last. A package may have both.
    installed = [(place, it, False) for place, it in sorted(needed.items())]
    installed += [(at, it, True) for at, it in sorted(wanted.items()) if needed.get(at) != it]
    entries = readable(_entry, ((graph.packages[place], *rest) for place, *rest in installed))
    python = lock.text("requires-python")
    return LockContent(tuple(entries), requires_python=python)


class _Graph:
    def __init__(self, lock: LockTable, extras: Collection[str], groups: Collection[str]) -> None:
        self.packages = list(lock.each("package"))
        self._named: dict[str, list[int]] = defaultdict(list)
        own: list[int] = []
        here: list[int] = []
        for place, package in enumerate(self.packages):
            self._named[package.required_text("name")].append(place)
            source = package.nested("source")
            if "editable" in source or "virtual" in source:
                (here if "." in source.values() else own).append(place)
        self._roots = here or own
        names = [self.packages[it].required_text("name") for it in self._roots]
        self._extras, chosen = extras, [("extra", extras), ("group", groups)]
        self._chosen = {
            f"{kind}-{len(name)}-{name}-{it}"
            for name in names for kind, listed in chosen for it in listed
        }  # fmt: skip

    def conditions(self, groups: Collection[str]) -> dict[int, frozenset[_Condition]]:
        """By position of each installed package, the conditions of which one must hold."""
        always = _Condition()
        known: dict[tuple[int, str], list[_Condition]] = defaultdict(list)
        pending = [(root, extra, always) for root in self._roots for extra in ("", *self._extras)]
        for root in self._roots:
            for group in groups:
                edges = self.packages[root].nested("dev-dependencies").each(group)
                pending += [it for edge in edges for it in self._targets(edge, always)]
        steps = 0
        while pending:
            place, extra, condition = pending.pop()
            package, listed = self.packages[place], known[place, extra]
            steps += 1
            if any(it <= condition for it in listed):
                continue
            if steps > _MOST_STEPS or len(listed) == _MOST_CONDITIONS:
                message = "is required in too many ways"
                refuse(Reason.OUT_OF_RANGE, message, package.at, MAKE_AGAIN)
            known[place, extra] = [it for it in listed if not condition <= it] + [condition]
            table, key = (package.nested("optional-dependencies"), extra) if extra else (
                package, "dependencies"
            )  # fmt: skip
            pending += [it for edge in table.each(key) for it in self._targets(edge, condition)]
        installed: dict[int, frozenset[_Condition]] = defaultdict(frozenset)
        for (place, _), listed in known.items():
            if place not in self._roots:
                installed[place] |= {*listed}
        return installed

    def _targets(
        self, edge: LockTable, condition: _Condition
    ) -> Iterator[tuple[int, str, _Condition]]:
        """The packages to which an edge leads, each with every extra that it asks for."""
        if marker := edge.text("marker"):
            marker = _CHOSEN.sub(self._constant, marker)
            if marker == NEVER:
                return
            condition |= {marker} - {ALWAYS}
        wanted = {key: edge[key] for key in ("version", "source") if key in edge}
        for place in self._named.get(edge.required_text("name"), ()):
            if all(self.packages[place].get(key) == it for key, it in wanted.items()):
                yield from ((place, extra, condition) for extra in ("", *edge.texts("extra")))

    def _constant(self, condition: re.Match[str]) -> str:
        operator, chosen = condition.groups()
        return ALWAYS if (chosen in self._chosen) == (operator == "==") else NEVER


def _entry(package: LockTable, conditions: Collection[_Condition], dev: bool) -> LockEntry:
    source = package.nested("source")
    joined = sorted(" and ".join(f"({it})" for it in sorted(each)) for each in conditions)
    entry = LockEntry(
        package.required_text("name"),
        package.text("version") or "",
        marker=None if "" in joined else " or ".join(dict.fromkeys(joined)),
        dev=dev,
        dependencies=tuple(sorted({it.text("name") or "" for it in package.each("dependencies")})),
        origin=package.at,
    )
    for key, kind in _SOURCES.items():
        if key in source:
            local = kind in (SourceKind.EDITABLE, SourceKind.LOCAL_PATH)
            return replace(entry, version="", source=kind, local=local)
    files = [*package.each("wheels"), *([package.nested("sdist")] if "sdist" in package else ())]
    hashes = tuple(sorted(filter(None, {it.text("hash") for it in files})))
    registry, locked = source.text("registry"), tuple(map(_locked_file, files))
    return replace(entry, index=registry, hashes=hashes, files=locked)


def _locked_file(file: LockTable) -> LockedFile:
    url = file.text("url")
    name = (url or file.text("path") or "").rpartition("/")[2]
    algorithm, _, digits = (file.text("hash") or "").partition(":")
    sha256 = digits if algorithm == "sha256" else None
    return LockedFile(name, url and without_secrets(url), file.integer("size", high=2**53), sha256)
