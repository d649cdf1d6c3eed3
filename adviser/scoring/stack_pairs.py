"""The measured stacks of evidence, and their pairs that show the effect of one package.

Two stacks show the effect of a package if they differ only in its version and in packages that this
change forces: the requirements of the new version add, drop or move them.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, lru_cache, partial
from itertools import pairwise, product
from typing import Any
from urllib.parse import unquote

from packaging.version import Version

from adviser.resolver.specifiers import admits
from adviser.scoring.histories import History, histories_of
from adviser.scoring.target import Target, evidence_parts
from model.measurements.evidence import Evidence, EvidencePack
from model.packages.candidates import Candidate, Dependency
from model.packages.identity import Purl, version_of
from model.packages.snapshot import Snapshot

#: Modulus of sums of digests; two sets of packages collide with a probability of 2⁻¹²⁸.
_MODULUS = 1 << 128


class Role(Enum):
    """The purpose of a comparison."""

    #: A version with the baseline's version.
    BASELINE = auto()
    #: The newest measured version with another version.
    NEWEST = auto()
    #: Stacks that differ in several packages, none of which forces the others.
    STACKS = auto()


@dataclass(frozen=True, slots=True)
class StackPair:
    """Two measured stacks to compare, and the packages that differ.

    :param series: index of the series
    :param differs: names of the packages that differ, sorted; the package that forces the others
        comes first
    :param purl: the candidate's version of the package; ``None`` if no package forces the others
    :param baseline_purl: the baseline's version of it
    """

    series: int
    baseline: str
    candidate: str
    differs: tuple[str, ...]
    purl: Purl | None = None
    baseline_purl: Purl | None = None
    role: Role = Role.STACKS


def name_of(purl: Purl) -> str:
    """The name of the package in a Package URL.

    >>> name_of(Purl("pkg:pypi/numpy@1.26.4?index=builds"))
    'numpy'
    """
    return purl.partition("@")[0].rpartition("/")[2]


class MeasuredStackIndex:
    """An index of measured stacks by the versions that they contain."""

    def __init__(self, evidence: Evidence) -> None:
        self.members = {digest: frozenset(them) for digest, them in evidence.stacks.items()}
        self._readings = Counter(it.stack for it in evidence.readings)
        self._sums = {
            digest: sum(map(_number, them)) % _MODULUS for digest, them in self.members.items()
        }
        self._holding: dict[Purl, list[str]] = defaultdict(list)
        for digest, them in sorted(self.members.items()):
            for purl in them:
                self._holding[purl].append(digest)
        self._by_sum = {value: digest for digest, value in sorted(self._sums.items())}

    def most_measured(self, purl: Purl) -> list[str]:
        """The stacks with a version that have the most readings."""
        return heapq.nlargest(
            _MOST_STACKS, self.holding(purl), key=lambda it: (self._readings[it], it)
        )

    def holding(self, purl: Purl) -> list[str]:
        """Digests of the stacks that contain a version, sorted."""
        return self._holding.get(purl, [])

    def exactly(self, versions: Collection[Purl]) -> str | None:
        """The measured stack with exactly these versions, if there is one."""
        wanted = frozenset(versions)
        holding = self.holding(min(wanted)) if wanted else ()
        return next((it for it in holding if self.members[it] == wanted), None)

    def exchanged(self, digest: str, old: Purl, new: Purl) -> str | None:
        """The measured stack, if any, that equals another except for ``new`` instead of ``old``."""
        return self._by_sum.get((self._sums[digest] - _number(old) + _number(new)) % _MODULUS)

    def without(self, digest: str, purl: Purl) -> int:
        """A number that identifies the rest of a stack, without one of its versions."""
        return (self._sums[digest] - _number(purl)) % _MODULUS

    def differing(self, first: str, other: str) -> tuple[str, ...]:
        """Names of the packages in which two stacks differ, sorted."""
        return tuple(sorted({name_of(it) for it in self.members[first] ^ self.members[other]}))

    def versions(self, digest: str) -> dict[str, Purl]:
        """The versions of a measured stack, by name."""
        return {name_of(it): it for it in self.members[digest]}

    def shared(self, digest: str, stack: Collection[Purl]) -> int:
        """The number of versions that a measured stack and another stack have in common."""
        return len(self.members[digest].intersection(stack))


@lru_cache(maxsize=65_536)
def _number(purl: Purl) -> int:
    return int.from_bytes(hashlib.blake2b(purl.encode(), digest_size=16).digest(), "big")


def version_of_purl(purl: Purl) -> str:
    """The version in a Package URL.

    >>> version_of_purl(Purl("pkg:pypi/torch@2.4.1%2Bcpu?index=builds"))
    '2.4.1+cpu'
    """
    return unquote(purl.partition("@")[2].partition("?")[0])


#: Maximum number of stacks with a version, and of pairs of them, that are searched for forced
#: changes.
_MOST_STACKS, _MOST_PAIRS = 40, 50


class ForcedChanges:
    """Decides which package of two measured stacks forces the other differences between them.

    The change of a package forces another one if the old stack, with the new version, would lack a
    package, have a version that no longer meets a requirement, or keep a package that nothing
    requires any more. Only versions whose requirements are known can force anything.

    :param candidates: versions with known requirements
    :param direct: packages that the request names, in any fixed order; if packages force each
        other, the first of these counts
    """

    def __init__(
        self,
        stacks: MeasuredStackIndex,
        candidates: Mapping[Purl, Candidate],
        direct: Sequence[str] = (),
    ) -> None:
        self._stacks = stacks
        self._candidates = candidates
        self._direct = direct
        self._packages: dict[tuple[str, str], frozenset[str]] = {}
        self._requirements: dict[Purl, dict[str, list[Dependency]]] = {}
        self._exchanged: dict[tuple[Purl, Purl], list[tuple[str, str]]] = {}
        self._pairs: dict[tuple[Purl, Purl], list[tuple[str, str]]] = {}

    def exchanged(self, theirs: Purl, ours: Purl) -> list[tuple[str, str]]:
        """Pairs of stacks that differ only in these two versions of a package."""
        if (theirs, ours) not in self._exchanged:
            self._exchanged[theirs, ours] = exchanged_pairs(self._stacks, theirs, ours)
        return self._exchanged[theirs, ours]

    def pairs(self, theirs: Purl, ours: Purl) -> list[tuple[str, str]]:
        """Pairs of stacks that differ in these two versions and in what this change forces.

        Of many pairs, only those with the fewest differences are looked at.
        """
        if (theirs, ours) not in self._pairs:
            name = name_of(ours)
            self._pairs[theirs, ours] = [
                pair for pair in self.nearest(theirs, ours) if name in self.packages(*pair)
            ]
        return self._pairs[theirs, ours]

    def nearest(self, theirs: Purl, ours: Purl) -> list[tuple[str, str]]:
        """Pairs of often measured stacks with these versions that differ in the fewest packages."""
        if not self._candidates:
            return []
        members, most = self._stacks.members, self._stacks.most_measured
        pairs = product(most(theirs), most(ours))
        return heapq.nsmallest(
            _MOST_PAIRS, pairs, key=lambda it: (len(members[it[0]] ^ members[it[1]]), it)
        )

    def packages(self, old: str, new: str) -> frozenset[str]:
        """The packages whose change explains all differences between two stacks."""
        if (old, new) not in self._packages:
            self._packages[old, new] = self._explaining(old, new)
        return self._packages[old, new]

    def _explaining(self, old: str, new: str) -> frozenset[str]:
        before, after = self._stacks.versions(old), self._stacks.versions(new)
        differs = {it for it in before.keys() | after.keys() if before.get(it) != after.get(it)}
        both = {it for it in differs if it in before and it in after}
        if len(differs) == 1 or not self._connected(differs, before, after):
            return frozenset(both if len(differs) == 1 else ())
        # In either direction, so that it does not matter which stack is called the old one.
        explaining = {
            it
            for it in both
            if self._forces(it, differs, before, after) or self._forces(it, differs, after, before)
        }
        direct = [it for it in self._direct if it in explaining]
        return frozenset(direct[:1] or explaining)

    def _connected(
        self, differs: set[str], before: Mapping[str, Purl], after: Mapping[str, Purl]
    ) -> bool:
        """Whether each of the packages requires another one, or is required by it."""
        edges = {
            frozenset((name, needed))
            for name in differs
            for versions in (before, after)
            if name in versions
            for needed in self._needs(versions[name])
            if needed in differs and needed != name
        }
        return set().union(*edges) == differs if edges else False

    def _forces(
        self, name: str, differs: set[str], before: Mapping[str, Purl], after: Mapping[str, Purl]
    ) -> bool:
        forced, pending = {name}, [name]
        while pending:
            changed = pending.pop()
            moved = set(self._moved_by(changed, differs - forced, before, after))
            if not moved <= after.keys():
                return False  # the new stack lacks a package that it requires
            forced |= moved
            pending += sorted(moved)
        return all(
            it not in after
            and any(it in self._needs(before[one]) for one in differs & before.keys() if one != it)
            and not any(it in self._needs(purl) for purl in after.values())
            for it in differs - forced
        )

    def _moved_by(
        self, name: str, others: set[str], before: Mapping[str, Purl], after: Mapping[str, Purl]
    ) -> Iterator[str]:
        """Packages that cannot stay as they were beside the new version of a package."""
        needs, version = self._needs(after[name]), version_of_purl(after[name])
        for other in others:
            kept = before.get(other)
            if any(
                kept is None or not admits(needed.specifier, version_of_purl(kept))
                for needed in needs.get(other, ())
                if needed.extra is None
            ) or any(
                not admits(needed.specifier, version)
                for needed in (self._needs(kept).get(name, ()) if kept is not None else ())
                if needed.extra is None
            ):
                yield other

    def _needs(self, purl: Purl) -> Mapping[str, Sequence[Dependency]]:
        """The requirements of a version by name of the required package, if they are known."""
        needs = self._requirements.get(purl)
        if needs is None:
            candidate = self._candidates.get(purl)
            needs = self._requirements[purl] = {}
            for needed in candidate.requires if candidate is not None else ():
                needs.setdefault(needed.name, []).append(needed)
        return needs

    def unread(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Candidate]:
        """Versions of these pairs of stacks that must be read to know what their changes force."""
        purls = {
            purl
            for old, new in pairs
            for purl in self._stacks.members[old] ^ self._stacks.members[new]
        }
        for purl in sorted(purls):
            candidate = self._candidates.get(purl)
            if candidate is not None and not candidate.read:
                yield candidate


def pairs_of_versions(
    history: History, forced: ForcedChanges, theirs: Purl, ours: Purl
) -> list[tuple[str, str]]:
    """All pairs of measured stacks of a series that show the effect of ``ours`` for ``theirs``.

    Pairs with forced changes count only if no pair differs in this package alone.
    """
    for pairs in (forced.exchanged, forced.pairs):
        measured = [
            (base, other)
            for base, other in pairs(theirs, ours)
            if base in history.jobs and other in history.jobs
        ]
        if measured:
            return measured
    return []


def context_distance(
    stacks: MeasuredStackIndex, pair: tuple[str, str], context: Collection[Purl]
) -> int:
    """The number of packages, other than those that differ, whose versions are not the context's.

    :param context: versions of the stack beside which an effect is estimated
    """
    differs = stacks.members[pair[0]] ^ stacks.members[pair[1]]
    left_out = {name_of(it) for it in differs}
    others = stacks.members[pair[0]] ^ frozenset(context)
    return len({name_of(it) for it in others} - left_out)


def package_pairs(
    stacks: MeasuredStackIndex,
    histories: Mapping[int, History],
    forced: ForcedChanges,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Iterable[Purl]],
) -> list[StackPair]:
    """Pairs of stacks that show the effect of one package, for each series.

    Every measured version is compared with the baseline's version and with the newest measured
    version. If several pairs of stacks show the same two versions, the pair whose other packages
    are nearest to the baseline is used; of equally near ones the pair with most jobs, then the
    latest one. The choice never depends on the results.

    :param baseline: version by name that others are compared with
    :param versions: versions of interest, by name
    """
    wanted = frozenset(baseline.values())
    pairs = []
    for name in sorted({*baseline, *versions}):
        for ours, theirs, role in _version_pairs(
            stacks, baseline.get(name), versions.get(name, ())
        ):
            for number, history in histories.items():
                best = max(
                    pairs_of_versions(history, forced, theirs, ours),
                    key=partial(_preference, stacks, history, wanted),
                    default=None,
                )
                if best is not None:
                    others = [it for it in stacks.differing(*best) if it != name]
                    differs = (name, *others)
                    pairs.append(StackPair(number, *best, differs, ours, theirs, role))
    return pairs


def _preference(
    stacks: MeasuredStackIndex, history: History, wanted: Collection[Purl], pair: tuple[str, str]
) -> tuple[Any, ...]:
    """Sort key of the pair to use, the best last; names of packages matter only if all is equal."""
    ends = (it.seen_at.timestamp() for one in pair for it in history.jobs[one] if it.seen_at)
    return (
        -context_distance(stacks, pair, wanted),
        min(len(history.jobs[it]) for it in pair),
        max(ends, default=0.0),
        [
            sorted((release_order(it)[0] for it in stacks.members[one]), reverse=True)
            for one in pair
        ],
        pair,
    )


def _version_pairs(
    stacks: MeasuredStackIndex, baseline: Purl | None, versions: Iterable[Purl]
) -> Iterator[tuple[Purl, Purl, Role]]:
    """Pairs of measured versions of a package: candidate, other version, and purpose."""
    measured = newest_first({it for it in versions if stacks.holding(it)})
    if baseline is not None and stacks.holding(baseline):
        for ours in measured:
            if ours != baseline:
                yield ours, baseline, Role.BASELINE
    for older in measured[1:]:
        if baseline not in (measured[0], older):
            yield measured[0], older, Role.NEWEST


def newest_first(versions: Iterable[Purl]) -> list[Purl]:
    """Versions of one package, newest first."""
    return sorted(versions, key=release_order, reverse=True)


def release_order(purl: Purl) -> tuple[Version, Purl]:
    """Sort key for versions of one package, oldest first."""
    return version_of(version_of_purl(purl)) or Version("0"), purl


def exchanged_pairs(stacks: MeasuredStackIndex, theirs: Purl, ours: Purl) -> list[tuple[str, str]]:
    """Pairs of stacks that differ only in these two versions."""
    bases, others = stacks.holding(theirs), stacks.holding(ours)
    if len(bases) <= len(others):
        pairs = [(it, stacks.exchanged(it, theirs, ours)) for it in bases]
        return [(base, other) for base, other in pairs if other is not None]
    swapped = [(stacks.exchanged(it, ours, theirs), it) for it in others]
    return [(base, other) for base, other in swapped if base is not None]


def several_package_pairs(
    stacks: MeasuredStackIndex,
    histories: Mapping[int, History],
    forced: ForcedChanges,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
) -> list[StackPair]:
    """Pairs: the stack most similar to the baseline, and a stack that differs in several packages.

    The effects of such pairs cannot be attributed to a package, so they are reported but never
    scored. A pair is included only if every version that differs can be chosen.
    """
    wanted = frozenset(baseline.values())
    pairs = []
    for number, history in histories.items():
        base = max(
            history.jobs,
            key=lambda it: (stacks.shared(it, wanted), len(history.jobs[it]), it),
            default=None,
        )
        if base is None or not stacks.shared(base, wanted):
            continue
        for other in history.jobs:
            differs = stacks.differing(base, other)
            changed = stacks.members[other] - stacks.members[base]
            if (
                len(differs) > 1
                and all(it in versions.get(name_of(it), ()) for it in changed)
                and not forced.packages(base, other)
            ):
                pairs.append(StackPair(number, base, other, differs))
    return pairs


@dataclass(frozen=True)
class MeasuredStacks:
    """The measured stacks of some evidence, for any number of assessments."""

    snapshot: Snapshot
    evidence: Evidence

    @cached_property
    def index(self) -> MeasuredStackIndex:
        return MeasuredStackIndex(self.evidence)

    @cached_property
    def versions(self) -> Mapping[str, Sequence[Purl]]:
        """All candidates by name."""
        return {name: [it.purl for it in them] for name, them in self.snapshot.packages.items()}

    @cached_property
    def forced(self) -> ForcedChanges:
        candidates: dict[Purl, Candidate] = {}
        if self.evidence.readings:
            candidates = {it.purl: it for them in self.snapshot.packages.values() for it in them}
        direct = tuple(dict.fromkeys(it.name for it in self.snapshot.roots))
        return ForcedChanges(self.index, candidates, direct)

    @cached_property
    def histories(self) -> Mapping[int, History]:
        """The histories of all series, by index."""
        return histories_of(self.evidence, range(len(self.evidence.series)))

    @cached_property
    def _parts(self) -> dict[Target, list[tuple[MeasuredStacks, EvidencePack | None, bool]]]:
        return {}

    def parts(self, target: Target) -> list[tuple[MeasuredStacks, EvidencePack | None, bool]]:
        """The measured stacks of each part of :func:`evidence_parts`."""
        if target not in self._parts:
            self._parts[target] = [
                (
                    self if part is self.evidence else MeasuredStacks(self.snapshot, part),
                    pack, decides,
                )
                for part, pack, decides in evidence_parts(self.evidence, target)
            ]  # fmt: skip
        return self._parts[target]

    def unread(self) -> list[Candidate]:
        """Versions that must be read to know which changes between measured stacks force others.

        Packs that never decide cause no reads.
        """
        doubtful = {it.digest for it in self.evidence.packs if it.problem is not None}
        if doubtful:
            series = enumerate(self.evidence.series)
            trusted = self.evidence.only([n for n, it in series if it.origin not in doubtful])
            return MeasuredStacks(self.snapshot, trusted).unread()
        if all(it.read for them in self.snapshot.packages.values() for it in them):
            return []
        # Pairs of stacks with neighbouring versions of a package that differ in further packages,
        # where no pair differs in this package alone.
        pairs: list[tuple[str, str]] = []
        for versions in self.versions.values():
            measured = [it for it in newest_first(versions) if self.index.holding(it)]
            for ours, theirs in pairwise(measured):
                if not self.forced.exchanged(theirs, ours):
                    pairs += self.forced.nearest(theirs, ours)
        return list(self.forced.unread(pairs))
