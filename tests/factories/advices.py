"""Stored advice whose documents say nothing; what it is tied to is given beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from common.inspection import canonical_json
from graph.repositories.advice import AdviceHead, StoredAdvice
from tests.factories.rows import digest_of

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def advice_id(number: int) -> str:
    """The identifier of :func:`stored_advice` of the same number."""
    return f"adviser-260101000000-{number:016x}"


def stored_advice(number: int, status: str = "optimal") -> StoredAdvice:
    """An advice; each has documents of its own."""
    head = AdviceHead(
        advice_id=advice_id(number),
        recommendation_type="latest",
        status=status,
        snapshot_revision=digest_of("snapshot", number),
        result_digest=digest_of("result", number),
        created_at=DAY + timedelta(seconds=number, microseconds=7),
        python_version="3.11",
        platform="manylinux_2_28_x86_64",
    )
    parts = ("request", "snapshot", "evidence", "files", "report")
    bodies = (canonical_json({"part": part, "number": number}) for part in parts)
    return StoredAdvice(head, "report-1", *bodies)
