"""Compares the measured releases of each package of a pack, from its samples."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from typing import Any

from adviser.packs.pack_evidence import packed_evidence
from adviser.packs.pack_files import Pack
from adviser.reports.serialization import bounded, claim_document
from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.histories import History, histories_of
from adviser.scoring.performance import claims_about
from adviser.scoring.stack_pairs import (
    MeasuredStackIndex,
    StackPair,
    name_of,
    release_order,
    version_of_purl,
)
from adviser.scoring.target import MeasuredOn, Target
from adviser.scoring.verdicts import Verdict, family_text
from model.measurements.evidence import Evidence, EvidencePack
from model.packages.identity import Purl, distributions_of
from model.packages.native_libraries import bundled_steps, context_lines
from model.text import counted, first_few, printable


class _WhereMeasured(Target):
    """Each series is judged for the hardware and the Python that it was measured on."""

    def same_hardware(self, series: MeasuredOn) -> bool:
        return True

    def same_python(self, series: MeasuredOn) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """A release compared with the measured release before it, in one operation.

    :param operation: the measured operation
    """

    claim: Claim
    operation: str

    @property
    def releases(self) -> str:
        """Both releases, such as ``2.2.3 → 2.3.3``, and other changes between the stacks."""
        purls = self.claim.baseline_purl, self.claim.purl
        others = first_few(self.claim.differs[1:], 3)
        releases = " → ".join(version_of_purl(it or Purl("")) for it in purls)
        return f"{releases} with {others}" if others else releases

    @property
    def what(self) -> tuple[object, ...]:
        """The comparison, without its hardware."""
        claim = self.claim
        return (
            claim.purl,
            claim.baseline_purl,
            claim.indicator,
            claim.python_version,
            self.operation,
        )

    def reaches(self, low: float, high: float) -> bool:
        """Whether the 95 % interval has a difference in per cent from ``low`` to ``high``."""
        return self.claim.interval_low_pct <= high and self.claim.interval_high_pct >= low

    @property
    def effect(self) -> str:
        """The observed difference in speed with its 95 % interval, in per cent."""
        claim = self.claim
        if not bounded(claim):
            return f"{claim.observed_pct:+.1f} (error unknown)"
        low, high = claim.interval_low_pct, claim.interval_high_pct
        return f"{claim.observed_pct:+.1f} ({low:+.1f} to {high:+.1f})"


@dataclass(frozen=True, slots=True)
class PackReport:
    """All release steps of a pack, which are one family of claims.

    :param steps: by package, on the hardware class that was measured in most sessions
    :param elsewhere: the same by the name of each other class
    :param hardware: name of the first class
    :param context: by package, differences in bundled libraries between releases with a settled
        difference
    """

    pack: Pack
    steps: Mapping[str, Sequence[ReleaseStep]]
    elsewhere: Mapping[str, Sequence[ReleaseStep]]
    hardware: str
    context: Mapping[str, Sequence[str]]

    @property
    def summary(self) -> list[str]:
        """Sentences that describe the pack and count its settled comparisons."""
        steps = [it for several in self.steps.values() for it in several]
        claims = [it.claim for it in steps]
        verdicts = [it.verdict for it in claims]
        different = sum(it.different for it in verdicts)
        equivalent = verdicts.count(Verdict.EQUIVALENT)
        left_out = sum(sum(it.left_out.values()) for it in claims)
        about = self.pack.manifest
        others = (it.claim for steps in self.elsewhere.values() for it in steps)
        tested = sum(it.tested for it in chain(claims, others))
        return [
            f"Pack {about.name} ({about.digest}), licence {about.licence or 'unknown'}, measured in"
            f" {counted(_sessions(steps), 'session')} until {about.measured_until:%Y-%m-%d} on"
            f" {self.hardware}.",
            f"Of {counted(len(claims), 'comparison')} of a release with the measured release before"
            f" it, {different} show a difference and {equivalent} none that matters;"
            f" {verdicts.count(Verdict.UNDETERMINED)} are undetermined. They leave out"
            f" {counted(left_out, 'job')}.",
            *([family_text(tested)] if tested else []),
            *(self._agreement(name, several) for name, several in self.elsewhere.items()),
        ]

    def _agreement(self, hardware: str, steps: Sequence[ReleaseStep]) -> str:
        """How far the differences on another hardware class agree with those on the first."""
        first = {it.what: it for several in self.steps.values() for it in several}
        pairs = [(first[it.what], it) for it in steps if it.what in first]
        known = [pair for pair in pairs if all(bounded(it.claim) for it in pair)]
        alike = sum(
            one.reaches(other.claim.interval_low_pct, other.claim.interval_high_pct)
            for one, other in known
        )
        settled = [pair for pair in known if pair[0].claim.verdict.different]
        turned = [
            f"{it.claim.package} {it.releases} {it.operation}"
            f" ({it.effect} here, {other.effect} there)"
            for it, other in settled
            if it.claim.observed_pct * other.claim.observed_pct < 0 and not other.reaches(0, 0)
        ]
        return (
            f"On {hardware}, measured in {counted(_sessions(steps), 'session')}, {alike} of"
            f" {counted(len(known), 'difference')} agree with these within both 95 % intervals. Of"
            f" {len(settled)} that are settled here, {len(turned)} clearly went the other way"
            f" there{f': {first_few(turned, 5)}' if turned else ''}."
        )


def _sessions(steps: Iterable[ReleaseStep]) -> int:
    return max((it.claim.batches for it in steps), default=0)


def pack_report(pack: Pack) -> PackReport:
    """Compare each measured release with the measured release before it, by our rules."""
    purls = [Purl(it["purl"]) for it in pack.rows("stacks", ("purl",))]
    # Whether the receiver trusts the pack does not matter here.
    about = EvidencePack(pack.digest, pack.manifest.name, sessions=pack.manifest.session_count)
    evidence = packed_evidence(pack, about, set(purls), pack.manifest.measured_until)
    stacks = MeasuredStackIndex(evidence)
    histories = histories_of(evidence, range(len(evidence.series)))
    rows = pack.rows("observations", ("comparison_key", "component"))
    components = {it["comparison_key"]: it["component"] for it in rows}
    pairs = [
        pair
        for number, history in histories.items()
        for pair in _pairs(stacks, number, history, components[history.series.comparison_key])
    ]
    claims = claims_about(pairs, histories, _WhereMeasured(None, ""), evidence)
    by_class: dict[str, list[Claim]] = defaultdict(list)
    for it in claims:
        by_class[it.hardware_digest].append(it)
    first, *others = sorted(
        by_class, key=lambda it: (-max(c.batches for c in by_class[it]), it)
    ) or [""]
    steps = {}
    for digest in (first, *others):
        by_package: dict[str, list[Claim]] = defaultdict(list)
        for it in by_class[digest]:
            by_package[it.package or ""].append(it)
        steps[digest] = {name: _steps(several) for name, several in sorted(by_package.items())}
    return PackReport(
        pack,
        steps[first],
        {evidence.hardware[it]: [*chain(*steps[it].values())] for it in others},
        evidence.hardware.get(first, "unknown hardware"),
        {
            name: _context(evidence, [it.claim for it in them])
            for name, them in steps[first].items()
        },
    )


def _context(evidence: Evidence, claims: Sequence[Claim]) -> list[str]:
    """One line for each package and pair of releases that differ in a settled claim."""
    lines: list[str] = []
    different = (it for it in claims if it.verdict.different)
    for claim in sorted(different, key=lambda it: release_order(it.purl or Purl(""))):
        ours, theirs = (
            {name_of(it): version_of_purl(it) for it in evidence.stacks[stack]}
            for stack in (claim.stack, claim.baseline_stack)
        )
        versions = ((it, ours.get(it), theirs.get(it)) for it in claim.differs)
        lines += context_lines(bundled_steps(evidence.bundled, versions), claim.differs)
    return list(dict.fromkeys(lines))


def _pairs(
    stacks: MeasuredStackIndex, series: int, history: History, component: str | None
) -> Iterator[StackPair]:
    """The most similar stacks with neighbouring releases of the measured library."""
    measured: dict[Purl, list[str]] = defaultdict(list)
    for digest in sorted(history.jobs):
        versions = stacks.versions(digest)
        if name := next(filter(versions.__contains__, distributions_of(component)), None):
            measured[versions[name]].append(digest)
    for theirs, ours in pairwise(sorted(measured, key=release_order)):
        base, other = min(
            product(measured[theirs], measured[ours]), key=lambda it: len(stacks.differing(*it))
        )
        name = name_of(ours)
        others = (it for it in stacks.differing(base, other) if it != name)
        yield StackPair(series, base, other, (name, *others), ours, theirs)


def _steps(claims: Sequence[Claim]) -> list[ReleaseStep]:
    """The steps of one package, by operation and release."""
    texts = ClaimTexts(claims)
    several = len({it.python_version for it in claims}) > 1
    steps = []
    for claim in claims:
        name = claim.parameters.get("operation")
        operation = name if isinstance(name, str) else texts.series(claim)
        python = f", Python {claim.python_version}" if several else ""
        steps.append(ReleaseStep(claim, f"{operation}{python}"))
    return sorted(steps, key=lambda it: (it.operation, release_order(it.claim.purl or Purl(""))))


def report_document(report: PackReport) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "pack": report.pack.digest,
        "summary": report.summary,
        "context": report.context,
        "steps": [
            {"operation": it.operation, "sessions": it.claim.batches, **claim_document(it.claim)}
            for steps in (*report.steps.values(), *report.elsewhere.values())
            for it in steps
        ],
    }


def report_markdown(report: PackReport) -> str:
    """The report as a page of the documentation."""
    lines = ["# What changed between releases of these libraries", ""]
    lines += [f"{_cell(it)}\n" for it in report.summary]
    lines.append(
        "Made by `thoth pack report --markdown` from the samples. Each column is a release with the"
        " one before it. Effects are differences in speed, %, with their 95 % intervals: **faster"
        " or slower**, *no difference that matters*, or undetermined. `--json` has the jobs.\n"
    )
    for package, steps in report.steps.items():
        by_release = sorted(steps, key=lambda it: release_order(it.claim.purl or Purl("")))
        columns = list(dict.fromkeys(it.releases for it in by_release))
        cells = {}
        for step in steps:
            verdict = step.claim.verdict
            mark = "**" if verdict.different else "*" if verdict is Verdict.EQUIVALENT else ""
            cells[step.operation, step.releases] = f"{mark}{step.effect}{mark}"
        lines += [f"## {_cell(package)}", "", f"|operation|{'|'.join(map(_cell, columns))}|"]
        lines.append("|---" * (len(columns) + 1) + "|")
        lines += [
            f"|{_cell(operation)}|{'|'.join(cells.get((operation, it), '') for it in columns)}|"
            for operation in dict.fromkeys(it.operation for it in steps)
        ]
        if context := report.context[package]:
            lines += ["", *(f"- {_cell(it)}" for it in context)]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text of a pack as plain text in a table."""
    return re.sub(r"[\\`*\[\]<>|#&]", r"\\\g<0>", printable(" ".join(text.split())))
