"""Reads snapshots from the graph, and checks whether an earlier snapshot is still current.

The closure of a request is read layer by layer, with one Cypher query for each layer. A layer
contains the unread packages that candidates of the previous layer require. If a later layer
requests a further extra of a package, that package is read again. Comparisons of locks need the
named packages alone, so :func:`load_packages` follows no requirement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from graph.engine import READ_ACCESS, graph_errors
from model.errors import StoreUnavailable
from model.packages.candidate_builder import CandidateBuilder, VersionRecord, roots_of
from model.packages.candidates import Candidate, Dependency, Excluded, KnownVulnerability
from model.packages.environments import Environment
from model.packages.project_pages import ProjectState, ProjectStatus
from model.packages.releases import Requirement
from model.packages.snapshot import Snapshot, with_revision

if TYPE_CHECKING:
    import neo4j

#: How often a snapshot is read again if the graph changes in the meantime.
_ATTEMPTS = 10
#: Packages of one query of :func:`load_packages`.
_BATCH = 50

#: A package and the extras that are requested of it.
RequestedPackage = tuple[str, Sequence[str]]

#: Reads a layer: one row for each package with its versions and their requirements.
#:
#: Requirements of an extra are returned only if the extra is requested, or if their marker contains
#: ``or`` or compares the extra with ``!=``, because such a marker may be true without any extra.
#: The two lists are built inside the row: ``OPTIONAL MATCH`` takes twice the time, and without
#: versions ArcadeDB would return every edge of the graph. Times are returned as text, which takes a
#: tenth of the time of a temporal value.
PACKAGES = """
UNWIND $packages AS wanted
MATCH (package:Package {name: wanted[0]})
RETURN package.name AS name, package.revision AS revision,
  [(package)-[:HAS_VERSION]->(version:PackageVersion) | [
    version.purl, version.version, version.index, version.state, version.problem,
    version.requires_python, version.yanked, version.yanked_reason,
    toString(version.uploaded_at), version.wheels, version.has_sdist, version.files_complete,
    version.extras,
    [(version)-[edge:REQUIRES]->(required:Package)
      WHERE edge.extra IS NULL
        OR any(extra IN edge.extra WHERE extra IN wanted[1])
        OR edge.marker CONTAINS ' or '
        OR edge.marker CONTAINS 'extra !='
        OR edge.marker CONTAINS '!= extra'
      | [required.name, edge.specifier, edge.marker, edge.extras, edge.url,
        edge.problem]],
    version.metadata_source
  ]] AS versions,
  [(package)-[known:HAS_STATUS]->(index:PackageIndex)
    WHERE known.status IN ['archived', 'deprecated']
    | [index.name, known.status, known.reason]] AS statuses
ORDER BY name
"""

VULNERABILITIES = """
UNWIND $names AS name
MATCH (:Package {name: name})-[:HAS_VERSION]->(version:PackageVersion)
      <-[:AFFECTS]-(vulnerability:Vulnerability)
RETURN version.purl AS purl, vulnerability.vulnerability_id AS id,
  vulnerability.severity AS severity, vulnerability.score AS score
ORDER BY purl, id
"""

REVISIONS = """
UNWIND $names AS name
MATCH (package:Package {name: name})
RETURN package.name AS name, package.revision AS revision
ORDER BY name
"""


class PackageRecord(NamedTuple):
    """A node ``Package`` with all its versions, unordered; see :class:`VersionRecord`.

    :param statuses: index, state and reason of an archived or deprecated project
    """

    name: str
    revision: str | None
    versions: Sequence[Sequence[Any]]
    statuses: Sequence[Sequence[Any]] = ()


#: Reads a layer, in any order.
LayerReader = Callable[[Sequence[RequestedPackage]], Iterable[PackageRecord]]
#: Called between the steps of a long reading; raises an error to end it.
CheckTime = Callable[[], None]


@dataclass(slots=True)
class Closure:
    """All packages that a request may need.

    :param candidates: candidates of every package that has versions, newest first
    :param excluded: the other versions of these packages, newest first
    :param revisions: revision of every package; ``None`` for a package without versions
    :param extras: extras of each package that the request or a candidate requests
    :param layers: names of the packages that each layer added
    :param statuses: by index, of each package that is archived or deprecated
    """

    candidates: dict[str, Sequence[Candidate]] = field(default_factory=dict)
    excluded: dict[str, Sequence[Excluded]] = field(default_factory=dict)
    revisions: dict[str, str | None] = field(default_factory=dict)
    extras: dict[str, set[str]] = field(default_factory=dict)
    layers: list[tuple[str, ...]] = field(default_factory=list)
    statuses: dict[str, Mapping[str, ProjectStatus]] = field(default_factory=dict)

    def request(self, dependencies: Iterable[Dependency]) -> set[str]:
        """Add the requested packages and extras; return the packages to read or to read again."""
        unread = set()
        for dependency in dependencies:
            if dependency.url is not None:
                continue
            requested = self.extras.get(dependency.name)
            if requested is None:
                self.extras[dependency.name] = set(dependency.extras)
            elif requested.issuperset(dependency.extras):
                continue
            else:
                requested.update(dependency.extras)
            unread.add(dependency.name)
        return unread


def load_snapshot(
    driver: neo4j.Driver,
    roots: Iterable[Requirement | str],
    environment: Environment,
    *,
    database: str = "neo4j",
) -> Snapshot:
    """Read the closure of ``roots``, with one query for each layer and two more queries.

    :param roots: in any order; requirements whose marker is false are ignored
    :raises InvalidArgument: if a root is not a valid requirement, or is a direct reference
    :raises StoreUnavailable: if the graph does not answer, or keeps changing
    """
    read = partial(_read, roots=roots_of(roots, environment), environment=environment)
    return _consistent(driver, database, read)


def load_packages(
    driver: neo4j.Driver,
    names: Iterable[str],
    environment: Environment,
    *,
    database: str = "neo4j",
    check_time: CheckTime = lambda: None,
) -> Snapshot:
    """Read packages in all their versions, without the packages that these require.

    :param check_time: called before each query about some of the packages
    :returns: a snapshot without revision
    :raises StoreUnavailable: if the graph does not answer, or keeps changing
    """
    read = partial(
        _read_packages,
        roots=roots_of(names, environment), environment=environment, check_time=check_time,
    )  # fmt: skip
    return _consistent(driver, database, read)


def _consistent(
    driver: neo4j.Driver, database: str, read: Callable[[neo4j.ManagedTransaction], Snapshot]
) -> Snapshot:
    """Read a snapshot that mixes no two states of the graph."""
    with _read_session(driver, database) as session:
        for _ in range(_ATTEMPTS):
            snapshot = session.execute_read(read)
            # Equal revisions before and after prove that the snapshot mixes no two states.
            if session.execute_read(_unchanged, snapshot):
                return snapshot
    raise StoreUnavailable("the graph", "it changes faster than it can be read", "try again later")


def is_current(driver: neo4j.Driver, snapshot: Snapshot, *, database: str = "neo4j") -> bool:
    """Whether reading ``snapshot`` again would change it; one query of a few milliseconds.

    The projection gives a package a random revision while it writes its versions. The answer is
    therefore ``False`` from the first write on, not only after the last write.
    """
    with _read_session(driver, database) as session:
        return session.execute_read(_unchanged, snapshot)


def walk(
    read: LayerReader, roots: Iterable[Dependency], environment: Environment, *, follow: bool = True
) -> Closure:
    """Follow ``roots`` until no layer adds a package; the order of the rows does not matter.

    :param follow: whether to read required packages, too
    """
    closure, builder = Closure(), CandidateBuilder(environment)
    unread = closure.request(roots)
    while unread:
        names = sorted(unread)
        if first := tuple(name for name in names if name not in closure.revisions):
            closure.layers.append(first)
            closure.revisions.update(dict.fromkeys(first))
        dependencies: set[Dependency] = set()
        # The layer is read completely before further packages are requested, so that the order of
        # its rows does not matter.
        for package in read([(name, sorted(closure.extras[name])) for name in names]):
            dependencies |= _add_package(closure, builder, package)
        unread = closure.request(dependencies) if follow else set()
    return closure


def _add_package(
    closure: Closure, builder: CandidateBuilder, package: PackageRecord
) -> set[Dependency]:
    """Add a package or replace it; return the requirements of its candidates."""
    name = package.name
    closure.revisions[name] = package.revision
    if not package.versions:
        return set()
    records = (VersionRecord._make(version) for version in package.versions)
    statuses = {it[0]: ProjectStatus(ProjectState(it[1]), it[2]) for it in package.statuses}
    if statuses:
        closure.statuses[name] = statuses
    candidates, excluded = builder.build(name, records, sorted(closure.extras[name]))
    closure.candidates[name], closure.excluded[name] = candidates, excluded
    return {dependency for candidate in candidates for dependency in candidate.requires}


def freeze(
    closure: Closure,
    vulnerabilities: Mapping[str, Sequence[KnownVulnerability]],
    roots: Sequence[Dependency],
    environment: Environment,
) -> Snapshot:
    """Make a snapshot of a closure.

    :param vulnerabilities: by package URL of the affected version
    """
    closure = with_affected(closure, vulnerabilities)
    return with_revision(unnamed_snapshot(closure, roots, environment))


def with_affected(
    closure: Closure, vulnerabilities: Mapping[str, Sequence[KnownVulnerability]]
) -> Closure:
    """The closure with the known vulnerabilities of its versions.

    :param vulnerabilities: by package URL of the affected version
    """
    affected: dict[str, Sequence[Candidate]] = {
        name: with_vulnerabilities(candidates, vulnerabilities)
        for name, candidates in closure.candidates.items()
    }
    excluded: dict[str, Sequence[Excluded]] = {
        name: [with_known(it, vulnerabilities) for it in versions]
        for name, versions in closure.excluded.items()
    }
    return replace(closure, candidates=affected, excluded=excluded)


def with_vulnerabilities(
    candidates: Iterable[Candidate], vulnerabilities: Mapping[str, Sequence[KnownVulnerability]]
) -> tuple[Candidate, ...]:
    """The candidates with their known vulnerabilities.

    :param vulnerabilities: by package URL of the affected version
    """

    def affected(candidate: Candidate) -> Candidate:
        known = vulnerabilities.get(candidate.purl)
        if known is None:
            return candidate
        return replace(candidate, vulnerabilities=tuple(sorted(known, key=lambda it: it.id)))

    return tuple(map(affected, candidates))


def with_known(
    excluded: Excluded, vulnerabilities: Mapping[str, Sequence[KnownVulnerability]]
) -> Excluded:
    """The excluded version; if it is a last resort, with its known vulnerabilities."""
    if excluded.last_resort is None:
        return excluded
    (candidate,) = with_vulnerabilities((excluded.last_resort,), vulnerabilities)
    if candidate is excluded.last_resort:
        return excluded
    return replace(excluded, last_resort=candidate)


def unnamed_snapshot(
    closure: Closure, roots: Sequence[Dependency], environment: Environment
) -> Snapshot:
    """Like :func:`freeze`, but omits vulnerabilities and the revision, which takes longest."""
    names = sorted(closure.candidates)
    revisions = dict(sorted(closure.revisions.items()))

    def by_name(value: Callable[[str], Any]) -> Mapping[str, Any]:
        return MappingProxyType({name: value(name) for name in names})

    return Snapshot(
        revision="",
        environment=environment,
        roots=tuple(roots),
        packages=by_name(lambda name: _as_tuple(closure.candidates[name])),
        excluded=by_name(lambda name: tuple(closure.excluded[name])),
        missing=tuple(name for name in revisions if name not in closure.candidates),
        extras=by_name(lambda name: tuple(sorted(closure.extras[name]))),
        layers=tuple(closure.layers),
        revisions=MappingProxyType(revisions),
        statuses={name: closure.statuses[name] for name in names if name in closure.statuses},
    )


def _as_tuple(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates as a tuple; unchanged if they are a tuple of any class."""
    return candidates if isinstance(candidates, tuple) else tuple(candidates)


@contextmanager
def _read_session(driver: neo4j.Driver, database: str) -> Iterator[neo4j.Session]:
    with (
        graph_errors(),
        driver.session(database=database, default_access_mode=READ_ACCESS) as session,
    ):
        yield session


def _read(
    tx: neo4j.ManagedTransaction, *, roots: Sequence[Dependency], environment: Environment
) -> Snapshot:
    closure = walk(partial(_packages, tx), roots, environment)
    return freeze(closure, _vulnerabilities(tx, closure.candidates), roots, environment)


def _read_packages(
    tx: neo4j.ManagedTransaction,
    *,
    roots: Sequence[Dependency],
    environment: Environment,
    check_time: CheckTime,
) -> Snapshot:
    def read(packages: Sequence[RequestedPackage]) -> Iterator[PackageRecord]:
        for start in range(0, len(packages), _BATCH):
            check_time()
            yield from _packages(tx, packages[start : start + _BATCH])

    closure = walk(read, roots, environment, follow=False)
    vulnerabilities: dict[str, list[KnownVulnerability]] = {}
    names = list(closure.candidates)
    for start in range(0, len(names), _BATCH):
        check_time()
        vulnerabilities |= _vulnerabilities(tx, names[start : start + _BATCH])
    return unnamed_snapshot(with_affected(closure, vulnerabilities), roots, environment)


def _vulnerabilities(
    tx: neo4j.ManagedTransaction, names: Iterable[str]
) -> dict[str, list[KnownVulnerability]]:
    """Vulnerabilities of all versions of packages, by package URL of the version."""
    vulnerabilities: dict[str, list[KnownVulnerability]] = {}
    for row in tx.run(VULNERABILITIES, names=sorted(names)):
        known = KnownVulnerability(row["id"], row["severity"], row["score"])
        vulnerabilities.setdefault(row["purl"], []).append(known)
    return vulnerabilities


def _packages(
    tx: neo4j.ManagedTransaction, packages: Sequence[RequestedPackage]
) -> list[PackageRecord]:
    rows = [[name, list(extras)] for name, extras in packages]
    return [PackageRecord(*record.values()) for record in tx.run(PACKAGES, packages=rows)]


def _unchanged(tx: neo4j.ManagedTransaction, snapshot: Snapshot) -> bool:
    names = list(snapshot.revisions)
    known = {row["name"]: row["revision"] for row in tx.run(REVISIONS, names=names)}
    return {name: known.get(name) for name in names} == snapshot.revisions
