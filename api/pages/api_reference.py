"""The reference of the API, rendered on the server from the OpenAPI document, without scripts."""

from collections import defaultdict
from typing import Any

from flask import Response, current_app, render_template, request
from markupsafe import Markup

from api.pages.site import Pages, render

blueprint = Pages("docs", __name__)


@blueprint.get("/docs")
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
