"""Advice: the form that asks for it, the stack with its reasons and lock, and its evidence."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adviser.locks.formats import pipfile_lock_requirements, pipfile_lock_text
from adviser.reports.note_codes import remark_of
from adviser.scoring.claim_texts import series_in
from adviser.scoring.criteria import RecommendationType
from api.http.errors import not_found
from api.pages.formatting import day, digest
from api.pages.measurements import hardware_choices
from api.pages.site import (
    ApiDocument,
    ApiProblem,
    Pages,
    file_response,
    read,
    read_if_any,
    render,
    uploaded_text,
    write,
)
from api.pages.stack_groups import claims_plot, differences_plot
from model.text import counted

#: Maximum number of rows in the drawing of a claim.
_MOST_DRAWN = 40

blueprint = Pages("advice", __name__)


@blueprint.get("/advice/<advice_id>")
def advice(advice_id: str) -> Response:
    """The best stack of an advice, or why there is none."""
    recorded, report = _report(advice_id)
    result = report["result"]
    inner = result["report"]
    products = inner["products"]
    best = products[0] if products else None
    locked = _locked(products)
    digest = result["parameters"]["hardware"]
    claims = best["claims"] if best else []
    series = series_in(claims, hardware_named=bool(digest))
    hardware = read_if_any(f"/api/v2/hardware/{digest}") if digest else None
    return render(
        "advice.html", recorded, report, advice=recorded.body, result=result, inner=inner,
        metadata=report["metadata"], best=best, others=products[1:],
        sentence=_sentence(inner, best), lock=locked and pipfile_lock_requirements(locked),
        drawing=_drawing(claims, series), notes=_notes(inner, best), series=series,
        hardware=hardware and hardware.body,
    )  # fmt: skip


@blueprint.get("/advice/<advice_id>/<any('requirements.txt', 'Pipfile.lock'):name>")
def lock(advice_id: str, name: str) -> Response:
    """The lock of the best stack, as a file."""
    _, report = _report(advice_id)
    document = _locked(report["result"]["report"]["products"])
    if document is None:
        raise not_found("lock", name)
    written = pipfile_lock_text if name == "Pipfile.lock" else pipfile_lock_requirements
    return file_response(written(document), name)


@blueprint.get("/advice/<advice_id>/claims/<claim_id>")
def claim(advice_id: str, claim_id: str) -> Response:
    """Everything that a claim of an advice rests on."""
    explained = read(f"/api/v2/advice/{advice_id}/claims/{claim_id}")
    claim = explained["claim"]
    (series,) = series_in([claim])
    title = _claim_label(claim, series) if claim["purl"] else f"Two stacks in {series}"
    return render(
        "claim.html", explained, explained=explained.body, claim=claim, title=title,
        drawing=_claim_drawing(explained),
    )  # fmt: skip


@blueprint.post("/advice/<advice_id>/why-not")
def ask_why_not(advice_id: str) -> BaseResponse:
    """Ask what a requirement would change, and show the state of the question."""
    requirement = request.form.get("requirement", "").strip()
    return _to_state(write(f"/api/v2/advice/{advice_id}/why-not", requirement=requirement or " "))


@blueprint.get("/why-not/<analysis_id>")
def why_not(analysis_id: str) -> Response:
    """The answer to a why-not question."""
    return _answered(read(f"/api/v2/requests/{analysis_id}"))


@blueprint.get("/advice/<advice_id>/why-not")
def why_not_link(advice_id: str) -> BaseResponse:
    """The last answer to a why-not question in the address; without one, a form that asks it.

    Opening a link starts no work.
    """
    requirement = request.args.get("requirement", "").strip()
    if not requirement:
        return redirect(url_for("pages-advice.advice", advice_id=advice_id), 303)
    advice = read(f"/api/v2/advice/{advice_id}")
    state = read_if_any(f"/api/v2/advice/{advice_id}/why-not", requirement=requirement)
    if state is None:
        return render("why_not_form.html", advice, advice=advice.body, requirement=requirement)
    return _answered(state)


def _answered(state: ApiDocument) -> Response:
    answer = read(f"/api/v2/requests/{state['analysis_id']}/result")
    return render(
        "why_not.html", state, answer, answer=answer.body, state=state.body,
        requirement=state["parameters"]["requirement"],
    )  # fmt: skip


@blueprint.post("/advice/<advice_id>/replay")
def replay(advice_id: str) -> BaseResponse:
    """Answer the request again with the data of that time."""
    return _to_state(write(f"/api/v2/advice/{advice_id}/replay"))


def _to_state(accepted: ApiDocument) -> BaseResponse:
    return redirect(url_for("pages-ask.state", analysis_id=accepted["analysis_id"]), 303)


def _report(advice_id: str) -> tuple[ApiDocument, ApiDocument]:
    return read(f"/api/v2/advice/{advice_id}"), read(f"/api/v2/advice/{advice_id}/report")


def _locked(products: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The lock of the best stack, as a ``Pipfile.lock``; ``None`` if there is no lock."""
    return (products[0]["project"]["requirements_locked"] or None) if products else None


def _sentence(inner: Mapping[str, Any], best: Mapping[str, Any] | None) -> str:
    """A sentence that describes the stack."""
    if best is None:
        nothing = any(it["code"] == "fetch" and it["type"] == "ERROR" for it in inner["stack_info"])
        proven = inner["certificate"]["status"] == "infeasible"
        problem = "No stack meets the requirements" if proven else "No stack was found"
        return f"{'Nothing is known here yet' if nothing else problem}."
    packages = best["packages"]
    changed = [it for it in packages if it["yours"] not in (None, it["version"])]
    older = [it for it in packages if it["why"]["code"] not in ("newest", "stay")]
    parts = [counted(len(packages), "package")]
    if any(it["yours"] for it in packages):
        parts.append(f"{len(changed)} of them in another version than yours" if changed
                     else "all in your versions")  # fmt: skip
    parts.append(
        f"{_few(older)} not in the newest version" if older else "each in its newest version"
    )
    notes = best.get("justification") or ()
    names = {it.get("package_name") for it in notes if it.get("code") == "vulnerable"}
    if affected := [it for it in packages if it["name"] in names]:
        parts.append(f"{_few(affected)} with known vulnerabilities")
    status = inner["certificate"]["status"]
    ending = "no stack scores better" if status == "optimal" else f"the search ended {status}"
    return f"{', '.join(parts)}; {ending}."


def _few(packages: Sequence[Mapping[str, Any]]) -> str:
    """Up to three packages by name, or their number."""
    if len(packages) > 3:
        return f"{len(packages)} of them"
    return " and ".join(it["name"] for it in packages)


def _drawing(claims: Sequence[Mapping[str, Any]], series: Sequence[str]) -> object:
    labelled = zip(map(_claim_label, claims, series), claims, strict=True)
    return claims_plot(labelled, "Measured differences, with intervals")


def _claim_drawing(explained: ApiDocument) -> object:
    """The observed effect, and the effects by host, inspection and other context."""
    claim, hosts, inspections = (explained[it] for it in ("claim", "hosts", "inspections"))
    parts = [
        *((f"host {_first(it['hosts'])}", it) for it in hosts if len(hosts) > 1),
        *((f"{day(it['ended_at'])} ({_first(it['documents'])})", it)
          for it in inspections if len(inspections) > 1),
        *((f"with other {', '.join(it['differs'])}", it) for it in explained["contexts"]),
    ]  # fmt: skip
    delta = claim["delta_pct"]
    rows = [("all jobs", claim, delta)]
    rows += [(label, {**it["effect"], "verdict": "unjudged"}, delta) for label, it in parts]
    return differences_plot(rows[:_MOST_DRAWN], "Observed differences, with intervals")


def _first(identifiers: Sequence[str]) -> str:
    return digest(identifiers[0] if identifiers else None, 8)


def _claim_label(claim: Mapping[str, Any], series: str) -> str:
    """Both versions and the series: ``numpy@2.4.6 to 2.0.2 in PiConv2D``."""
    version = claim["purl"].removeprefix("pkg:pypi/")
    other = (claim["baseline_purl"] or "").rpartition("@")[2]
    return f"{version}{other and f' to {other}'} in {series}"


def _notes(
    inner: Mapping[str, Any], best: Mapping[str, Any] | None
) -> dict[str, list[Mapping[str, Any]]]:
    """Notes about the request and the stack by package; general notes come first, under ''.

    Notes about a package omit text that the row of the package contains.
    """
    rows = {it["name"]: it for it in (best["packages"] if best else ())}
    notes: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for note in (*inner["stack_info"], *((best or {}).get("justification") or ())):
        name, message = note.get("package_name") or "", note["message"]
        if row := rows.get(name):
            message = remark_of(message, f"{name} {row['version']}", row["why"]["message"])
        if message:
            notes[name].append({**note, "message": message})
    return notes


#: Names of files that the form offers for pasted text.
_FILES = ("requirements.txt", "requirements.in", "pyproject.toml", "Pipfile", "Pipfile.lock",
          "pylock.toml", "uv.lock")  # fmt: skip
#: Fields of the form that lead to the environment of the request.
_ENVIRONMENT = ("python", "platform", "hardware")
#: Fields with one value in each line or between commas.
_LISTS = ("extras", "constraints", "exclusions", "prereleases")
_FINAL = frozenset({"succeeded", "failed", "error"})
#: The state of a request is read again after so many seconds.
_REFRESH_S = 2

ask_pages = Pages("ask", __name__)


@ask_pages.get("/ask")
def form() -> Response:
    """The form; parameters of the address fill it in."""
    return _form(request.args.to_dict())


@ask_pages.post("/ask")
def submit() -> BaseResponse:
    """Send the request, and show its state."""
    fields = {name: value for name, value in request.form.items() if name != "form_token"}
    try:
        return _to_state(write("/api/v2/advice", _project(fields)))
    except ApiProblem as problem:
        if problem.status in {400, 413, 422}:
            return _form(fields, problem)
        raise


@ask_pages.get("/requests/<analysis_id>")
def state(analysis_id: str) -> BaseResponse:
    """The state of a request; once it succeeded, its result."""
    document = read(f"/api/v2/requests/{analysis_id}")
    if document["state"] == "succeeded" and document["kind"] == "adviser":
        address = url_for("pages-advice.advice", advice_id=analysis_id)
        # The script that reads the state again replaces the whole page.
        if "HX-Request" in request.headers:
            return BaseResponse(status=204, headers={"HX-Redirect": address})
        return redirect(address, 303)
    if document["state"] == "succeeded" and document["kind"] == "why-not":
        return redirect(url_for("pages-advice.why_not", analysis_id=analysis_id), 303)
    result = document["result"] and read(document["result"])
    log = read_if_any(f"/api/v2/requests/{analysis_id}/log")
    return render(
        "request.html", document, state=document.body, again_s=_REFRESH_S,
        is_final=document["state"] in _FINAL, result=result and result.body,
        lines=log["lines"] if log else [],
    )  # fmt: skip


def _form(fields: dict[str, str], problem: ApiProblem | None = None) -> Response:
    measured, hardware = hardware_choices()
    return render(
        "ask.html", measured, status=problem.status if problem else 200, fields=fields,
        files=_FILES, types=[it.value for it in RecommendationType],
        problem=problem and problem.body, hardware=hardware,
    )  # fmt: skip


def _project(fields: dict[str, str]) -> dict[str, Any]:
    """The body of the request to the API."""
    files = {
        upload.filename: uploaded_text(upload)
        for upload in request.files.getlist("uploads")
        if upload.filename
    }
    if fields.get("text", "").strip():
        files[fields.get("name") or _FILES[0]] = fields["text"].replace("\r\n", "\n")
    if not files:
        raise ApiProblem(422, {"detail": "paste requirements, or choose files"}, {})
    environment = environment_of(fields)
    lists = {name: _values(fields[name]) for name in _LISTS if fields.get(name, "").strip()}
    ages = {"older_than": fields["older_than"]} if fields.get("older_than") else {}
    return {
        "files": files, "type": fields.get("type") or RecommendationType.BEST.value,
        "environment": environment,
        "dev": "dev" in fields, "only_wheels": "only_wheels" in fields, **lists, **ages,
    }  # fmt: skip


def _values(text: str) -> list[str]:
    """Values that are separated by lines or semicolons.

    >>> _values("numpy<2; torch")
    ['numpy<2', 'torch']
    """
    return [it.strip() for it in text.replace(";", "\n").splitlines() if it.strip()]


def environment_of(fields: Mapping[str, str]) -> dict[str, str]:
    """The environment that a form names, for a request to the API."""
    return {name: fields[name].strip() for name in _ENVIRONMENT if fields.get(name, "").strip()}
