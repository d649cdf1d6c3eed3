"""How much of a stack was measured, and which measured stack is most like it."""

from collections import Counter, defaultdict
from collections.abc import Collection

from adviser.scoring.assessment_types import (
    Coverage,
    KnowledgeSource,
    NearestStack,
    PackageDifference,
)
from adviser.scoring.stack_pairs import MeasuredStackIndex, name_of
from adviser.scoring.target import Target
from model.measurements.evidence import Evidence
from model.packages.candidates import ExclusionReason
from model.packages.identity import DEFAULT_INDEX, Purl, changes_between, package_version_of
from model.packages.snapshot import Snapshot


class Coverages:
    """Computes the coverage of stacks; the parts common to all stacks are computed once."""

    def __init__(
        self, snapshot: Snapshot, evidence: Evidence, stacks: MeasuredStackIndex, target: Target
    ):
        self._stacks = stacks
        self._labels = evidence.hardware
        every = range(len(evidence.series))
        here = {n for n in every if target.same_hardware(evidence.series[n])}
        elsewhere = len(here) < len(every)
        self._jobs_here = _jobs(evidence, here)
        self._jobs = _jobs(evidence, every) if elsewhere else self._jobs_here
        self._hardware = _hardware(evidence, here)
        if elsewhere:
            self._hardware = _hardware(evidence, every) | self._hardware
        self._sources = tuple(KnowledgeSource(*it) for it in sorted(evidence.sources.items()))
        self._missing = snapshot.missing
        self._unsolvable = unsolvable_of(snapshot)

    def of(self, stack: Collection[Purl]) -> Coverage:
        """The coverage of the stack that consists of these versions."""
        here = {it for digest in self._jobs_here for it in self._stacks.members[digest]}
        anywhere = {it for digest in self._jobs for it in self._stacks.members[digest]}
        return Coverage(
            packages=len(stack),
            measured=len(here.intersection(stack)),
            measured_elsewhere=len((anywhere - here).intersection(stack)),
            nearest=self._nearest(stack),
            sources=self._sources,
            missing=self._missing,
            unsolvable=self._unsolvable,
        )

    def _nearest(self, stack: Collection[Purl]) -> NearestStack | None:
        """The measured stack with the fewest differences; on ties, on this hardware, with most
        jobs.
        """
        if not stack:
            return None
        wanted = frozenset(stack)
        near = min(
            (digest for digest in self._jobs if self._stacks.shared(digest, stack)),
            key=lambda it: (
                len({name_of(one) for one in self._stacks.members[it] ^ wanted}),
                it not in self._jobs_here,
                -self._jobs[it],
                it,
            ),
            default=None,
        )
        if near is None:
            return None
        same = near in self._jobs_here
        label = self._labels.get(self._hardware[near], self._hardware[near])
        ours = {name_of(it): _version(it) for it in stack}
        theirs = {name_of(it): _version(it) for it in self._stacks.members[near]}
        return NearestStack(
            near,
            tuple(
                PackageDifference(it.name, it.old, it.new) for it in changes_between(ours, theirs)
            ),
            self._jobs_here[near] if same else self._jobs[near],
            label,
            same,
        )


def _version(purl: Purl) -> str:
    """The version in a Package URL, with its index unless it is the default index.

    >>> _version(Purl("pkg:pypi/numpy@1.0%2Bcpu?index=builds"))
    '1.0+cpu (builds)'
    """
    known = package_version_of(purl)
    version, index = known.version, known.index
    return version if index == DEFAULT_INDEX else f"{version} ({index})"


def _jobs(evidence: Evidence, series: Collection[int]) -> Counter[str]:
    """Number of stable jobs of each measured stack."""
    seen = {
        (it.stack, it.job_id)
        for it in evidence.readings
        if it.series in series and it.unstable_reason is None and it.stack in evidence.stacks
    }
    return Counter(stack for stack, _ in seen)


def _hardware(evidence: Evidence, series: Collection[int]) -> dict[str, str]:
    """The hardware class on which each stack was measured most often in these series."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for reading in evidence.readings:
        if reading.series in series:
            seen[reading.stack][evidence.series[reading.series].hardware_digest] += 1
    return {stack: min(them, key=lambda it: (-them[it], it)) for stack, them in seen.items()}


def unsolvable_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Packages that have no usable version but some version with unknown requirements."""
    return tuple(
        name
        for name, excluded in snapshot.excluded.items()
        if not snapshot.packages.get(name)
        and any(it.reason is ExclusionReason.UNSOLVABLE for it in excluded)
    )
