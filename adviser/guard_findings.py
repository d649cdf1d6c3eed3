"""The findings about an upgrade in groups, each with its evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from adviser.guard import GuardResult, MissingKind, Proposal, lock_texts
from adviser.reports.notes import refused_text
from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.verdicts import Verdict, family_text
from model.declared_fields import Field
from model.measurements.evidence import COMMAND_TEXT
from model.text import counted, first_few

#: Why other commands may report fewer differences.
_OTHER_COMMANDS = (
    "`thoth stacks` and `thoth advise` compare more stacks at once, and may claim less:"
    " docs/statistics.md"
)
#: Maximum number of package names in a line.
_MOST = 10


class GuardGroup(StrEnum):
    """Groups of findings, harm first. The values are printed; never rename them."""

    SLOWER = "slower"
    VULNERABLE = "vulnerable_or_yanked"
    NOT_SLOWER = "equivalent_or_faster"
    FIXED = "no_longer_vulnerable"
    UNMEASURED = "not_measured_here"
    SHOWN = "measured_by_others"

    @property
    def heading(self) -> str:
        """The heading of the group."""
        headings = {
            GuardGroup.SLOWER: "settled slower",
            GuardGroup.UNMEASURED: "undetermined or not measured here",
        }
        return headings.get(self, self.value.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about an upgrade.

    :param rule: rule of code scanning that it violates; ``None`` without harm
    :param identity: distinguishes it from other findings of the package and rule, without numbers
    """

    group: Annotated[GuardGroup, Field("Group of the finding.")]
    package: Annotated[str | None, Field("Name of the package; null for several.", "numpy")]
    message: Annotated[str, Field("The finding, for people.")]
    known_by: Annotated[
        str | None, Field("Evidence of the finding; null if unknown.", "measured on this hardware")
    ]
    settled_difference: Annotated[
        bool, Field("Whether it is a settled difference.", example=True)
    ] = False
    rule: str | None = None
    identity: str = ""

    @property
    def line(self) -> str:
        """The finding with its evidence, unless the sentence already says it."""
        if self.known_by in {None, _MEASURED, _OTHERS, _ADVISED}:
            return self.message
        return f"{self.message} [{self.known_by}]"


_MEASURED = "measured on this hardware"
_OTHERS = "measured by others"
_ADVISED = "its advisory is known"


def findings_of(upgrade: GuardResult, *, every: bool = False) -> tuple[Finding, ...]:
    """The findings, in the order of the groups.

    :param every: whether each comparison has its own finding; otherwise several series of one
        package may share one, and what others left undetermined is left out for packages
        that are compared here
    """
    here = {it.package for it in (*upgrade.stacks, *upgrade.claims, *upgrade.undetermined)}
    shown = [
        it
        for it in upgrade.shown
        if every or it.verdict is not Verdict.UNDETERMINED or it.package not in here
    ]
    settled = [it for it in (*upgrade.stacks, *upgrade.claims) if it not in upgrade.slower]
    return (
        *_claims(upgrade, upgrade.slower, GuardGroup.SLOWER, every=every),
        *_vulnerable(upgrade),
        *(
            finding
            for verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT)
            for finding in _claims(
                upgrade,
                [it for it in settled if it.verdict is verdict],
                GuardGroup.NOT_SLOWER,
                every=every,
            )
        ),
        *(
            Finding(
                GuardGroup.FIXED,
                gone.name,
                f"{gone.name} {gone.version} had {gone.id} ({gone.severity or 'unrated'})",
                _ADVISED,
                settled_difference=True,
            )
            for gone in upgrade.removed
        ),
        *_unmeasured(upgrade, every=every),
        *_claims(upgrade, shown, GuardGroup.SHOWN, every=every),
    )


def proposal_text(proposal: Proposal) -> str:
    """The replacement, and whether it is proven, in one sentence."""
    what = f"{proposal.package} {proposal.instead}"
    if proposal.problem is not None:
        return f"no version of {proposal.package} without it is known: {proposal.problem}"
    if proposal.instead is None:
        what = f"{proposal.package} left out"
    if proposal.others:
        moves = [f"{name} {it or 'left out'}" for name, it in proposal.others.items()]
        what += f" with {first_few(moves, _MOST)}"
    if proposal.unread:
        unread = first_few(proposal.unread, _MOST)
        return f"instead: {what} (not proven: the requirements of {unread} are unknown)"
    return f"instead: {what} (the nearest known without it; the whole lock with it is valid)"


def bisect_command(upgrade: GuardResult) -> str:
    """The command that finds the package that makes the whole lock slower."""
    slower = next((it for it in upgrade.stacks if it.verdict is Verdict.SLOWER), None)
    measured = slower.parameters.get(COMMAND_TEXT) if slower is not None else None
    return f"thoth bisect OLD NEW{upgrade.python} --ingest" + (
        f" -- {measured}" if measured else ""
    )


def comparison_lines(
    upgrade: GuardResult, *, fetched: bool = False, verbose: bool = False
) -> Iterator[str]:
    """The result as lines: differing packages, groups of findings, and missing knowledge.

    :param fetched: whether the indexes were just read, so that no line suggests it
    :param verbose: whether each comparison has its own line
    """
    if not upgrade.changes:
        yield "the locks are the same"
        return
    yield from change_lines(upgrade)
    findings = findings_of(upgrade, every=verbose)
    yield from group_lines(upgrade, findings)
    yield from upgrade.context if verbose else ()
    yield from remaining_lines(upgrade, fetched=fetched)
    if not verbose and len(findings) < len(findings_of(upgrade, every=True)):
        yield "`--verbose` shows each series by itself"


def change_lines(upgrade: GuardResult) -> Iterator[str]:
    """The packages that differ, and the common properties of all claims of a pack."""
    for change in upgrade.changes:
        yield f"{change.name}: {change.old or 'none'} → {change.new or 'none'}"
    if common := _texts(upgrade).common:
        yield common


def group_lines(upgrade: GuardResult, findings: Sequence[Finding]) -> Iterator[str]:
    """The findings by group, with a replacement below the harm of each package."""
    proposals = {it.package: it for it in upgrade.proposals}
    for group in GuardGroup:
        listed = [it for it in findings if it.group is group]
        if listed:
            yield f"{group.heading}:"
        last = {it.package: it for it in listed if it.rule is not None}
        for finding in listed:
            name = finding.package
            yield f"  {finding.line}"
            if finding is not last.get(name):
                continue
            if name is None and len(last) == 1:
                yield f"    which package: `{bisect_command(upgrade)}`"
            elif name and (proposal := proposals.pop(name, None)) is not None:
                yield f"    {proposal_text(proposal)}"


def remaining_lines(upgrade: GuardResult, *, fetched: bool) -> Iterator[str]:
    """Missing knowledge, and how far the comparisons hold."""
    for missing in upgrade.missing:
        if missing.kind not in (MissingKind.METADATA, MissingKind.ADVISORIES):
            continue
        metadata = missing.kind is MissingKind.METADATA
        fetch = " or --fetch" if metadata and not fetched else ""
        remedy = "" if missing.remedy is None else f" (`{missing.remedy}`{fetch})"
        yield f"missing: {missing.message}{remedy}"
    if upgrade.untried:
        more = counted(upgrade.untried, "more harmful package")
        yield f"no proposal was tried for {more}"
    if upgrade.refused:
        yield refused_text(upgrade.refused)
    if upgrade.comparisons:
        yield family_text(upgrade.comparisons)
        yield _OTHER_COMMANDS


def _texts(upgrade: GuardResult) -> ClaimTexts:
    """The texts of all claims; common properties of a pack's claims are stated once."""
    claims = (*upgrade.stacks, *upgrade.claims, *upgrade.undetermined, *upgrade.shown)
    return lock_texts(claims, upgrade.python, once=upgrade.speed_only)


def _claims(
    upgrade: GuardResult, claims: Sequence[Claim], group: GuardGroup, *, every: bool
) -> Iterator[Finding]:
    """Findings from comparisons with one verdict."""
    texts = _texts(upgrade)
    rule = "slower" if group is GuardGroup.SLOWER else None
    differs = group is not GuardGroup.SHOWN and any(it.verdict.different for it in claims)
    for known_by, several in (
        (_MEASURED, [it for it in claims if it.origin is None]),
        (_OTHERS, [it for it in claims if it.origin is not None]),
    ):
        for claim in several if every else ():
            message, key = texts.justification(claim).message, claim.comparison_key
            yield Finding(group, claim.package, message, known_by, differs, rule, key)
        for note in () if every else texts.justifications(several):
            yield Finding(group, note.package, note.message, known_by, differs, rule)


def _vulnerable(upgrade: GuardResult) -> Iterator[Finding]:
    group = GuardGroup.VULNERABLE
    for each in (*upgrade.introduced, *upgrade.closed):
        why = f", {each.vex.text(closed=True)}" if each.vex else ""
        text = f"{each.name} {each.version} has {each.id} ({each.severity or 'unrated'}){why}"
        rule = None if each.vex else "vulnerable"
        yield Finding(group, each.name, text, _ADVISED, rule is not None, rule, each.id)
    for release in upgrade.yanked:
        name, version = release.name, release.version
        text = f"{name} {version} is yanked{f': {release.reason}' if release.reason else ''}"
        yield Finding(group, name, text, "its index says so", True, "yanked", version)


def _unmeasured(upgrade: GuardResult, *, every: bool) -> Iterator[Finding]:
    group = GuardGroup.UNMEASURED
    yield from _claims(upgrade, upgrade.undetermined, group, every=every)
    for missing in upgrade.missing:
        if missing.kind is MissingKind.MEASUREMENT:
            text = f"{missing.message} (`{missing.remedy}`)"
            yield Finding(group, missing.package, text, None)
    if upgrade.unmeasured:
        names = first_few(upgrade.unmeasured, len(upgrade.unmeasured) if every else _MOST)
        unknown = "the pack does not compare" if upgrade.speed_only else "no indicator measures"
        yield Finding(group, None, f"{unknown} {names}", None)
