"""Unit tests touch no service: a socket opened here is an error."""

import pytest


@pytest.fixture(autouse=True)
def _no_sockets(socket_disabled: None) -> None:
    """Every unit test runs with sockets disabled."""
