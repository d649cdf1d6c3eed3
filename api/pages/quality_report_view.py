"""Views for the page and the HTML file of a quality report; the file needs no other file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from adviser.plots import DrawnDistribution, DrawnEffect, DrawnJob, distributions_plot, effects_plot
from adviser.reports.serialization import bounded
from adviser.scoring.claim_texts import TitledSeries, short_titles
from api.pages.formatting import FILTERS, visible, visible_text
from model.measurements.job_stability import exclusion_text
from model.measurements.units import DISPLAY_UNITS, Multiple, Unit

if TYPE_CHECKING:
    from adviser.packs.pack_report import PackReport, ReleaseStep

_Document = Mapping[str, Any]
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class SeriesView:
    """One series of a report.

    :param series: as the API returns it
    :param unit: multiple in which rates are shown
    :param left_out: jobs that do not count: label of the stack, job
    """

    series: _Document
    title: str
    unit: Multiple
    stacks: Sequence[_Document]
    rates: Markup | None
    effects: Markup | None
    left_out: Sequence[tuple[str, _Document]]


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole report."""

    report: _Document
    series: Sequence[SeriesView]


def report_view(report: _Document) -> ReportView:
    """The drawings of a report.

    :param report: of :func:`adviser.quality.reports.report_document`
    """
    titles = series_titles(report["series"])
    series = [_series(it, title) for it, title in zip(report["series"], titles, strict=True)]
    return ReportView(report, series)


def series_titles(series: Sequence[_Document]) -> list[str]:
    """A short title for each series of a report."""
    return short_titles([_titled(it) for it in series])


def _titled(series: _Document) -> TitledSeries:
    stacks = (*series["stacks"], *series["unknown_stacks"])
    return TitledSeries(
        series["indicator"],
        min((it["component"] for it in stacks if it["component"]), default=None),
        series["hardware"]["label"],
        {**series["parameters"], "Python": series["python_version"],
         "script": (series["script_sha256"] or "")[:8]},
    )  # fmt: skip


def _series(series: _Document, title: str) -> SeriesView:
    unit = DISPLAY_UNITS[Unit(series["unit"])]
    stacks = [*series["stacks"], *series["unknown_stacks"]]
    return SeriesView(
        series=series,
        title=title,
        unit=unit,
        stacks=stacks,
        rates=_distributions(stacks, unit),
        effects=_effects(series),
        left_out=[
            (stack["label"], job)
            for stack in stacks
            for job in stack["quality"]["jobs"]
            if job["left_out"] or job["outlier"]
        ],
    )


def _distributions(stacks: Iterable[_Document], unit: Multiple) -> Markup | None:
    rows = []
    for stack in stacks:
        jobs = [
            DrawnJob(job["rate"] / unit.factor, "", _job_text(job, unit), job["left_out"] is None)
            for job in stack["quality"]["jobs"]
        ]
        whole = stack["quality"]["rate"]
        names = ("lower_quartile", "median", "upper_quartile")
        box = None if whole is None else tuple(whole[it] / unit.factor for it in names)
        if jobs:
            rows.append(DrawnDistribution(stack["label"], jobs, box))
    title = "Rates of the jobs by stack"
    return _svg(distributions_plot(rows, title, unit.name)) if rows else None


def _job_text(job: _Document, unit: Multiple) -> str:
    parts = [f"{job['rate'] / unit.factor:.4g} {unit.name}"]
    if job["at"]:
        parts.append(f"{datetime.fromisoformat(job['at']):%Y-%m-%d %H:%M:%S} UTC")
    if job["left_out"]:
        parts.append(f"does not count: {exclusion_text(job['left_out'])}")
    return ", ".join(parts)


def _effects(series: _Document) -> Markup | None:
    effects = [
        DrawnEffect(
            stack["label"], effect["difference_pct"], effect["interval_low_pct"],
            effect["interval_high_pct"], effect["verdict"], series["delta_pct"],
        )
        for stack in series["stacks"]
        if (effect := stack["comparison"]) and effect["difference_pct"] is not None
    ]  # fmt: skip
    return _svg(effects_plot(effects, "Differences to the baseline")) if effects else None


def _svg(drawing: str) -> Markup:
    """A drawing, whose texts are escaped already."""
    return Markup(visible(drawing))  # noqa: S704


def report_file(report: Mapping[str, Any], made_at: datetime) -> str:
    """The HTML of a report.

    :param report: of :func:`adviser.quality.reports.report_document`
    """
    return _file("Quality of measurements", view=report_view(report), made_at=made_at)


def pack_report_file(report: PackReport) -> str:
    """The HTML of a report on a pack."""
    from markdown_it import MarkdownIt

    from adviser.packs.pack_report import report_markdown  # slow

    # Markdown without HTML of its own: all else is text.
    parts = [Markup(MarkdownIt("js-default").render(report_markdown(report)))]  # noqa: S704
    for package, steps in report.steps.items():
        drawing = effects_plot([_drawn(it) for it in steps], f"Releases of {package}")
        parts += [Markup("<h2>Plot: {}</h2>").format(package), _svg(drawing)]
    return _file("What changed between releases", text=Markup("\n").join(parts))


def _drawn(step: ReleaseStep) -> DrawnEffect:
    claim, known = step.claim, bounded(step.claim)
    low, high = claim.interval_low_pct, claim.interval_high_pct
    return DrawnEffect(
        f"{step.operation} {step.releases}", claim.observed_pct, low if known else None,
        high if known else None, claim.verdict, claim.delta_pct,
    )  # fmt: skip


def _file(title: str, **values: Any) -> str:
    css = (_FOLDER / "static" / "pages.css").read_text(encoding="utf-8")
    style = Markup(f"<style>{css}</style>")  # noqa: S704 - a file of this package
    return _templates().get_template("report_file.html").render(style=style, title=title, **values)


@cache
def _templates() -> Environment:
    loader = FileSystemLoader(_FOLDER / "templates")
    templates = Environment(loader=loader, autoescape=True, finalize=visible_text)
    templates.filters.update(FILTERS)
    return templates
