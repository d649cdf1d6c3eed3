"""The types of an assessment: scores, claims, justifications and coverage of a request."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from adviser.scoring.comparisons import ComparisonResult
from adviser.scoring.criteria import Criterion
from adviser.scoring.effects import SpreadRatio
from adviser.scoring.version_choice import PackageChoice
from model.declared_fields import PACKAGE, Field
from model.measurements.units import Unit
from model.packages.identity import Purl


class NoteLevel(StrEnum):
    """The severity of a note."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class JustificationCode(StrEnum):
    """The subject of a justification. The values are stored; never rename them."""

    FASTER = "performance_faster"
    SLOWER = "performance_slower"
    EQUIVALENT = "performance_equivalent"
    UNDETERMINED = "performance_undetermined"
    #: The stacks differ in more than this package, so the claim is not scored.
    CONFOUNDED = "performance_confounded"
    #: A pack says so, which decides nothing.
    SHOWN = "performance_shown"
    VULNERABLE = "vulnerable"
    #: Vulnerable, but the request allows the vulnerability.
    VULNERABILITY_ALLOWED = "vulnerability_allowed"
    YANKED = "yanked"
    PRERELEASE = "prerelease"
    #: No release for two years.
    UNMAINTAINED = "unmaintained"
    #: Its index says that no further releases are to be expected (PEP 792).
    ARCHIVED = "project_archived"
    #: Its index says that it is obsolete.
    DEPRECATED = "project_deprecated"
    #: Released less than 30 days ago.
    IMMATURE = "immature"
    #: A version of the baseline is not a candidate.
    BASELINE_UNAVAILABLE = "baseline_unavailable"
    MISSING = "package_missing"
    UNSOLVABLE = "package_unsolvable"


@dataclass(frozen=True, slots=True)
class Justification:
    """A message about a version, a package or the request, with its evidence.

    :param package: name; ``None`` if it is about the whole request
    :param purl: Package URL of the version; ``None`` if it is about all versions
    :param link: URL with details
    :param evidence: identifiers of the observations or vulnerabilities that support it, sorted
    """

    code: JustificationCode
    type: NoteLevel
    message: str
    package: str | None = None
    purl: Purl | None = None
    link: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimOrigin:
    """The pack that the jobs of a claim are from.

    :param pack: its digest
    :param name: its name
    :param key: fingerprint of the verified key that signed it; ``None`` without a signature
    :param problem: why the claim decides nothing; ``None`` if it may decide
    """

    pack: str
    name: str
    key: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(ComparisonResult):
    """A comparison of one version or stack with another version or stack.

    The field ``chance`` is also 0 if the comparison was measured elsewhere than on the target.

    :param package: name of the package that differs and forces all other differences; ``None`` if
        no package does
    :param purl: its version in the measured stack; ``None`` as above
    :param baseline_purl: its version in the other stack
    :param stack: digest of the measured stack
    :param baseline_stack: digest of the other stack
    :param differs: names of the packages that differ, sorted; first the one that forces the
        others. If none does, the effect is confounded: it is reported and never scored
    :param beside_baseline: whether the other version is the baseline's
    :param hardware_label: description for people
    :param same_hardware: whether it was measured on the target's hardware class
    :param same_python: whether it was measured on the target's Python version
    :param effect_pct: the difference as published, in per cent of the baseline's rate: shrunk
        towards zero, so that the best of many is not exaggerated
    :param observed_pct: the observed difference, in per cent
    :param interval_low_pct: lower end of the two-sided 95 % interval of the observed difference,
        wider if hardware or Python differ from the target; infinite, like the upper end, if the
        error is unknown
    :param delta_pct: δ, the smallest difference of interest: at least 2 %, or the difference
        between identical stacks in this measurement
    :param bound: the settled difference that scores count, natural log, at least δ; negative for a
        loss, 0 unless ``scored``
    :param scored: whether it counts; only settled verdicts on one package count, and if the
        project's own benchmarks decide about the package, only their verdicts
    :param left_out: by reason, the number of jobs of the two stacks that were not used: an
        :class:`~model.measurements.job_stability.Instability`, before a ``drift``, on an
        ``other_host``, or without a partner in their turn (``unpaired``); only counts above zero
    :param spread_ratio: ratio of the standard deviations of jobs, version over baseline, with its F
        interval; ``None`` below 20 jobs of either; never scored
    :param evidence: identifiers of the observations used, sorted
    :param as_of: time of the last of them; ``None`` if unknown
    :param origin: the pack that its jobs are from; ``None`` for own jobs
    :param confirms: names of packs with the same verdict about the same question, for own jobs
    :param overrules: names of packs with another verdict
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
    effect_pct: float
    observed_pct: float
    interval_low_pct: float
    interval_high_pct: float
    delta_pct: float
    bound: float
    scored: bool
    left_out: Mapping[str, int]
    spread_ratio: SpreadRatio | None
    evidence: tuple[str, ...]
    as_of: datetime | None
    origin: ClaimOrigin | None = None
    confirms: tuple[str, ...] = ()
    overrules: tuple[str, ...] = ()

    @property
    def confounded(self) -> bool:
        """Whether several packages differ, and none of them forces the others."""
        return self.package is None

    @property
    def question(self) -> tuple[Any, ...]:
        """A key that claims of several origins share if they answer the same question."""
        between = (self.stack, self.baseline_stack) if self.confounded else ()
        series = self.comparison_key, self.python_version
        return (*series, self.purl, self.baseline_purl, *between)

    @property
    def here(self) -> bool:
        """Whether the comparison was measured on the target's hardware class and Python version."""
        return self.same_hardware and self.same_python


@dataclass(frozen=True, slots=True)
class PackageDifference:
    """A package of which a stack (ours) and the stack it is compared with (theirs) differ."""

    name: Annotated[str, PACKAGE]
    ours: Annotated[
        str | None, Field("Version in the candidate; null if it lacks the package.", "2.4.6")
    ]
    theirs: Annotated[
        str | None, Field("Version in the baseline; null if it lacks the package.", "2.0.2")
    ]


@dataclass(frozen=True, slots=True)
class NearestStack:
    """The measured stack that shares most versions with a stack, and the differing packages.

    :param jobs: number of stable jobs, on all hardware unless ``same_hardware``
    """

    digest: str
    differences: tuple[PackageDifference, ...]
    jobs: int
    hardware_label: str
    same_hardware: bool


@dataclass(frozen=True, slots=True)
class KnowledgeSource:
    """A data source, and its age.

    :param as_of: when it was last read or last delivered data; ``None`` if never
    """

    name: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a stack was measured, so that nobody takes missing findings for good news.

    :param packages: number of packages in the stack
    :param measured: number of packages measured in this version on the target's hardware class
    :param measured_elsewhere: number of packages measured only on other hardware
    :param nearest: the most similar measured stack; ``None`` if none shares a version
    :param sources: data sources by name
    :param missing: required packages that the store does not have, sorted
    :param unsolvable: packages without a version that can be used here, sorted
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
        """Share of the packages that were measured on this hardware, within [0, 1]."""
        return self.measured / self.packages if self.packages else 0.0


@dataclass(frozen=True, slots=True)
class Assessment:
    """The assessment of a request, made before resolving.

    :param scores: contributions of every candidate to each criterion
    :param criteria: criteria in the order of the contributions
    :param claims: comparisons with the baseline, and settled ones between other versions, in a
        fixed order; see :meth:`claims_of`
    :param comparisons: number of comparisons that share the error rate of the claims
    :param shares: share of α of each claim, 0 if it was not tested
    :param shown: claims of packs that decide nothing
    :param choices: by name of a measured package, which of its versions is preferred
    :param unmeasured: by name of a package whose versions differ in speed, its versions that were
        not measured
    :param refused: versions that the recommendation type refuses, with the reason
    :param baseline: version by name that claims compare with
    :param coverage: coverage of the baseline
    :param coverage_of: function that returns the coverage of another stack
    :param justifications: those about the request, for any stack
    :param justifications_of: function that returns those about the versions of a stack
    """

    scores: Mapping[Purl, tuple[int, ...]]
    criteria: tuple[Criterion, ...]
    claims: tuple[Claim, ...]
    comparisons: int
    shares: tuple[float, ...]
    shown: tuple[Claim, ...]
    choices: Mapping[str, PackageChoice]
    unmeasured: Mapping[str, tuple[Purl, ...]]
    refused: Mapping[Purl, str]
    baseline: Mapping[str, Purl]
    coverage: Coverage
    justifications: tuple[Justification, ...]
    coverage_of: Callable[[Collection[Purl]], Coverage] = field(repr=False, compare=False)
    justifications_of: Callable[[Collection[Purl]], tuple[Justification, ...]] = field(
        repr=False, compare=False
    )

    def settled_between(self, ours: Purl, theirs: Purl) -> list[Claim]:
        """The settled differences between two versions of a package, the largest first."""
        between = [
            it
            for it in self.claims
            if it.scored and it.verdict.different and {it.purl, it.baseline_purl} == {ours, theirs}
        ]
        return sorted(between, key=lambda it: -abs(it.bound))

    def claims_of(self, stack: Collection[Purl]) -> tuple[Claim, ...]:
        """The claims about single versions in ``stack``, without confounded claims.

        Claims that compare other versions with a version in ``stack`` are included only if they
        are settled, because these may be why the stack has the version.
        """
        return tuple(
            it
            for it in self.claims
            if it.purl is not None
            and (it.purl in stack or (it.baseline_purl in stack and it.scored and it.bound))
        )


@dataclass(frozen=True, slots=True)
class Premises:
    """Results of a search before its last round; a report names them, so they can be checked.

    :param baseline: version by name of the stack that claims compare with; ``None`` for the newest
        version of each package
    :param settled: whether every search finds this baseline; ``False`` if the search reached its
        limit
    :param context: the stack beside which the effects of versions are judged; ``None`` if they
        were measured in one context only
    :param slower: versions that are settled to be slower than the project's, with the reason
    :param slower_stacks: stacks as version by name that are settled to be slower than the project's
    :param kept: whether every other stack would do harm, so that the project's versions are kept
    :param speed_accepted: whether every stack without other harm that meets the request is slower
    :param harm_accepted: whether every stack that meets the request does other harm
    """

    baseline: Mapping[str, str] | None
    settled: bool = True
    context: tuple[Purl, ...] | None = None
    slower: Mapping[Purl, str] = field(default_factory=dict)
    slower_stacks: tuple[Mapping[str, str], ...] = ()
    kept: bool = False
    speed_accepted: bool = False
    harm_accepted: bool = False
