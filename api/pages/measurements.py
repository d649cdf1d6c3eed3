"""Measurements: inspections, jobs down to the raw samples, hardware, quality, other benchmarks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

import orjson
from flask import Response, request, url_for

from adviser.locks.formats import pipfile_lock_requirements
from adviser.plots import samples_plot
from adviser.scoring.claim_texts import TitledSeries, short_titles
from adviser.stack_comparison import stack_label
from api.http.errors import ApiError, ProblemType, not_found
from api.pages.formatting import day, digest, prefixed_unit, visible
from api.pages.quality_report_view import report_view
from api.pages.site import (
    ApiDocument,
    Pages,
    file_response,
    next_page,
    plot,
    read,
    read_if_any,
    render,
)
from api.pages.stack_groups import group_views
from model.measurements.job_stability import exclusion_text
from model.text import counted, first_few
from pis.amun.schema import InvalidSpecification
from pis.amun.specification import load_specification

blueprint = Pages("inspections", __name__)
#: At most this number of packages of a stack are named.
_MOST_NAMED = 5


@blueprint.get("/inspections")
def inspections() -> Response:
    """All inspections, last ingested first."""
    listed = read("/api/v2/inspections", **request.args)
    return render(
        "inspections.html", listed, inspections=listed["items"], following=next_page(listed),
        contents=_contents(listed["items"]), selected=request.args,
    )  # fmt: skip


def _contents(inspections: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Packages of the stacks that no library names, by digest: those that tell them apart."""
    labels = {it["stack_digest"]: it["stack_label"] for it in inspections if it["stack_digest"]}
    packages = {}
    for stack in (it for it, label in labels.items() if label == stack_label(None, None, it)):
        installed = read(f"/api/v2/stacks/{stack}")["packages"]
        packages[stack] = {f"{it['name']} {it['version']}" for it in installed}
    shared = set.intersection(*packages.values()) if len(packages) > 1 else set()
    return {
        stack: first_few(sorted(every - shared or every), _MOST_NAMED)
        for stack, every in packages.items()
    }


@blueprint.get("/inspections/<document_id>")
def inspection(document_id: str) -> Response:
    """One inspection with its jobs."""
    known = read(f"/api/v2/inspections/{document_id}")
    after = request.args.get("after")
    jobs = read("/api/v2/observations", inspection=known["document_id"], limit=500, after=after)
    hardware = [read(f"/api/v2/hardware/{it}").body for it in known["hardware"]]
    items = sorted(jobs["items"], key=lambda it: it["started_at"] or "")
    drawing = ""
    if shown := [it for it in items if it["rate"]]:  # a job with several metrics has several dots
        factor, unit = prefixed_unit(max(it["rate"] for it in shown), shown[0]["unit"])
        left_out = {place for place, it in enumerate(shown) if _exclusion(it)}
        rates = [it["rate"] / factor for it in shown]
        drawing = samples_plot(rates, "Rate of each job in order", unit, left_out)
    return render(
        "inspection.html", known, jobs, inspection=known.body, hardware=hardware,
        contents=_contents([known.body]),
        jobs=[(it, _exclusion(it)) for it in items], following=next_page(jobs),
        drawing=drawing and plot(drawing),
    )  # fmt: skip


@blueprint.get("/inspections/<document_id>/specification.json")
def specification(document_id: str) -> Response:
    """The specification of an inspection, for ``thoth inspect``."""
    known = read(f"/api/v2/inspections/{document_id}")
    document = read(f"/api/v2/inspections/{document_id}/document")
    recorded = document.body.get("specification")
    try:
        load_specification(recorded)
    except InvalidSpecification:
        detail = "the document of this inspection has no specification that `thoth inspect` accepts"
        raise ApiError(404, ProblemType.NOT_FOUND, detail) from None
    name = f"specification-{digest(known['document_id'], 8)}.json"
    return file_response(orjson.dumps(recorded), name, "application/json")


@blueprint.get("/inspections/<document_id>/requirements.txt")
def lock(document_id: str) -> Response:
    """The lock of an inspection; without hashes if its document has none."""
    known = read(f"/api/v2/inspections/{document_id}")
    if known["stack_digest"] is None:
        raise not_found("lock of the inspection", document_id)
    document = read(f"/api/v2/inspections/{document_id}/document")
    try:
        # Documents of some generations are specifications themselves.
        python = document.body.get("specification", {"python": document.body})["python"]
        text = pipfile_lock_requirements(python["requirements_locked"])
    except (LookupError, TypeError, AttributeError):
        stack = read(f"/api/v2/stacks/{known['stack_digest']}")
        text = "".join(f"{it['name']}=={it['version']}\n" for it in stack["packages"])
    name = f"requirements-{digest(known['document_id'], 8)}.txt"
    return file_response(text, name, disposition="inline")


@blueprint.get("/inspections/<document_id>/log.txt")
def log(document_id: str) -> Response:
    """The logs of the build and of the jobs of an inspection."""
    known = read(f"/api/v2/inspections/{document_id}")
    document = read(f"/api/v2/inspections/{document_id}/document")
    logs = [("build", document.body.get("build_log"))]
    results = document.body.get("results")
    for number, result in enumerate(results if isinstance(results, list) else ()):
        logs.append((f"job {number}", result.get("log") if isinstance(result, Mapping) else None))
    parts = [f"=== {name} ===\n{visible(text)}" for name, text in logs if isinstance(text, str)]
    text = "\n".join(parts) or "The document of this inspection has no log.\n"
    name = f"log-{digest(known['document_id'], 8)}.txt"
    return file_response(text, name, disposition="inline")


@blueprint.get("/jobs/<observation_id>")
def job(observation_id: str) -> Response:
    """One job with its samples and conditions."""
    known = read(f"/api/v2/observations/{observation_id}")
    stack = known["stack_digest"] and read(f"/api/v2/stacks/{known['stack_digest']}")
    hardware = read(f"/api/v2/hardware/{known['hardware_digest']}")
    samples = known["repetitions_s"]
    drawing = samples and samples_plot(samples, "Seconds of each repetition, in order", "s")
    return render(
        "job.html", known, job=known.body, samples=samples, drawing=drawing and plot(drawing),
        excluded=_exclusion(known.body), stack=stack and stack.body, hardware=hardware.body,
        work=_work(known.body),
    )  # fmt: skip


def _work(job: Mapping[str, Any]) -> tuple[float, str] | None:
    """Amount of work in a call, and its unit; ``None`` if the rate does not follow from samples."""
    rate, unit, samples = job["rate"], job["unit"] or "", job["repetitions_s"]
    if not rate or not samples or not unit.endswith("/s"):
        return None
    middle = median(samples)
    if not math.isclose(middle, job["elapsed_s"] or 0.0, rel_tol=1e-6):
        return None
    return rate * middle, unit.removesuffix("/s")


def _exclusion(job: Mapping[str, Any]) -> str | None:
    """Why comparisons leave the job out, in words; ``None`` if they use it."""
    reason = job["quarantine_reason"] or job["unstable_reason"] or job["failure_reason"]
    return None if reason is None else exclusion_text(reason)


@blueprint.get("/hardware/<digest>")
def hardware_class(digest: str) -> Response:
    """One hardware class with the stacks that were measured on it."""
    known = read(f"/api/v2/hardware/{digest}")
    coverage = read(f"/api/v2/hardware/{known['digest']}/coverage")
    groups = read("/api/v2/comparison-groups", hardware=known["digest"])
    inspections = read("/api/v2/inspections", hardware=known["digest"], limit=10)
    return render(
        "hardware.html", known, coverage, groups, inspections, hardware=known.body,
        coverage=coverage.body, sentence=_sentence(coverage),
        groups=group_views(groups["items"]), following=next_page(groups),
        inspections=inspections["items"],
    )  # fmt: skip


def hardware_choices() -> tuple[ApiDocument | None, list[Mapping[str, Any]]]:
    """Hardware classes to choose from in a form: described classes with measurements.

    :returns: the document of the API, ``None`` if this client may not read it; and the classes
    """
    measured = read_if_any("/api/v2/hardware", measured="true", limit=100)
    items = measured["items"] if measured else []
    return measured, [it for it in items if it["identity"].get("source") != "unknown"]


def _sentence(coverage: ApiDocument) -> str:
    """The measurements on a class, in one sentence."""
    indicators = coverage["indicators"]
    if not indicators:
        return "Nothing was measured on this hardware."
    packages = sorted({it["package"] for it in indicators if it["package"]})
    times = [it["measured_at"] for it in indicators if it["measured_at"]]
    measurements = sum(it["measurements"] for it in indicators)
    measured = f" of {', '.join(packages)}" if packages else ""
    last = f"; the last one on {day(max(times))}" if times else ""
    return f"{counted(measurements, 'measurement')}{measured}{last}."


reports_pages = Pages("reports", __name__)


@reports_pages.get("/reports")
def reports() -> Response:
    """All series that a report can be made of."""
    listed = read("/api/v2/reports", **request.args)
    titled = [
        TitledSeries(it["indicator"], it["component"], it["hardware"]["label"], it["parameters"])
        for it in listed["items"]
    ]
    titles = short_titles(titled)
    return render(
        "reports.html", listed, series=list(zip(titles, listed["items"], strict=True)),
        following=next_page(listed), selected=request.args,
    )  # fmt: skip


@reports_pages.get("/reports/<comparison_key>")
def report(comparison_key: str) -> Response:
    """The report on one series."""
    known = read(f"/api/v2/reports/{comparison_key}", **request.args)
    view = report_view(known.body)

    def job_link(observation_id: str) -> str:
        return url_for("pages-inspections.job", observation_id=observation_id)

    return render("report.html", known, view=view, job_link=job_link)


benchmarks_pages = Pages("benchmarks", __name__)


@benchmarks_pages.get("/benchmarks")
def benchmarks() -> Response:
    """Results in one table for each definition, since only equal definitions are comparable."""
    listed = read("/api/v2/benchmarks", **request.args)
    return render(
        "benchmarks.html", listed, tables=_by_definition(listed["items"]),
        following=next_page(listed), selected=request.args,
    )  # fmt: skip


def _by_definition(
    results: Iterable[Mapping[str, Any]],
) -> list[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """The results of each definition in order, with the first result as head."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        names = ("system", "metric", "unit", "definition")
        groups[tuple(result[name] for name in names)].append(result)
    return [(rows[0], rows) for rows in groups.values()]
