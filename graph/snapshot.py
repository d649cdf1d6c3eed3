"""The frozen view of the graph that the adviser works on: everything about one request.

A snapshot holds all that an exact resolver needs and does no input or output itself. Its
revision is a digest of its content, so it changes exactly when an answer could. Whether the
graph would give another one today is a cheap question: :func:`is_current` compares the
revisions of the packages, which may change without a change of the content, never the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from common.environments import Environment
from common.errors import InvalidArgument, InvalidDocument, StoreUnavailable
from common.reasons import Reason
from common.redaction import without_secrets
from common.releases import Requirement, parse_requirement
from graph.candidates import Candidate, Dependency, Excluded, ExclusionReason, KnownVulnerability
from graph.closure import Closure, walk
from graph.compilation import Compiler, Refused
from graph.queries.closure import packages_of, revisions_of, vulnerabilities_of
from graph.snapshot_json import canonical_form, fields_of_form, revision_of

if TYPE_CHECKING:
    import neo4j

__all__ = [
    "Candidate",
    "Dependency",
    "Excluded",
    "ExclusionReason",
    "KnownVulnerability",
    "Snapshot",
    "is_current",
    "load_snapshot",
    "roots_of",
]

#: How often a snapshot is read anew because the graph changed under it.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The closure of a request in an environment.

    Every mapping is in name order and has every package of the closure but the missing ones.

    :param revision: digest of the environment, the roots and all that was found for them
    :param roots: the request: what of it holds in the environment, sorted, none twice
    :param packages: candidates, newest first; empty where every version is excluded
    :param excluded: versions that are no candidates, newest first, with the reason
    :param missing: packages that something asks for and of which no version is known, sorted
    :param extras: asked of each package by the roots or by a candidate, sorted
    :param layers: names in the order in which the closure met them, sorted within a layer
    :param revisions: of every package as the graph had it, the missing ones included; ``None``
        for one of which nothing is known. Not part of the content: see :func:`is_current`
    """

    revision: str
    environment: Environment
    roots: tuple[Dependency, ...]
    packages: Mapping[str, tuple[Candidate, ...]]
    excluded: Mapping[str, tuple[Excluded, ...]]
    missing: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    layers: tuple[tuple[str, ...], ...]
    revisions: Mapping[str, str | None]

    @property
    def candidate_count(self) -> int:
        """Candidates of all packages."""
        return sum(map(len, self.packages.values()))

    def to_json(self) -> bytes:
        """The canonical JSON form; equal snapshots have equal bytes."""
        return canonical_form(self)

    @classmethod
    def from_json(cls, data: bytes) -> Snapshot:
        """The snapshot that :meth:`to_json` wrote.

        :raises InvalidDocument: if it is of another schema, or its revision is not its content's
        """
        snapshot = cls(**fields_of_form(data))
        if snapshot.revision != revision_of(snapshot):
            raise InvalidDocument(
                Reason.CONFLICTING_FIELDS, "the content is not what was named", field="revision"
            )
        return snapshot

    def __reduce__(self) -> tuple[Callable[[bytes], Snapshot], tuple[bytes]]:
        """Pickled as its canonical form: read-only mappings have none of their own."""
        return Snapshot.from_json, (self.to_json(),)


def load_snapshot(
    driver: neo4j.Driver,
    roots: Iterable[Requirement | str],
    environment: Environment,
    *,
    database: str = "neo4j",
) -> Snapshot:
    """Read the closure of ``roots`` with one query a layer, and two for all of it.

    :param roots: the order does not matter; those whose marker does not hold are left out
    :raises InvalidArgument: if a root is no requirement, or names an address
    :raises StoreUnavailable: if the graph does not answer, or changes all the time
    """
    wanted = roots_of(roots, environment)
    read = partial(_read, roots=wanted, environment=environment)
    with _reading(driver, database) as session:
        for _ in range(_ATTEMPTS):
            snapshot = session.execute_read(read)
            # Only what was committed before this question: none of it is newer than it says.
            if session.execute_read(_unchanged, snapshot):
                return snapshot
    raise StoreUnavailable(
        "the graph", "it changes faster than it can be read", "try again in a while"
    )


def is_current(driver: neo4j.Driver, snapshot: Snapshot, *, database: str = "neo4j") -> bool:
    """Whether the graph would give an equal snapshot today; one query, some milliseconds.

    Versions are written together with a revision of their package that nobody has, so the
    answer is no from then on, before the package has its new one.
    """
    with _reading(driver, database) as session:
        return session.execute_read(_unchanged, snapshot)


@contextmanager
def _reading(driver: neo4j.Driver, database: str) -> Iterator[neo4j.Session]:
    # Whoever holds a snapshot needs no store, and no driver in memory.
    import neo4j

    from graph.engine import graph_errors

    with (
        graph_errors(),
        driver.session(database=database, default_access_mode=neo4j.READ_ACCESS) as session,
    ):
        yield session


def roots_of(
    requirements: Iterable[Requirement | str], environment: Environment
) -> tuple[Dependency, ...]:
    """What of a request holds in an environment, sorted, nothing twice.

    :raises InvalidArgument: if one is no requirement, or names an address
    """
    compiler = Compiler(environment)
    found = set()
    for given in requirements:
        it = parse_requirement(given) if isinstance(given, str) else given
        if it.name is None:
            problem = without_secrets(it.problem or "")
            raise InvalidArgument(f"{without_secrets(it.raw)!r} is not a requirement: {problem}")
        if it.url is not None:
            words = "names an address; packages are asked for by name"
            raise InvalidArgument(f"{without_secrets(it.raw)!r} {words}")
        if it.marker is None or _holds(compiler, it.marker):
            found.add(Dependency(it.name, it.specifier, it.extras))
    return tuple(sorted(found, key=lambda it: it.order))


def _holds(compiler: Compiler, marker: str) -> bool:
    try:
        return compiler.holds(marker)
    except Refused as error:
        raise InvalidArgument(str(error)) from error


def _read(
    tx: neo4j.ManagedTransaction, *, roots: Sequence[Dependency], environment: Environment
) -> Snapshot:
    closure = walk(partial(packages_of, tx), roots, environment)
    affected: dict[str, list[KnownVulnerability]] = {}
    for it in vulnerabilities_of(tx, sorted(closure.candidates)):
        known = KnownVulnerability(it.id, it.severity, it.score)
        affected.setdefault(it.purl, []).append(known)
    return frozen(closure, affected, roots, environment)


def frozen(
    closure: Closure,
    affected: Mapping[str, Sequence[KnownVulnerability]],
    roots: Sequence[Dependency],
    environment: Environment,
) -> Snapshot:
    """A snapshot of what a walk found.

    :param affected: vulnerabilities by the Package URL of the version
    """
    names = sorted(closure.candidates)
    revisions = dict(sorted(closure.revisions.items()))
    snapshot = Snapshot(
        revision="",
        environment=environment,
        roots=tuple(roots),
        packages=_by_name(names, lambda name: _told(closure.candidates[name], affected)),
        excluded=_by_name(names, lambda name: tuple(closure.excluded[name])),
        missing=tuple(name for name in revisions if name not in closure.candidates),
        extras=_by_name(names, lambda name: tuple(sorted(closure.extras[name]))),
        layers=tuple(closure.layers),
        revisions=MappingProxyType(revisions),
    )
    return replace(snapshot, revision=revision_of(snapshot))


def _unchanged(tx: neo4j.ManagedTransaction, snapshot: Snapshot) -> bool:
    return revisions_of(tx, list(snapshot.revisions)) == snapshot.revisions


def _by_name(names: Iterable[str], value: Callable[[str], Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: value(name) for name in names})


def _told(
    candidates: Sequence[Candidate], affected: Mapping[str, Sequence[KnownVulnerability]]
) -> tuple[Candidate, ...]:
    if not affected:
        return tuple(candidates)
    return tuple(
        replace(it, vulnerabilities=tuple(sorted(affected[it.purl], key=lambda known: known.id)))
        if it.purl in affected
        else it
        for it in candidates
    )
