"""Counts requests and jobs that wait for a worker, for ``thoth status`` and ``/readyz``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

#: Requests that wait for longer are a problem. So is a worker without a heartbeat for this long.
UNATTENDED_AFTER = timedelta(minutes=1)
#: Counting of waiting jobs stops here.
MOST_JOBS = 1000
#: Query for the values of :class:`WaitingRequests`, in the order of its fields.
WAITING_REQUESTS = f"""
    WITH waiting_jobs AS (
        SELECT coalesce(
            scheduled_at, (SELECT max(at) FROM procrastinate_events WHERE job_id = jobs.id)
        ) AS since
        FROM procrastinate_jobs AS jobs
        WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())
        ORDER BY id LIMIT {MOST_JOBS}
    )
    SELECT
        count(*),
        (SELECT count(*) FROM waiting_jobs),
        coalesce(extract(epoch FROM now() - least(
            min(coalesce(postponed_at, accepted_at)), (SELECT min(since) FROM waiting_jobs)
        )), 0)::float8,
        (
            SELECT count(*) FROM procrastinate_workers
            WHERE last_heartbeat > now() - interval '{UNATTENDED_AFTER.total_seconds()} s'
        ),
        coalesce(extract(epoch FROM now() - min(coalesce(postponed_at, accepted_at))
            FILTER (WHERE kind <> 'inspection')), 0)::float8
    FROM analyses WHERE state = 'pending'
"""


@dataclass(frozen=True, slots=True)
class WaitingRequests:
    """Requests and jobs that no worker has started yet.

    :param jobs: due jobs, of requests and of other work such as projection; at most
        :data:`MOST_JOBS`
    :param longest_s: how long the oldest due job has waited, in seconds; 0 if none waits
    :param workers: number of workers with a heartbeat within :data:`UNATTENDED_AFTER`
    :param late_s: how long the oldest request has waited, in seconds; without inspections, which
        wait for a machine for hours
    """

    requests: int
    jobs: int
    longest_s: float
    workers: int
    late_s: float = 0.0

    @property
    def problem(self) -> str | None:
        """The problem and its remedy, if requests stand still, or jobs wait and no worker runs.

        >>> WaitingRequests(requests=3, jobs=4, longest_s=75.2, workers=0).problem
        '3 requests have waited for up to 75 s and no worker is running: start `thoth worker`'
        >>> WaitingRequests(requests=0, jobs=1, longest_s=75.2, workers=0).problem
        '1 job has waited for up to 75 s and no worker is running: start `thoth worker`'
        >>> WaitingRequests(requests=3, jobs=4, longest_s=75.2, workers=1, late_s=75.2).problem
        '3 requests have waited for up to 75 s: see `thoth queue list`'
        >>> WaitingRequests(requests=3, jobs=4, longest_s=75.2, workers=1).problem
        """
        limit_s = UNATTENDED_AFTER.total_seconds()
        if (self.late_s if self.workers else self.longest_s) <= limit_s:
            return None
        count, noun = (self.requests, "request") if self.requests else (self.jobs, "job")
        waiting = f"1 {noun} has" if count == 1 else f"{count} {noun}s have"
        if self.workers:
            return f"{waiting} waited for up to {self.late_s:.0f} s: see `thoth queue list`"
        return (
            f"{waiting} waited for up to {self.longest_s:.0f} s and no worker is running:"
            " start `thoth worker`"
        )


def waiting_requests(connection: Connection) -> WaitingRequests:
    """How many requests and jobs wait for a worker, and how many workers run; one query."""
    return WaitingRequests(*connection.exec_driver_sql(WAITING_REQUESTS).one())
