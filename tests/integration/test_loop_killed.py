"""A night that is killed again and again ends with the rows of an undisturbed night."""

import os
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import neo4j
import pytest
import sqlalchemy
from sqlalchemy import text

from adviser.advice_request import StackRequest
from adviser.projects.parsing import parse_project
from adviser.scoring.criteria import RecommendationType
from common.settings import Settings
from graph.engine import graph_database, relational_engine
from graph.record.documents import body_of
from graph.record.watches import add_watch
from graph.tables import Base, GraphCheckpointRow, table_of
from loop.notices import deliver_notices
from loop.watched_projects import project_watch
from model.packages.environments import host_environment
from tests.services.commands import thoth, variables
from tests.services.databases import new_database
from tests.services.fixtures import empty
from tests.services.receiver import SECRET, Receiver, hooked, receiver

pytestmark = pytest.mark.faults

KILLS, BLOCKS, STACKS = 10, 5, 4
VERSIONS = ("2.0.2", "2.2.6", "2.3.5")
#: Columns that number rows or transactions, and random identifiers.
SERIALS = {
    "changes.number", "events.event_id", "notices.event_id", "notices.notice_id",
    "outbox.entry_id", "package_events.event_id", "audit_log.entry_id",
    "knowledge.changes",
}  # fmt: skip
#: An attempt that was killed counts, and the counts of a step are those of its last attempt.
ATTEMPTS = {"notices.attempts", "notices.error", "loop_steps.output"}
#: Documents with the time of the advice, and further digests of such content.
TIMED_DOCUMENTS = {"evidence", "report"}
TIMED_DIGESTS = (("advice", "result_digest"),)
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)")
#: How long the steps of an advice took, in reports.
DURATION = re.compile(r'"(duration|timestamp|files_s|report_s|total_s)":[\d.e-]+')
#: The identifier of an advice has the time at which the night began.
ADVICE = re.compile(r"adviser-\d{12}-")


@dataclass
class NightWorld:
    """A record in which one night has run, and a second one has new releases to work on."""

    settings: Settings
    engine: sqlalchemy.Engine
    variables: dict[str, str]

    def scalar(self, query: str) -> Any:
        with self.engine.connect() as connection:
            return connection.scalar(text(query))

    @property
    def ended(self) -> bool:
        """Whether the second night has ended."""
        return int(self.scalar("SELECT count(*) FROM loop_nights WHERE NOT open")) == 2

    @property
    def in_progress(self) -> bool:
        """Whether a process holds the lock of the loop."""
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7401313"
        return bool(self.scalar(query))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real wheels of NumPy."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder)]
    for version in VERSIONS:
        done = subprocess.run(
            [*command, "--only-binary", ":all:", f"numpy=={version}"],
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"NumPy {version} cannot be downloaded")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(3600)  # each of the lives starts Python, and on a busy machine that takes long
def test_night_killed_at_random_ends_with_the_rows_of_an_undisturbed_night(
    embedded_settings: Settings,
    postgresql: sqlalchemy.Engine,
    graph: neo4j.Driver,
    wheels: Path,
    tmp_path: Path,
) -> None:
    draw, kills, index = random.Random(5), 0, tmp_path / "index"
    while kills < KILLS:
        results = embedded_settings.home / "loop"
        shutil.rmtree(results, ignore_errors=True)
        with night_world(embedded_settings, postgresql, graph, wheels, index) as (world, received):
            while not world.ended:
                kills += killed_at_random(world, draw)
            disturbed = rows_of(world)
            assert_measured_once(world)
            assert_received_once(world, received)
        # The results of the jobs stay on disk, so this night has the same measurements.
        with night_world(embedded_settings, postgresql, graph, wheels, index) as (world, received):
            done = thoth(world.settings, "loop", "run", **world.variables)
            assert done.returncode == 0, done.stderr
            undisturbed = rows_of(world)
            assert_received_once(world, received)
        tables = Base.metadata.tables.keys() - {table_of(GraphCheckpointRow).name}
        missing = {it: rows for it in tables if (rows := undisturbed[it] - disturbed[it])}
        surplus = {it: rows for it in tables if (rows := disturbed[it] - undisturbed[it])}
        assert (missing, surplus) == ({}, {})
        written = {table for table, rows in undisturbed.items() if rows}
        assert {"observations", "advice", "events", "notices", "loop_batches"} <= written
    assert kills >= KILLS


@contextmanager
def night_world(
    embedded: Settings,
    postgresql: sqlalchemy.Engine,
    graph: neo4j.Driver,
    wheels: Path,
    index: Path,
) -> Iterator[tuple[NightWorld, Receiver]]:
    """A fresh record with a first night, and new releases on the index."""
    shutil.rmtree(index, ignore_errors=True)
    index.mkdir()
    publish(wheels, index, VERSIONS[:1])
    empty(graph, graph_database(embedded))
    with new_database(postgresql, embedded) as settings, receiver() as server:
        engine = relational_engine(settings)
        names = {
            "LOOP_BUSY_SHARE": "1", "LOOP_BLOCKS": str(BLOCKS), "LOOP_WAIT_S": "600",
            "PACKAGE_INDEXES": f"pypi={index.as_uri()}",
            "LOOP_INDICATORS": "matmul:matrix_size=32,min_time=0.05,threads=1",
            "WEBHOOKS": f"build={server.url}", "WEBHOOK_SECRETS": f"build={SECRET}",
            "WEBHOOK_EVENTS": "all",
        }  # fmt: skip
        world = NightWorld(hooked(settings, server.url, events="all"), engine, names)
        watch_project(engine)
        try:
            first = thoth(settings, "loop", "run", **names)
            assert first.returncode == 0, first.stderr
            publish(wheels, index, VERSIONS[1:])
            yield world, server
        finally:
            engine.dispose()


def publish(wheels: Path, index: Path, versions: tuple[str, ...]) -> None:
    for version in versions:
        for wheel in wheels.glob(f"numpy-{version}-*"):
            shutil.copy(wheel, index)


def watch_project(engine: sqlalchemy.Engine) -> None:
    files = {"requirements.in": b"numpy\n", "requirements.txt": b"numpy==2.0.2\n"}
    request = StackRequest(
        parse_project(files, None), host_environment(), RecommendationType.PERFORMANCE
    )
    with engine.begin() as connection:
        add_watch(connection, project_watch("project", request))


def killed_at_random(world: NightWorld, draw: random.Random) -> bool:
    """Run the night and kill it within it: some time after it began, or after its first step.

    :returns: whether it was killed before it ended
    """
    command = [sys.executable, "-m", "cli", "loop", "run"]
    lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(
        command, env=os.environ | variables(world.settings, **world.variables),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        reader = threading.Thread(target=lambda: [*map(lines.put, process.stderr or ())])
        reader.start()
        steps, life_s = draw.choice((0, 0, 1)), draw.uniform(0.0, 1.0)
        while process.poll() is None and not world.in_progress:
            sleep(0.01)
        while process.poll() is None and lines.qsize() < steps:
            sleep(0.01)
        end = monotonic() + life_s
        while process.poll() is None and monotonic() < end:
            sleep(0.01)
        process.kill()
        code = process.wait()
        reader.join()
    if code >= 0:
        assert code == 0, "".join(lines.queue)
    return code < 0


def rows_of(world: NightWorld) -> dict[str, Counter[str]]:
    """All rows of all tables, without times, serials and attempts; how often each occurs."""
    with world.engine.begin() as connection:
        # Notices of a killed process wait for the end of its claim.
        connection.execute(text("UPDATE notices SET next_attempt_at = now()"))
    deliver_notices(world.engine, world.settings)
    with world.engine.connect() as connection:
        tables = {
            name: [dict(it) for it in connection.execute(sqlalchemy.select(table)).mappings()]
            for name, table in Base.metadata.tables.items()
        }
        for row in tables["documents"]:
            body = body_of(connection, world.settings, row["document_id"])
            row["body"] = (body or b"").decode()
            if row["kind"] in TIMED_DOCUMENTS:
                row["size_bytes"] = None
    timed = {it["document_id"] for it in tables["documents"] if it["kind"] in TIMED_DOCUMENTS}
    timed |= {str(it[column]) for name, column in TIMED_DIGESTS for it in tables[name]}
    identifiers = re.compile("|".join(sorted(timed)))
    return {
        name: Counter(identifiers.sub("sha256:timed", comparable(name, it)) for it in rows)
        for name, rows in tables.items()
    }


def comparable(table: str, row: dict[str, Any]) -> str:
    """A row as text, without what differs between two equal nights."""
    kept = {
        column: value
        for column, value in row.items()
        if f"{table}.{column}" not in SERIALS | ATTEMPTS and not isinstance(value, datetime)
    }
    return ADVICE.sub("adviser-", TIME.sub("TIME", DURATION.sub("DURATION", repr(kept))))


def assert_measured_once(world: NightWorld) -> None:
    """Each block has one job of each stack; no attempt failed."""
    assert world.scalar("SELECT count(*) FROM observations") == BLOCKS * STACKS
    query = "SELECT count(*) FROM (SELECT DISTINCT document_id, block FROM observations) AS places"
    assert world.scalar(query) == BLOCKS * STACKS
    assert world.scalar("SELECT sum(attempts) FROM loop_steps") == 0


def assert_received_once(world: NightWorld, received: Receiver) -> None:
    """Each notice was received; one that was sent again has the same identifier."""
    identifiers = set(received.identifiers())
    assert len(identifiers) == world.scalar("SELECT count(*) FROM notices")
