"""Web pages: each shows what the API answers; rendered whole on the server.

Entry point: :func:`blueprints`.
"""

from __future__ import annotations

from flask import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of all pages."""
    from api.pages import (
        advice,
        ask,
        changes,
        docs,
        home,
        lock_comparisons,
        measurements,
        packages,
        questions,
        sessions,
        stacks,
    )

    static = Blueprint("pages-static", __name__, static_folder="static", static_url_path="/static")
    subjects = (
        docs,
        sessions,
        home,
        ask,
        advice,
        changes,
        packages,
        measurements,
        stacks,
        lock_comparisons,
        questions,
    )
    return (
        static, *(it.blueprint for it in subjects), home.operation_pages,
        measurements.reports_pages, measurements.benchmarks_pages,
    )  # fmt: skip
