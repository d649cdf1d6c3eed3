"""The page ``/docs``, rendered from the OpenAPI document on the server, without scripts."""

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
    """Render plain text as HTML; text between backticks becomes code.

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
    """Redirect to the page."""
    return redirect(url_for("docs.page"))


@blueprint.get("/docs")
def page() -> Response:
    """Render every operation with its parameters, bodies and responses."""
    # The document does not change after the application is created.
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
    document: dict[str, Any] = apis[""]["ext_obj"].spec.to_dict()
    return document


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
