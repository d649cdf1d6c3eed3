"""Notices of changed hashes, failed nights and full disks: one for each event, quiet otherwise."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import text

from common.settings import Settings
from graph.engine import Stores
from graph.record.events import EventKind, night_problems, record_problem, record_solution
from graph.record.releases import ReleaseDelivery, add_releases
from ingest import runs
from ingest.record import exclusive_run
from loop import night as loop_night
from loop.notices import deliver_notices
from tests.factories.generations import FOLDER as GENERATIONS
from tests.factories.releases import release, wheel_of
from tests.services.commands import thoth
from tests.services.disks import fill, mounted_disk
from tests.services.receiver import SECRET, Receiver, hooked, receiver

HOST = platform.node()


def texts(server: Receiver) -> list[str]:
    return [it.document["data"]["text"] for it in server.received]


def delivered(server: Receiver, engine: sqlalchemy.Engine, settings: Settings) -> list[str]:
    """The texts that two rounds of deliveries send."""
    before = len(server.received)
    for _ in range(2):
        deliver_notices(engine, hooked(settings, server.url))
    return texts(server)[before:]


def kinds(engine: sqlalchemy.Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT kind FROM events ORDER BY event_id")))


def test_files_that_change_on_an_index_make_one_notice(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    files = {it: wheel_of(it, "1.0") for it in ("web", "lib")}
    changed = {it: {**file, "sha256": "f" * 64} for it, file in files.items()}
    day = datetime(2026, 1, 1, tzinfo=UTC)
    with receiver() as server:
        for number, offered in enumerate((files, changed, changed)):
            deliveries = [
                ReleaseDelivery(release(it, "1.0", files=[file]), "test", day + timedelta(number))
                for it, file in offered.items()
            ]
            with relational.begin() as connection:
                add_releases(connection, settings, deliveries)
            sent = delivered(server, relational, settings)
            assert len(sent) == (number == 1)
    request = server.received[0].document
    assert (request["type"], request["data"]["subject"]) == ("hash.changed", "pypi")
    assert sorted(it["name"] for it in request["data"]["details"]["files"]) == ["lib", "web"]
    assert {it["offered"] for it in request["data"]["details"]["files"]} == {"f" * 64}


def test_a_nightly_run_tells_of_each_failure_once_and_of_its_end(
    stores: Stores, tmp_path: Path
) -> None:
    source, other = tmp_path / "source", tmp_path / "other"

    def sent(server: Receiver) -> list[str]:
        chosen = replace(stores.settings, ingest_sources=(str(source), str(other)))
        thoth(chosen, "ingest", "nightly")
        return delivered(server, stores.engine, stores.settings)

    shutil.copytree(GENERATIONS / "2019", other)
    with receiver() as server:
        first = sent(server)
        assert first == [f"The nightly run on {HOST} has failed: {source}: could not be read."]
        assert sent(server) == []
        other.rename(source)
        assert len(sent(server)) == 1
        shutil.copytree(source, other)
        assert sent(server) == ["The nightly run works again."]
        assert sent(server) == []
        shutil.rmtree(source)
        assert sent(server) == first


def test_a_nightly_run_without_a_worker_sends_its_notices_itself(
    stores: Stores, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    chosen = replace(stores.settings, ingest_sources=(str(missing),))
    with receiver() as server:
        aim = {"WEBHOOKS": f"build={server.url} other=https://build.example/"}
        for _ in range(2):
            done = thoth(chosen, "ingest", "nightly", WEBHOOK_SECRETS=f"build={SECRET}", **aim)
            assert done.returncode == 1, done.stderr
            assert "warning: WEBHOOK_SECRETS: the webhook other has no secret" in done.stderr
    assert texts(server) == [f"The nightly run on {HOST} has failed: {missing}: could not be read."]


def test_a_nightly_run_that_did_not_begin_sends_nothing(stores: Stores, tmp_path: Path) -> None:
    source = str(tmp_path / "missing")
    chosen = replace(stores.settings, ingest_sources=(source,))
    with receiver() as server:
        aim = {"WEBHOOKS": f"build={server.url}", "WEBHOOK_SECRETS": f"build={SECRET}"}
        with pytest.raises(ZeroDivisionError):
            runs.run_nightly(chosen, [source], lambda: None, lambda *_: {str(1 // 0): 0})
        with exclusive_run(stores.engine, runs._NIGHTLY_LOCK, "busy"):
            done = thoth(chosen, "ingest", "nightly", **aim)
        assert (done.returncode, texts(server)) == (5, []), done.stderr
        down = {"DATABASE_URL": "postgresql://127.0.0.1:1/none"}
        done = thoth(chosen, "ingest", "nightly", **aim, **down)
        assert (done.returncode, done.stderr.count("PostgreSQL is unavailable")) == (3, 1)


def test_a_nightly_run_that_ends_with_an_error_is_reported_without_its_credentials(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **_more: object) -> None:
        raise RuntimeError("https://me:hidden@index.example/simple?token=hidden broke")

    monkeypatch.setattr(runs, "ingest_inspections", fail)
    with receiver() as server:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                runs.run_nightly(stores.settings, [str(tmp_path)], lambda: None)
        sent = delivered(server, stores.engine, stores.settings)
    expected = f"The nightly run on {HOST} has failed: run: https://index.example/simple broke."
    assert sent == [expected]


def test_a_failed_night_of_the_loop_is_reported_at_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Any:
        raise ZeroDivisionError("no jobs")

    settle = loop_night.STEPS["settle"]
    monkeypatch.setattr(loop_night, "STEPS", {**loop_night.STEPS, "settle": fail})
    with receiver() as server:
        aim = hooked(stores.settings, server.url)
        for _ in range(2):
            assert _night(aim) == "settle: ZeroDivisionError: no jobs"
            assert texts(server) == [
                f"The night of the loop on {HOST} has failed: settle: ZeroDivisionError: no jobs."
            ]
        monkeypatch.setattr(loop_night, "STEPS", {**loop_night.STEPS, "settle": settle})
        assert _night(aim) is None
        assert texts(server)[1:] == []
        assert delivered(server, stores.engine, stores.settings) == [
            "The night of the loop works again."
        ]


def _night(settings: Settings) -> str | None:
    def no_resolver(*_: object) -> Any:
        raise AssertionError("nothing is watched")

    return loop_night.run_night(settings, no_resolver).problem


def test_a_disk_that_is_nearly_full_is_reported_once_until_it_has_space(
    relational: sqlalchemy.Engine, settings: Settings, tmp_path: Path
) -> None:
    with mounted_disk(tmp_path / "disk", 20) as disk, receiver() as server:
        there = replace(settings, home=disk)
        assert delivered(server, relational, there) == []
        filler = fill(disk)
        sent = delivered(server, relational, there)
        assert len(sent) == 1
        assert sent[0].endswith(f"{disk} is nearly full: 0 bytes of 21 MB are free.")
        filler.unlink()
        assert len(delivered(server, relational, there)) == 1
        assert delivered(server, relational, there) == []
        fill(disk)
        assert len(delivered(server, relational, there)) == 1
    assert kinds(relational) == ["disk.full", "problem.solved", "disk.full"]


def test_without_a_target_nobody_looks_at_the_disk(
    relational: sqlalchemy.Engine, settings: Settings, tmp_path: Path
) -> None:
    with mounted_disk(tmp_path / "disk", 20) as disk:
        fill(disk)
        deliver_notices(relational, replace(settings, home=disk))
    assert kinds(relational) == []


def test_processes_that_see_a_problem_at_once_record_one_event(
    relational: sqlalchemy.Engine,
) -> None:
    problems = night_problems({"record": "rows differ"})

    def at_once(work: Callable[[sqlalchemy.Connection], bool]) -> list[bool]:
        def one(_: int) -> bool:
            with relational.begin() as connection:
                return work(connection)

        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(one, range(24)))

    failed = EventKind.NIGHT_FAILED
    assert sum(at_once(lambda it: record_problem(it, failed, "nightly", problems))) == 1
    assert sum(at_once(lambda it: record_solution(it, failed, "nightly"))) == 1
    assert kinds(relational) == ["night.failed", "problem.solved"]


def test_an_event_that_is_rolled_back_is_reported_by_the_next_attempt(
    relational: sqlalchemy.Engine,
) -> None:
    problems = night_problems({"record": "rows differ"})
    for wanted in (0, 1):
        with suppress(ZeroDivisionError), relational.begin() as connection:
            assert record_problem(connection, EventKind.NIGHT_FAILED, "nightly", problems)
            1 / wanted
    assert kinds(relational) == ["night.failed"]
