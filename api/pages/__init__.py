"""Web pages: each shows what the API answers; rendered whole on the server.

Entry point: :func:`blueprints`.
"""

from __future__ import annotations

from flask import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of all pages."""
    from api.pages import (
        advice,
        changes,
        docs,
        home,
        measurements,
        packages,
        questions,
        site,
        stacks,
    )

    static = Blueprint("pages-static", __name__, static_folder="static", static_url_path="/static")
    subjects = (docs, home, advice, changes, packages, measurements, stacks, questions)
    return (
        static, *(it.blueprint for it in subjects), site.session_pages, home.operation_pages,
        advice.ask_pages, measurements.reports_pages, measurements.benchmarks_pages,
        stacks.lock_pages,
    )  # fmt: skip
