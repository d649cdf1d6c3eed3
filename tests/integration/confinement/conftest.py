"""Nothing here runs without walls, and no job outlives its test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from pis.amun.confinement import CannotConfine, require_confinement
from tests.services.confined import with_word


@pytest.fixture(autouse=True)
def walls() -> None:
    try:
        require_confinement()
    except CannotConfine as error:
        pytest.skip(f"{error}: {error.hint}")


@pytest.fixture
def marker() -> Iterator[str]:
    """A word in the command line of a job; no process has it after the test."""
    word = f"marker-{uuid.uuid4()}"
    yield word
    until = time.monotonic() + 10
    while with_word(word) and time.monotonic() < until:
        time.sleep(0.02)
    assert with_word(word) == []
