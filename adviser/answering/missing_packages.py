"""Find packages that a request needs and the snapshot lacks, to read them from indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.specifiers import admits
from adviser.stack_request import StackRequest
from graph.engine import Stores
from graph.record.indexes import (
    IndexAnswer,
    answers_of,
    are_partly_read,
    without_releases,
)
from model.packages.candidates import Dependency, ExclusionReason
from model.packages.identity import version_of
from model.packages.snapshot import Snapshot

#: Last answer of an index, by index and project name.
IndexAnswers = Mapping[tuple[str, str], IndexAnswer]


@dataclass(frozen=True, slots=True)
class MissingPackage:
    """A package that an index may have and the snapshot lacks.

    :param indexes: indexes to ask in order; the first that has any version of it wins
    """

    name: str
    indexes: tuple[str, ...]

    def may_be_asked(self, index: str, answers: IndexAnswers, configured: Collection[str]) -> bool:
        """Whether every index before this one answered that it does not have the package.

        An index that failed to answer may have the package, so no later index may provide it.
        """
        if index not in self.indexes:
            return False
        earlier = self.indexes[: self.indexes.index(index)]
        answered = (answers.get((it, self.name)) for it in earlier if it in configured)
        return all(it is not None and it.state == "missing" for it in answered)


def missing_packages_of(
    snapshot: Snapshot, request: ResolverRequest, answers: IndexAnswers
) -> tuple[MissingPackage, ...]:
    """The packages that an index should be asked for, in name order.

    - packages without any version on an index of the request;
    - packages without a fetched version whose requirements can be known, unless their index
      was asked already;
    - packages of which no fetched version meets a requirement or bound of the request itself;
    - packages that an earlier index may have, if that index was not asked yet.
    """
    lacks = (_lack(snapshot, request, name, answers) for name in sorted(snapshot.revisions))
    return tuple(it for it in lacks if it is not None)


def _lack(
    snapshot: Snapshot, request: ResolverRequest, name: str, answers: IndexAnswers
) -> MissingPackage | None:
    sources = request.indexes_of(name)
    versions = _versions(snapshot, name)
    place = next((at for at, index in enumerate(sources) if index in versions), None)
    if place is None:
        return MissingPackage(name, sources)
    index, known = sources[place], versions[sources[place]]
    states = {it: answers[it, name].state for it in sources if (it, name) in answers}
    reasons = set(known.values())
    if reasons <= _UNKNOWN and (_UNREAD in reasons or states.get(index) != "known"):
        return MissingPackage(name, sources[: place + 1])
    read = [
        it for it, reason in known.items() if reason not in (_UNREAD, ExclusionReason.UNAVAILABLE)
    ]
    if not _meets_request(snapshot, request, name, read):
        return MissingPackage(name, sources[: place + 1])
    if any(states.get(it) in (None, "failed") for it in sources[:place]):
        return MissingPackage(name, sources[:place])
    return None


def lacks_releases(stores: Stores, request: StackRequest, snapshot: Snapshot) -> bool:
    """Whether a configured index may have releases that a snapshot of the graph lacks.

    True if :func:`missing_packages_of` names a package that an index may be asked for. Also true if
    the store has only the releases of a package that an earlier advice read. Never with
    ``FETCH_MISSING=0``.
    """
    configured = _configured(stores, request)
    if not configured:
        return False
    names = list(snapshot.revisions)
    with stores.engine.connect() as connection:
        if are_partly_read(connection, names):
            return True
        answers = answers_of(connection, names)
    lacks = missing_packages_of(snapshot, request.resolver_request({}), answers)
    return any(
        lack.may_be_asked(index, answers, configured) for lack in lacks for index in configured
    )


def lacks_releases_of_roots(stores: Stores, request: StackRequest) -> bool:
    """Like :func:`lacks_releases`, for the packages that the request names; needs no snapshot."""
    configured = frozenset(_configured(stores, request))
    if not configured:
        return False
    rules = request.resolver_request({})
    names = {it.name for it in request.roots if it.url is None}
    of_indexes = {name for name in names if rules.only_index_of(name) in {None, *configured}}
    with stores.engine.connect() as connection:
        return are_partly_read(connection, names) or bool(without_releases(connection, of_indexes))


def _configured(stores: Stores, request: StackRequest) -> list[str]:
    """The indexes of a request that may be asked for missing releases."""
    if not stores.settings.fetch_missing:
        return []
    return list(dict.fromkeys(it.name for it in request.options.indexes if it.known))


_UNREAD = ExclusionReason.UNREAD
_UNKNOWN = frozenset({_UNREAD, ExclusionReason.UNSOLVABLE, ExclusionReason.NO_FILES})


def _versions(snapshot: Snapshot, name: str) -> dict[str, dict[str, ExclusionReason | None]]:
    """Versions by index, with the reason if they are not candidates."""
    versions: dict[str, dict[str, ExclusionReason | None]] = {}
    for it in snapshot.packages.get(name, ()):
        versions.setdefault(it.index, {})[it.version] = None
    for out in snapshot.excluded.get(name, ()):
        versions.setdefault(out.index, {})[out.version] = out.reason
    return versions


def _meets_request(
    snapshot: Snapshot, request: ResolverRequest, name: str, versions: Iterable[str]
) -> bool:
    """Whether each requirement of the request on a package admits one of these versions."""
    valid = [it for it in versions if version_of(it) is not None]
    return all(
        any(admits(specifier, version) for version in valid)
        for specifier in _own_specifiers(snapshot, request, name)
    )


def _own_specifiers(snapshot: Snapshot, request: ResolverRequest, name: str) -> Iterator[str]:
    """Specifiers from the request's own requirements, bounds and override for a package."""
    override = request.overrides.get(name)
    if override is not None:
        yield override
        return
    own: tuple[Dependency, ...] = (*snapshot.roots, *request.constraints)
    yield from (it.specifier for it in own if it.name == name)
