"""Comparing two locks: pasted or as files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adviser.scoring.claim_texts import series_in
from api.pages.api_client import ApiDocument, ApiProblem, write
from api.pages.ask import environment_of
from api.pages.groups import claims_plot
from api.pages.site import Pages, render, uploaded_text
from api.pages.stacks import render_form
from model.text import counted

_SIDES = ("old", "new")

blueprint = Pages("lock-comparisons", __name__)


@blueprint.get("/compare/locks")
def form() -> BaseResponse:
    """Lead to the form, because locks are too long for an address."""
    return redirect(url_for("pages-stacks.compare"), 303)


@blueprint.post("/compare/locks")
def compare_locks() -> Response:
    """The differences of two locks, or the form with what is wrong."""
    fields = request.form.to_dict()
    try:
        for side in _SIDES:
            fields[side] = _text(side)
        body = {side: {lock_name(fields[side]): fields[side]} for side in _SIDES}
        compared = write(
            "/api/v2/lock-comparisons", {**body, "environment": environment_of(fields)}
        )
    except ApiProblem as problem:
        if problem.status in {400, 413, 422}:
            return render_form(fields, problem)
        raise
    return render(
        "lock_comparison.html", compared, compared=compared.body,
        sentence=_sentence(compared), drawing=_drawing(compared),
        series=series_in(_settled(compared)),
    )  # fmt: skip


def lock_name(text: str) -> str:
    """The name of a lock's format, judging by its content.

    >>> lock_name('{"_meta": {}}'), lock_name('lock-version = "1.0"'), lock_name("numpy==2.3.5")
    ('Pipfile.lock', 'pylock.toml', 'requirements.txt')
    >>> lock_name("version = 1\\nrevision = 3"), lock_name("version: 6\\nenvironments:")
    ('uv.lock', 'pixi.lock')
    >>> lock_name('[[package]]\\n[metadata]\\nlock-version = "2.1"'), lock_name("dependencies:\\n")
    ('poetry.lock', 'environment.yml')
    """
    if text.lstrip().startswith("{"):
        return "Pipfile.lock"
    lines = text.splitlines()
    keys = {line.partition("=")[0].strip() for line in lines if "=" in line}
    if "lock_version" in keys:
        return "pdm.lock"
    if "lock-version" in keys:
        return "poetry.lock" if "[[package]]" in lines else "pylock.toml"
    if any(line.startswith("environments:") for line in lines):
        return "pixi.lock"
    if any(line.startswith("dependencies:") for line in lines):
        return "environment.yml"
    return "uv.lock" if text.lstrip().startswith("version = ") else "requirements.txt"


def _text(side: str) -> str:
    """The chosen file, else the pasted text.

    :raises ApiProblem: 422 if there is no text
    """
    upload = request.files.get(f"{side}_file")
    if upload is not None and upload.filename:
        text = uploaded_text(upload)
    else:
        text = request.form.get(side, "").replace("\r\n", "\n")
    if not text.strip():
        raise ApiProblem(422, {"detail": f"paste the {side} lock, or choose its file"}, {})
    return text


def _sentence(compared: ApiDocument) -> str:
    """The verdict on the new lock in one sentence."""
    if not compared["changes"]:
        return "The two locks have the same versions."
    slower = [it for it in _settled(compared) if it["verdict"] == "slower"]
    harms = [
        counted(len(compared[name]), singular, plural)
        for name, singular, plural in (
            ("introduced", "new vulnerability", "new vulnerabilities"),
            ("yanked", "yanked version", "yanked versions"),
        )
        if compared[name]
    ]
    if slower:
        harms.insert(0, f"slower in {counted(len(slower), 'comparison')}")
    if compared["outcome"] == "harm":
        return f"The new lock does harm: {', '.join(harms)}."
    if compared["outcome"] == "unknown":
        return "No harm was found, but not everything is known that a verdict needs."
    if compared["warnings"]:
        return "No harm was found in what could be read of the locks."
    return "No harm was found, and nothing is missing for a verdict."


def _settled(compared: ApiDocument) -> list[Mapping[str, Any]]:
    return [*compared["stacks"], *compared["claims"]]


def _drawing(compared: ApiDocument) -> object:
    settled = _settled(compared)
    claims = (
        (f"{claim['package'] or 'whole lock'} ({series})", claim)
        for claim, series in zip(settled, series_in(settled), strict=True)
    )
    return claims_plot(claims, "New lock against the old one")
