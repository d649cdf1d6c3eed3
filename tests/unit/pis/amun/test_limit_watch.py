"""Which limit a job's processes break together, and when the machine is what ran short."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from pis.amun import limit_watch
from pis.amun.job_limits import CONFINED
from pis.amun.jobs import JobEnd
from pis.amun.limit_watch import Watch

PLENTY = replace(CONFINED, memory_bytes=1 << 60, processes=1 << 30)


def breach(**limits: int) -> JobEnd | None:
    return Watch(os.getpid(), replace(PLENTY, **limits)).breach()


def test_within_its_limits_a_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_watch, "available_bytes", lambda: 1 << 60)
    assert breach() is None
    assert breach(memory_bytes=1) is JobEnd.MEMORY_LIMIT
    assert breach(processes=1) is JobEnd.PROCESS_LIMIT


def test_a_machine_that_runs_short_is_told_from_a_job_that_takes_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit_watch, "available_bytes", lambda: 0)
    assert breach() is JobEnd.HOST_MEMORY
    assert breach(memory_bytes=1) is JobEnd.MEMORY_LIMIT
