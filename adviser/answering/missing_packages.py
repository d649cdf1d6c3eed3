"""Find the packages that a request needs and the snapshot lacks, and fetch them from indexes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adviser.answering.answers import text_of
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.specifiers import admits
from adviser.stack_request import StackRequest
from common.errors import ProjectionFailed
from common.packages import version_of
from common.terminal import first_few
from graph.candidates import Dependency, ExclusionReason
from graph.engine import GRAPH, Stores
from graph.projection import lag, sync
from graph.record.indexes import IndexAnswer, answers_of, are_partly_read
from graph.snapshot import Snapshot
from graph.snapshot_reader import load_snapshot
from graph.watchdog import watchdog

#: Last answer of an index, by index and project name.
IndexAnswers = Mapping[tuple[str, str], IndexAnswer]


@dataclass(frozen=True, slots=True)
class MissingPackage:
    """A package that an index may have and the snapshot lacks.

    :param texts: the requirements on it as text, sorted
    :param indexes: indexes to ask in order; the first that has any version of it wins
    """

    name: str
    texts: tuple[str, ...]
    indexes: tuple[str, ...]

    def may_be_asked(self, index: str, answers: IndexAnswers, configured: Collection[str]) -> bool:
        """Whether every index before this one answered that it does not have the package.

        An index that failed to answer may have the package, so no later index may provide it.
        """
        if index not in self.indexes:
            return False
        before = self.indexes[: self.indexes.index(index)]
        said = (answers.get((it, self.name)) for it in before if it in configured)
        return all(it is not None and it.state == "missing" for it in said)


def lacks_of(
    snapshot: Snapshot, request: ResolverRequest, answers: IndexAnswers
) -> tuple[MissingPackage, ...]:
    """The packages that an index should be asked for, in name order.

    - packages without any version on an index of the request;
    - packages without a fetched version whose requirements can be known, unless their index
      was asked already;
    - requirements and bounds of the request itself that no fetched version meets;
    - packages that an earlier index, not asked yet, may have.
    """
    found = [_lack(snapshot, request, name, answers) for name in sorted(snapshot.revisions)]
    wanted = {it.name for it in found if it is not None}
    texts = _texts(snapshot, request, wanted) if wanted else {}
    return tuple(
        MissingPackage(it.name, it.texts or texts.get(it.name, (it.name,)), it.indexes)
        for it in found
        if it is not None
    )


def _lack(
    snapshot: Snapshot, request: ResolverRequest, name: str, answers: IndexAnswers
) -> MissingPackage | None:
    """The missing package with its unmet requirements; without any if all requirements count."""
    sources = (request.index_of[name],) if name in request.index_of else request.indexes
    versions = _versions(snapshot, name)
    place = next((at for at, index in enumerate(sources) if index in versions), None)
    if place is None:
        return MissingPackage(name, (), sources)
    index, known = sources[place], versions[sources[place]]
    states = {it: answers[it, name].state for it in sources if (it, name) in answers}
    reasons = set(known.values())
    if reasons <= _UNKNOWN and (_UNREAD in reasons or states.get(index) != "known"):
        return MissingPackage(name, (), sources[: place + 1])
    read = [it for it, reason in known.items() if reason is not _UNREAD]
    if unmet := sorted(set(_unmet(snapshot, request, name, read))):
        return MissingPackage(name, tuple(unmet), sources[: place + 1])
    if any(states.get(it) in (None, "failed") for it in sources[:place]):
        return MissingPackage(name, (), sources[:place])
    return None


def lacks_releases(stores: Stores, request: StackRequest, snapshot: Snapshot) -> bool:
    """Whether a configured index may have releases that a snapshot of the graph lacks.

    True if :func:`lacks_of` names a package that an index may be asked for, or if the store has
    only those releases of a package that an earlier advice read. Never with ``FETCH_MISSING=0``.
    """
    configured = [it.name for it in request.options.indexes if it.known]
    if not configured or not stores.settings.fetch_missing:
        return False
    names = list(snapshot.revisions)
    with stores.engine.connect() as connection:
        if are_partly_read(connection, names):
            return True
        answers = answers_of(connection, names)
    lacks = lacks_of(snapshot, request.resolver_request({}), answers)
    return any(
        lack.may_be_asked(index, answers, configured) for lack in lacks for index in configured
    )


_UNREAD = ExclusionReason.UNREAD
_UNKNOWN = frozenset({_UNREAD, ExclusionReason.UNSOLVABLE})


def _versions(snapshot: Snapshot, name: str) -> dict[str, dict[str, ExclusionReason | None]]:
    """Versions by index, with the reason if they are not candidates."""
    found: dict[str, dict[str, ExclusionReason | None]] = {}
    for it in snapshot.packages.get(name, ()):
        found.setdefault(it.index, {})[it.version] = None
    for out in snapshot.excluded.get(name, ()):
        found.setdefault(out.index, {})[out.version] = out.reason
    return found


def _unmet(
    snapshot: Snapshot, request: ResolverRequest, name: str, versions: Iterable[str]
) -> Iterator[str]:
    """Requirements of the request on a package that none of these versions meets."""
    known = [it for it in versions if version_of(it) is not None]
    for it in _own(snapshot, request):
        asked = _overridden(it, request)
        if asked.name == name and not any(admits(asked.specifier, that) for that in known):
            yield text_of(asked)


def _texts(
    snapshot: Snapshot, request: ResolverRequest, names: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """All requirements on these packages, by the request or by a candidate."""
    found: dict[str, set[str]] = {}
    required = (
        it for candidates in snapshot.packages.values() for one in candidates for it in one.requires
    )
    for it in (*_own(snapshot, request), *required):
        if it.name in names and it.url is None:
            found.setdefault(it.name, set()).add(text_of(_overridden(it, request)))
    return {name: tuple(sorted(texts)) for name, texts in found.items()}


def _own(snapshot: Snapshot, request: ResolverRequest) -> Iterator[Dependency]:
    """Requirements, bounds and overrides of the request itself."""
    yield from snapshot.roots
    yield from request.constraints
    yield from (Dependency(name, text) for name, text in request.overrides.items())


def _overridden(it: Dependency, request: ResolverRequest) -> Dependency:
    return Dependency(it.name, request.overrides.get(it.name, it.specifier), it.extras)


#: Fetched packages can require more; give up after this many rounds.
ROUNDS = 5
#: Names shown in a line; the rest is counted.
_SHOWN = 10

#: Fetches packages: index name, requirements, and whether pre-releases are fetched like other
#: releases. Returns whether the index answered.
Add = Callable[[str, Sequence[str], bool], bool]
#: Shows one line to a person.
Tell = Callable[[str], None]


def fetch_missing(
    stores: Stores, asked: StackRequest, add: Add, tell: Tell, more: Iterable[Dependency] = ()
) -> dict[str, str]:
    """Fetch the missing packages of a request's closure, in rounds.

    Only configured indexes are asked, each once for the same requirement. A failed fetch raises
    nothing; the advice reports what is missing.

    :param more: further requirements to follow
    :returns: reason by package that is still missing, in name order
    :raises StoreUnavailable: if a store does not answer
    """
    return _Fetching(stores, asked, add, tell, more).run()


class _Fetching:
    def __init__(
        self, stores: Stores, asked: StackRequest, add: Add, tell: Tell, more: Iterable[Dependency]
    ) -> None:
        self._stores = stores
        self._add = add
        self._tell = tell
        self._environment = asked.environment
        self._roots = [*(it.text for it in asked.requirements), *map(text_of, more)]
        self._request = asked.resolver_request({})
        self._configured = [it.name for it in asked.options.indexes if it.known]
        self._tried: set[tuple[str, str]] = set()
        self._silent: set[str] = set()
        self._lacks: Sequence[MissingPackage] = ()
        self._answers: IndexAnswers = {}

    def run(self) -> dict[str, str]:
        self._look()
        for _ in range(ROUNDS):
            before = len(self._tried)
            for index in self._configured:
                self._ask(index)
            if len(self._tried) == before:
                break
        return {it.name: self._why(it) for it in self._lacks}

    def _look(self) -> None:
        """Read the snapshot and the recorded answers of indexes, and list what is missing."""
        snapshot = self._snapshot()
        with self._stores.engine.connect() as connection:
            said = answers_of(connection, list(snapshot.revisions))
        # Recorded answers of an index that does not respond may be outdated.
        self._answers = {key: it for key, it in said.items() if key[0] not in self._silent}
        self._lacks = lacks_of(snapshot, self._request, self._answers)

    def _snapshot(self) -> Snapshot:
        stores = self._stores
        with watchdog(GRAPH, stores.settings.query_timeout_s * 2):
            return load_snapshot(
                stores.driver, self._roots, self._environment, database=stores.database
            )

    def _ask(self, index: str) -> None:
        """Ask an index for all packages that it may provide, then look again."""
        for prereleases in (False, True):
            lacks = [it for it in self._due(index) if _welcome(self._request, it) == prereleases]
            texts = [text for it in lacks for text in it.texts if (index, text) not in self._tried]
            if not texts or index in self._silent:
                continue
            self._tried.update((index, text) for text in texts)
            self._tell(f"reading {first_few(texts, _SHOWN)} from {index}")
            if not self._add(index, texts, prereleases):
                self._silent.add(index)
                self._tell(_silence(index, [it.name for it in lacks]))
            self._catch_up()
            self._look()

    def _due(self, index: str) -> list[MissingPackage]:
        return [it for it in self._lacks if it.may_be_asked(index, self._answers, self._configured)]

    def _catch_up(self) -> None:
        """Update the graph, since snapshots are read from it."""
        stores = self._stores
        try:
            if lag(stores.engine).count:
                sync(stores.engine, stores.driver, database=stores.database)
        except ProjectionFailed as error:
            self._tell(f"error: {error}; {error.hint}")

    def _why(self, lack: MissingPackage) -> str:
        return "; ".join(self._said(index, lack) for index in lack.indexes) or "no index is asked"

    def _said(self, index: str, lack: MissingPackage) -> str:
        if index not in self._configured:
            return f"the index {index} is not configured on this machine (PACKAGE_INDEXES)"
        if index in self._silent:
            return f"{index} does not answer"
        answer = self._answers.get((index, lack.name))
        if answer is None:
            return f"{index} was not asked, as one before it gave no answer"
        return _told(index, answer, lack)


def _told(index: str, answer: IndexAnswer, lack: MissingPackage) -> str:
    if answer.state == "missing":
        return f"{index} does not have it"
    if answer.state == "failed":
        return f"{index} gave no page of it: {answer.trouble}"
    return f"{index} has no release that can be chosen and is {first_few(lack.texts, _SHOWN)}"


def _welcome(request: ResolverRequest, lack: MissingPackage) -> bool:
    """Whether pre-releases of the package are fetched like other releases."""
    return request.all_prereleases or lack.name in request.prereleases


def _silence(index: str, names: Collection[str]) -> str:
    again = " ".join(sorted(names)[:_SHOWN])
    more = len(names) - _SHOWN
    return (
        f"error: the index {index} does not answer, so the advice goes on with what is known; "
        f"check its address (PACKAGE_INDEXES) and the network, then run this again or "
        f"`thoth packages add {again} --index {index}`"
        + (f", and the same for {more} more packages" if more > 0 else "")
    )
