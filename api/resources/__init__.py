"""Version 2 of the API, ``/api/v2``: one module for each subject, with its schemas.

Entry point: :func:`blueprints`.
"""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of ``/api/v2``, in the order of the OpenAPI document."""
    from api.resources import (
        accepted_requests,
        advice_requests,
        benchmarks,
        bisects,
        changes,
        cypher,
        inspections,
        lock_comparisons,
        loop,
        operation,
        packages,
        recorded_advice,
        releases,
        reports,
        stacks,
        uploads,
        vulnerabilities,
    )

    return (
        packages.blueprint, releases.blueprint, vulnerabilities.blueprint, stacks.blueprint,
        changes.series_routes, reports.blueprint, inspections.blueprint,
        inspections.observation_routes, recorded_advice.blueprint, recorded_advice.claim_routes,
        benchmarks.blueprint, changes.blueprint, bisects.blueprint,
        operation.status_routes, loop.blueprint,
        operation.blueprint, advice_requests.blueprint, accepted_requests.blueprint,
        uploads.blueprint, packages.fetch_routes, cypher.blueprint,
        lock_comparisons.knowledge_routes, lock_comparisons.blueprint,
    )  # fmt: skip
