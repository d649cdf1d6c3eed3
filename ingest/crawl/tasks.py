"""Many things at once, with one error if any."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run everything at once; the first error ends the rest and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as raised:
        raise _first(raised) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
