"""The first sentences of a report: what to do, and by which evidence."""

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from statistics import median

from adviser.advise import Advice
from adviser.harm_prevention import harmful_versions
from adviser.reports.version_rationale import comparison_text, percent_text, seen_from
from adviser.resolver.results import Choice, ResolvedStack, spans
from adviser.scoring.assessment_types import Assessment, Claim, Premises
from adviser.scoring.claim_texts import hosts_text
from adviser.scoring.criteria import AllowList
from adviser.scoring.stack_pairs import name_of, newest_first, release_order, version_of_purl
from adviser.scoring.verdicts import Verdict
from adviser.scoring.version_choice import PackageChoice
from model.measurements.evidence import COMMAND, COMMAND_TEXT
from model.packages.identity import Purl, same_version
from model.text import counted, first_few

#: Maximum number of packages that have a sentence of their own.
_MOST = 3
#: Jobs of each of two stacks that mostly settle a difference that matters.
_JOBS = 10
#: A longer pause between two jobs, in seconds, is no job.
_LONGEST_JOB_S = 3_600.0


def summary_of(advice: Advice) -> str:
    """What to do, and by which evidence; empty without a stack."""
    stack = advice.best
    if stack is None:
        return ""
    exceptions, decisions = [*_exceptions(advice, stack)], [*_decisions(advice, stack)]
    if not exceptions and not decisions:
        decisions = [_nothing_decides(advice, stack)]
    sentences = [*exceptions, *decisions, *_left_out_for_speed(advice, stack)]
    place = 0 if advice.request.locked == stack.versions() else len(sentences)
    sentences[place:place] = _remaining_vulnerabilities(advice, stack)
    return " ".join(sentences)


def _remaining_vulnerabilities(advice: Advice, stack: ResolvedStack) -> Iterator[str]:
    vulnerable = _vulnerable(advice, stack)
    if vulnerable and not advice.premises.harm_accepted:  # which names them
        number = sum(map(len, vulnerable.values()))
        affect = "known vulnerability affects", "known vulnerabilities affect"
        texts = [f"{name} ({', '.join(ids)})" for name, ids in vulnerable.items()]
        yield f"{counted(number, *affect)} these versions: {first_few(texts, _MOST)}."


def _vulnerable(advice: Advice, stack: ResolvedStack) -> dict[str, list[str]]:
    """Vulnerabilities that the request does not accept, by name and version in the stack."""
    accepted = AllowList(
        advice.request.options.allowed_vulnerabilities, advice.evidence.vulnerabilities
    )
    chosen = {it.purl for it in stack.choices}
    return {
        f"{candidate.name} {candidate.version}": ids
        for candidates in advice.snapshot.packages.values()
        for candidate in candidates
        if candidate.purl in chosen
        and (ids := [it.id for it in candidate.vulnerabilities if not accepted.accepts(it)])
    }


def _exceptions(advice: Advice, stack: ResolvedStack) -> Iterator[str]:
    if advice.premises.kept:
        yield "Keep your versions: every other stack that was tried is settled to be slower."
    if advice.premises.speed_accepted:
        chosen = {it.purl for it in stack.choices}
        reasons = [it for purl, it in advice.premises.slower.items() if purl in chosen]
        because = f": {first_few(reasons, _MOST)}" if reasons else ""
        yield f"Every stack without other harm that meets the request is slower{because}."
    if advice.premises.harm_accepted and advice.request.locked is not None:
        harmful = harmful_versions(
            advice.snapshot, advice.evidence, advice.request.locked, Premises(None),
            advice.request.options.allowed_vulnerabilities,
        )  # fmt: skip
        reasons = [
            f"{it.name} {it.version}: {harmful[it.purl]}"
            for it in stack.choices
            if it.purl in harmful
        ]
        if reasons:
            yield (
                "Every stack that meets the request does harm, compared with your lock; this is the"
                f" best of them: {first_few(reasons, _MOST)}."
            )


def _left_out_for_speed(advice: Advice, stack: ResolvedStack) -> Iterator[str]:
    """Versions and stacks that are not chosen because they are settled to be slower."""
    chosen = {it.purl for it in stack.choices}
    left_out = [
        f"{name_of(purl)} {version_of_purl(purl)} is left out: {reason}."
        for purl, reason in advice.premises.slower.items()
        if purl not in chosen
    ]
    yield from left_out[:_MOST]
    if count := len(advice.premises.slower_stacks) * (not advice.premises.speed_accepted):
        yield f"{counted(count, 'stack')} with newer versions would be slower as a whole."


def _decisions(advice: Advice, stack: ResolvedStack) -> Iterator[str]:
    """A sentence for each package that measurements decide, direct requirements first."""
    direct = advice.universe.direct
    order = {name: place for place, name in enumerate(direct)}
    choices = sorted(stack.choices, key=lambda it: (order.get(it.name, len(direct)), it.name))
    sentences, bundled, own, commands = [], set[str](), set[str](), set[str]()
    for choice in choices:
        measured = advice.assessment.choices.get(choice.name)
        if measured is not None and (sentence := _decision(advice, choice, measured)):
            sentences.append(sentence)
            bundled |= set() if measured.own else set(measured.indicators) - {COMMAND}
            own |= set(measured.benchmarks)
            if COMMAND in measured.indicators and not measured.benchmarks:
                commands |= {f"`{it.parameters.get(COMMAND_TEXT)}`" for it in measured.series}
    yield from sentences[:_MOST]
    if sentences[_MOST:]:
        yield f"Measurements decide {counted(len(sentences) - _MOST, 'more package')}."
    if own:
        names, alone = " and ".join(sorted(own)), len(own) == 1
        verb, weigh = ("is", "it weighs") if alone else ("are", "they weigh")
        kind = "benchmark" if alone else "benchmarks"
        yield f"{names} {verb} your project's own {kind}: {weigh} before bundled indicators."
    if bundled:
        names = " and ".join(sorted(bundled))
        verb = "is a bundled indicator" if len(bundled) == 1 else "are bundled indicators"
        yield f"{names} {verb}: whether your project does such operations is not known."
    if commands:
        are = "is a command" if len(commands) == 1 else "are commands"
        yield (
            f"{first_few(sorted(commands), _MOST)} {are} that your project does not name as a"
            " benchmark: whether your project does the same is not known."
        )


def _decision(advice: Advice, choice: Choice, measured: PackageChoice) -> str:
    """Why a package has its version, if measurements are a reason."""
    assessment, ours = advice.assessment, choice.purl
    yours = (advice.request.locked or {}).get(choice.name)
    same = same_version(choice.version, yours)
    usable = {it.purl for it in advice.universe.packages.get(choice.name, ())}
    newer = [
        it
        for it in newest_first(measured.lost)
        if release_order(it) > release_order(ours) and it in usable
    ]
    unmeasured = [
        it
        for it in newest_first(assessment.unmeasured.get(choice.name, ()))
        if release_order(it) > release_order(ours) and it in usable
    ]
    reasons = []
    gain = None if same else _gain_over_baseline(assessment, ours)
    compared = newer[0] if newer else None
    if gain is not None and gain.baseline_purl is not None and gain.baseline_purl != compared:
        yours_text = f"your {version_of_purl(gain.baseline_purl)}" if yours else None
        other = yours_text or version_of_purl(gain.baseline_purl)
        reasons.append(f"it is {seen_from(assessment, gain, ours, other)}")
    if ours in measured.measured and newer and ours not in measured.lost:
        reasons.append(f"it is {comparison_text(assessment, measured, ours, newer[0])}")
    if unmeasured:
        runs = groupby(newest_first(usable), key=unmeasured.__contains__)
        gaps = [tuple(map(version_of_purl, run)) for is_gap, run in runs if is_gap]
        if len(unmeasured) < 3:
            gaps = [tuple(map(version_of_purl, unmeasured))]
        versions = first_few(list(map(spans, gaps)), _MOST)
        were = "was" if len(unmeasured) == 1 else "were"
        packed = f", nor in pack {measured.pack.name}, which decides" if measured.pack else ""
        command = _command(advice, measured, unmeasured[0])
        reasons.append(f"{versions} {were} not compared here{packed}: {command}")
    reasons += _left_out(advice, choice, measured)
    if not reasons:
        return ""
    verb = "Keep" if same else "Use"
    return f"{verb} {choice.name} {choice.version}: {'; '.join(reasons)}."


def _gain_over_baseline(assessment: Assessment, ours: Purl) -> Claim | None:
    """The largest settled gain of a version over the baseline's version."""
    gains = (it for it in _settled_gains(assessment, name_of(ours)) if it.purl == ours)
    return max(gains, key=lambda it: it.bound, default=None)


def _settled_gains(assessment: Assessment, package: str) -> Iterator[Claim]:
    """Claims that a version of a package is faster than the baseline's version."""
    for claim in assessment.claims:
        scored = claim.package == package and claim.beside_baseline and claim.scored
        if scored and claim.verdict is Verdict.FASTER:
            yield claim


def _left_out(advice: Advice, choice: Choice, measured: PackageChoice) -> Iterator[str]:
    """Settled gains that the choice leaves on the table, and versions that are not scored."""
    assessment, ours = advice.assessment, choice.purl
    preferred = measured.preferred
    lost = measured.lost.get(ours)
    if lost is not None and preferred is not None and lost.better == preferred:
        comparison = comparison_text(assessment, measured, preferred, ours)
        yield f"{version_of_purl(preferred)} is {comparison}, but {_obstacle(advice, preferred)}"
    elif ours in measured.measured:
        gains = [
            claim
            for claim in _settled_gains(assessment, choice.name)
            if claim.purl in measured.measured or claim.purl in assessment.refused
        ]
        best = max(gains, key=lambda claim: claim.observed_pct, default=None)
        own = max((it.observed_pct for it in gains if it.purl == ours), default=0.0)
        if (
            best is not None
            and best.purl is not None
            and best.baseline_purl is not None
            and best.observed_pct - own > best.delta_pct
        ):
            gain = seen_from(assessment, best, best.purl, version_of_purl(best.baseline_purl))
            expected = measured.expected(best.purl, ours)
            if best.purl in assessment.refused:
                reason = f", but {assessment.refused[best.purl]}"
            elif expected is None:
                reason = f"; it was never compared with {choice.version}"
            else:
                chance = percent_text(expected.probability)
                reason = f"; it is faster than {choice.version} with a probability of {chance} only"
            yield f"{version_of_purl(best.purl)} is {gain}{reason}"
    if measured.interacting:
        versions = " and ".join(map(version_of_purl, measured.interacting))
        verb = "depends" if len(measured.interacting) == 1 else "depend"
        yield (
            f"the speed of {choice.name} {versions} {verb} on the other packages of the stack, so"
            " it does not count"
        )
    for claim in assessment.claims:
        own = claim.package == choice.name and claim.beside_baseline and claim.origin is None
        if own and not claim.verdict.settled and claim.host_differences_pct:
            pair = (version_of_purl(it) for it in (claim.purl, claim.baseline_purl) if it)
            yield f"about {' against '.join(pair)}, {hosts_text(claim.host_differences_pct)}"


def _obstacle(advice: Advice, purl: Purl) -> str:
    """Why a preferred version is not in the stack."""
    reason = advice.assessment.refused.get(purl)
    if reason is not None:
        return reason
    for refused in advice.universe.refused.get(name_of(purl), ()):
        if refused.candidate is not None and refused.candidate.purl == purl:
            return refused.message
    return "no better stack has it (`thoth why-not` says why)"


def _command(advice: Advice, measured: PackageChoice, purl: Purl) -> str:
    """The command that measures a version, and how long that takes."""
    from pis.catalogue import INDICATORS, indicator_of  # slow, and needed only here

    if measured.benchmarks:
        return "`thoth advise --measure 1h` settles it with the benchmarks of your project"
    if COMMAND in measured.indicators:
        return "`thoth compare` settles it"
    title = measured.indicators[0]
    names = [] if measured.own else [it for it in INDICATORS if indicator_of(it).title == title]
    what = names[0] if names else "--script SCRIPT"
    release = f"{name_of(purl)}=={version_of_purl(purl)}"
    # Minutes that ten jobs of two stacks take, by the times between recorded jobs.
    ends: dict[object, set[float]] = defaultdict(set)
    for reading in advice.evidence.readings:
        series = advice.evidence.series[reading.series]
        if reading.seen_at is not None and series.indicator in measured.indicators:
            ends[series.comparison_key, reading.host].add(reading.seen_at.timestamp())
    gaps = [
        later - earlier
        for times in ends.values()
        for earlier, later in pairwise(sorted(times))
        if later - earlier <= _LONGEST_JOB_S
    ]
    minutes = max(1, math.ceil(2 * _JOBS * median(gaps) / 60)) if gaps else None
    duration = f" in about {counted(minutes, 'minute')}" if minutes else ""
    return f"`thoth pi pin {what} '{release}'` and `thoth inspect` settle it{duration}"


def _nothing_decides(advice: Advice, stack: ResolvedStack) -> str:
    locked = advice.request.locked
    if locked is not None and locked == stack.versions():
        if _vulnerable(advice, stack):
            return "No stack that meets your requirements is better."
        return "Keep your versions: no stack is better."
    kind = advice.request.kind
    if not kind.weighs_speed:
        return (
            f"Use these versions: the best by the criteria of {kind}, which does not weigh speed."
        )
    if advice.request.hardware is None:
        return "Use these versions: no hardware was named, so no measurement counts."
    coverage = advice.assessment.coverage_of({it.purl for it in stack.choices})
    if not coverage.measured:
        return "Use these versions: nothing of this stack was measured on this hardware."
    return "Use these versions: no measurement on this hardware speaks against them."
