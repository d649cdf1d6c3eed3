"""When a release that could not be read is tried again, and when no more."""

from __future__ import annotations

from datetime import datetime, timedelta

#: Tries before a release is given up until a person asks for it again.
ATTEMPTS = 5
_FIRST_WAIT = timedelta(minutes=1)
_FACTOR = 5


def retry_at(attempts: int, now: datetime) -> datetime | None:
    """When to try again after so many failures; ``None`` to give up.

    Waits are 1, 5, 25 and 125 minutes: with a nightly refresh the last tries are days apart.
    """
    if attempts >= ATTEMPTS:
        return None
    return now + float(_FACTOR ** (attempts - 1)) * _FIRST_WAIT
