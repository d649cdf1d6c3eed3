"""Retries transactions of the graph that conflict with another projector."""

from __future__ import annotations

from neo4j.exceptions import ConstraintError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

#: Decorator that runs a transaction again if another one created the same nodes meanwhile.
#: After PostgreSQL has released the lock of a killed projector, the graph may still commit the
#: projector's transaction.
retry_conflict = retry(
    retry=retry_if_exception_type(ConstraintError),
    stop=stop_after_attempt(5),
    wait=wait_fixed(0.1),
    reraise=True,
)
