"""Stacks, their measurements, and comparisons of two stacks or two locks."""

from collections.abc import Mapping
from typing import Any

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adviser.scoring.claim_texts import series_in
from api.pages.advice import environment_of
from api.pages.measurements import hardware_choices
from api.pages.site import (
    ApiDocument,
    ApiProblem,
    Pages,
    next_page,
    read,
    render,
    uploaded_text,
    write,
)
from api.pages.stack_groups import claims_plot, differences_plot, group_views
from model.packages.identity import DEFAULT_INDEX
from model.text import counted

_SETTLED = frozenset({"faster", "slower", "equivalent"})

blueprint = Pages("stacks", __name__)


@blueprint.get("/stacks")
def stacks() -> Response:
    """Groups of comparable stacks: which is fastest, with the interval."""
    query = {name: value for name, value in request.args.items() if value}
    groups = read("/api/v2/comparison-groups", **query)
    _, classes = hardware_choices()
    wanted = query.get("hardware", "")
    starts = (wanted, f"sha256:{wanted}")
    chosen = next((it for it in classes if wanted and it["digest"].startswith(starts)), None)
    return render(
        "stacks.html", groups, groups=group_views(groups["items"]), following=next_page(groups),
        selected=request.args, hardware=classes, chosen=chosen and chosen["digest"],
        labels={wanted: chosen["label"]} if chosen else {},
    )  # fmt: skip


@blueprint.get("/stacks/<digest>")
def stack(digest: str) -> Response:
    """One stack with its rates, packages and inspections."""
    known = read(f"/api/v2/stacks/{digest}")
    groups = read("/api/v2/comparison-groups", stack=known["digest"], limit=50)
    inspections = read("/api/v2/inspections", stack=known["digest"], limit=50)
    rates = []
    for group in groups["items"]:
        by_digest = {it["stack_digest"]: it for it in group["stacks"]}
        baseline = by_digest[group["baseline"]["stack_digest"]]
        rates.append((group, by_digest[known["digest"]], baseline))
    return render(
        "stack.html", known, groups, inspections, stack=known.body, rates=rates,
        more_rates=groups["next"], inspections=inspections["items"],
    )  # fmt: skip


@blueprint.get("/compare")
def compare() -> Response:
    """Two stacks side by side: settled differences first."""
    names = [request.args.get(name, "").strip() for name in ("baseline", "candidate")]
    if not all(names):
        return render_form(request.args)
    both = [read(f"/api/v2/stacks/{it}") for it in names]
    compared = read("/api/v2/comparisons", **request.args)
    settled = [it for it in compared["items"] if it["effect"]["verdict"] in _SETTLED]
    open_ones = [it for it in compared["items"] if it["effect"]["verdict"] not in _SETTLED]
    rows = (
        (f"{item['indicator']} on {item['hardware']['label']}", item["effect"], item["delta_pct"])
        for item in (*settled, *open_ones)
    )
    drawing = differences_plot(rows, "Differences, with 95 % intervals")
    return render(
        "compare.html", compared, baseline=both[0].body, candidate=both[1].body,
        settled=settled, undetermined=open_ones, drawing=drawing,
        following=next_page(compared), changes=_changes(*both),
        measured=_inspections(compared, *both),
    )  # fmt: skip


def render_form(fields: Mapping[str, str], problem: ApiProblem | None = None) -> Response:
    """The forms of two stacks and of two locks.

    :param fields: values to fill in
    :param problem: problem of the locks
    """
    measured = read("/api/v2/stacks", measured="true", limit=100)
    classes, hardware = hardware_choices()
    # A choice is made in advance only if there is no other.
    only = hardware[0]["digest"] if len(hardware) == 1 else ""
    stacks = sorted(measured["items"], key=lambda it: it["label"])
    # Two different stacks are chosen in advance, if there are two.
    digests = [it["digest"] for it in stacks]
    baseline = fields.get("baseline") or next(iter(digests), None)
    candidate = fields.get("candidate") or next((it for it in digests if it != baseline), None)
    return render(
        "compare_form.html", measured, classes, status=problem.status if problem else 200,
        stacks=stacks, more=measured["next"],
        chosen_stacks={"baseline": baseline, "candidate": candidate},
        hardware=hardware, chosen=fields.get("hardware", only), fields=fields,
        problem=problem and problem.body,
    )  # fmt: skip


def _inspections(compared: ApiDocument, *stacks: ApiDocument) -> list[str]:
    """An inspection of each stack with the first comparison key of the page."""
    if not compared["items"]:
        return []
    key = compared["items"][0]["comparison_key"]
    lists = (
        read("/api/v2/observations", stack=it["digest"], comparison_key=key, limit=1)
        for it in stacks
    )
    return [it["document_id"] for listed in lists for it in listed["items"]]


def _changes(
    baseline: ApiDocument, candidate: ApiDocument
) -> list[tuple[str, str | None, str | None]]:
    """Packages that differ: name, version in the baseline, version in the candidate."""
    before, after = (
        {it["name"]: _version(it) for it in stack["packages"]} for stack in (baseline, candidate)
    )
    names = sorted(before.keys() | after.keys())
    rows = ((name, before.get(name), after.get(name)) for name in names)
    return [row for row in rows if row[1] != row[2]]


def _version(package: Mapping[str, Any]) -> str:
    """The version, with its index unless that is the default one."""
    version, index = package["version"], package["index"]
    return str(version) if index == DEFAULT_INDEX else f"{version} ({index})"


_SIDES = ("old", "new")

lock_pages = Pages("lock-comparisons", __name__)


@lock_pages.get("/compare/locks")
def form() -> BaseResponse:
    """Lead to the form, because locks are too long for an address."""
    return redirect(url_for("pages-stacks.compare"), 303)


@lock_pages.post("/compare/locks")
def compare_locks() -> Response:
    """The differences of two locks, or the form with the problem."""
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
    settled = _settled(compared)
    series = series_in(settled)
    claims = (
        (f"{claim['package'] or 'whole lock'} ({one})", claim)
        for claim, one in zip(settled, series, strict=True)
    )
    return render(
        "lock_comparison.html", compared, compared=compared.body,
        sentence=_sentence(compared), series=series,
        drawing=claims_plot(claims, "New lock against the old one"),
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
