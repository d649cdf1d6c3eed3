"""The page that shows what is served, made of the OpenAPI document: no script, so none to trust."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from flask import Blueprint, Response, current_app, redirect, render_template, request, url_for
from markupsafe import Markup, escape

#: Nothing but the page's own style sheet is loaded.
_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"

blueprint = Blueprint(
    "docs",
    __name__,
    template_folder="templates",
    static_folder="static",
    static_url_path="/docs/static",
)


@blueprint.app_template_filter("words")
def words(text: str) -> Markup:
    """Plain text as HTML; what stands between backticks is code.

    >>> words("`limit` is < 10")
    Markup('<code>limit</code> is &lt; 10')
    """
    parts = map(escape, text.split("`"))
    return Markup().join(
        Markup("<code>{}</code>").format(it) if number % 2 else it
        for number, it in enumerate(parts)
    )


@blueprint.get("/")
def root() -> Any:
    """Lead to the page."""
    return redirect(url_for("docs.page"))


@blueprint.get("/docs")
def page() -> Response:
    """Every operation with its parameters, bodies and answers."""
    # What the document is made of is fixed once the application is made.
    cache = current_app.extensions.setdefault("docs", {})
    if "page" not in cache:
        document = _document()
        cache["page"] = render_template(
            "docs.html",
            info=document["info"],
            tags=[it for it in document["tags"] if it["name"] in _by_tag(document)],
            operations=_by_tag(document),
            schemas=sorted(document["components"]["schemas"].items()),
        )
    response = Response(cache["page"], mimetype="text/html")
    response.headers["Content-Security-Policy"] = _POLICY
    response.add_etag()
    response.make_conditional(request)
    return response


def _document() -> dict[str, Any]:
    apis = current_app.extensions["flask-smorest"]["apis"]
    found: dict[str, Any] = apis[""]["ext_obj"].spec.to_dict()
    return found


def _by_tag(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Operations by tag, each with its method, its path and references resolved."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method, operation in item.items():
            if method == "parameters":
                continue
            told = {
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
                found[tag].append(told)
    return found


def _resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """What a reference names, or the value itself."""
    reference = value.get("$ref")
    if reference is None:
        return value
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)
