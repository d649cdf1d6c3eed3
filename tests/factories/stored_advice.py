"""Stored advice whose documents say nothing; what it is tied to is given beside it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from model.advice import AdviceHead, RecordedClaim, StoredAdvice
from model.json_documents import canonical_json
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
    return StoredAdvice(head, "report-2", *bodies)


def recorded_claim(stack: str, baseline: str, **changes: Any) -> RecordedClaim:
    """A settled claim on two stacks that differ in ``numpy``."""
    made: dict[str, Any] = {
        "claim_id": digest_of("claim", stack, baseline),
        "package": "numpy",
        "stack_digest": stack,
        "baseline_digest": baseline,
        "indicator": "PiMatmul",
        "parameters": {"matrix_size": 512},
        "device": "cpu",
        "unit": "FLOP/s",
        "comparison_key": digest_of("comparison"),
        "hardware_digest": digest_of("hardware"),
        "python_version": "3.11",
        "same_hardware": True,
        "same_python": True,
        "verdict": "slower",
        "effect_pct": -5.0,
        "observed_pct": -5.5,
        "interval_low_pct": -6.0,
        "interval_high_pct": -4.0,
        "delta_pct": 2.0,
        "p_value": 0.01,
        "method": "paired",
        "jobs": 5,
        "baseline_jobs": 5,
        "runs": 5,
        "baseline_runs": 5,
        "pairs": 5,
        "hosts": 1,
        "needs": None,
        "jobs_missing": 0,
        "baseline_jobs_missing": 0,
        "scored": True,
        "as_of": DAY,
    }
    return RecordedClaim(**made | changes)
