"""Web pages: each shows answers of the API; rendered whole on the server.

Entry point: :func:`blueprints`.
"""

from flask import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of all pages."""
    from api.pages import advice, changes, home, measurements, packages, questions, site, stacks

    static = Blueprint("pages-static", __name__, static_folder="static", static_url_path="/static")
    return (
        static, site.session_pages, home.blueprint, home.docs_pages, home.operation_pages,
        advice.blueprint, advice.ask_pages, changes.blueprint, packages.blueprint,
        measurements.blueprint, measurements.reports_pages, measurements.benchmarks_pages,
        stacks.blueprint, stacks.lock_pages, questions.blueprint,
    )  # fmt: skip
