"""Small worlds of packages: written to a graph by its documented shape, or read from memory."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import neo4j

from graph.snapshot_reader import PackageRecord, RequestedPackage
from model.json_documents import digest
from model.packages.candidate_builder import RequirementRecord, VersionRecord
from model.packages.releases import Requirement, parse_requirement, release_identity


@dataclass(frozen=True, slots=True)
class Made:
    """A version as the graph is to show it; everything fits everywhere unless told otherwise."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    index: str = "pypi"
    state: str = "solved"
    problem: str | None = None
    requires_python: str | None = None
    yanked: bool = False
    yanked_reason: str | None = None
    uploaded_at: str | None = "2024-05-01T10:00:00.123456Z"
    wheels: tuple[str, ...] = ("py3-none-any",)
    has_sdist: bool | None = False
    files_complete: bool = True
    extras: tuple[str, ...] = ()
    vulnerabilities: tuple[tuple[str, str | None, float | None], ...] = ()

    @property
    def purl(self) -> str:
        return release_identity(self.name, self.version, self.index)[0]

    @property
    def requirements(self) -> list[Requirement]:
        return [parse_requirement(raw) for raw in self.requires]


World = Sequence[Made]


def world_of(packages: dict[str, dict[str, Sequence[str]]]) -> list[Made]:
    """A world written as name → version → requirements."""
    return [
        Made(name, version, tuple(requires))
        for name, versions in packages.items()
        for version, requires in versions.items()
    ]


def revisions_in(world: World) -> dict[str, str]:
    """A revision a package: a digest of its versions."""
    names = sorted({made.name for made in world})
    return {
        name: digest(sorted(repr(made) for made in world if made.name == name)) for name in names
    }


def reader_of(
    world: World, shuffle: random.Random | None = None
) -> Callable[[Sequence[RequestedPackage]], Iterable[PackageRecord]]:
    """Answers layers' questions from memory, with every requirement, asked for or not.

    :param shuffle: puts everything that has no order in another one each time
    """

    def mixed(items: Iterable[Any]) -> list[Any]:
        listed = list(items)
        if shuffle is not None:
            shuffle.shuffle(listed)
        return listed

    revisions = revisions_in(world)
    required = {it.name for made in world for it in made.requirements}

    def read(wanted: Sequence[RequestedPackage]) -> Iterable[PackageRecord]:
        return mixed(
            PackageRecord(
                name,
                revisions.get(name),
                mixed(_record(made, mixed) for made in world if made.name == name),
            )
            for name, _ in wanted
            if name in revisions or name in required
        )

    return read


def _record(made: Made, mixed: Callable[[Iterable[Any]], list[Any]]) -> VersionRecord:
    return VersionRecord(
        made.purl, made.version, made.index, made.state, made.problem, made.requires_python,
        made.yanked, made.yanked_reason, made.uploaded_at, made.wheels or None, made.has_sdist,
        made.files_complete, made.extras or None,
        mixed(
            RequirementRecord(
                requirement.name, requirement.specifier or None, requirement.marker,
                requirement.extras or None, requirement.url
            )
            for requirement in made.requirements
            if requirement.name
        ),
    )  # fmt: skip


_PACKAGES = "UNWIND $rows AS row CREATE (:Package {name: row[0], revision: row[1]})"
_VERSIONS = """
UNWIND $rows AS row MATCH (package:Package {name: row[1]})
CREATE (package)-[:HAS_VERSION]->(:PackageVersion {
  purl: row[0], name: row[1], version: row[2], index: row[3], state: row[4], problem: row[5],
  requires_python: row[6], yanked: row[7], yanked_reason: row[8], uploaded_at: datetime(row[9]),
  wheels: row[10], has_sdist: row[11], files_complete: row[12], extras: row[13]})
"""
_REQUIRES = """
UNWIND $rows AS row
MATCH (version:PackageVersion {purl: row[0]}) MATCH (required:Package {name: row[1]})
CREATE (version)-[:REQUIRES {specifier: row[2], marker: row[3], extra: row[4], extras: row[5],
  url: row[6]}]->(required)
"""
_VULNERABILITIES = """
UNWIND $rows AS row
MERGE (it:Vulnerability {vulnerability_id: row[1]}) SET it.severity = row[2], it.score = row[3]
"""
_AFFECTS = """
UNWIND $rows AS row MATCH (version:PackageVersion {purl: row[0]})
MATCH (it:Vulnerability {vulnerability_id: row[1]}) CREATE (it)-[:AFFECTS]->(version)
"""


def fill(driver: neo4j.Driver, database: str, world: World) -> None:
    """Write a world to an empty graph, as ``docs/graph-model.md`` says it looks."""
    required = {it.name for made in world for it in made.requirements if it.name}
    revisions = revisions_in(world)
    names = sorted(required | revisions.keys())
    edges = [
        [made.purl, it.name, it.specifier or None, it.marker, list(it.for_extras) or None,
         list(it.extras) or None, it.url]
        for made in world for it in made.requirements if it.name
    ]  # fmt: skip
    affects = [[made.purl, *known] for made in world for known in made.vulnerabilities]
    with driver.session(database=database) as session:
        for query, rows in (
            (_PACKAGES, [[name, revisions.get(name)] for name in names]),
            (_VERSIONS, [_version_row(made) for made in world]),
            (_REQUIRES, edges),
            (_VULNERABILITIES, affects),
            (_AFFECTS, affects),
        ):
            if rows:
                session.run(query, rows=rows).consume()


def _version_row(made: Made) -> list[Any]:
    moment = made.uploaded_at and datetime.fromisoformat(made.uploaded_at).isoformat()
    return [
        made.purl, made.name, made.version, made.index, made.state, made.problem,
        made.requires_python, made.yanked, made.yanked_reason, moment, list(made.wheels) or None,
        made.has_sdist, made.files_complete, list(made.extras) or None,
    ]  # fmt: skip
