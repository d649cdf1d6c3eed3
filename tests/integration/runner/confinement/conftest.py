"""No job outlives its test."""

import uuid
from collections.abc import Iterator

import pytest

from tests.services.confined import with_word
from tests.services.waiting import wait_until


@pytest.fixture
def marker() -> Iterator[str]:
    """A word in the command line of a job; no process has it after the test."""
    word = f"marker-{uuid.uuid4()}"
    yield word
    wait_until(lambda: not with_word(word), f"no process has {word}")
