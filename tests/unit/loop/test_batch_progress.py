"""What happens after each job of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import create_engine

from common.settings import Settings
from graph.engine import Stores
from graph.record.loop import BatchState, LoopBatch
from loop.measuring import _BatchProgress


def test_a_batch_goes_on_while_postgresql_does_not_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    stores = Stores(settings, create_engine("postgresql://127.0.0.1:1/none"), None, None)
    batch = LoopBatch(
        "batch:1", 1, "watch", "matmul", [], 2, 4, 0, BatchState.PLANNED, None, 0, None
    )
    counts: list[tuple[int, int]] = []
    progress = _BatchProgress(stores, batch, lambda *it: counts.append(it), float("inf"))
    for _ in range(2):
        progress.job_finished(cast(Any, None), {})
    assert counts == [(1, 4), (2, 4)]
    assert [it.message for it in caplog.records] == ["loop_jobs_not_counted"] * 2
