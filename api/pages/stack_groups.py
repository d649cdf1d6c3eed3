"""Groups of comparable stacks, as pages show them: a sentence, a drawing and rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from adviser.plots import DrawnEffect, effects_plot
from api.pages.formatting import missing, quantity
from api.pages.site import plot
from model.text import counted


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group.

    :param group: as the API returns it
    :param baseline: label of the stack that other stacks are compared with
    :param sentence: which stack is fastest, with the interval
    :param drawing: effects of all stacks with an estimate, or ``None``
    :param history: jobs, and median rates of the last inspections
    """

    group: Mapping[str, Any]
    baseline: str | None
    sentence: str
    drawing: Markup | None
    history: str


def group_views(groups: Iterable[Mapping[str, Any]]) -> list[GroupView]:
    """The groups with sentence and drawings."""
    return [
        GroupView(it, _baseline(it), _sentence(it), _drawing(it), _history(it)) for it in groups
    ]


def _baseline(group: Mapping[str, Any]) -> str | None:
    """The label of the baseline."""
    base = group["baseline"] and group["baseline"]["stack_digest"]
    return next((it["label"] for it in group["stacks"] if it["stack_digest"] == base), None)


def _history(group: Mapping[str, Any]) -> str:
    recent = group["recent"]
    inspections, rates = recent["inspections"], recent["rates"]
    text = f"{counted(recent['observations'], 'job')} in {counted(inspections, 'inspection')}"
    if not rates:
        return text
    low, high = (quantity(it, group["unit"]) for it in (min(rates), max(rates)))
    if len(rates) == 1:
        return f"{text}; median {low}"
    which = "the" if len(rates) == inspections else f"the last {len(rates)}"
    return f"{text}. Medians of {which} inspections: {low} to {high}."


def _sentence(group: Mapping[str, Any]) -> str:
    stacks, baseline = group["stacks"], _baseline(group)
    if baseline is None or len(stacks) < 2:
        only = stacks[0] if stacks else None
        rate = only and quantity(only["median_rate"], group["unit"])
        return f"One stack was measured: {only['label']}, {rate}." if only else "No known stack."
    faster = [it for it in stacks if _verdict(it) == "faster"]
    slower = [it for it in stacks if _verdict(it) == "slower"]
    if faster:
        best = max(faster, key=lambda it: it["comparison"]["interval_low_pct"])
        effect = best["comparison"]
        return (
            f"{best['label']} is settled to be faster than {baseline}: by "
            f"{effect['difference_pct']:.1f} %, at least {effect['interval_low_pct']:.1f} %."
        )
    waiting = [it for it in stacks if _verdict(it) == "undetermined"]
    settled_by = [it["settled_by"] for it in group["next_jobs"]]
    settled_by += [missing(it["comparison"], it["left_out"]) for it in waiting]
    others = f" {len(waiting)} undetermined: {settled_by[0]}." if waiting else ""
    if slower:
        slow = f"{len(slower)} {'is' if len(slower) == 1 else 'are'} slower"
        return f"No stack is settled to be faster than {baseline}; {slow}.{others}"
    return f"No difference to {baseline} is settled.{others}"


def _verdict(stack: Mapping[str, Any]) -> str:
    comparison = stack["comparison"]
    return str(comparison["verdict"]) if comparison else "baseline"


def _drawing(group: Mapping[str, Any]) -> Markup | None:
    compared = (stack for stack in group["stacks"] if stack["comparison"])
    rows = ((stack["label"], stack["comparison"], group["delta_pct"]) for stack in compared)
    return differences_plot(rows, "Differences to the baseline, with 95 % intervals")


def claims_plot(claims: Iterable[tuple[str, Mapping[str, Any]]], title: str) -> Markup | None:
    """Draw claims of reports; ``None`` if no interval is known.

    :param claims: each with its label
    """
    known = (it for it in claims if it[1]["interval_low_pct"] is not None)
    return differences_plot(((label, claim, claim["delta_pct"]) for label, claim in known), title)


def differences_plot(
    rows: Iterable[tuple[str, Mapping[str, Any], float]], title: str
) -> Markup | None:
    """Draw effects of reports and of the API; ``None`` if no difference is known.

    :param rows: label, effect, and δ in %
    """
    known = ((it, it[1].get("observed_pct", it[1].get("difference_pct"))) for it in rows)
    effects = [
        DrawnEffect(
            label, difference, effect["interval_low_pct"], effect["interval_high_pct"],
            effect["verdict"], delta,
        )
        for (label, effect, delta), difference in known
        if difference is not None
    ]  # fmt: skip
    return plot(effects_plot(effects, title)) if effects else None
