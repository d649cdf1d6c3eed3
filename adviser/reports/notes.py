"""What a report tells people beside versions: notes with a stable code, a weight and a link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from adviser.advise import Advice
from adviser.reports.placing import Place, Placer
from adviser.resolver.results import Choice, Stack, Status
from adviser.resolver.universe import Refused, Rule
from adviser.scoring.assessments import Justification, Weight
from adviser.scoring.criteria import SCALE

#: Where each code is explained.
LINK = "docs/reference/report.md"


class NoteCode(StrEnum):
    """Notes of the report itself; those of scoring have the codes of its own table."""

    ENVIRONMENT = "environment"
    BASELINE = "baseline"
    COVERAGE = "coverage"
    #: The budget was spent before the proof.
    LIMIT = "limit"
    #: Fewer stacks than wanted: there are no others.
    FEW_STACKS = "few_stacks"
    #: The same name on an index that the package does not come from.
    OTHER_INDEX = "other_index"
    #: An index that this machine does not know.
    INDEX_UNKNOWN = "index_unknown"
    #: No lock can be written.
    NO_LOCK = "no_lock"
    #: What the project has already.
    STAY = "stay"
    CONFLICT = "conflict"
    #: Something about the project that its reader left out; the code ends in the reader's own.
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of ``stack_info`` or of a product's ``justification``.

    :param code: stable
    :param package: what it is about, ``None`` for all of the request
    :param evidence: identifiers of observations or vulnerabilities, sorted
    """

    code: str
    type: Weight
    message: str
    package: str | None = None
    version: str | None = None
    link: str = ""
    evidence: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """As reports write it: texts and lists of texts only, which every client can show."""
        found: dict[str, object] = {
            "code": self.code,
            "type": self.type.value,
            "message": self.message,
            "link": self.link or f"{LINK}#{self.code}",
        }
        if self.package is not None:
            found["package_name"] = self.package
        if self.version is not None:
            found["package_version"] = self.version
        if self.evidence:
            found["evidence"] = list(self.evidence)
        return found


def stack_notes(advice: Advice) -> list[Note]:
    """What is to be known of the request as a whole; also where there is no stack."""
    notes = [
        _environment(advice),
        *_project(advice),
        *_indexes(advice),
        *_limits(advice),
        *_baseline(advice),
        *_coverage(advice),
        *map(note_of, advice.assessment.justifications),
    ]
    if advice.best is None:
        notes += _conflict(advice)
    return list(dict.fromkeys(notes))


def product_notes(advice: Advice, stack: Stack) -> list[Note]:
    """Why this stack: what is noteworthy of its versions, then why newer ones were passed over."""
    purls = {it.purl for it in stack.choices}
    names = {it.name for it in stack.choices}
    notes = [note_of(it) for it in advice.assessment.notes(purls)]
    placer = Placer(advice.universe, stack, advice.assessment.criteria)
    notes += [note for it in stack.choices if (note := _placed(placer, it)) is not None]
    locked = advice.asked.locked
    if locked is not None and {n: locked.get(n) for n in names} == stack.versions():
        message = "the project has this stack already: there is nothing better to change to"
        notes.insert(0, Note(NoteCode.STAY, Weight.INFO, message))
    return list(dict.fromkeys(notes))


def note_of(it: Justification) -> Note:
    """A justification of scoring as a note."""
    version = it.purl.partition("?")[0].rpartition("@")[2] if it.purl else None
    return Note(
        it.code.value, it.type, it.message, it.package, version, it.link or "", tuple(it.evidence)
    )


def _placed(placer: Placer, choice: Choice) -> Note | None:
    found = placer.placing(choice)
    if found.place is Place.NEWEST:
        return None
    message = f"{choice.name} {choice.version}: {found.message}"
    return Note(found.place.value, Weight.INFO, message, choice.name, choice.version)


def _environment(advice: Advice) -> Note:
    where = advice.asked.environment.label
    hardware = advice.asked.hardware
    label = advice.evidence.hardware.get(hardware, hardware) if hardware else None
    return Note(
        NoteCode.ENVIRONMENT,
        Weight.INFO,
        f"resolved for {where}" + (f", on {label}" if label else ""),
    )


def _project(advice: Advice) -> Iterator[Note]:
    for it in advice.asked.project.warnings:
        code = f"{NoteCode.PROJECT}_{it.code.value}"
        yield Note(code, Weight.WARNING, f"{it.field}: {it.message}")


def _indexes(advice: Advice) -> Iterator[Note]:
    known = {it.called for it in advice.asked.options.indexes if it.known}
    asked = {it.index for it in advice.asked.requirements if it.index is not None}
    asked |= {it.called for it in advice.asked.options.indexes}
    for name in sorted(asked - known):
        message = (
            f"nothing is configured for the index {name!r}, so what is there is not known; "
            "`--index` takes packages from others"
        )
        yield Note(NoteCode.INDEX_UNKNOWN, Weight.WARNING, message)
    for name, refused in advice.universe.refused.items():
        # Where a package is on no index that is asked, the conflict says so.
        others = {it.message for it in refused if _is_elsewhere(it)}
        for message in sorted(others):
            text = f"{name}: {message}; the same name elsewhere never wins"
            yield Note(NoteCode.OTHER_INDEX, Weight.WARNING, text, name)


def _is_elsewhere(it: Refused) -> bool:
    return it.reason is Rule.OTHER_INDEX and it.rule.startswith("from ")


def _limits(advice: Advice) -> Iterator[Note]:
    found, count = advice.resolution, advice.asked.options.count
    if found.status is Status.UNKNOWN:
        message = f"the {found.limit or 'time'} limit was reached before any stack was found"
        yield Note(NoteCode.LIMIT, Weight.ERROR, message)
    elif found.status is Status.FEASIBLE:
        message = (
            f"the {found.limit or 'time'} limit was reached: the best stack so far; another may "
            f"be better by {(found.gap or 0) / SCALE:.2f} points at most"
        )
        yield Note(NoteCode.LIMIT, Weight.WARNING, message)
    elif found.stacks and not found.settled and not found.complete:
        message = "the stack is proven best, but the time for telling it from equals was spent"
        yield Note(NoteCode.LIMIT, Weight.INFO, message)
    if found.complete and found.stacks and len(found.stacks) < count:
        message = f"there are {len(found.stacks)} stacks, {count} were wanted"
        yield Note(NoteCode.FEW_STACKS, Weight.INFO, message)


def _baseline(advice: Advice) -> Iterator[Note]:
    if advice.assessment.baseline:
        message = f"compared with {advice.baseline_reason}"
        yield Note(NoteCode.BASELINE, Weight.INFO, message)


def _coverage(advice: Advice) -> Iterator[Note]:
    best = advice.best
    it = advice.assessment.coverage
    if best is not None:
        it = advice.assessment.coverage_of({choice.purl for choice in best.choices})
    if advice.evidence.readings or not it.packages:
        here = f"{it.measured} of {it.packages} packages were measured in this version on "
        there = f", {it.measured_elsewhere} more on other hardware" if it.measured_elsewhere else ""
        message = f"{here}this hardware{there}"
    else:
        message = "nothing was measured yet: no claim about speed can be made"
    yield Note(NoteCode.COVERAGE, Weight.INFO, message)


def _conflict(advice: Advice) -> Iterator[Note]:
    conflict = advice.resolution.conflict
    for number, step in enumerate(conflict.steps if conflict else (), 1):
        yield Note(
            NoteCode.CONFLICT, Weight.ERROR, f"{number}. {step.message}", step.required or step.name
        )
