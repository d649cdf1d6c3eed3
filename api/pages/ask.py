"""Asking for advice: the form, and the state of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adviser.scoring.criteria import RecommendationType
from api.pages.api_client import ApiProblem, read, read_if_any, write
from api.pages.measurements import hardware_choices
from api.pages.site import Pages, render, uploaded_text

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

blueprint = Pages("ask", __name__)


@blueprint.get("/ask")
def form() -> Response:
    """The form; parameters of the address fill it in."""
    return _form(request.args.to_dict())


@blueprint.post("/ask")
def submit() -> BaseResponse:
    """Send the request, and show its state."""
    fields = {name: value for name, value in request.form.items() if name != "form_token"}
    try:
        accepted = write("/api/v2/advice", _project(fields))
    except ApiProblem as problem:
        if problem.status in {400, 413, 422}:
            return _form(fields, problem)
        raise
    return redirect(url_for("pages-ask.state", analysis_id=accepted["analysis_id"]), 303)


@blueprint.get("/requests/<analysis_id>")
def state(analysis_id: str) -> BaseResponse:
    """The state of a request; once it succeeded, its result."""
    document = read(f"/api/v2/requests/{analysis_id}")
    if document["state"] == "succeeded" and document["kind"] == "adviser":
        return _to_page(url_for("pages-advice.advice", advice_id=analysis_id))
    if document["state"] == "succeeded" and document["kind"] == "why-not":
        return redirect(url_for("pages-advice.why_not", analysis_id=analysis_id), 303)
    result = document["result"] and read(document["result"])
    log = read_if_any(f"/api/v2/requests/{analysis_id}/log")
    return render(
        "request.html", document, state=document.body, again_s=_REFRESH_S,
        is_final=document["state"] in _FINAL, result=result and result.body,
        lines=log["lines"] if log else [],
    )  # fmt: skip


def _to_page(address: str) -> BaseResponse:
    """Lead to another page; the script that reads the state again replaces the whole page."""
    if "HX-Request" in request.headers:
        return BaseResponse(status=204, headers={"HX-Redirect": address})
    return redirect(address, 303)


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
