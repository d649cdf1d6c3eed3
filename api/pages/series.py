"""Histories of series: all jobs in the order of time, with bands and steps."""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from flask import Response, request, url_for

from adviser.plots import DrawnJob, DrawnRun, history_plot
from api.pages.formatting import day, digest, moment, percent, prefixed_unit, visible
from api.pages.site import ApiDocument, Pages, plot, read, render
from model.measurements.job_stability import exclusion_text

blueprint = Pages("series", __name__)


@blueprint.get("/series/<comparison_key>")
def history(comparison_key: str) -> Response:
    """All jobs of a series in the order of time, with bands and steps."""
    known = read(f"/api/v2/series/{comparison_key}", **request.args)
    rates = [job["rate"] for run in known["runs"] for job in run["jobs"]]
    factor, unit = prefixed_unit(max(rates), known["unit"])
    drawn = list(_drawn_runs(known, factor, unit))
    title = f"{known['indicator']} on {known['hardware']['label']}"
    return render(
        "series.html", known, series=known.body, title=title, data=_data(drawn, unit),
        drawing=plot(history_plot(drawn, f"{title}: rate of each job", unit)),
        shown=len(rates), changes=_changes(known),
    )  # fmt: skip


def _drawn_runs(known: ApiDocument, factor: float, unit: str) -> Iterator[DrawnRun]:
    steps = {it["document_id"]: it for it in known["steps"]}
    for run in known["runs"]:
        label = visible(run["label"])
        jobs = [
            DrawnJob(
                job["rate"] / factor,
                url_for("pages-inspections.job", observation_id=job["observation_id"]),
                f"{label}: {job['rate'] / factor:.4g} {unit}, {moment(job['seen_at'])}"
                f"{_left_out(job['left_out'])}",
                job["left_out"] is None,
            )
            for job in run["jobs"]
        ]
        step = steps.get(run["document_id"])
        middle, low, high = (
            None if run[name] is None else run[name] / factor
            for name in ("median_rate", "low_rate", "high_rate")
        )
        yield DrawnRun(
            label.partition(" (")[0], day(run["jobs"][0]["seen_at"]), jobs, middle, low, high,
            step and f"a step of {percent(step['change_pct'])} since {moment(step['since'])}",
        )  # fmt: skip


def _left_out(reason: str | None) -> str:
    return f"; left out: {visible(exclusion_text(reason))}" if reason else ""


def _data(runs: list[DrawnRun], unit: str) -> Mapping[str, Any]:
    """The data of the history, for the script that adds zoom."""
    jobs = [job for run in runs for job in run.jobs]
    starts = accumulate((len(run.jobs) for run in runs), initial=0)
    return {
        "unit": unit,
        "rates": [job.rate if job.counts else None for job in jobs],
        "left_out": [None if job.counts else job.rate for job in jobs],
        "low": [run.low for run in runs for _ in run.jobs],
        "high": [run.high for run in runs for _ in run.jobs],
        "labels": [job.tooltip for job in jobs],
        "urls": [job.url for job in jobs],
        "runs": [
            {"start": start, "label": run.label, "step": run.step is not None}
            for start, run in zip(starts, runs, strict=False)
        ],
    }


def _changes(known: ApiDocument) -> str:
    """The steps in one sentence."""
    steps = known["steps"]
    if not steps:
        return "No machine changed its speed while this was measured."
    texts = [
        f"of {digest(it['host'], 8)} by {percent(it['change_pct'])} since {moment(it['since'])}"
        for it in steps
    ]
    return f"The speed of a machine changed: {', '.join(texts)}."
