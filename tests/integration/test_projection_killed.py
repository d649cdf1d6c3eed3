"""A projector that is killed leaves nothing half done."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graph.checkpoints import graph_checkpoint, named_batch
from graph.engine import Stores
from graph.projection import lag, sync
from graph.projection.outbox import drain
from tests.factories.rows import inspection_rows, store
from tests.services.projection import verified

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
KILLS = 6
_FORGET = "MATCH (node:ProjectionCheckpoint) DELETE node"


#: A projector that kills itself: when so many entries are projected, and so many seconds later.
KILLED = """
import os, signal, sys, threading
from common.settings import Settings
from graph.engine import open_stores
from graph.projection import sync

entries, delay_s = int(sys.argv[1]), float(sys.argv[2])

def kill_later(done, _total):
    if done >= entries:
        threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()

with open_stores(Settings.from_env()) as stores:
    sync(stores.engine, stores.driver, batch=50, progress=kill_later, database=stores.database)
"""


def run_killed(stores: Stores, entries: int, delay_s: float) -> int:
    """The exit code of such a projector."""
    environment = os.environ | {
        "THOTH_HOME": str(stores.settings.home),
        "DATABASE_URL": stores.settings.database_url or "",
    }
    command = [sys.executable, "-c", KILLED, str(entries), str(delay_s)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


@pytest.mark.slow
def test_projection_killed_at_random_neither_loses_nor_duplicates_nodes(stores: Stores) -> None:
    rows = inspection_rows(2_000, stacks=20, packages=10)
    store(stores.engine, rows)
    rng = random.Random(7)
    for _ in range(KILLS):
        entries = rng.randint(0, lag(stores.engine).count // 3)
        assert run_killed(stores, entries, rng.uniform(0.0, 0.05)) == -signal.SIGKILL
    assert lag(stores.engine).count > 0
    sync(stores.engine, stores.driver, database=stores.database)
    assert lag(stores.engine).count == 0
    report = verified(stores)
    assert [kind for kind in report.kinds if not kind.equal] == []


def test_concurrent_projections_without_the_lock_duplicate_nothing(stores: Stores) -> None:
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
    report = verified(stores)
    assert [kind for kind in report.kinds if not kind.equal] == []


def test_two_projections_may_set_the_first_checkpoint_at_once(stores: Stores) -> None:
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
