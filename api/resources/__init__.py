"""Version 2 of the API, ``/api/v2``: one module for each subject, with its schemas.

Entry point: :func:`blueprints`.
"""

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """The blueprints of ``/api/v2``, in the order of the OpenAPI document."""
    from api.resources import (
        accepted_requests,
        advice,
        benchmark_results,
        bisects,
        changes,
        cypher,
        inspections,
        lock_comparisons,
        packages,
        quality_reports,
        series,
        service_status,
        stacks,
    )

    return (
        packages.blueprint, packages.release_routes, packages.vulnerability_routes,
        stacks.blueprint, series.blueprint, quality_reports.blueprint, inspections.blueprint,
        inspections.observation_routes, advice.blueprint, advice.claim_routes,
        benchmark_results.blueprint, changes.blueprint, bisects.blueprint,
        service_status.status_routes, service_status.loop_routes,
        service_status.blueprint, advice.request_routes, accepted_requests.blueprint,
        accepted_requests.upload_routes, packages.fetch_routes, cypher.blueprint,
        lock_comparisons.knowledge_routes, lock_comparisons.blueprint,
    )  # fmt: skip
