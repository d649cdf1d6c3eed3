"""Words that commands repeat so that ``--help`` loads little."""

from __future__ import annotations

import pytest

from api.jobs.queue import QueueName
from cli.service import QUEUES
from cli.token import SCOPES, duration
from common.errors import InvalidArgument
from graph.record.tokens import Scope


def test_commands_offer_every_queue_and_every_scope() -> None:
    assert list(QUEUES) == [it.value for it in QueueName]
    assert list(SCOPES) == [it.value for it in Scope]


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5h", "30 d", "99999w", "１d"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--expires"):
        duration(text)
