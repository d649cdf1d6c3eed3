"""Version 2 of the API, ``/api/v2``: one module for each subject, with its schemas.

Entry point: :func:`blueprints`.
"""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of ``/api/v2``."""
    from api.resources.accepted_requests import blueprint as requests
    from api.resources.advice_requests import blueprint as advising
    from api.resources.benchmarks import blueprint as benchmarks
    from api.resources.bisects import blueprint as bisects
    from api.resources.changes import blueprint as changes
    from api.resources.claims import blueprint as claims
    from api.resources.cypher import blueprint as cypher
    from api.resources.inspections import blueprint as inspections
    from api.resources.inspections import observation_routes as observations
    from api.resources.ledger import blueprint as ledger
    from api.resources.lock_comparisons import blueprint as lock_comparisons
    from api.resources.lock_knowledge import blueprint as lock_knowledge
    from api.resources.loop import blueprint as loop
    from api.resources.operation import blueprint as operation
    from api.resources.packages import blueprint as packages
    from api.resources.packages import fetch_routes as fetches
    from api.resources.paths import blueprint as paths
    from api.resources.recorded_advice import blueprint as advice
    from api.resources.releases import blueprint as releases
    from api.resources.reports import blueprint as reports
    from api.resources.series import blueprint as series
    from api.resources.stacks import blueprint as stacks
    from api.resources.status import blueprint as status
    from api.resources.uploads import blueprint as uploads
    from api.resources.vulnerabilities import blueprint as vulnerabilities

    reads = (
        packages,
        releases,
        vulnerabilities,
        stacks,
        series,
        reports,
        inspections,
        observations,
        advice,
        claims,
        benchmarks,
        changes,
        bisects,
        paths,
        status,
        loop,
        ledger,
        operation,
    )
    return *reads, advising, requests, uploads, fetches, cypher, lock_knowledge, lock_comparisons
