"""Where the jobs of a night go, and how far a batch is."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from sqlalchemy import create_engine

from adviser.changes import LOOK_ALPHA
from adviser.reports.serialization import plain
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.verdicts import Verdict
from common.settings import Settings
from graph.engine import Stores
from graph.record.loop import (
    BatchState,
    LoopBatch,
    LoopRelease,
    LoopState,
    ReleaseKey,
    ReleaseSource,
)
from graph.record.watches import AdviceWatch, WatchKind, WatchSource
from loop.measuring import _BatchProgress
from loop.planning import NightPriorities, watch_priorities
from loop.stacks import WatchKnowledge, indicator_named
from tests.factories.evidence import NOW, simulated
from tests.factories.requests import advice_for, request_for

MATMUL = indicator_named("matmul")
#: The baseline 1.5, and older versions: one is 20 % faster, one perhaps 3 %, two are not.
GAINS = (math.log(1.2), math.log(1.03))


@pytest.fixture
def known() -> WatchKnowledge:
    """A watch whose reference stack is the newest version, measured beside four older ones."""
    draw = np.random.default_rng(7)
    index, evidence = simulated(draw, 5, 8, 0.03, GAINS, in_turns=True)
    request = request_for("fast\n", RecommendationType.PERFORMANCE)
    advice = advice_for(request, index, evidence)
    watch = AdviceWatch(
        "w", WatchKind.PROJECT, "app", WatchSource.PERSON, 1.0, True, plain(request), (),
        LoopState.SEEN, None, 0, 0, None, None, NOW, NOW,
    )  # fmt: skip
    return WatchKnowledge(watch, advice, advice.baseline or {}, advice.assessment.claims)


def release(version: str, **fields: int) -> LoopRelease:
    values = {"measured_jobs": 0, "planned_jobs": 0, "nights": 0, "looks": 0, "look_jobs": 0}
    return LoopRelease(
        ReleaseKey("pypi", "fast", version), ReleaseSource.REFRESH, LoopState.MEASURED, None,
        last_night=None, seen_at=NOW, state_at=NOW, **values | fields,
    )  # fmt: skip


def priorities(
    known: WatchKnowledge, *releases: LoopRelease, minutes: float = 1.0
) -> NightPriorities:
    return watch_priorities(known, releases, MATMUL, minutes, 12)


def test_versions_that_cannot_be_the_fastest_get_no_jobs(known: WatchKnowledge) -> None:
    verdicts = {it.purl: it.verdict for it in known.claims}
    assert verdicts["pkg:pypi/fast@1.4"] is Verdict.FASTER
    ranking = priorities(known, *map(release, ("1.3", "1.2", "1.1")))
    assert ranking.ranked == ()
    assert set(ranking.dropped.values()) == {
        "another version is faster, whatever further jobs show"
    }


def test_unmeasured_version_is_ranked_by_weight_and_job_duration(known: WatchKnowledge) -> None:
    (plain_one,) = priorities(known, release("1.6")).ranked
    assert (plain_one.compared, plain_one.blocks) == ("1.6", 12)
    (slow,) = priorities(known, release("1.6"), minutes=4.0).ranked
    assert slow.value == pytest.approx(plain_one.value / 4)
    heavy = replace(known, watch=replace(known.watch, weight=3.0))
    assert priorities(heavy, release("1.6")).ranked[0].value == pytest.approx(3 * plain_one.value)
    useless = priorities(known, release("1.6"), minutes=1e6)
    assert "not worth further jobs" in useless.dropped["fast==1.6"]


def test_unsettled_version_gets_the_jobs_of_the_next_planned_look(known: WatchKnowledge) -> None:
    near = tuple(
        replace(it, p_value=2 * LOOK_ALPHA) if it.purl == "pkg:pypi/fast@1.4" else it
        for it in known.claims
    )
    known = replace(known, claims=near)
    (first,) = priorities(known, release("1.4")).ranked
    (later,) = priorities(known, release("1.4", looks=2, look_jobs=40)).ranked
    assert first.blocks == 12
    # Ten jobs of a minute, and a chance of 80 % to settle the difference.
    (claim,) = (it for it in near if it.purl == "pkg:pypi/fast@1.4" and it.beside_baseline)
    size = abs(math.log1p(claim.observed_pct / 100))
    assert first.value == pytest.approx(100 * 0.8 * size / (10 / 60))
    slow = priorities(known, release("1.4"), minutes=1e7)
    assert "not worth further jobs" in slow.dropped["fast==1.4"]
    # 80 jobs are due, 8 are there, and some will be unstable.
    assert later.blocks == math.ceil((80 - 8) / 0.9)


def test_release_already_in_the_reference_is_compared_with_the_most_measured_version(
    known: WatchKnowledge,
) -> None:
    near = tuple(
        replace(it, p_value=2 * LOOK_ALPHA, jobs=it.jobs + (it.purl == "pkg:pypi/fast@1.4"))
        for it in known.claims
    )
    (priority,) = priorities(replace(known, claims=near), release("1.5")).ranked
    assert priority.compared == "1.4"
    (unmeasured,) = priorities(replace(known, claims=()), release("1.5")).ranked
    assert unmeasured.compared == "1.4"
    oldest = replace(known, claims=(), reference={"fast": "1.1", "rest": "1.0"})
    assert priorities(oldest, release("1.1")).dropped == {
        "fast==1.1": "the reference stack has it already"
    }


def test_loop_batch_continues_without_postgresql(
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
