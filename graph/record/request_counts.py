"""Counts of requests by client, which all processes of the service share."""

from __future__ import annotations

from sqlalchemy import Connection, text

# Both statements read the clock of PostgreSQL, so the clocks of servers may differ.
_COUNT = text(
    """
    INSERT INTO request_counts AS known (key, requests, ends_at)
    VALUES (:key, :amount, clock_timestamp() + make_interval(secs => :window_s))
    ON CONFLICT (key) DO UPDATE SET
        requests = excluded.requests
            + CASE WHEN known.ends_at > clock_timestamp() THEN known.requests ELSE 0 END,
        ends_at = CASE
            WHEN known.ends_at > clock_timestamp() THEN known.ends_at ELSE excluded.ends_at
        END
    RETURNING requests, extract(epoch FROM ends_at - clock_timestamp())::float8
    """
)
_READ = text(
    """
    SELECT requests, extract(epoch FROM ends_at - clock_timestamp())::float8 FROM request_counts
    WHERE key = :key AND ends_at > clock_timestamp()
    """
)
_FORGET = text("DELETE FROM request_counts WHERE CAST(:key AS text) IS NULL OR key = :key")
_FORGET_ENDED = text("DELETE FROM request_counts WHERE ends_at < clock_timestamp()")


def count_requests(
    connection: Connection, key: str, window_s: float, amount: int
) -> tuple[int, float]:
    """Add ``amount`` to a count in one statement.

    A window begins with the first request after the last one ended.

    :returns: the sum in the present window, and the seconds until it ends
    """
    values = {"key": key, "window_s": window_s, "amount": amount}
    requests, left_s = connection.execute(_COUNT, values).one()
    return int(requests), float(left_s)


def counted_requests(connection: Connection, key: str) -> tuple[int, float]:
    """Requests in the present window, and the seconds until it ends; zeros without a window."""
    row = connection.execute(_READ, {"key": key}).one_or_none()
    return (0, 0.0) if row is None else (int(row[0]), float(row[1]))


def forget_counts(connection: Connection, key: str | None = None) -> int:
    """Delete one count, or all of them; return their number."""
    return int(connection.execute(_FORGET, {"key": key}).rowcount)


def forget_ended_counts(connection: Connection) -> int:
    """Delete the counts whose window has ended; return their number."""
    return int(connection.execute(_FORGET_ENDED).rowcount)
