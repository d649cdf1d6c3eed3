"""Output of ``thoth bisect``: progress, the step, and what qualifies the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import counted, print_json
from common.terminal import printable

if TYPE_CHECKING:
    from adviser.bisect.search import SearchProgress, StepSearch
    from adviser.scoring.comparisons import Comparison
    from cli.bisect_measurer import StackSeries

#: Increased when a key changes its meaning or is removed, not when one is added.
DOCUMENT_VERSION = 1


def progress_line(at: SearchProgress, series: StackSeries, spent: int) -> str:
    """One line on the state of a search.

    :param spent: jobs of earlier searches of this command
    """
    jobs = counted(at.jobs + spent, "job")
    if at.confirming is not None:
        return f"{jobs}: confirming {series.step_label(*at.confirming)} with fresh jobs"
    posterior = at.posterior
    if posterior is None:
        return jobs
    effect = 100 * math.expm1(float(posterior.effect[posterior.best]))
    step = series.step_label(*posterior.pair())
    return (
        f"{jobs}: no step {100 * posterior.none:.0f} %; most probable {step}"
        f" {100 * posterior.best_chance:.0f} % ({effect:+.0f} %)"
    )


def print_searches(
    searches: Sequence[tuple[StackSeries, StepSearch]], out: Path, *, as_json: bool
) -> None:
    """Print the answer of each search."""
    if as_json:
        documents = [_document(series, search) for series, search in searches]
        print_json({"document_version": DOCUMENT_VERSION, "out": str(out), "searches": documents})
        return
    for series, search in searches:
        click.echo(printable(_answer(series, search)))
        for note in _notes(series, search):
            click.echo(printable(f"  {note}"))
    click.echo(f"inspections: {out}", err=True)


def _answer(series: StackSeries, search: StepSearch) -> str:
    labels = series.labels
    if search.state == "none":
        from adviser.bisect.posterior import STEP_SIZES

        smallest = 100 * STEP_SIZES[0]
        first, *_, last = (it for n, it in enumerate(labels) if n not in search.unavailable)
        return f"no step of {smallest:.0f} % or more from {first} to {last}"
    step = "" if search.pair is None else series.step_label(*search.pair)
    if search.state == "step" and search.comparison is not None:
        return f"{step}: {_difference(search.comparison)}"
    if search.stopped is None:
        return f"{step}: probable, but fresh jobs did not confirm the step"
    so_far = f"most probable so far: {step}" if step else "no answer so far"
    remedy = _REMEDIES[search.stopped.reason.value]
    return f"{search.stopped.message}; {so_far}. {remedy}"


#: What a person can do, by the reason why a search was stopped.
_REMEDIES = {
    "jobs": "Run the command again with a higher --max-jobs to continue",
    "time": "Run the command again to continue",
    "busy": "Run the command again to continue when the machine is free; --wait S waits longer,"
    " --share-machine measures all the same, less precisely",
    "unstable": "Run the command again to continue when the machine is quiet",
    "noise": "Allow more jobs with --max-jobs; or free the machine, or make jobs longer, such as"
    " with -p min_time=2, and search in another folder (--out)",
}


def _difference(comparison: Comparison) -> str:
    direction = "faster" if comparison.d > 0 else "slower"
    low, high = sorted((comparison.interval_low_pct, comparison.interval_high_pct), key=abs)
    return (
        f"{abs(comparison.difference_pct):.1f} % {direction}"
        f" (95 % interval {low:+.1f} to {high:+.1f} %)"
    )


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
    return notes


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else "unknown reason"


def _document(series: StackSeries, search: StepSearch) -> dict[str, Any]:
    labels, comparison, rest = series.labels, search.comparison, search.remainder
    posterior = search.posterior
    return {
        "series": series.name,
        "package": series.package,
        "stacks": list(labels),
        "state": str(search.state),
        "stopped": None
        if search.stopped is None
        else {"reason": search.stopped.reason.value, "message": search.stopped.message},
        "step": series.step_label(*search.pair) if search.pair else None,
        "before": labels[search.pair[0]] if search.pair else None,
        "after": labels[search.pair[1]] if search.pair else None,
        "confirmation": None
        if comparison is None
        else {
            "verdict": str(comparison.verdict),
            "difference_pct": comparison.difference_pct,
            "interval_low_pct": comparison.interval_low_pct,
            "interval_high_pct": comparison.interval_high_pct,
        },
        "jobs": search.jobs,
        "search_jobs": search.search_jobs,
        "confirming_jobs": search.confirming_jobs,
        "unusable_jobs": search.unusable_jobs,
        "skipped": [
            {"stack": labels[place], "reason": reason}
            for place, reason in search.unavailable.items()
        ],
        "remainder": None
        if rest is None
        else {
            "noticed": not search.flat_remainder,
            "chance": rest.chance,
            "first": labels[rest.first],
            "last": labels[rest.last],
            "difference_pct": 100 * math.expm1(rest.effect),
        },
        "posterior": None
        if posterior is None
        else {
            "none": posterior.none,
            "noise_pct": 100 * posterior.noise,
            "steps": [
                {"after": labels[place], "chance": float(chance)}
                for place, chance in zip(
                    posterior.releases[1:], posterior.steps[1:], strict=True
                )
            ],
        },
    }  # fmt: skip
