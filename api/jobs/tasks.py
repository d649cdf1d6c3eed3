"""What workers do: one task a kind of job, by the names that jobs are enqueued with."""

from __future__ import annotations

from typing import Any, cast

from procrastinate import Blueprint, JobContext, RetryDecision
from procrastinate.exceptions import JobAborted
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy

from api.jobs.running import MAX_ATTEMPTS, PASSING, run
from api.jobs.workshop import Workshop

#: Under this name a worker hands its workshop to its tasks.
WORKSHOP = "workshop"


class Retrying(BaseRetryStrategy):
    """Again after a store that was away, or after the worker had to stop; a bounded number."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Wait 1, 4, 9 … seconds."""
        again = isinstance(exception, (*PASSING, JobAborted))
        if not again or job.attempts + 1 >= MAX_ATTEMPTS:
            return None
        return RetryDecision(retry_in={"seconds": (job.attempts + 1) ** 2})


tasks = Blueprint()


@tasks.task(name="advice.make", pass_context=True, retry=Retrying())
def make_advice(context: JobContext, analysis_id: str) -> None:
    """Answer a request for advice."""
    from api.jobs.advice import make_advice as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="provenance.check", pass_context=True, retry=Retrying())
def check_provenance(context: JobContext, analysis_id: str) -> None:
    """Check where the files of a lock come from."""
    from api.jobs.provenance import check_provenance as work

    run(_workshop(context), analysis_id, work)


def _workshop(context: JobContext) -> Workshop:
    shared: dict[str, Any] = context.additional_context
    return cast(Workshop, shared[WORKSHOP])
