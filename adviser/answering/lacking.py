"""What a snapshot lacks of a request, and which indexes may be asked for it, in which order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from adviser.answering.answers import text_of
from adviser.resolver.requests import Request
from adviser.resolver.specifiers import admits
from common.packages import version_of
from graph.candidates import Dependency, ExclusionReason
from graph.record.indexes import IndexAnswer
from graph.snapshot import Snapshot

#: The last word of indexes by index and name of the project.
Answers = Mapping[tuple[str, str], IndexAnswer]


@dataclass(frozen=True, slots=True)
class Lack:
    """A package of which an index may know what the snapshot does not.

    :param texts: what is asked of it, as requirements are written, sorted
    :param indexes: where it may be, in the order in which they are asked: the first that has it
        in any version wins
    """

    name: str
    texts: tuple[str, ...]
    indexes: tuple[str, ...]

    def may_be_asked(self, index: str, answers: Answers, configured: Collection[str]) -> bool:
        """Whether it is this index's turn: every one before it said that it does not have it.

        One that failed to answer may have it, and then nobody else's package of that name counts.
        """
        if index not in self.indexes:
            return False
        before = self.indexes[: self.indexes.index(index)]
        said = (answers.get((it, self.name)) for it in before if it in configured)
        return all(it is not None and it.state == "missing" for it in said)


def lacks_of(snapshot: Snapshot, request: Request, answers: Answers) -> tuple[Lack, ...]:
    """What an index should be asked for, in name order.

    - packages without any version on an index that the request takes them from;
    - packages of which nobody has read a version whose requirements can be known, unless their
      index was asked already;
    - what the request itself asks, or bounds, where no version that was read meets it;
    - packages that an index nobody asked for them comes before the one they are known from.
    """
    found = [_lack(snapshot, request, name, answers) for name in sorted(snapshot.revisions)]
    wanted = {it.name for it in found if it is not None}
    texts = _texts(snapshot, request, wanted) if wanted else {}
    return tuple(
        Lack(it.name, it.texts or texts.get(it.name, (it.name,)), it.indexes)
        for it in found
        if it is not None
    )


def _lack(snapshot: Snapshot, request: Request, name: str, answers: Answers) -> Lack | None:
    """With the texts that are not met; without any if all that is asked of the package counts."""
    sources = (request.index_of[name],) if name in request.index_of else request.indexes
    versions = _versions(snapshot, name)
    place = next((at for at, index in enumerate(sources) if index in versions), None)
    if place is None:
        return Lack(name, (), sources)
    index, known = sources[place], versions[sources[place]]
    states = {it: answers[it, name].state for it in sources if (it, name) in answers}
    reasons = set(known.values())
    if reasons <= _UNKNOWN and (_UNREAD in reasons or states.get(index) != "known"):
        return Lack(name, (), sources[: place + 1])
    read = [it for it, reason in known.items() if reason is not _UNREAD]
    if unmet := sorted(set(_unmet(snapshot, request, name, read))):
        return Lack(name, tuple(unmet), sources[: place + 1])
    if any(states.get(it) in (None, "failed") for it in sources[:place]):
        return Lack(name, (), sources[:place])
    return None


_UNREAD = ExclusionReason.UNREAD
_UNKNOWN = frozenset({_UNREAD, ExclusionReason.UNSOLVABLE})


def _versions(snapshot: Snapshot, name: str) -> dict[str, dict[str, ExclusionReason | None]]:
    """By index, the versions with the reason why they are no candidates."""
    found: dict[str, dict[str, ExclusionReason | None]] = {}
    for it in snapshot.packages.get(name, ()):
        found.setdefault(it.index, {})[it.version] = None
    for out in snapshot.excluded.get(name, ()):
        found.setdefault(out.index, {})[out.version] = out.reason
    return found


def _unmet(
    snapshot: Snapshot, request: Request, name: str, versions: Iterable[str]
) -> Iterator[str]:
    """What is asked of a package by the request itself and met by none of these versions."""
    known = [it for it in versions if version_of(it) is not None]
    for it in _own(snapshot, request):
        asked = _overridden(it, request)
        if asked.name == name and not any(admits(asked.specifier, that) for that in known):
            yield text_of(asked)


def _texts(
    snapshot: Snapshot, request: Request, names: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """All that is asked of some packages, by the request or by a candidate."""
    found: dict[str, set[str]] = {}
    required = (
        it for candidates in snapshot.packages.values() for one in candidates for it in one.requires
    )
    for it in (*_own(snapshot, request), *required):
        if it.name in names and it.url is None:
            found.setdefault(it.name, set()).add(text_of(_overridden(it, request)))
    return {name: tuple(sorted(texts)) for name, texts in found.items()}


def _own(snapshot: Snapshot, request: Request) -> Iterator[Dependency]:
    """What the request itself says of packages: requirements, bounds and overrides."""
    yield from snapshot.roots
    yield from request.constraints
    yield from (Dependency(name, text) for name, text in request.overrides.items())


def _overridden(it: Dependency, request: Request) -> Dependency:
    return Dependency(it.name, request.overrides.get(it.name, it.specifier), it.extras)
