"""The measured stacks that evidence has about the versions of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from adviser.scoring.histories import History, histories_of
from adviser.scoring.stack_pairs import ForcedChanges, MeasuredStackIndex, newest_first
from adviser.scoring.target import Target, evidence_parts
from model.measurements.evidence import Evidence, EvidencePack
from model.packages.candidates import Candidate
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot


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

        Nothing is read because of a pack that never decides.
        """
        doubtful = {it.digest for it in self.evidence.packs if it.problem is not None}
        if doubtful:
            series = enumerate(self.evidence.series)
            trusted = self.evidence.only([n for n, it in series if it.origin not in doubtful])
            return MeasuredStacks(self.snapshot, trusted).unread()
        if all(it.read for them in self.snapshot.packages.values() for it in them):
            return []
        return list(self.forced.unread(self._pairs_with_several_changes()))

    def _pairs_with_several_changes(self) -> Iterator[tuple[str, str]]:
        """Pairs of stacks with neighbouring versions of a package that differ in further packages,
        where no pair differs in this package alone.
        """
        for versions in self.versions.values():
            measured = [it for it in newest_first(versions) if self.index.holding(it)]
            for ours, theirs in pairwise(measured):
                if not self.forced.exchanged(theirs, ours):
                    yield from self.forced.nearest(theirs, ours)
