"""Figures of the service for whoever watches it: requests by state, their times, workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, text

from graph.repositories.analyses import Kind

#: Ended requests are counted for so long; what waits or runs always is.
COUNTED_FOR = timedelta(days=1)
#: All, which is said because the index begins with them.
_ASKED = {"period": COUNTED_FOR, "kinds": [it.value for it in Kind]}

_STATES = text(
    """
    SELECT kind, state, count(*) FROM analyses
    WHERE kind = ANY(:kinds)
        AND (accepted_at > now() - :period OR state IN ('pending', 'running'))
    GROUP BY kind, state ORDER BY kind, state
    """
)
_TIMES = text(
    """
    SELECT
        kind,
        percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
            ORDER BY extract(epoch FROM started_at - accepted_at)
        ) AS waited_s,
        percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
            ORDER BY extract(epoch FROM finished_at - started_at)
        ) AS ran_s
    FROM analyses
    WHERE kind = ANY(:kinds)
        AND accepted_at > now() - :period
        AND started_at IS NOT NULL AND finished_at IS NOT NULL
    GROUP BY kind ORDER BY kind
    """
)
_WORKERS = text("SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat > now() - :alive")


@dataclass(frozen=True, slots=True)
class Times:
    """Of the ended requests of one kind: median and 99th percentile, in seconds."""

    kind: str
    waited_s: tuple[float, float]
    ran_s: tuple[float, float]


def states(connection: Connection) -> list[tuple[str, str, int]]:
    """Kind, state and number of requests."""
    rows = connection.execute(_STATES, _ASKED)
    return [(str(kind), str(state), int(number)) for kind, state, number in rows]


def times(connection: Connection) -> list[Times]:
    """How long requests waited for a worker, and how long it took."""
    rows = connection.execute(_TIMES, _ASKED)
    return [Times(str(kind), _pair(waited), _pair(ran)) for kind, waited, ran in rows]


def workers(connection: Connection, alive: timedelta) -> int:
    """How many workers gave a sign of life lately."""
    return int(connection.scalar(_WORKERS, {"alive": alive}) or 0)


def _pair(values: list[float]) -> tuple[float, float]:
    return float(values[0]), float(values[1])
