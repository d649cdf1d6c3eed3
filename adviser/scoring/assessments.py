"""What the evidence says of a request: scores, claims, refusals, and how much is known at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from adviser.scoring.criteria import Criterion
from adviser.scoring.effects import SpreadRatio
from adviser.scoring.estimates import Method
from adviser.scoring.sample_needs import Need
from adviser.scoring.verdicts import Verdict
from common.packages import Purl
from common.units import Unit


class NoteLevel(StrEnum):
    """How seriously a person should take a note."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class JustificationCode(StrEnum):
    """What a justification is about; the value is stored, never renamed."""

    FASTER = "performance_faster"
    SLOWER = "performance_slower"
    EQUIVALENT = "performance_equivalent"
    UNDETERMINED = "performance_undetermined"
    #: Stacks differ in more than this package, so that nothing is scored.
    CONFOUNDED = "performance_confounded"
    VULNERABLE = "vulnerable"
    #: Vulnerable, and the request allows it by name.
    VULNERABILITY_ALLOWED = "vulnerability_allowed"
    YANKED = "yanked"
    PRERELEASE = "prerelease"
    #: Nothing was released for long.
    UNMAINTAINED = "unmaintained"
    #: Younger than its first 30 days.
    IMMATURE = "immature"
    #: A version of the baseline is no candidate.
    BASELINE_UNAVAILABLE = "baseline_unavailable"
    MISSING = "package_missing"
    UNSOLVABLE = "package_unsolvable"


@dataclass(frozen=True, slots=True)
class Justification:
    """Something that a person should know about a version, a package or the request.

    :param package: name; ``None`` if it is about all of the request
    :param purl: of the version; ``None`` if it is about the package whatever its version
    :param link: where to read more
    :param evidence: identifiers of the observations or vulnerabilities that say so, sorted
    """

    code: JustificationCode
    type: NoteLevel
    message: str
    package: str | None = None
    purl: Purl | None = None
    link: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """What measurements say of one version, or one stack, next to another one.

    :param package: name of the one package in which the two stacks differ; ``None`` where they
        differ in several
    :param purl: its version in the measured stack; ``None`` as above
    :param baseline_purl: its version in the stack that this was compared with
    :param stack: digest of the measured stack
    :param baseline_stack: digest of the stack that it was compared with
    :param differs: names of the packages in which the two differ, sorted; more than one is
        a confounded effect, which is told and never scored
    :param beside_baseline: whether the other version is the baseline's
    :param hardware_label: for people
    :param same_hardware: whether that is the hardware class that was asked about
    :param same_python: whether both ran on the Python that was asked about
    :param effect_pct: the difference as it is published: shrunk toward none, so that the best
        of many is not oversold; per cent of the baseline's rate
    :param observed_pct: the difference as it was observed
    :param interval_low_pct: lower end of the two-sided 95 % interval of the observed difference,
        widened where hardware or Python is another; infinite, as the upper end, where nothing
        that was measured bounds it
    :param delta_pct: δ: differences up to it are of no interest; what identical stacks have shown
        of this measurement, 2 % at least
    :param p_value: adjusted for everything that the answer compares; see
        :class:`adviser.scoring.verdicts.Judgements`
    :param runs: that its jobs were part of, or pairs; a run is one inspection of one stack
    :param baseline_runs: the same of the baseline
    :param tested: whether there were jobs enough for a verdict
    :param needs: what is missing where it is undetermined
    :param jobs_missing: further jobs of the version; 0 where jobs would not help
    :param baseline_jobs_missing: and of the baseline
    :param chance: that the jobs it lacks settle it as faster or slower; 0 where it is settled,
        too little is known to tell, or it was measured elsewhere
    :param bound: natural log: the settled difference that scores count, δ at least; below zero
        for a loss, 0 unless ``scored``
    :param scored: whether it counts; only a settled verdict on one package does
    :param left_out: how many jobs of the two stacks in this series did not take part: by reason of
        the stability rule (:class:`common.reasons.Instability`), from before a ``drift``, on an
        ``other_host``, or without a partner in their turn (``unpaired``); zeros are not there
    :param spread_ratio: of the standard deviations of jobs, version over baseline, with its F
        interval; ``None`` below 20 jobs of either, where it says nothing; never scored
    :param evidence: identifiers of the observations of the jobs that took part, sorted
    :param as_of: when the last of them was made; ``None`` if nobody said
    """

    package: str | None
    purl: Purl | None
    baseline_purl: Purl | None
    stack: str
    baseline_stack: str
    differs: tuple[str, ...]
    beside_baseline: bool
    indicator: str
    parameters: Mapping[str, Any]
    device: str | None
    unit: Unit
    comparison_key: str
    hardware_digest: str
    hardware_label: str
    same_hardware: bool
    python_version: str | None
    same_python: bool
    verdict: Verdict
    effect_pct: float
    observed_pct: float
    interval_low_pct: float
    interval_high_pct: float
    delta_pct: float
    p_value: float
    jobs: int
    baseline_jobs: int
    runs: int
    baseline_runs: int
    tested: bool
    needs: Need | None
    jobs_missing: int
    baseline_jobs_missing: int
    chance: float
    method: Method
    pairs: int
    hosts: int | None
    tau: float | None
    bound: float
    scored: bool
    left_out: Mapping[str, int]
    spread_ratio: SpreadRatio | None
    evidence: tuple[str, ...]
    as_of: datetime | None

    @property
    def confounded(self) -> bool:
        """Whether more than one package differs."""
        return len(self.differs) > 1

    @property
    def here(self) -> bool:
        """Whether it was measured in the very circumstances that were asked about."""
        return self.same_hardware and self.same_python


@dataclass(frozen=True, slots=True)
class PerformanceStanding:
    """How a version stands by performance.

    :param loss: natural log: the settled difference to the version that is faster; 0 if none is
    :param reason: why, for a person; empty if no version is faster
    """

    loss: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PackageDifference:
    """A package in which two stacks differ; ``None`` where one of them lacks it."""

    name: str
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, slots=True)
class NearestStack:
    """The measured stack that has most in common with a stack, and what separates the two.

    :param jobs: stable ones, on all hardware if it is another
    """

    digest: str
    differences: tuple[PackageDifference, ...]
    jobs: int
    hardware_label: str
    same_hardware: bool


@dataclass(frozen=True, slots=True)
class KnowledgeSource:
    """Where knowledge comes from, and how old it is.

    :param as_of: when it was last asked or last told something; ``None`` if never
    """

    name: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a stack was ever measured, so that silence is not taken for praise.

    :param packages: how many the stack has
    :param measured: of these, how many are in a measured stack, in this very version, on this
        hardware class
    :param measured_elsewhere: of the others, how many on another class only
    :param nearest: ``None`` if nothing that was measured shares a version with it
    :param sources: by name
    :param missing: packages that something asks for and nobody knows, sorted
    :param unsolvable: packages of which no version can be used here, sorted
    """

    packages: int
    measured: int
    measured_elsewhere: int
    nearest: NearestStack | None
    sources: tuple[KnowledgeSource, ...]
    missing: tuple[str, ...] = ()
    unsolvable: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the stack's packages with evidence on this hardware, within [0, 1]."""
        return self.measured / self.packages if self.packages else 0.0


@dataclass(frozen=True, slots=True)
class Assessment:
    """All that scoring has to say, before anything is resolved.

    :param scores: of every candidate of the snapshot, its contribution to each criterion
    :param criteria: in the order of ``scores``
    :param claims: in a fixed order: those beside the baseline, and settled ones between other
        versions; see :meth:`claims_of`
    :param comparisons: how many comparisons share the error rate of the claims
    :param standings: of versions that lose to another one by performance
    :param refused: versions that the recommendation type does not allow, with the words
    :param baseline: version by name that claims compare with
    :param coverage: of the baseline
    :param coverage_of: gives that of another stack
    :param justifications: what is to be known of the request, whatever is chosen
    :param notes: what is to be known of versions, looked up when they are chosen
    """

    scores: Mapping[Purl, tuple[int, ...]]
    criteria: tuple[Criterion, ...]
    claims: tuple[Claim, ...]
    comparisons: int
    standings: Mapping[Purl, PerformanceStanding]
    refused: Mapping[Purl, str]
    baseline: Mapping[str, Purl]
    coverage: Coverage
    justifications: tuple[Justification, ...]
    coverage_of: Callable[[Collection[Purl]], Coverage] = field(repr=False, compare=False)
    notes: Callable[[Collection[Purl]], tuple[Justification, ...]] = field(
        repr=False, compare=False
    )

    def claims_of(self, stack: Collection[Purl]) -> tuple[Claim, ...]:
        """The claims about versions of a stack; confounded ones are of no version."""
        return tuple(it for it in self.claims if it.purl is not None and it.purl in stack)

    def justifications_of(self, stack: Collection[Purl]) -> tuple[Justification, ...]:
        """What a person should know of a stack: of the request, its packages and its versions."""
        return (*self.justifications, *self.notes(stack))
