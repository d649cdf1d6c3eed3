"""What of a request has no effect, and which silence is no praise."""

from __future__ import annotations

from collections.abc import Iterator

from adviser.advise import Advice
from adviser.reports.codes import NoteCode
from adviser.reports.notes import Note
from adviser.reports.unread import Unread
from adviser.scoring.assessments import Level
from adviser.scoring.harms import AllowList


def gap_notes(advice: Advice) -> Iterator[Note]:
    """Advisories that nobody has read, and names of the request that nothing is called."""
    yield from _advisories(advice)
    yield from _prereleases(advice)
    yield from _allowed(advice)


def unread_note(it: Unread) -> Note:
    """That a conflict holds among what was read only."""
    return Note(NoteCode.UNREAD, Level.WARNING, it.message, it.name)


def _advisories(advice: Advice) -> Iterator[Note]:
    if advice.evidence.knows_advisories:
        return
    # Where vulnerable versions are left out, having left out none looks like a finding.
    level = Level.WARNING if advice.asked.kind.refuses_vulnerable else Level.INFO
    message = (
        "no advisories are known, so that no version counts as vulnerable, whether it is or not: "
        "`thoth advisories sync --osv` reads them"
    )
    yield Note(NoteCode.NO_ADVISORIES, level, message)


def _prereleases(advice: Advice) -> Iterator[Note]:
    known = {*advice.snapshot.packages, *advice.snapshot.missing}
    for name in sorted(advice.asked.options.prereleases - known):
        message = f"pre-releases of {name} are welcome, and nothing asks for {name}"
        yield Note(NoteCode.NO_EFFECT, Level.WARNING, message, name)


def _allowed(advice: Advice) -> Iterator[Note]:
    harms = [
        harm
        for candidates in advice.snapshot.packages.values()
        for it in candidates
        for harm in it.vulnerabilities
    ]
    for identifier in sorted(advice.asked.options.allowed_vulnerabilities):
        allowed = AllowList([identifier], advice.evidence.vulnerabilities)
        if not any(map(allowed.accepts, harms)):
            message = f"{identifier} is allowed, and no version here is known to be affected by it"
            yield Note(NoteCode.NO_EFFECT, Level.WARNING, message)
