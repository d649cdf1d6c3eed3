"""What the page and the HTML file of a quality report show; the file needs no other file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from adviser.group_titles import TitledSeries, short_titles
from adviser.plots.distributions import DrawnDistribution, JobDot, distributions_plot
from adviser.plots.effects import DrawnEffect, effects_plot
from adviser.plots.lines import DrawnLine, LinePoint, PlotAxis, lines_plot
from adviser.reports.serialization import bounded
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
    durations: Markup | None
    effects: Markup | None
    times: Markup | None
    spreads: Markup | None
    left_out: Sequence[tuple[str, _Document]]


@dataclass(frozen=True, slots=True)
class AxisView:
    """Performance over one parameter."""

    axis: _Document
    unit: Multiple
    rates: Markup | None
    differences: Markup | None
    batches: Sequence[BatchesView]


@dataclass(frozen=True, slots=True)
class BatchesView:
    """Batches that differ in their number of repetitions."""

    batches: _Document
    drawing: Markup


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole report."""

    report: _Document
    series: Sequence[SeriesView]
    axes: Sequence[AxisView]


def report_view(report: _Document) -> ReportView:
    """The drawings of a report.

    :param report: of :func:`adviser.quality.report_document.report_document`
    """
    titles = series_titles(report["series"])
    series = [_series(it, title) for it, title in zip(report["series"], titles, strict=True)]
    return ReportView(report, series, [_axis(it) for it in report["axes"]])


def series_titles(series: Sequence[_Document]) -> list[str]:
    """A short title for each series of a report."""
    return short_titles([_titled(it) for it in series])


def batches_view(batches: _Document) -> BatchesView:
    """The drawing of batches with different numbers of repetitions."""
    unit = batches["unit"]
    points = tuple(
        LinePoint(
            batch["repetitions"], batch["sd"], None, None,
            f"{batch['label']}: sd {batch['sd']:.4g} {unit}, median {batch['median']:.5g} {unit},"
            f" {batch['jobs']} jobs",
        )
        for batch in batches["batches"]
    )  # fmt: skip
    fitted = tuple(
        LinePoint(
            batch["repetitions"], batch["fitted_sd"], None, None, f"fit: {batch['fitted_sd']:.4g}"
        )
        for batch in batches["batches"]
    )
    numbers = tuple(float(it["repetitions"]) for it in batches["batches"])
    drawing = lines_plot(
        [DrawnLine("measured", points), DrawnLine("explained by repetitions", fitted)],
        "Standard deviation of the rate by number of repetitions",
        PlotAxis("repetitions of a job", logarithmic=True, marked=numbers),
        PlotAxis(f"standard deviation, {unit}"),
    )
    return BatchesView(batches, _svg(drawing))


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
        rates=_distributions(stacks, "rate", "rate", unit, "Rates of the jobs by stack"),
        durations=_distributions(
            stacks, "elapsed", "elapsed_s", Multiple("ms", 1e-3), "Duration of a call by stack"
        ),
        effects=_effects(series),
        times=_times(stacks, unit),
        spreads=_spreads(stacks),
        left_out=[
            (stack["label"], job)
            for stack in stacks
            for job in stack["quality"]["jobs"]
            if job["left_out"] or job["outlier"]
        ],
    )


def _distributions(
    stacks: Iterable[_Document], summary: str, value: str, unit: Multiple, title: str
) -> Markup | None:
    rows = []
    for stack in stacks:
        jobs = tuple(
            JobDot(
                job[value] / unit.factor, _job_text(job, job[value], unit), job["left_out"] is None
            )
            for job in stack["quality"]["jobs"]
            if job[value]
        )
        whole = stack["quality"][summary]
        names = ("lower_quartile", "median", "upper_quartile")
        box = None if whole is None else tuple(whole[it] / unit.factor for it in names)
        if jobs:
            rows.append(DrawnDistribution(stack["label"], jobs, box))
    return _svg(distributions_plot(rows, title, unit.name)) if rows else None


def _job_text(job: _Document, value: float, unit: Multiple) -> str:
    parts = [f"{value / unit.factor:.4g} {unit.name}"]
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


def _times(stacks: Iterable[_Document], unit: Multiple) -> Markup | None:
    """The rates over the minutes since the first job."""
    stacks = list(stacks)
    moments = [
        datetime.fromisoformat(job["at"])
        for stack in stacks
        for job in stack["quality"]["jobs"]
        if job["at"]
    ]
    if len(set(moments)) < 2:
        return None
    begin = min(moments)
    lines = []
    for stack in stacks:
        points = tuple(
            LinePoint(
                (datetime.fromisoformat(job["at"]) - begin).total_seconds() / 60,
                job["rate"] / unit.factor, None, None,
                f"{stack['label']}: {_job_text(job, job['rate'], unit)}",
            )
            for job in stack["quality"]["jobs"]
            if job["at"] and job["left_out"] is None
        )  # fmt: skip
        if points:
            lines.append(DrawnLine(stack["label"], points, joined=False))
    if not lines:
        return None
    across = PlotAxis(f"minutes since {begin:%Y-%m-%d %H:%M} UTC")
    return _svg(lines_plot(lines, "Rates in the order of time", across, PlotAxis(unit.name)))


def _spreads(stacks: Iterable[_Document]) -> Markup | None:
    lines = [
        DrawnLine(
            stack["label"],
            tuple(
                LinePoint(
                    spread["repetitions"], spread["sd_pct"], None, None,
                    f"{stack['label']}: {spread['repetitions']} repetitions, spread"
                    f" {spread['sd_pct']:.3g} % (95 % interval {spread['low_pct']:.3g} to"
                    f" {spread['high_pct']:.3g} %)",
                )
                for spread in stack["quality"]["spreads"]
            ),
        )
        for stack in stacks
        if len(stack["quality"]["spreads"]) > 1
    ]  # fmt: skip
    if not lines:
        return None
    title = "Spread between jobs by the number of repetitions that count"
    across = PlotAxis("repetitions that count", logarithmic=True)
    return _svg(lines_plot(lines, title, across, PlotAxis("spread between jobs, %"), zero=True))


def _axis(axis: _Document) -> AxisView:
    unit = DISPLAY_UNITS[Unit(axis["unit"])]
    marked = tuple(float(it["value"]) for it in axis["keys"])
    across = PlotAxis(axis["name"], logarithmic=True, marked=marked)
    rates = [
        DrawnLine(curve["label"], tuple(_rate_points(curve, unit)))
        for curve in axis["curves"]
        if curve["points"]
    ]
    differences = [
        DrawnLine(curve["label"], tuple(_difference_points(curve)))
        for curve in axis["curves"]
        if curve["differences"]
    ]
    title = f"Rate over {axis['name']}"
    up = PlotAxis(unit.name, logarithmic=True)
    return AxisView(
        axis,
        unit,
        _svg(lines_plot(rates, title, across, up)) if rates else None,
        _svg(
            lines_plot(
                differences, f"Difference to the baseline over {axis['name']}", across,
                PlotAxis("difference, %"), zero=True, height=260,
            )
        )
        if differences
        else None,
        [batches_view(it) for it in axis["batches"]],
    )  # fmt: skip


def _rate_points(curve: _Document, unit: Multiple) -> Iterable[LinePoint]:
    for point in curve["points"]:
        low, high = (None if point[k] is None else point[k] / unit.factor for k in ("low", "high"))
        text = (
            f"{curve['label']} at {point['value']:g}: {point['rate'] / unit.factor:.4g} {unit.name}"
        )
        interval = "" if low is None else f", 95 % interval {low:.4g} to {high:.4g}"
        jobs = f"; {point['jobs']} jobs"
        yield LinePoint(
            point["value"], point["rate"] / unit.factor, low, high, text + interval + jobs
        )


def _difference_points(curve: _Document) -> Iterable[LinePoint]:
    for point in curve["differences"]:
        text = f"{curve['label']} at {point['value']:g}: {point['difference_pct']:+.1f} %"
        if point["low_pct"] is not None and point["high_pct"] is not None:
            text += f", 95 % interval {point['low_pct']:+.1f} to {point['high_pct']:+.1f} %"
        yield LinePoint(
            point["value"], point["difference_pct"], point["low_pct"], point["high_pct"], text
        )


def _svg(drawing: str) -> Markup:
    """A drawing, whose texts are escaped already."""
    return Markup(visible(drawing))  # noqa: S704


def report_file(report: Mapping[str, Any], made_at: datetime) -> str:
    """The HTML of a report.

    :param report: of :func:`adviser.quality.report_document.report_document`
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
