"""A projector that is killed leaves nothing half done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from graph.checkpoints import graph_checkpoint, named_batch
from graph.engine import Stores
from graph.projection import lag, sync, verify
from graph.projection.outbox import drain
from tests.factories.rows import inspection_rows, store
from tests.services.waiting import wait_until

ROOT = Path(__file__).parents[2]
KILLS = 6
_FORGET = "MATCH (node:ProjectionCheckpoint) DELETE node"


def start_sync(stores: Stores) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "THOTH_HOME": str(stores.settings.home),
        "DATABASE_URL": stores.settings.database_url or "",
    }
    program = (
        "from common.settings import Settings\n"
        "from graph.engine import open_stores\n"
        "from graph.projection import sync\n"
        "with open_stores(Settings.from_env()) as stores:\n"
        "    sync(stores.engine, stores.driver, batch=50, database=stores.database)\n"
    )
    return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment)


def is_left_at_most(stores: Stores, entries: int) -> bool:
    return lag(stores.engine).count <= entries


@pytest.mark.slow
def test_a_projector_killed_at_random_points_loses_and_doubles_nothing(stores: Stores) -> None:
    rows = inspection_rows(2_000, stacks=20, packages=10)
    store(stores.engine, rows)
    rng = random.Random(7)
    for _ in range(KILLS):
        count = lag(stores.engine).count
        left = rng.randint(count * 2 // 3, count)
        with start_sync(stores) as process:
            wait_until(partial(is_left_at_most, stores, left), f"{left} of {count} are left")
            process.send_signal(signal.SIGKILL)
    assert lag(stores.engine).count > 0
    sync(stores.engine, stores.driver, database=stores.database)
    assert lag(stores.engine).count == 0
    report = verify(stores.engine, stores.driver, database=stores.database)
    assert [kind for kind in report.kinds if not kind.equal] == []


def test_without_the_lock_keys_keep_projectors_from_doubling_anything(stores: Stores) -> None:
    rows = inspection_rows(300)
    store(stores.engine, rows)

    def project(_: int) -> None:
        seen: Counter[str] = Counter()
        with (
            stores.engine.connect() as connection,
            stores.driver.session(database=stores.database) as session,
        ):
            drain(connection, session, 40, seen.update)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(project, range(2)))
    assert lag(stores.engine).count == 0
    report = verify(stores.engine, stores.driver, database=stores.database)
    assert [kind for kind in report.kinds if not kind.equal] == []


def test_projectors_that_set_the_first_checkpoint_at_the_same_time(stores: Stores) -> None:
    def finish_a_batch(_: int) -> None:
        with (
            stores.driver.session(database=stores.database) as session,
            named_batch(stores.engine, session, rebuild=False),
        ):
            pass

    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            stores.driver.execute_query(_FORGET, database_=stores.database)
            list(pool.map(finish_a_batch, range(2)))
    with stores.driver.session(database=stores.database) as session:
        assert graph_checkpoint(session).finished
