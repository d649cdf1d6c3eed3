"""A closure as one would first write it: one question a package, everything worked out each time.

It shares no code with the snapshot, so that the two cannot be wrong in the same way.
"""

from collections.abc import Callable
from typing import Any

import neo4j
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import parse_tag

from model.packages.environments import Environment

#: By package and Package URL: (name, specifier, extras, extra that brings it).
Naive = dict[str, dict[str, set[tuple[str, str, tuple[str, ...], str | None]]]]

_VERSIONS = "MATCH (:Package {name: $name})-[:HAS_VERSION]->(v) RETURN v.purl, properties(v)"
_EDGES = """
MATCH (:Package {name: $name})-[:HAS_VERSION]->(v)-[e:REQUIRES]->(p)
RETURN v.purl, p.name, e.specifier, e.marker, e.extras
"""


def naive_closure(
    session: neo4j.Session, roots: list[str], there: Environment
) -> tuple[Naive, set[str]]:
    """Candidates by package with what they require, and the names of which nothing is known."""
    extras_of: dict[str, set[str]] = {}
    for root in map(Requirement, roots):
        if root.marker is None or root.marker.evaluate(dict(there.markers)):
            extras_of.setdefault(root.name, set()).update(root.extras)
    read = _reader(session)
    while True:
        closure: Naive = {}
        for name in list(extras_of):
            versions, edges = read(name)
            if versions:
                closure[name] = {
                    purl: _required(edges.get(purl, []), extras_of[name], there)
                    for purl, properties in versions.items()
                    if _installable(properties, there)
                }
        before = {name: set(extras) for name, extras in extras_of.items()}
        for required in (it for package in closure.values() for it in package.values()):
            for name, _, extras, _ in required:
                extras_of.setdefault(name, set()).update(extras)
        if extras_of == before:
            return closure, extras_of.keys() - closure.keys()


def _reader(session: neo4j.Session) -> Callable[[str], tuple[dict[str, Any], dict[str, Any]]]:
    kept: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def read(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if name not in kept:
            versions = {row[0]: row[1] for row in session.run(_VERSIONS, name=name)}
            edges: dict[str, Any] = {}
            for purl, *edge in session.run(_EDGES, name=name):
                edges.setdefault(purl, []).append(edge)
            kept[name] = versions, edges
        return kept[name]

    return read


def _installable(version: dict[str, Any], there: Environment) -> bool:
    python = SpecifierSet(version.get("requires_python") or "")
    tags = {tag for tag_set in version.get("wheels") or () for tag in parse_tag(tag_set)}
    return (
        version["state"] == "solved"
        and python.contains(there.python_full_version, prereleases=True)
        and (not version.get("files_complete") or bool(tags & set(there.tags)))
    )


def _required(
    edges: list[Any], extras_asked: set[str], there: Environment
) -> set[tuple[str, str, tuple[str, ...], str | None]]:
    always, sometimes = set(), set()
    for name, specifier, text, extras in edges:
        what = (name, specifier or "", tuple(sorted(extras or ())))
        marker = Marker(text) if text else None
        if marker is None or marker.evaluate({**there.markers, "extra": ""}):
            always.add(what)
            continue
        sometimes |= {
            (what, extra)
            for extra in extras_asked
            if marker.evaluate({**there.markers, "extra": extra})
        }
    return {(*what, None) for what in always} | {
        (*what, extra) for what, extra in sometimes if what not in always
    }
