"""Pairs of measured stacks that show the effect of one package: all other versions are equal."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from itertools import combinations
from urllib.parse import unquote

from packaging.version import Version

from adviser.scoring.histories import History
from common.packages import Purl, version_of
from graph.evidence import Evidence

#: Modulus of sums of digests; two sets of packages collide with a probability of 2⁻¹²⁸.
_MODULUS = 1 << 128


class Role(Enum):
    """The purpose of a comparison."""

    #: A version with the baseline's version.
    BASELINE = auto()
    #: The newest measured version with another version.
    NEWEST = auto()
    #: Two other versions of one package.
    OTHERS = auto()
    #: Stacks that differ in several packages.
    STACKS = auto()


@dataclass(frozen=True, slots=True)
class StackPair:
    """Two measured stacks to compare, and the packages that differ.

    :param series: index of the series
    :param differs: names of the packages that differ, sorted
    :param purl: the candidate's version of the package; ``None`` if several packages differ
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
        self._sums = {
            digest: sum(map(_number, them)) % _MODULUS for digest, them in self.members.items()
        }
        self._holding: dict[Purl, list[str]] = defaultdict(list)
        for digest, them in sorted(self.members.items()):
            for purl in them:
                self._holding[purl].append(digest)
        self._by_sum = {value: digest for digest, value in sorted(self._sums.items())}

    def holding(self, purl: Purl) -> list[str]:
        """Digests of the stacks that contain a version, sorted."""
        return self._holding.get(purl, [])

    def exchanged(self, digest: str, old: Purl, new: Purl) -> str | None:
        """The measured stack, if any, that equals another except for ``new`` instead of ``old``."""
        return self._by_sum.get((self._sums[digest] - _number(old) + _number(new)) % _MODULUS)

    def without(self, digest: str, purl: Purl) -> int:
        """A number that identifies the rest of a stack, without one of its versions."""
        return (self._sums[digest] - _number(purl)) % _MODULUS

    def differing(self, first: str, other: str) -> tuple[str, ...]:
        """Names of the packages in which two stacks differ, sorted."""
        return tuple(sorted({name_of(it) for it in self.members[first] ^ self.members[other]}))

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


def package_pairs(
    stacks: MeasuredStackIndex,
    histories: Mapping[int, History],
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Iterable[Purl]],
) -> list[StackPair]:
    """Pairs of stacks that differ only in the version of one package, for each series.

    Every measured version is compared with the baseline's version. All other versions are compared
    with each other; the newer version of a pair is the candidate. If several pairs of stacks differ
    only in these two versions, the pair most similar to the baseline is used; on a tie, the pair
    with the most jobs. The choice never depends on the results.

    :param baseline: version by name that others are compared with
    :param versions: versions of interest, by name
    """
    wanted = frozenset(baseline.values())
    pairs = []
    for name in sorted({*baseline, *versions}):
        for ours, theirs, role in _version_pairs(
            stacks, baseline.get(name), versions.get(name, ())
        ):
            stack_pairs = _pairs(stacks, theirs, ours)
            for number, history in histories.items() if stack_pairs else ():
                best = max(
                    (
                        (stacks.shared(base, wanted), _jobs(history, base, other), base, other)
                        for base, other in stack_pairs
                        if base in history.jobs and other in history.jobs
                    ),
                    default=None,
                )
                if best is not None:
                    pairs.append(StackPair(number, best[2], best[3], (name,), ours, theirs, role))
    return pairs


def _version_pairs(
    stacks: MeasuredStackIndex, baseline: Purl | None, versions: Iterable[Purl]
) -> Iterator[tuple[Purl, Purl, Role]]:
    """Pairs of measured versions of a package: candidate, other version, and purpose."""
    measured = sorted({it for it in versions if stacks.holding(it)}, key=_age, reverse=True)
    if baseline is not None and stacks.holding(baseline):
        for ours in measured:
            if ours != baseline:
                yield ours, baseline, Role.BASELINE
    for place, (newer, older) in enumerate(combinations(measured, 2)):
        if baseline not in (newer, older):
            # Pairs are sorted by their first version; the first ones have the newest version.
            yield newer, older, Role.NEWEST if place < len(measured) - 1 else Role.OTHERS


def _age(purl: Purl) -> tuple[Version, Purl]:
    """Sort key for versions of one package, oldest first."""
    return version_of(version_of_purl(purl)) or Version("0"), purl


def _pairs(stacks: MeasuredStackIndex, theirs: Purl, ours: Purl) -> list[tuple[str, str]]:
    """Pairs of stacks that differ only in these two versions."""
    bases, others = stacks.holding(theirs), stacks.holding(ours)
    if len(bases) <= len(others):
        pairs = [(it, stacks.exchanged(it, theirs, ours)) for it in bases]
        return [(base, other) for base, other in pairs if other is not None]
    swapped = [(stacks.exchanged(it, ours, theirs), it) for it in others]
    return [(base, other) for base, other in swapped if base is not None]


def _jobs(history: History, base: str, other: str) -> int:
    return min(len(history.jobs[base]), len(history.jobs[other]))


def several_package_pairs(
    stacks: MeasuredStackIndex,
    histories: Mapping[int, History],
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
            if len(differs) > 1 and all(it in versions.get(name_of(it), ()) for it in changed):
                pairs.append(StackPair(number, base, other, differs))
    return pairs
