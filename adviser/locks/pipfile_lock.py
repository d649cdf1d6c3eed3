"""``Pipfile.lock`` by pipenv's sixth specification."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adviser.locks.files import hashes_of
from adviser.locks.stacks import Chosen, LockOptions, NoLock
from adviser.projects.indexes import public_text
from adviser.projects.pipfile import pipfile_hash, pipfile_of
from adviser.projects.project import AskedRequirement, Project
from common.packages import DEFAULT_INDEX

_SPECIFICATION = 6


def pipfile_lock_document(
    stack: Sequence[Chosen], project: Project, options: LockOptions
) -> dict[str, Any]:
    """The content of a ``Pipfile.lock``.

    ``develop`` holds what only development needs, ``default`` all else; a group of the Pipfile
    has a section of its own for what nothing else needs. Which is which follows the
    dependencies of the stack from the names that each section asks for.

    :raises NoLock: if a package has no file that can be locked, or comes from an index that
        has no address
    """
    manifest = pipfile_of(project, options.indexes)
    sources = [dict(it) for it in manifest["source"]]
    index_of = _Sources(sources, options)
    entries = {it.name: _entry(it, index_of.name_of(it), options) for it in stack}
    placed = _placed(stack, project)
    sections = {
        section: {name: entries[name] for name in names} for section, names in placed.items()
    }
    return {
        "_meta": {
            "hash": {"sha256": next(iter(project.manifest_hashes), None) or pipfile_hash(manifest)},
            "pipfile-spec": _SPECIFICATION,
            "requires": manifest.get("requires", {}),
            "sources": sources,
        },
        **sections,
    }


def pipfile_lock_text(document: Mapping[str, Any]) -> str:
    """As pipenv writes it: four spaces, keys sorted."""
    return json.dumps(document, indent=4, separators=(",", ": "), sort_keys=True) + "\n"


class _Sources:
    """Names of a lock's sources for names of indexes."""

    def __init__(self, sources: list[dict[str, Any]], options: LockOptions) -> None:
        self._sources, self._options = sources, options
        self._found: dict[str, str | None] = {}

    def name_of(self, chosen: Chosen) -> str | None:
        """That of the package's index; one that is missing is added."""
        if chosen.index not in self._found:
            self._found[chosen.index] = self._search(chosen.index)
        return self._found[chosen.index]

    def _search(self, index: str) -> str | None:
        address = self._options.indexes.get(index, "").rstrip("/")
        for source in self._sources:
            if address and str(source.get("url", "")).rstrip("/") == address:
                return source.get("name")
        for source in self._sources:
            if source.get("name") == index:
                return index
        if index == DEFAULT_INDEX:
            return self._sources[0].get("name") if self._sources else None
        if not address:
            raise NoLock(
                f"the index {index} has no address here",
                "`PACKAGE_INDEXES` or uv's configuration gives it one",
            )
        self._sources.append(
            {
                "name": index,
                "url": public_text(address),
                "verify_ssl": address.startswith("https"),
            }
        )
        return index


def _entry(chosen: Chosen, source: str | None, options: LockOptions) -> dict[str, Any]:
    entry = {
        "hashes": hashes_of(chosen, options),
        "version": f"=={chosen.version}",
        "index": source,
        "extras": sorted(chosen.extras) or None,
        "markers": chosen.marker,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _placed(stack: Sequence[Chosen], project: Project) -> dict[str, list[str]]:
    """Names by section; each name in the first section that needs it.

    What nothing leads to is installed always: a stack is never more than what was asked for.
    """
    needs = {it.name: it.dependencies for it in stack}
    sections: dict[str, list[str]] = {"default": [], "develop": []}
    asked: dict[str, Iterable[AskedRequirement]] = {
        "default": project.requirements,
        "develop": project.dev,
    }
    if project.manifest is not None:
        asked |= project.groups
    left = set(needs)
    for section, requirements in asked.items():
        reached = _reached([it.name for it in requirements], needs) & left
        left -= reached
        if reached or section in sections:
            sections[section] = sorted(reached)
    sections["default"] = sorted({*sections["default"], *left})
    return sections


def _reached(roots: Iterable[str], needs: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    pending = [it for it in roots if it in needs]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [it for it in needs[name] if it in needs]
    return found
