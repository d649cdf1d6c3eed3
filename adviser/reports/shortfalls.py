"""What a stack falls short of: a release where a pre-release is all that is left, or an extra."""

from __future__ import annotations

from collections.abc import Iterator

from adviser.advise import Advice
from adviser.reports.codes import NoteCode
from adviser.reports.manifests import candidates_of
from adviser.reports.notes import Note, placer_of
from adviser.resolver.results import Choice, Stack
from adviser.resolver.specifiers import admits, names_prerelease
from adviser.resolver.universe import Refused, Rule
from adviser.scoring.assessments import Level
from graph.candidates import Candidate

#: Rules that take a release away of which whoever asks for the package may know nothing.
_UNSEEN = frozenset({Rule.PUBLISHED, Rule.POLICY, Rule.EXCLUSION})
#: Of the releases that are refused as many are named.
_NAMED = 3


def shortfall_notes(advice: Advice, stack: Stack) -> Iterator[Note]:
    """Pre-releases for want of a release, and extras that the chosen version does not have."""
    candidates = candidates_of(advice, stack)
    for it in stack.choices:
        yield from _extras(advice, it, candidates[it.name])
        yield from _prerelease(advice, stack, it, candidates[it.name])


def _extras(advice: Advice, choice: Choice, candidate: Candidate) -> Iterator[Note]:
    asked = {extra for it in advice.universe.roots if it.name == choice.name for extra in it.extras}
    chosen = f"{choice.name} {choice.version}"
    offered = f"it offers {', '.join(candidate.extras) or 'none'}"
    for extra in sorted(set(choice.extras) - set(candidate.extras)):
        yield Note(
            NoteCode.EXTRA_MISSING,
            Level.WARNING if extra in asked else Level.INFO,
            f"{chosen} has no extra {extra!r}, which brings nothing: {offered}",
            choice.name,
            choice.version,
        )


def _prerelease(
    advice: Advice, stack: Stack, choice: Choice, candidate: Candidate
) -> Iterator[Note]:
    name, universe = choice.name, advice.universe
    if not candidate.prerelease or name in universe.prereleases:
        return
    asked = [universe.asked(it) for _, it in placer_of(advice, stack).askers(name)]
    if any(map(names_prerelease, asked)):
        return
    refused = [
        it
        for it in universe.refused.get(name, ())
        if _is_release(it) and all(admits(text, it.version) for text in asked)
    ]
    if not refused:
        return
    told = [f"{it.version} ({it.message})" for it in refused[:_NAMED]]
    told += [f"{len(refused) - _NAMED} more"] * (len(refused) > _NAMED)
    yield Note(
        NoteCode.ONLY_PRERELEASES,
        Level.WARNING,
        f"{name} {choice.version} is a pre-release that nobody asks for, as the request leaves no "
        f"release that would do: {', '.join(told)}",
        name,
        choice.version,
    )


def _is_release(it: Refused) -> bool:
    return (
        it.reason in _UNSEEN
        and it.candidate is not None
        and not it.candidate.prerelease
        and not it.candidate.yanked
    )
