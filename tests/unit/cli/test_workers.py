"""Which process of a worker takes from which queues."""

from __future__ import annotations

import pytest

from api.jobs.queue import QueueName
from cli.service import queue_sets


@pytest.mark.parametrize("processes", [2, 3, 4, 7])
def test_some_process_is_kept_for_people_and_every_queue_has_one(processes: int) -> None:
    sets = queue_sets(processes)
    assert len(sets) == processes
    assert sets[0] == [QueueName.PEOPLE]
    assert {it for queues in sets for it in queues} == set(QueueName)
    assert all(QueueName.PEOPLE not in queues for queues in sets[1:] if len(queues) > 1)


def test_one_process_alone_takes_from_all_and_people_first() -> None:
    (queues,) = queue_sets(1)
    assert sorted(queues) == sorted(QueueName)
