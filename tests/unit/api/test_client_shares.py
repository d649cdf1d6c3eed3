"""Shares of clients in what a process works on at a time."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from api.http.errors import ApiError
from api.jobs.queue import QueueClient
from api.service import ClientShares

NEAR, FAR, OTHER = (QueueClient(f"192.0.2.{it}", anonymous=True) for it in (1, 2, 3))
WITH_TOKEN = QueueClient("token-1", anonymous=False)


def refused(shares: ClientShares, client: QueueClient) -> str:
    with pytest.raises(ApiError) as error, shares.taken(client):
        pass
    assert (error.value.status, error.value.headers) == (429, {"Retry-After": "5"})
    return error.value.detail


def test_an_address_has_a_quarter_and_all_addresses_three_quarters() -> None:
    shares = ClientShares(4)
    with ExitStack() as running:
        running.enter_context(shares.taken(NEAR))
        assert refused(shares, NEAR) == (
            "1 such requests run, 1 of them of this client: try again later"
        )
        for client in (FAR, OTHER):
            running.enter_context(shares.taken(client))
        assert refused(shares, QueueClient("198.51.100.7", anonymous=True)).startswith("3 such")
        running.enter_context(shares.taken(WITH_TOKEN))
        assert refused(shares, WITH_TOKEN).startswith("4 such")
    with shares.taken(NEAR):
        pass


def test_places_are_given_back_after_an_error_and_one_client_always_has_one() -> None:
    shares = ClientShares(0)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), shares.taken(NEAR):
            raise ValueError("broken")


def test_each_client_has_a_few_places_also_with_a_token() -> None:
    shares = ClientShares(4, each=2)
    token, other = (QueueClient(name, anonymous=False) for name in "ab")
    with ExitStack() as running:
        for client in (token, token, other, other):
            running.enter_context(shares.taken(client))
            if client is token:
                continue
            assert refused(shares, token).startswith(("2 such", "3 such", "4 such"))
    with shares.taken(token):
        pass
