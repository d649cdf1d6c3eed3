"""Output of ``thoth bisect``: progress, the step, and what qualifies the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click

from adviser.bisect.documents import dip_note, search_document, search_sentence
from adviser.bisect.search import StepSearch
from adviser.bisect.stack_series import StackSeries
from cli.console import print_json
from model.text import counted, printable

#: Increased when a key changes its meaning or is removed, not when one is added.
DOCUMENT_VERSION = 1


def progress_line(at: StepSearch, series: StackSeries, spent: int) -> str:
    """One line on the state of a search.

    :param spent: jobs of earlier searches of this command
    """
    return f"{counted(at.jobs + spent, 'job')}: {search_sentence(series, at)}"


def print_searches(
    searches: Sequence[tuple[StackSeries, StepSearch]], out: Path, *, as_json: bool
) -> None:
    """Print the answer of each search."""
    if as_json:
        documents = [search_document(series, search) for series, search in searches]
        print_json({"document_version": DOCUMENT_VERSION, "out": str(out), "searches": documents})
        return
    for series, search in searches:
        click.echo(printable(search_sentence(series, search)))
        for note in _notes(series, search):
            click.echo(printable(f"  {note}"))
    click.echo(f"inspections: {out}", err=True)


def _notes(series: StackSeries, search: StepSearch) -> list[str]:
    labels = series.labels
    notes = [
        f"{counted(search.jobs, 'job')}: {search.search_jobs} to find,"
        f" {search.confirming_jobs} fresh ones to confirm"
    ]
    if search.unusable_jobs:
        notes.append(f"{counted(search.unusable_jobs, 'job')} failed or unstable, so not used")
    for place, reason in search.unavailable.items():
        notes.append(f"skipped: {labels[place]}: {_first_line(reason)}")
    if not search.flat_remainder and search.remainder is not None:
        rest = search.remainder
        notes.append(
            f"the rest is not flat: {labels[rest.first]} … {labels[rest.last]} probably differ by"
            f" another {100 * math.expm1(rest.effect):+.0f} %; this was not confirmed"
        )
    if note := dip_note(series, search):
        notes.append(note)
    return notes


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else "unknown reason"
