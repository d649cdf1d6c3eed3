"""Web pages: each shows what the API answers; rendered whole on the server.

Entry point: :func:`blueprints`.
"""

from __future__ import annotations

from flask import Blueprint


def _static_files() -> Blueprint:
    return Blueprint("pages-static", __name__, static_folder="static", static_url_path="/static")


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of all pages."""
    from api.pages.advice import blueprint as advice
    from api.pages.ask import blueprint as ask
    from api.pages.benchmarks import blueprint as benchmarks
    from api.pages.bisects import blueprint as bisects
    from api.pages.changes import blueprint as changes
    from api.pages.docs import blueprint as docs
    from api.pages.hardware import blueprint as hardware
    from api.pages.home import blueprint as home
    from api.pages.inspections import blueprint as inspections
    from api.pages.lock_comparisons import blueprint as lock_comparisons
    from api.pages.loop import blueprint as loop
    from api.pages.operator import blueprint as operator
    from api.pages.packages import blueprint as packages
    from api.pages.paths import blueprint as paths
    from api.pages.questions import blueprint as questions
    from api.pages.reports import blueprint as reports
    from api.pages.series import blueprint as series
    from api.pages.sessions import blueprint as sessions
    from api.pages.stacks import blueprint as stacks
    from api.pages.trust import blueprint as trust
    from api.pages.vulnerabilities import blueprint as vulnerabilities

    return (
        _static_files(),
        docs,
        sessions,
        home,
        ask,
        advice,
        benchmarks,
        changes,
        bisects,
        packages,
        vulnerabilities,
        inspections,
        hardware,
        stacks,
        lock_comparisons,
        paths,
        series,
        questions,
        reports,
        loop,
        trust,
        operator,
    )
