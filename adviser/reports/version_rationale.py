"""Why a stack has this version of a package and not another one, with measured reasons."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from adviser.resolver.results import Choice, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import RequestRule, Universe
from adviser.scoring.assessment_types import Assessment, Claim
from adviser.scoring.claim_texts import (
    ClaimTexts,
    TitledSeries,
    differing_settings,
    effect_text,
    indicator_title,
    origin_text,
)
from adviser.scoring.criteria import SCALE, CriterionName
from adviser.scoring.stack_pairs import name_of, version_of_purl
from adviser.scoring.version_choice import PackageChoice
from model.packages.candidates import Candidate, Dependency, ExclusionReason
from model.packages.identity import Purl, version_of
from model.text import first_few, suggestion


def reason_against(assessment: Assessment, purl: Purl) -> str:
    """Why measurements prefer another version of the package; empty if they do not.

    ``2.2.3 is 3.2 times as fast as 3.1.1 in Frames (95 % interval 2.8 to 3.6)``
    """
    name, version = name_of(purl), version_of_purl(purl)
    if purl in assessment.unmeasured.get(name, ()):
        return f"{version} {_unmeasured_text(assessment, name)}"
    choice = assessment.choices.get(name)
    preference = choice.lost.get(purl) if choice else None
    if choice is None or preference is None:
        return ""
    better = preference.better
    return f"{version_of_purl(better)} is {comparison_text(assessment, choice, better, purl)}"


def _unmeasured_text(assessment: Assessment, name: str) -> str:
    choice = assessment.choices.get(name)
    whose = whose_text(choice) if choice else ""
    return f"was never measured here, and versions of {name} differ in speed{whose}"


def whose_text(choice: PackageChoice) -> str:
    """The pack that decides about a package, in brackets; empty for own jobs."""
    return f" (measured by others: pack {choice.pack.name})" if choice.pack else ""


def percent_text(probability: float) -> str:
    """A probability in whole per cent, rounded down.

    >>> percent_text(0.9666), percent_text(0.99999)
    ('96 %', 'more than 99 %')
    """
    return "more than 99 %" if probability > 0.99 else f"{math.floor(100 * probability)} %"


def comparison_text(
    assessment: Assessment, choice: PackageChoice, better: Purl, worse: Purl
) -> str:
    """How a version compares with another one: settled, likely, or with which probability."""
    claims = assessment.settled_between(better, worse)
    if claims:
        return seen_from(assessment, claims[0], better, version_of_purl(worse))
    expected = choice.expected(better, worse)
    if expected is None:
        return f"preferred to {version_of_purl(worse)}, although they were never compared"
    likely = "likely" if expected.likely else "not likely"
    chance = f"probability {percent_text(expected.probability)}"
    return f"{likely} faster than {version_of_purl(worse)} in {series_text(choice)} ({chance})"


def series_text(choice: PackageChoice) -> str:
    """The indicators that decide, with the settings that tell their series apart.

    ``PiMatmul with matrix_size 256 and with matrix_size 512``
    """
    titled = [
        TitledSeries(
            indicator_title(series.indicator, series.parameters),
            None, "", {"device": series.device, **series.parameters},
        )
        for series in choice.series
    ]  # fmt: skip
    texts: dict[str, list[str]] = {}
    for title, settings in zip(titled, differing_settings(titled), strict=True):
        texts.setdefault(title.indicator, []).append(", ".join(settings))
    parts = []
    for indicator, settings in sorted(texts.items()):
        named = [f"with {it}" for it in dict.fromkeys(settings) if it]
        parts.append(f"{indicator} {first_few(named, 5)}".strip())
    return f"{' and '.join(parts)}{whose_text(choice)}"


def measured_differences(assessment: Assessment, ours: Purl, theirs: Purl) -> Iterator[str]:
    """Measured differences of a version from another version and from the baseline.

    ``numpy 2.3.5 is likely faster than 2.4.6 in PiConv2D (probability 96 %)``
    """
    name = name_of(ours)
    choice, baseline = assessment.choices.get(name), assessment.baseline.get(name)
    release = f"{name} {version_of_purl(ours)}"
    if ours in assessment.unmeasured.get(name, ()):
        yield f"{release} {_unmeasured_text(assessment, name)}"
    elif choice is not None and {ours, theirs} <= set(choice.measured):
        yield f"{release} is {comparison_text(assessment, choice, ours, theirs)}"
    if baseline is not None and baseline not in (ours, theirs):
        for claim in assessment.settled_between(ours, baseline)[:1]:
            yield f"{release} is {seen_from(assessment, claim, ours, version_of_purl(baseline))}"


def seen_from(assessment: Assessment, claim: Claim, ours: Purl, other: str) -> str:
    """The effect of a claim as seen from ``ours``: ``10 % faster than 1.0 in X (…)``."""
    numbers = claim.observed_pct, claim.interval_low_pct, claim.interval_high_pct
    if claim.purl != ours:
        size, high, low = (100 * math.expm1(-math.log1p(it / 100)) for it in numbers)
        numbers = size, low, high
    size_text, interval = effect_text(*numbers, other)
    where = ClaimTexts(assessment.claims).place(claim)
    whose = ", ".join(filter(None, (interval, origin_text(claim))))
    return f"{size_text} in {where} ({whose})"


#: How many versions of a required package are tried, and through how many packages.
_TRIED, _DEPTH = 30, 2
#: Why no wheel of a version fits, as text.
MISMATCHES = {
    ExclusionReason.LIBC_TOO_OLD: "its wheels need a newer C library or macOS",
    ExclusionReason.PLATFORM_TAG: "its wheels are for other platforms",
    ExclusionReason.ABI_TAG: "its wheels are for other builds of this Python",
    ExclusionReason.PYTHON_TAG: "its wheels are for other versions of Python",
    ExclusionReason.SDIST_TOO_OLD: "it is older than this Python, so the build may fail",
}


class RationaleCode(StrEnum):
    """Why a stack has this version. The values are stored; never rename them."""

    NEWEST = "newest"
    #: A package of the stack, or the request, requires an older version.
    HELD_BACK = "held_back"
    #: A newer version requires other versions than the stack has.
    NEEDS_OTHERS = "needs_others"
    #: A newer version has a lower score.
    SCORES_BETTER = "scores_better"
    #: A newer version cannot be installed here, or a rule excludes it.
    NEWER_UNUSABLE = "newer_unusable"
    #: The newer versions are pre-releases or yanked.
    NOT_INVITED = "not_invited"
    #: The stack as a whole scores better with this version.
    WHOLE_STACK = "whole_stack"
    #: A better stack has a newer version, and stacks must differ.
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Rationale:
    """The reason for one version.

    :param newer: the newer version that was not chosen, if there is one
    :param newer_purl: its Package URL; ``None`` if it is not a candidate
    """

    place: RationaleCode
    message: str
    newer: str | None = None
    newer_purl: Purl | None = None


def candidates_of(universe: Universe, stack: ResolvedStack) -> dict[str, Candidate]:
    """The candidates of a stack by name."""
    return {
        choice.name: next(it for it in universe.packages[choice.name] if it.purl == choice.purl)
        for choice in stack.choices
    }


def lacking_text(candidate: Candidate, extra: str) -> str | None:
    """A message that a version does not have an extra; ``None`` if it has it."""
    if extra in candidate.extras:
        return None
    similar = suggestion(extra, candidate.extras, shown=repr)
    return (
        f"{candidate.name} {candidate.version} does not have the extra {extra!r}{similar},"
        f" so it adds nothing; it has: {', '.join(candidate.extras) or 'none'}"
    )


class VersionRationales:
    """The reasons for the versions of one stack.

    :param above: the stacks that score better
    """

    def __init__(
        self,
        universe: Universe,
        stack: ResolvedStack,
        assessment: Assessment,
        above: Iterable[ResolvedStack] = (),
    ) -> None:
        self._above = [it.versions() for it in above]
        self._universe = universe
        self._assessment = assessment
        self._versions = stack.versions()
        self._chosen = candidates_of(universe, stack)
        self._extras = {it.name: it.extras for it in stack.choices}

    def rationale(self, choice: Choice) -> Rationale:
        """Why the stack has this version."""
        passed = self._universe.packages[choice.name][: choice.place]
        if not passed:
            return self._unusable(choice) or Rationale(RationaleCode.NEWEST, "the newest release")
        # If a pre-release is chosen, pre-releases are allowed, so a newer one has another reason.
        allowed = self._chosen[choice.name].prerelease
        plain = [
            it
            for it in passed
            if not it.yanked
            and (allowed or not (it.prerelease and it.name not in self._universe.prereleases))
        ]
        if not plain:
            state = "was yanked" if passed[0].yanked else "is a pre-release, and none was requested"
            text = f"{passed[0].version} {state}"
            return self._unusable(choice) or Rationale(
                RationaleCode.NOT_INVITED, text, passed[0].version, passed[0].purl
            )
        # Requirements of the stack on the package leave out further versions, which is seldom news.
        requirers = list(self.requirers(choice.name))
        newest = next((it for it in plain if self._admit(requirers, it)), plain[0])
        return (
            self._held(choice, newest)
            or self._scored(choice, newest)
            or self._needs(newest)
            or self._differs(newest)
            or Rationale(
                RationaleCode.WHOLE_STACK,
                f"the stack as a whole scores better than with {newest.version}",
                newest.version,
                newest.purl,
            )
        )

    def requirers(self, name: str) -> Iterator[tuple[str, Dependency]]:
        """Names of the packages that require a package, with the requirement.

        The request comes first, with an empty name.
        """
        for root in self._universe.roots:
            if root.name == name:
                yield "", root
        for requirer, candidate in self._chosen.items():
            for dependency in candidate.requirements(self._extras[requirer]):
                if dependency.name == name:
                    yield requirer, dependency

    def requirement_text(self, requirer: str, dependency: Dependency) -> str:
        """A requirement as text, such as ``flask 3.0 requires click>=8``, with its override."""
        name = dependency.name
        wanted = f"{name}{dependency.specifier}{self._override_text(name)}"
        if not requirer:
            return f"the request requires {wanted}"
        if dependency.reason:
            return f"{requirer} {self._versions[requirer]} needs {wanted}: {dependency.reason}"
        return f"{requirer} {self._versions[requirer]} requires {wanted}"

    def _held(self, choice: Choice, newest: Candidate) -> Rationale | None:
        if (override := self._universe.overrides.get(choice.name)) is not None:
            if admits(override, newest.version):
                return None
            message = f"the request overrides {choice.name} to {override}"
            return Rationale(RationaleCode.HELD_BACK, message, newest.version, newest.purl)
        for requirer, dependency in self.requirers(choice.name):
            if not admits(self._universe.specifier_of(dependency), newest.version):
                message = self.requirement_text(requirer, dependency)
                return Rationale(RationaleCode.HELD_BACK, message, newest.version, newest.purl)
        return None

    def _scored(self, choice: Choice, newest: Candidate) -> Rationale | None:
        ours, others = map(self._universe.values, (self._chosen[choice.name], newest))
        if others >= ours:
            return None
        by_newness = others[0] == ours[0]
        theirs = self._universe.contributions.get(newest.purl, ())
        gains = [
            (mine - other, criterion)
            for mine, other, criterion in zip(
                choice.contributions, theirs, self._assessment.criteria, strict=True
            )
            if mine > other and criterion.newness == by_newness
        ]
        gain, criterion = max(gains, key=lambda it: it[0])
        if criterion.name in (CriterionName.PERFORMANCE, CriterionName.UNMEASURED):
            text = reason_against(self._assessment, newest.purl)
        elif criterion.name is CriterionName.BUILD and newest.wheel_mismatch is not None:
            text = f"{newest.version} would have to be built: {MISMATCHES[newest.wheel_mismatch]}"
        else:
            text = f"{newest.version} scores {gain / SCALE:.2f} points less for {criterion.name}"
        return Rationale(RationaleCode.SCORES_BETTER, text, newest.version, newest.purl)

    def _needs(self, newest: Candidate) -> Rationale | None:
        """The requirement of a newer version that the other packages of the stack do not allow."""
        # All requirements by package, without those of one package and of what it alone needs.
        requirements: dict[str, list[tuple[str, Dependency]]] = {}
        pending = [("", it) for it in self._universe.roots]
        for requirer, dependency in pending:  # grows
            name = dependency.name
            if name not in requirements and name != newest.name and name in self._chosen:
                more = self._chosen[name].requirements(self._extras[name])
                pending += [(name, it) for it in more if it.name != name]
            requirements.setdefault(name, []).append((requirer, dependency))
        obstacles = self._obstacles(newest, self._extras[newest.name], requirements)
        rank_and_text = min(obstacles, default=None, key=lambda it: it[0])
        if rank_and_text is None:
            return None
        message = f"{newest.version} {rank_and_text[1]}"
        return Rationale(RationaleCode.NEEDS_OTHERS, message, newest.version, newest.purl)

    def _obstacles(
        self,
        candidate: Candidate,
        extras: Iterable[str],
        others: Mapping[str, Sequence[tuple[str, Dependency]]],
        depth: int = 0,
    ) -> Iterator[tuple[int, str]]:
        """Requirements of a version that the stack does not meet: rank and text.

        No version can meet a requirement of rank 0 beside the requirements of other packages. With
        rank 1, another version of a direct requirement can meet it; with rank 2, another version
        of an indirect one. A package that can be added is no obstacle.
        """
        universe = self._universe
        for dependency in candidate.requirements(extras):
            name, text = dependency.name, universe.specifier_of(dependency)
            version = self._versions.get(name)
            if name in universe.unlisted or (version is not None and admits(text, version)):
                continue
            wanted = f"requires {name}{dependency.specifier}{self._override_text(name)}"
            usable = universe.packages.get(name, ())
            left = [it for it in usable if admits(text, it.version)]
            requirers = others.get(name, ())
            barring = (it for it in requirers if not any(self._admit([it], one) for one in left))
            if not left:
                yield 0, f"{wanted}, {self._unavailable(name, text)}"
            elif (barred := next(barring, None)) is not None:
                yield 0, f"{wanted}, but {self.requirement_text(*barred)}"
            else:
                left = [it for it in left if self._admit(requirers, it)][: _TRIED + 1]
                deeper = self._deeper(left, dependency, others, depth) if left else None
                if deeper is not None:
                    yield 0, f"{wanted}, {deeper}"
                elif version is not None:
                    rank = 1 if name in universe.direct else 2
                    yield rank, f"{wanted}, but the stack has {name} {version}"

    def _admit(self, requirers: Iterable[tuple[str, Dependency]], candidate: Candidate) -> bool:
        specifiers = (self._universe.specifier_of(it) for _, it in requirers)
        return all(admits(text, candidate.version) for text in specifiers)

    def _deeper(
        self,
        left: Sequence[Candidate],
        dependency: Dependency,
        others: Mapping[str, Sequence[tuple[str, Dependency]]],
        depth: int,
    ) -> str | None:
        """Why none of these versions is possible; ``None`` if one is, or if that is unknown."""
        if depth == _DEPTH or len(left) > _TRIED or not all(it.read for it in left):
            return None
        texts = []
        for candidate in left:
            obstacles = self._obstacles(candidate, dependency.extras, others, depth + 1)
            text = next((text for rank, text in obstacles if not rank), None)
            if text is None:
                return None
            texts.append(f"{candidate.name} {candidate.version} {text}")
        return texts[0]

    def _unavailable(self, name: str, specifier: str) -> str:
        """Why no version that a specifier admits can be chosen."""
        refused = self._universe.refused.get(name, ())
        for version in refused:
            if version_of(version.version) is not None and admits(specifier, version.version):
                return f"but {name} {version.version} cannot be chosen: {version.message}"
        return f"and {self._universe.absent.get(name, 'no known version meets that')}"

    def _differs(self, newest: Candidate) -> Rationale | None:
        """The rationale if a better stack already has the newer version; stacks must differ."""
        for number, versions in enumerate(self._above, 1):
            if versions.get(newest.name) == newest.version:
                message = f"stacks must differ, and stack {number} has {newest.version}"
                return Rationale(RationaleCode.DIFFERS, message, newest.version, newest.purl)
        return None

    def _override_text(self, name: str) -> str:
        specifier = self._universe.overrides.get(name)
        return "" if specifier is None else f" (overridden to {name}{specifier})"

    def _unusable(self, choice: Choice) -> Rationale | None:
        """The rationale if an excluded version is newer than the chosen one."""
        ours = version_of(choice.version)
        for refused in self._universe.refused.get(choice.name, ()):
            theirs = version_of(refused.version)
            if (
                ours is None
                or theirs is None
                or theirs <= ours
                or refused.reason is RequestRule.OTHER_INDEX
            ):
                continue
            if theirs.is_prerelease and choice.name not in self._universe.prereleases:
                continue
            return Rationale(
                RationaleCode.NEWER_UNUSABLE,
                f"{refused.version}: {refused.message}",
                refused.version,
            )
        return None
