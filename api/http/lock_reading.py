"""Reads what the stores know of two locks, within limits of size, time and share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from adviser.answering.lock_comparison import LockKnowledge, knowledge_of_locks
from api.access.authentication import token
from api.health.graph_timeout import answer_within
from api.jobs.request_submission import sender
from api.service import service
from graph.record.packages import version_count
from graph.snapshot_reader import CheckTime
from model.errors import InvalidArgument
from model.measurements.evidence import RecordedHardware
from model.packages.environments import Environment

#: Maximum number of packages of a lock.
MAX_PACKAGES = 2_000
#: Maximum number of versions of these packages; reading them from the graph takes some 10 s.
MAX_VERSIONS = 100_000


def read_lock_knowledge(
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    recorded: Sequence[RecordedHardware],
    hardware: Collection[str] | None = None,
) -> LockKnowledge:
    """What the stores know of two locks, each given as version by package name.

    :param recorded: all recorded hardware classes
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :raises ApiError: 429 if too many clients compare locks
    :raises InvalidArgument: if the packages have too many versions or measurements
    :raises StoreUnavailable: if a store does not answer in time
    """
    stores = service()
    with stores.lock_readers.taken(sender(token())):
        with stores.reading() as connection:
            versions = version_count(connection, {*old, *new})
        if versions > MAX_VERSIONS:
            raise InvalidArgument(
                f"the packages of the locks have {versions} versions, but at most {MAX_VERSIONS}"
                " are read"
            )

        def ask(check_time: CheckTime) -> LockKnowledge:
            with stores.stores() as opened:
                return knowledge_of_locks(
                    opened, old, new, environment, recorded, hardware, check_time
                )

        return answer_within(stores.settings.query_timeout_s * 2, ask)
