"""Web pages: each shows answers of the API; rendered whole on the server.

Entry point: :func:`blueprints`.
"""

from flask import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of all pages."""
    from api.pages import (
        advice,
        api_reference,
        bisects,
        changes,
        home,
        measurements,
        operation,
        packages,
        questions,
        series,
        site,
        stacks,
    )

    static = Blueprint("pages-static", __name__, static_folder="static", static_url_path="/static")
    return (
        static, site.session_pages, home.blueprint, api_reference.blueprint, operation.blueprint,
        advice.blueprint, advice.ask_pages, changes.blueprint, bisects.blueprint, series.blueprint,
        packages.blueprint,
        measurements.blueprint, measurements.reports_pages, measurements.benchmarks_pages,
        stacks.blueprint, stacks.lock_pages, questions.blueprint,
    )  # fmt: skip
