"""Retries transactions of the graph that conflict with another projector."""

from __future__ import annotations

from tenacity import retry, retry_if_exception, stop_after_attempt, wait_fixed


def _is_conflict(error: BaseException) -> bool:
    from neo4j.exceptions import ConstraintError  # loading the driver takes 0.1 s

    return isinstance(error, ConstraintError)


#: Decorator that runs a transaction again if another one created the same nodes meanwhile.
#: After PostgreSQL has released the lock of a killed projector, the graph may still commit the
#: projector's transaction.
retry_conflict = retry(
    retry=retry_if_exception(_is_conflict),
    stop=stop_after_attempt(5),
    wait=wait_fixed(0.1),
    reraise=True,
)
