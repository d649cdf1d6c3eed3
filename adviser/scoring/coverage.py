"""How much of a stack was ever measured, and how old all knowledge is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from packageurl import PackageURL

from adviser.scoring.assessments import Coverage, Difference, Nearest, Source
from adviser.scoring.circumstances import Circumstances
from adviser.scoring.contrasts import Stacks, name_of
from common.packages import Purl
from graph.candidates import ExclusionReason
from graph.evidence import Evidence
from graph.snapshot import Snapshot


class Coverages:
    """Answers how much of a stack was measured; what is asked of every stack is counted once."""

    def __init__(
        self, snapshot: Snapshot, evidence: Evidence, stacks: Stacks, asked: Circumstances
    ):
        self._stacks = stacks
        self._labels = evidence.hardware
        every = range(len(evidence.series))
        here = {n for n in every if asked.same_hardware(evidence.series[n])}
        elsewhere = len(here) < len(every)
        self._jobs_here = _jobs(evidence, here)
        self._jobs = _jobs(evidence, every) if elsewhere else self._jobs_here
        self._hardware = _hardware(evidence, here)
        if elsewhere:
            self._hardware = _hardware(evidence, every) | self._hardware
        self._sources = tuple(Source(*it) for it in sorted(evidence.sources.items()))
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

    def _nearest(self, stack: Collection[Purl]) -> Nearest | None:
        """The one with the fewest differences; on this hardware, then with most jobs, if equal."""
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
        return Nearest(
            near,
            tuple(
                Difference(name, _version(ours), _version(theirs))
                for name, (ours, theirs) in sorted(self._differences(near, stack).items())
            ),
            self._jobs_here[near] if same else self._jobs[near],
            label,
            same,
        )

    def _differences(
        self, digest: str, stack: Collection[Purl]
    ) -> Mapping[str, tuple[Purl | None, Purl | None]]:
        ours = {name_of(it): it for it in stack}
        theirs = {name_of(it): it for it in self._stacks.members[digest]}
        return {
            name: (ours.get(name), theirs.get(name))
            for name in ours.keys() | theirs.keys()
            if ours.get(name) != theirs.get(name)
        }


def _version(purl: Purl | None) -> str | None:
    """The version in a Package URL, with its index if that is not the default one.

    >>> _version(Purl("pkg:pypi/numpy@1.0%2Bcpu?index=builds"))
    '1.0+cpu (builds)'
    """
    if purl is None:
        return None
    parsed = PackageURL.from_string(purl)
    index = dict(parsed.qualifiers or {}).get("index")
    return f"{parsed.version} ({index})" if index else parsed.version


def _jobs(evidence: Evidence, series: Collection[int]) -> Counter[str]:
    """Stable jobs of each measured stack."""
    seen = {
        (it.stack, it.job_id)
        for it in evidence.readings
        if it.series in series and it.unstable_reason is None and it.stack in evidence.stacks
    }
    return Counter(stack for stack, _ in seen)


def _hardware(evidence: Evidence, series: Collection[int]) -> dict[str, str]:
    """Of some series, the class on which each stack was measured most often."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for it in evidence.readings:
        if it.series in series:
            seen[it.stack][evidence.series[it.series].hardware_digest] += 1
    return {stack: min(them, key=lambda it: (-them[it], it)) for stack, them in seen.items()}


def unsolvable_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Packages that have versions, none of which can be used, as nobody can tell what they need."""
    return tuple(
        name
        for name, excluded in snapshot.excluded.items()
        if not snapshot.packages.get(name)
        and any(it.reason is ExclusionReason.UNSOLVABLE for it in excluded)
    )
