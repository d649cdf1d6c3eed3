"""The end of the tasks beside a worker's job."""

from __future__ import annotations

import asyncio

import pytest

from api.jobs import worker
from api.jobs.worker import end_tasks


class _Left(Exception):
    """The process would have ended."""


async def swallow(cancellations: int, over: asyncio.Event) -> None:
    """A loop whose query fails while it is cancelled, and so hides the cancellation."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            if not cancellations or over.is_set():
                raise
            cancellations -= 1


async def ended(*cancellations: int) -> list[bool]:
    over = asyncio.Event()
    tasks = [asyncio.create_task(swallow(it, over)) for it in cancellations]
    await asyncio.sleep(0)
    try:
        await end_tasks(tasks)
    finally:
        over.set()
    return [it.done() for it in tasks]


def test_a_task_that_misses_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "PAUSE_S", 0.01)
    assert asyncio.run(ended(0, 1, 3)) == [True, True, True]


def test_process_exits_although_a_task_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave() -> None:
        raise _Left

    monkeypatch.setattr(worker, "PAUSE_S", 0.01)
    monkeypatch.setattr(worker, "GRACE_S", 0.05)
    monkeypatch.setattr(worker, "leave", leave)
    with pytest.raises(_Left):
        asyncio.run(ended(10**9))
