"""The first page, the state of the service, refused documents, and the documentation of the API.

The latter is rendered from the OpenAPI document on the server, without scripts.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Response, current_app, render_template, request
from markupsafe import Markup

from api.pages.site import Pages, read, read_if_any, render, unknown_address
from model.json_documents import as_json_time

#: Open questions that are shown.
_QUESTIONS = 5
#: Open questions are those of so many series, which were measured last.
_SERIES = 20
#: Changes of the last so many days are shown.
_DAYS = 30

blueprint = Pages("home", __name__)
blueprint.app_errorhandler(404)(unknown_address)


@blueprint.get("/")
def home() -> Response:
    """Settled changes of the last days, counts of the record, and open work."""
    since = as_json_time(datetime.now(UTC) - timedelta(days=_DAYS))
    changes = read("/api/v2/changes", since=since, limit=20)
    hardware = read("/api/v2/hardware", measured="true", limit=10)
    coverage = read("/api/v2/coverage")
    status, loop = read("/api/v2/status"), read_if_any("/api/v2/loop")
    groups = read("/api/v2/comparison-groups", newest=_SERIES, limit=_SERIES)
    questions = [(jobs, group) for group in groups["items"] for jobs in group["next_jobs"]]
    return render(
        "home.html", changes, coverage, hardware, groups, status, loop,
        days=_DAYS, changes=changes["items"],
        coverage=coverage.body, hardware=hardware["items"],
        state=status.body, loop=loop and loop.body,
        questions=sorted(questions, key=lambda it: -it[0]["chance"])[:_QUESTIONS],
    )  # fmt: skip


#: What each step of a night does, in order; by the name of :data:`loop.night.STEPS`.
STEP_LABELS: Mapping[str, str] = {
    "watch": "Watch the projects of requests",
    "refresh": "Read the indexes",
    "notice": "Notice releases",
    "resolve": "Find stacks",
    "plan": "Plan jobs",
    "measure": "Measure",
    "ingest": "Store the results",
    "settle": "Judge releases",
    "changes": "Record changes",
    "advise": "Advise again",
    "announce": "Announce",
    "notify": "Send notices",
}

operation_pages = Pages("operation", __name__)


@operation_pages.get("/loop")
def loop() -> Response:
    """The state of the loop."""
    known = read("/api/v2/loop")
    return render(
        "loop.html", known, releases=known["releases"], watches=known["watches"],
        nights=known["nights"], steps=STEP_LABELS, budget=known["budget"],
    )  # fmt: skip


@operation_pages.get("/operator")
def operator() -> Response:
    """Queues, workers, stores, disk, schedules and the last night."""
    operation = read("/api/v2/operation")
    loop = read_if_any("/api/v2/loop")
    return render(
        "operator.html", operation, loop, operation=operation.body,
        night=loop["nights"][0] if loop and loop["nights"] else None,
    )  # fmt: skip


@operation_pages.get("/trust")
def trust() -> Response:
    """Refused documents, and the age of the data."""
    status = read("/api/v2/status")
    return render("trust.html", status, state=status.body)


docs_pages = Pages("docs", __name__)


@docs_pages.get("/docs")
def page() -> Response:
    """Render every operation with its parameters, bodies and responses."""
    # The document does not change after the application is created.
    cache = current_app.extensions.setdefault("docs", {})
    if "operations" not in cache:
        apis = current_app.extensions["flask-smorest"]["apis"]
        document: dict[str, Any] = apis[""]["ext_obj"].document()
        by_tag = _by_tag(document)
        cache["info"] = document["info"]
        content = render_template(
            "operations.html",
            tags=[it for it in document["tags"] if it["name"] in by_tag],
            operations=by_tag,
            schemas=sorted(document["components"]["schemas"].items()),
        )
        cache["operations"] = Markup(content)  # noqa: S704 - Jinja escaped it
    response = render("docs.html", **cache)
    response.add_etag()
    response.make_conditional(request)
    return response


def _by_tag(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Operations grouped by tag, each with its method and path; references are resolved."""
    by_tag: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method, operation in item.items():
            if method == "parameters":
                continue
            resolved = {
                **operation,
                "method": method.upper(),
                "path": path,
                "parameters": [*shared, *operation.get("parameters", [])],
                "responses": {
                    str(status): _resolved(document, it)
                    for status, it in operation["responses"].items()
                },
            }
            for tag in operation["tags"]:
                by_tag[tag].append(resolved)
    return by_tag


def _resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The target of a reference, or the value itself."""
    reference = value.get("$ref")
    if reference is None:
        return value
    target: Any = document
    for part in reference.removeprefix("#/").split("/"):
        target = target[part]
    return dict(target)
