"""Searches as sentences and as JSON, the same for the command, the record and the API."""

from __future__ import annotations

import math
from typing import Any

from adviser.bisect.dips import SEEN_CHANCE, DipGoal
from adviser.bisect.posterior import STEP_SIZES
from adviser.bisect.search import NONE_CHANCE, DipStatement, SearchState, StepSearch
from adviser.bisect.stack_series import StackSeries
from adviser.scoring.claim_texts import comparison_effect_text
from adviser.scoring.comparisons import Comparison
from model.json_documents import finite_or_none
from model.text import counted

_SEEN = f"{100 * SEEN_CHANCE:.0f} %"
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


def search_sentence(series: StackSeries, search: StepSearch) -> str:
    """The answer of a search, or its state so far, in one sentence."""
    labels = series.labels
    step = "" if search.pair is None else series.step_label(*search.pair)
    if search.state is SearchState.RUNNING:
        return _state_so_far(series, search, step)
    if search.state is SearchState.NONE:
        smallest = 100 * STEP_SIZES[0]
        first, *_, last = (it for n, it in enumerate(labels) if n not in search.unavailable)
        answer = f"no lasting step of {smallest:.0f} % or more from {first} to {last}"
        dip = search.dips.example if search.dips else None
        if dip is None:
            return answer
        return f"{answer}; {_dip(series, dip)} would have been seen with {_SEEN} chance"
    if search.state is SearchState.STEP and search.comparison is not None:
        return f"{step}: {_difference(search.comparison)}"
    if search.stopped is None:
        return f"{step}: probable, but fresh jobs did not confirm the step"
    settled = search.posterior is not None and search.posterior.none >= NONE_CHANCE
    so_far = "no lasting step so far" if settled else "no answer so far"
    if step:
        so_far = f"most probable so far: {step}"
    remedy = _REMEDIES[search.stopped.reason.value]
    return f"{search.stopped.message}; {so_far}. {remedy}"


def _state_so_far(series: StackSeries, search: StepSearch, step: str) -> str:
    posterior = search.posterior
    if search.dips is not None:
        return f"looking for {_dip(series, search.dips.goal)}: {_further(search.dips)}"
    if search.pair is not None:
        return f"confirming {step} with fresh jobs"
    if posterior is None:
        return "nothing usable was measured yet"
    effect = 100 * math.expm1(float(posterior.effect[posterior.best]))
    return (
        f"no step {100 * posterior.none:.0f} %; most probable"
        f" {series.step_label(*posterior.pair())} {100 * posterior.best_chance:.0f} %"
        f" ({effect:+.0f} %)"
    )


def dip_note(series: StackSeries, search: StepSearch) -> str:
    """What the answer "no step" leaves open, and what would settle it; empty if nothing."""
    statement = search.dips
    if statement is None or search.state is not SearchState.NONE or not statement.missing:
        return ""
    shown = statement.example
    note = "narrower or smaller dips may exist"
    if shown is None:
        note = "dips may exist"
    smaller = [it for it in statement.visible if it.size == statement.goal.size]
    if smaller and smaller[0] != shown:
        note += f", and {_dip(series, smaller[0])} would have been seen, too"
    goal = statement.goal
    return f"{note}; --dips {goal.width} looks for {_dip(series, goal)}: {_further(statement)}"


def _dip(series: StackSeries, dip: DipGoal) -> str:
    unit = "releases" if series.package else "stacks"
    return f"a dip of at least {100 * dip.size:g} % that is {dip.width} or more {unit} wide"


def _further(statement: DipStatement) -> str:
    return f"about {counted(statement.missing, 'more job')}"


def _dip_document(dip: DipGoal) -> dict[str, float]:
    return {"difference_pct": round(100 * dip.size, 6), "width": dip.width}


def _difference(comparison: Comparison) -> str:
    size, interval = comparison_effect_text(comparison)
    return f"{size} ({interval})"


def search_document(series: StackSeries, search: StepSearch) -> dict[str, Any]:
    """A search as JSON values; numbers that are not known are null."""
    labels, comparison, rest = series.labels, search.comparison, search.remainder
    posterior = search.posterior
    return {
        "series": series.name,
        "package": series.package,
        "stacks": list(labels),
        "state": search.state.value,
        "sentence": search_sentence(series, search),
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
            "difference_pct": finite_or_none(comparison.difference_pct),
            "interval_low_pct": finite_or_none(comparison.interval_low_pct),
            "interval_high_pct": finite_or_none(comparison.interval_high_pct),
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
        "dips": None
        if search.dips is None
        else {
            "chance": SEEN_CHANCE,
            "visible": [_dip_document(it) for it in search.dips.visible],
            "goal": _dip_document(search.dips.goal),
            "sought": search.dips.sought,
            "further_jobs": search.dips.missing,
            "note": dip_note(series, search),
        },
        "posterior": None
        if posterior is None
        else {
            "none": posterior.none,
            "noise_pct": 100 * posterior.noise,
            "steps": [
                {
                    "after": labels[place],
                    "chance": float(chance),
                    "difference_pct": 100 * math.expm1(float(effect)),
                }
                for place, chance, effect in zip(
                    posterior.releases[1:], posterior.steps[1:], posterior.effect[1:], strict=True
                )
            ],
        },
    }  # fmt: skip
