"""The notes of a report: messages for people, each with a stable code, a level and a link."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from adviser.advise import Advice
from adviser.reports.note_codes import NoteCode, link_of, project_code
from adviser.reports.unfetched_versions import UnfetchedVersions, knows_nothing, missing_packages
from adviser.reports.version_rationale import (
    MISMATCHES,
    Rationale,
    RationaleCode,
    VersionRationales,
    candidates_of,
    lacking_text,
)
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.results import Choice, ResolutionStatus, ResolvedStack
from adviser.resolver.specifiers import admits, names_prerelease
from adviser.resolver.universe import RefusedVersion, RequestRule, Universe
from adviser.scoring.assessment_types import (
    Claim,
    Coverage,
    Justification,
    JustificationCode,
    NoteLevel,
)
from adviser.scoring.claim_texts import ClaimTexts, need_text
from adviser.scoring.criteria import SCALE, AllowList, level_names
from adviser.scoring.next_jobs import next_claims
from model.measurements.benchmark_results import ResultContext
from model.packages.candidate_builder import DYNAMIC_METADATA
from model.packages.candidates import Candidate, ExclusionReason
from model.packages.releases import is_specifier, specifier_set
from model.text import counted, first_few

#: Maximum number of open comparisons in a note, and of findings against a newer version.
_NEXT, _GROUNDS = 3, 2
#: Maximum number of notes about results of other benchmark systems.
_CONTEXTS = 5
#: Maximum number of versions in a message.
_NAMED = 3
#: Findings about a newer version that can decide against it.
_DECIDING = frozenset(
    {
        JustificationCode.FASTER,
        JustificationCode.SLOWER,
        JustificationCode.EQUIVALENT,
        JustificationCode.VULNERABLE,
    }
)


@dataclass(frozen=True, slots=True)
class ReportNote:
    """One line of ``stack_info`` or of a product's ``justification``.

    :param code: stable
    :param package: the package it is about; ``None`` for the whole request
    :param evidence: identifiers of observations or vulnerabilities, sorted
    """

    code: str
    type: NoteLevel
    message: str
    package: str | None = None
    version: str | None = None
    link: str = ""
    evidence: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """The note as JSON: strings and lists of strings only, which every client can show."""
        document: dict[str, object] = {
            "code": self.code,
            "type": self.type.value,
            "message": self.message,
            "link": self.link or link_of(self.code),
        }
        if self.package is not None:
            document["package_name"] = self.package
        if self.version is not None:
            document["package_version"] = self.version
        if self.evidence:
            document["evidence"] = list(self.evidence)
        return document


def _note_about(
    code: NoteCode, level: NoteLevel, message: str, release: Choice | Candidate
) -> ReportNote:
    """A note about one version."""
    return ReportNote(code, level, message, release.name, release.version)


def stack_notes(advice: Advice) -> list[ReportNote]:
    """Notes about the request as a whole, whether or not there is a stack."""
    # The age of each data source in days. Exact times are in ``coverage``.
    known = [
        f"{it.name} {'never' if it.as_of is None else f'{it.as_of:%Y-%m-%d}'}"
        for it in advice.assessment.coverage.sources
    ]
    date = f"as of {advice.evidence.as_of:%Y-%m-%d}"
    message = f"{date}; last update of each source: {', '.join(known)}" if known else date
    notes = [
        _environment(advice),
        *_hardware(advice),
        *_project(advice),
        *_indexes(advice),
        *_limits(advice),
        *_baseline(advice),
        *_coverage(advice),
        ReportNote(NoteCode.SOURCES, NoteLevel.INFO, message),
        *_next_jobs(advice),
        *_request(advice),
    ]
    if advice.best is None:
        notes += _conflict(advice)
    return list(dict.fromkeys(notes))


def product_notes(advice: Advice, stack: ResolvedStack) -> list[ReportNote]:
    """Notes about one stack: first about its versions, then why newer versions were not chosen."""
    purls = {it.purl for it in stack.choices}
    rationales = rationales_of(advice, stack)
    notes = [
        _with_admission(note_of(it), advice.universe, rationales)
        for it in advice.assessment.justifications_of(purls)
    ]
    notes += [
        note for it in stack.choices if (note := _version_note(advice, rationales, it)) is not None
    ]
    if stack is advice.best and advice.request.locked == stack.versions():
        proven = advice.resolution.status is ResolutionStatus.OPTIMAL
        better = (
            "no stack that meets the request is better"
            if proven
            else "the search found no better one in its limit"
        )
        message = f"the project already has this stack; {better}"
        notes.insert(0, ReportNote(NoteCode.STAY, NoteLevel.INFO, message))
    return list(dict.fromkeys(notes))


def _with_admission(
    note: ReportNote, universe: Universe, rationales: VersionRationales
) -> ReportNote:
    """A note that a version is a pre-release, with the reason why that is allowed."""
    if note.code != JustificationCode.PRERELEASE or note.package is None:
        return note
    naming = (
        rationales.requirement_text(requirer, dependency)
        for requirer, dependency in rationales.requirers(note.package)
        if names_prerelease(universe.specifier_of(dependency))
    )
    allowed = note.package in universe.prereleases
    otherwise = "the request allows them" if allowed else "no release meets all requirements"
    return replace(note, message=f"{note.message}: {next(naming, otherwise)}")


def rationales_of(advice: Advice, stack: ResolvedStack) -> VersionRationales:
    """The reasons for the versions of one of the advised stacks."""
    above = takewhile(lambda it: it != stack, advice.resolution.stacks)
    return VersionRationales(advice.universe, stack, advice.assessment, above)


def note_of(justification: Justification) -> ReportNote:
    """A justification from scoring as a note."""
    version = (
        justification.purl.partition("?")[0].rpartition("@")[2] if justification.purl else None
    )
    return ReportNote(
        justification.code.value,
        justification.type,
        justification.message,
        justification.package,
        version,
        justification.link or "",
        tuple(justification.evidence),
    )


def _version_note(
    advice: Advice, rationales: VersionRationales, choice: Choice
) -> ReportNote | None:
    rationale = rationales.rationale(choice)
    if rationale.place is RationaleCode.NEWEST:
        return None
    grounds = _grounds(advice, rationale)
    parts = [rationale.message, *(it.message for it in grounds[:_GROUNDS])]
    if grounds[_GROUNDS:]:
        parts.append(f"and {len(grounds) - _GROUNDS} more findings of this kind")
    return ReportNote(
        rationale.place.value,
        NoteLevel.INFO,
        f"{choice.name} {choice.version}: {'; '.join(parts)}",
        choice.name,
        choice.version,
        evidence=tuple(sorted({one for it in grounds for one in it.evidence})),
    )


def vulnerabilities_of(advice: Advice, rationale: Rationale) -> list[str]:
    """Messages about the vulnerabilities that decided against a newer version."""
    return [
        it.message for it in _grounds(advice, rationale) if it.code is JustificationCode.VULNERABLE
    ]


def _grounds(advice: Advice, rationale: Rationale) -> list[Justification]:
    """Measurements and vulnerabilities that decided against a newer version."""
    newer = rationale.newer_purl
    if rationale.place is not RationaleCode.SCORES_BETTER or newer is None:
        return []
    findings = advice.assessment.justifications_of({newer})
    return [it for it in findings if it.purl == newer and it.code in _DECIDING]


def _environment(advice: Advice) -> ReportNote:
    environment, hardware = advice.request.environment, advice.request.hardware
    # A Python version without a patch number means the first patch release.
    first = environment.python_full_version.endswith(".0")
    assumed = f"; assuming Python {environment.python_full_version}" if first else ""
    label = advice.request.hardware_name
    if label is None and hardware:
        # Requests of earlier versions have no name.
        label = advice.evidence.hardware.get(hardware, hardware.rpartition(":")[2][:12])
    return ReportNote(
        NoteCode.ENVIRONMENT,
        NoteLevel.INFO,
        f"resolved for {environment.label}" + (f", on {label}" if label else "") + assumed,
    )


def _project(advice: Advice) -> Iterator[ReportNote]:
    for warning in advice.request.project.warnings:
        yield ReportNote(project_code(warning.code), NoteLevel.WARNING, warning.text)


def _indexes(advice: Advice) -> Iterator[ReportNote]:
    indexes = advice.request.options.indexes
    used = {it.index for it in advice.request.requirements if it.index is not None}
    rules = advice.request.resolver_request({})
    for index in indexes:
        if index.known:
            continue
        unknown = f"the index {index.called!r} ({index.url}) is not configured here"
        if index.owns:
            patterns = first_few(index.owns, _NAMED)
            message = (
                f"the index {index.called!r} is not configured here (PACKAGE_INDEXES), but "
                f"INDEX_NAMESPACES says that only this index may have {patterns}: such packages "
                "cannot be chosen"
            )
        elif index.called in used or _is_wanted(index.name, advice, rules):
            message = f"{unknown}, so it is not asked and its packages are unknown; {index.remedy}"
        else:
            continue
        yield ReportNote(NoteCode.INDEX_UNKNOWN, NoteLevel.WARNING, message)
    for name in sorted(used - {it.called for it in indexes}):
        message = f"the project has no index {name!r}: list it with its URL, or select another"
        yield ReportNote(NoteCode.INDEX_UNKNOWN, NoteLevel.WARNING, message)
    for name in sorted(advice.snapshot.revisions):
        if (owner := rules.owner_of(name)) is not None:
            text = f"{name}: the index {owner} owns this name, so no other index is used for it"
            yield ReportNote(NoteCode.INDEX_OWNER, NoteLevel.INFO, text, name)
    for name, refused in advice.universe.refused.items():
        # If no index in use has the package, the conflict reports that.
        others = {
            it.message
            for it in refused
            if it.reason is RequestRule.OTHER_INDEX and it.rule.startswith("from ")
        }
        for message in sorted(others):
            text = f"{name}: two indexes offer this name: {message}; the other one is ignored"
            yield ReportNote(NoteCode.OTHER_INDEX, NoteLevel.WARNING, text, name)
    yield from _decided_by_order(advice, rules)


def _is_wanted(index: str, advice: Advice, rules: ResolverRequest) -> bool:
    """Whether no earlier index has a package that may come from this one."""
    snapshot = advice.snapshot
    for name in snapshot.revisions:
        sources = rules.indexes_of(name)
        earlier = sources[: sources.index(index)] if index in sources else sources
        has = {it.index for it in snapshot.packages.get(name, ())}
        has |= {it.index for it in snapshot.excluded.get(name, ())}
        if index in sources and has.isdisjoint(earlier):
            return True
    return False


def _decided_by_order(advice: Advice, rules: ResolverRequest) -> Iterator[ReportNote]:
    """Packages of the stack that a later index may offer, too.

    Later indexes are not asked: that would tell them the names of private packages.
    """
    chosen = candidates_of(advice.universe, advice.best) if advice.best else {}
    by_index: dict[str, list[str]] = {}
    for name, candidate in sorted(chosen.items()):
        if rules.only_index_of(name) is None and candidate.index in rules.indexes[:-1]:
            by_index.setdefault(candidate.index, []).append(name)
    for index, names in by_index.items():
        later = " and ".join(rules.indexes[rules.indexes.index(index) + 1 :])
        text = (
            f"two indexes may offer the same name: {index} is searched first and decides, and "
            f"{later} was not asked for {first_few(names, _NAMED)}; INDEX_NAMESPACES says which "
            "names an index owns"
        )
        yield ReportNote(NoteCode.INDEX_ORDER, NoteLevel.INFO, text)


def _limits(advice: Advice) -> Iterator[ReportNote]:
    resolution, count = advice.resolution, advice.request.options.count
    if resolution.status is ResolutionStatus.UNKNOWN and resolution.conflict is None:
        message = (
            f"the search reached its {resolution.limit or 'time'} limit before it found a stack"
        )
        yield ReportNote(NoteCode.LIMIT, NoteLevel.ERROR, message)
    elif resolution.status is ResolutionStatus.FEASIBLE:
        message = (
            f"the search reached its {resolution.limit or 'time'} limit: this is the best stack so "
            f"far, and another may be better by {_gap_text(advice)}"
        )
        yield ReportNote(NoteCode.LIMIT, NoteLevel.WARNING, message)
    elif resolution.stacks and not resolution.settled and not resolution.complete:
        message = (
            "no stack scores better, which is proven; the search reached its limit before it could "
            "choose among stacks of the same score"
        )
        yield ReportNote(NoteCode.LIMIT, NoteLevel.INFO, message)
    if resolution.complete and resolution.stacks and len(resolution.stacks) < count:
        message = f"only {len(resolution.stacks)} of {count} requested stacks exist"
        yield ReportNote(NoteCode.FEW_STACKS, NoteLevel.INFO, message)


def _gap_text(advice: Advice) -> str:
    """The first score level at which a better stack is possible, and the maximum gain."""
    names = level_names(advice.universe.direct)
    gaps = zip(names, advice.resolution.gap or (), strict=False)
    name, gap = next((it for it in gaps if it[1]), (names[0], 0))
    return f"{gap / SCALE:.2f} points at most ({name})"


def _hardware(advice: Advice) -> Iterator[ReportNote]:
    if advice.request.hardware_note is not None:
        yield ReportNote(NoteCode.HARDWARE, NoteLevel.WARNING, advice.request.hardware_note)


def _baseline(advice: Advice) -> Iterator[ReportNote]:
    if advice.assessment.baseline:
        message = f"compared with {advice.baseline_reason}"
        yield ReportNote(NoteCode.BASELINE, NoteLevel.INFO, message)


def _request(advice: Advice) -> Iterator[ReportNote]:
    """Notes about the request as a whole, and about how to fetch missing packages.

    If the store knows none of the packages, a single note replaces the notes about each package.
    """
    nothing = knows_nothing(advice.snapshot)
    if missing := missing_packages(advice.request, advice.snapshot):
        level = NoteLevel.ERROR if nothing else NoteLevel.WARNING
        yield ReportNote(NoteCode.FETCH, level, missing.message())
    for justification in advice.assessment.justifications:
        if justification.code is not JustificationCode.MISSING:
            yield note_of(justification)
        elif not nothing:
            yield _missing(advice, justification)


def _missing(advice: Advice, justification: Justification) -> ReportNote:
    """A note about a package that indexes lack; an error only if there is no stack."""
    note, name = note_of(justification), justification.package
    absence = advice.snapshot.absences.get(name or "")
    if advice.best is None or absence is None:
        return note
    message = f"{name}: {absence.message}, so versions that require it do not count"
    return replace(note, type=NoteLevel.WARNING, message=message)


def _coverage(advice: Advice) -> Iterator[ReportNote]:
    best = advice.best
    if best is None:
        return
    coverage = advice.assessment.coverage_of({choice.purl for choice in best.choices})
    yield ReportNote(
        NoteCode.COVERAGE, NoteLevel.INFO, _measured(coverage, advice.request.hardware)
    )


def _measured(coverage: Coverage, hardware: str | None) -> str:
    """How much of a stack was measured. The nearest measured stack is in ``coverage``."""
    where = " on this hardware" if hardware is not None else ""
    measured = coverage.measured if where else coverage.measured + coverage.measured_elsewhere
    if not measured:
        return f"no package of this stack was measured in this version{where}"
    packages = counted(coverage.packages, "package was", "packages were")
    return f"{measured} of {packages} measured in this version{where}"


def _next_jobs(advice: Advice) -> Iterator[ReportNote]:
    claims = next_claims(advice.assessment.claims)
    if claims:
        count = counted(len(claims), "comparison is", "comparisons are")
        texts = ClaimTexts(advice.assessment.claims)
        details = "; ".join(_further(it, texts) for it in claims[:_NEXT])
        yield ReportNote(
            NoteCode.NEXT_JOBS, NoteLevel.INFO, f"{count} undetermined; measure next: {details}"
        )


def _further(claim: Claim, texts: ClaimTexts) -> str:
    ours, theirs = (str(purl).partition("@")[2] for purl in (claim.purl, claim.baseline_purl))
    return f"{claim.package} {ours} against {theirs} in {texts.series(claim)}: {need_text(claim)}"


def _conflict(advice: Advice) -> Iterator[ReportNote]:
    conflict = advice.resolution.conflict
    for number, step in enumerate(conflict.steps if conflict else (), 1):
        yield ReportNote(
            NoteCode.CONFLICT,
            NoteLevel.ERROR,
            f"{number}. {step.message}",
            step.required or step.name,
        )


def refused_text(count: int) -> str:
    """A message that some observations are not used as evidence, and the command that shows why.

    >>> refused_text(1)
    '1 observation is ignored, because its document was changed: see `thoth ingest quarantine`'
    """
    subject = (
        "1 observation is ignored, because its document was"
        if count == 1
        else f"{count} observations are ignored, because their documents were"
    )
    return f"{subject} changed: see `thoth ingest quarantine`"


def gap_notes(advice: Advice) -> Iterator[ReportNote]:
    """Notes about missing advisories, and about options of the request that have no effect."""
    yield from _advisories(advice)
    yield from _unread(advice)
    if count := advice.evidence.refused:
        message = refused_text(count)
        yield ReportNote(NoteCode.REFUSED_EVIDENCE, NoteLevel.WARNING, message)
    known = {*advice.snapshot.packages, *advice.snapshot.missing}
    for name in sorted(advice.request.options.prereleases - known):
        message = f"pre-releases of {name} are allowed, but nothing requires {name}"
        yield ReportNote(NoteCode.NO_EFFECT, NoteLevel.WARNING, message, name)
    vulnerabilities = [
        vulnerability
        for candidates in advice.snapshot.packages.values()
        for it in candidates
        for vulnerability in it.vulnerabilities
    ]
    for identifier in sorted(advice.request.options.allowed_vulnerabilities):
        allowed = AllowList([identifier], advice.evidence.vulnerabilities)
        if not any(map(allowed.accepts, vulnerabilities)):
            message = f"{identifier} is allowed, but no version here is known to be affected by it"
            yield ReportNote(NoteCode.NO_EFFECT, NoteLevel.WARNING, message)
    yield from _missing_extras(advice)
    yield from _old_specifiers(advice)
    yield from _inferred_bounds(advice)
    yield from _builds(advice)


def _builds(advice: Advice) -> Iterator[ReportNote]:
    """Notes about packages of a conflict that could be chosen after a build."""
    conflict, options = advice.resolution.conflict, advice.request.options
    if conflict is None or options.build or options.only_wheels:
        return
    for name in dict.fromkeys(it.name for it in conflict.accounts):
        newest = next(
            (
                it.version
                for it in advice.snapshot.excluded.get(name, ())
                if it.message == DYNAMIC_METADATA
            ),
            None,
        )
        if newest is not None:
            message = f"{name} {newest} says what it requires only after a build: "
            target = advice.request.environment
            message += (
                "`thoth advise --build` builds its metadata in a sandbox, on a machine with Python"
                f" {target.python_version} and {target.sys_platform} {target.platform_machine}"
            )
            yield ReportNote(NoteCode.BUILD, NoteLevel.WARNING, message, name, newest)


def unfetched_note(versions: UnfetchedVersions) -> ReportNote:
    """A note that a conflict only covers the versions that were read."""
    return ReportNote(NoteCode.UNREAD, NoteLevel.WARNING, versions.message(), versions.name)


def other_wheels_notes(names: Sequence[str]) -> Iterator[ReportNote]:
    """A note about requirements that were read for another Python or platform."""
    if names:
        message = (
            f"the record has the requirements of {first_few(names, 5)} only from wheels for another"
            " Python or platform: `--fetch` reads the wheels for this one"
        )
        yield ReportNote(NoteCode.OTHER_WHEELS, NoteLevel.INFO, message)


def _advisories(advice: Advice) -> Iterator[ReportNote]:
    if advice.evidence.knows_advisories:
        return
    # If the request refuses vulnerable versions, an empty list would look like a clean result.
    level = NoteLevel.WARNING if advice.request.kind.refuses_vulnerable else NoteLevel.INFO
    message = (
        "the store has no advisories, so vulnerable versions are not recognised: "
        "set ADVISORIES to OSV's archive and run `thoth advisories sync --osv`"
    )
    yield ReportNote(NoteCode.NO_ADVISORIES, level, message)


def _unread(advice: Advice) -> Iterator[ReportNote]:
    """A note that some listed versions could not be read, and that one of them may be better.

    Each package that could not be read has its own note.
    """
    unread = [
        (name, it)
        for name, excluded in advice.snapshot.excluded.items()
        for it in excluded
        if it.reason is ExclusionReason.UNAVAILABLE
    ]
    for name, version in unread[:_NAMED]:
        message = f"{name} {version.version} does not count: {version.message}"
        yield ReportNote(NoteCode.UNREAD, NoteLevel.WARNING, message, name, version.version)
    if unread[_NAMED:]:
        versions = counted(len(unread) - _NAMED, "more version does", "more versions do")
        message = f"{versions} not count, because reading failed"
        yield ReportNote(NoteCode.UNREAD, NoteLevel.WARNING, message)


_LIKELY = "its requirements are likely, not certain: its metadata lets a build change them"
#: Rules that can remove a release although the request does not name the package.
_GENERAL_RULES = frozenset({RequestRule.PUBLISHED, RequestRule.POLICY, RequestRule.EXCLUSION})


def shortfall_notes(advice: Advice, stack: ResolvedStack) -> Iterator[ReportNote]:
    """Notes about versions without a wheel, and pre-releases without a suitable release."""
    candidates = candidates_of(advice.universe, stack)
    for choice in stack.choices:
        yield from _prerelease(advice, stack, choice, candidates[choice.name])
        candidate = candidates[choice.name]
        if candidate.sdist_only:
            known = candidate.wheel_mismatch is not None
            why = (
                MISMATCHES[candidate.wheel_mismatch]
                if candidate.wheel_mismatch
                else "it has no wheel for this environment"
            )
            message = f"it is built from its source distribution, because {why}"
            if candidate.requirements_built:
                message += "; its requirements are from a build in this environment"
            elif not candidate.requirements_likely:
                message += "; its requirements are certain" + " (those of its wheels)" * known
            level = NoteLevel.WARNING if known else NoteLevel.INFO
            yield _note_about(NoteCode.BUILT_FROM_SDIST, level, message, candidate)
        if candidate.requirements_likely:
            yield _note_about(NoteCode.REQUIREMENTS_LIKELY, NoteLevel.WARNING, _LIKELY, candidate)


def _missing_extras(advice: Advice) -> Iterator[ReportNote]:
    """Notes about required extras that the chosen version does not have."""
    stack = advice.best
    if stack is None:
        return
    candidates, rationales = candidates_of(advice.universe, stack), rationales_of(advice, stack)
    for choice in stack.choices:
        for extra in choice.extras:
            if (lacking := lacking_text(candidates[choice.name], extra)) is None:
                continue
            requirers = (
                f"{requirer} {candidates[requirer].version}" if requirer else "the request"
                for requirer, dependency in rationales.requirers(choice.name)
                if extra in dependency.extras
            )
            subject = next(requirers, f"{choice.name} {choice.version}")
            message = f"{subject} requires {choice.name}[{extra}], but {lacking}"
            yield _note_about(NoteCode.EXTRA_MISSING, NoteLevel.WARNING, message, choice)


def _old_specifiers(advice: Advice) -> Iterator[ReportNote]:
    """Notes about requirements of the best stack that are not valid, and how they were read."""
    for candidate in candidates_of(advice.universe, advice.best).values() if advice.best else ():
        inferred = advice.universe.inferred.get(candidate.purl, ())
        faults = [it.reason for it in candidate.requires if it.reason and it not in inferred]
        python = candidate.requires_python or ""
        if python and not is_specifier(python):
            faults.append(
                f"Requires-Python {python!r} is not valid and is read as {specifier_set(python)}"
            )
        for fault in faults:
            message = f"{candidate.name} {candidate.version}: {fault}"
            yield _note_about(NoteCode.OLD_SPECIFIER, NoteLevel.WARNING, message, candidate)


def _inferred_bounds(advice: Advice) -> Iterator[ReportNote]:
    """Notes about inferred bounds that limit the best stack, or that were ignored."""
    if advice.unbounded and advice.best is not None:
        names = first_few(sorted(advice.unbounded), _NAMED)
        message = f"no stack meets the bounds that were inferred for {names}; they do not count"
        yield ReportNote(NoteCode.BOUNDS_DROPPED, NoteLevel.WARNING, message)
    for choice in advice.best.choices if advice.best else ():
        for bound in advice.universe.inferred.get(choice.purl, ()):
            usable = advice.universe.packages.get(bound.name, ())
            newest = next((one for one in usable if not one.prerelease and not one.yanked), None)
            if newest is not None and not admits(bound.specifier, newest.version):
                inferred = f"inferred {bound.name}{bound.specifier}: {bound.reason}"
                message = f"{choice.name} {choice.version}: {inferred}"
                yield _note_about(NoteCode.INFERRED_BOUND, NoteLevel.INFO, message, choice)


def _prerelease(
    advice: Advice, stack: ResolvedStack, choice: Choice, candidate: Candidate
) -> Iterator[ReportNote]:
    name, universe = choice.name, advice.universe
    if not candidate.prerelease or name in universe.prereleases:
        return
    specifiers = [
        universe.specifier_of(it) for _, it in rationales_of(advice, stack).requirers(name)
    ]
    if any(map(names_prerelease, specifiers)):
        return
    refused = [
        it
        for it in universe.refused.get(name, ())
        if _is_release(it) and all(admits(text, it.version) for text in specifiers)
    ]
    if not refused:
        return
    releases = [f"{it.version} ({it.message})" for it in refused[:_NAMED]]
    releases += [f"{len(refused) - _NAMED} more"] * (len(refused) > _NAMED)
    message = f"{name} {choice.version} is a pre-release, because the request excludes every"
    message += f" suitable release: {', '.join(releases)}"
    yield _note_about(NoteCode.ONLY_PRERELEASES, NoteLevel.WARNING, message, choice)


def _is_release(refused: RefusedVersion) -> bool:
    return (
        refused.reason in _GENERAL_RULES
        and refused.candidate is not None
        and not refused.candidate.prerelease
        and not refused.candidate.yanked
    )


def context_notes(contexts: Iterable[ResultContext]) -> Iterator[ReportNote]:
    """One sentence for each benchmark system with results that concern the request.

    Results with a required package on the requested machine come first.
    """
    ordered = sorted(
        contexts, key=lambda it: (it.software is None, it.hardware is None, -it.results, it.system)
    )
    for context in ordered[:_CONTEXTS]:
        message = f"{_results_of(context)}; see `{_command_of(context)}`"
        yield ReportNote(NoteCode.BENCHMARKS, NoteLevel.INFO, message, context.software)


def _results_of(context: ResultContext) -> str:
    count = counted(context.results, "result")
    with_software = f" with {context.software}" if context.software else ""
    if context.hardware is None:
        return f"{context.system} has {count}{with_software}, none on this hardware"
    return f"{context.system} has {count}{with_software} on this hardware ({context.hardware})"


def _command_of(context: ResultContext) -> str:
    options = {"system": context.system, "software": context.software, "hardware": context.hardware}
    flags = [f"--{name} {shlex.quote(it)}" for name, it in options.items() if it is not None]
    return " ".join(("thoth benchmarks", *flags))
