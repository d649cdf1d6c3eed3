"""Notices: one for each event and target, claimed once, with an end; who makes and sends them."""

import json
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
from sqlalchemy import select, text

from api.jobs.queue import Queue, QueueName
from api.jobs.tasks import NOTICES
from cli.loop import loop, notices
from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from graph.record.changes import add_changes
from graph.record.events import (
    MAX_ATTEMPTS,
    EventKind,
    ListedNotice,
    NoticeState,
    claim_notices,
    give_up_abandoned,
    list_notices,
    mark_delivered,
    mark_failed,
    night_problems,
    notice_lag,
    plan_notices,
    record_event,
    record_problem,
    record_solution,
    retry_notices,
)
from graph.record.releases import ReleaseDelivery, add_releases
from graph.record.retention import forget_events
from graph.tables import EventRow
from ingest import runs
from ingest.record import exclusive_run
from loop import night as loop_night
from loop.notices import deliver_notices
from model.changes import ChangeEvent
from tests.factories.changes import change_of_numpy
from tests.factories.documents import GENERATIONS
from tests.factories.releases import release, wheel_of
from tests.services.commands import run_here, thoth
from tests.services.disks import fill, mounted_disk
from tests.services.jobs import client_of, run_jobs
from tests.services.receiver import SECRET, Receiver, hooked, receiver

TARGETS = {"build": True, "mail": False}
LEASE = timedelta(minutes=2)


def planned(engine: sqlalchemy.Engine, *kinds: EventKind) -> None:
    with engine.begin() as connection:
        for kind in kinds:
            record_event(connection, kind, "flask==3.0.0", {"reason": "no wheel"})
        plan_notices(connection, TARGETS)


def test_event_creates_one_notice_for_each_subscribed_target(relational: sqlalchemy.Engine) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP, EventKind.RELEASE_STATE)
    with relational.begin() as connection:
        assert plan_notices(connection, TARGETS) == 0
        notices = list_notices(connection, None, 10)
    assert sorted((it.kind, it.target) for it in notices) == [
        ("release.given_up", "build"),
        ("release.given_up", "mail"),
        ("release.state", "build"),
    ]


def test_notice_is_claimed_by_only_one_process(relational: sqlalchemy.Engine) -> None:
    planned(relational, *[EventKind.RELEASE_GIVEN_UP] * 3)
    with relational.begin() as one, relational.begin() as other:
        first = claim_notices(one, TARGETS, LEASE, 4)
        second = claim_notices(other, TARGETS, LEASE, 4)
    assert (len(first), len(second)) == (4, 2)
    assert len({it.notice_id for it in (*first, *second)}) == 6
    with relational.begin() as connection:
        assert claim_notices(connection, TARGETS, LEASE, 4) == []


def test_delivered_notice_is_not_sent_again(relational: sqlalchemy.Engine) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP)
    with relational.begin() as connection:
        notice = claim_notices(connection, ["mail"], timedelta(), 1)[0]
        mark_delivered(connection, notice.notice_id)
        mark_failed(connection, notice, "too late", timedelta())
    with relational.begin() as connection:
        assert claim_notices(connection, ["mail"], LEASE, 9) == []
        assert retry_notices(connection) == 0


def test_notice_of_a_killed_process_is_sent_again_and_finally_given_up(
    relational: sqlalchemy.Engine,
) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP)
    seen = set()
    for _ in range(MAX_ATTEMPTS):
        with relational.begin() as connection:
            seen |= {it.notice_id for it in claim_notices(connection, ["mail"], timedelta(), 9)}
    with relational.begin() as connection:
        assert claim_notices(connection, ["mail"], timedelta(), 9) == []
        assert give_up_abandoned(connection, ["build"]) == 0
        assert give_up_abandoned(connection, ["mail"]) == 1
        assert {it.notice_id for it in list_notices(connection, NoticeState.GIVEN_UP, 9)} == seen
        assert (notice_lag(connection).waiting, notice_lag(connection).given_up) == (1, 1)
        assert retry_notices(connection, *seen) == 1


def test_old_notices_for_unknown_targets_are_deleted(relational: sqlalchemy.Engine) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP, EventKind.RELEASE_GIVEN_UP)
    week = text("UPDATE notices SET created_at = now() - interval '8 days'")
    old = text("UPDATE events SET at = now() - interval '8 days' WHERE event_id = 1")
    with relational.begin() as connection:
        connection.execute(week)
        connection.execute(old)
        assert give_up_abandoned(connection, ["build"]) == 2
        states = [(it.target, it.state) for it in list_notices(connection, None, 9)]
    assert states.count(("mail", NoticeState.WAITING)) == 2
    with relational.begin() as connection:
        assert forget_events(connection, timedelta(days=9), 9) == 0
        assert forget_events(connection, timedelta(days=7), 9) == 1
        left = [(it.event_id, it.target) for it in list_notices(connection, None, 9)]
    assert sorted(left) == [(2, "build"), (2, "mail")]


def test_late_failure_does_not_change_a_notice_claimed_by_another_process(
    relational: sqlalchemy.Engine,
) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP)
    with relational.begin() as connection:
        slow = claim_notices(connection, ["mail"], timedelta(), 1)[0]
    with relational.begin() as connection:
        claim_notices(connection, ["mail"], LEASE, 1)
        mark_failed(connection, slow, "timeout", None)
        states = {it.target: it.state for it in list_notices(connection, None, 9)}
    assert states["mail"] is NoticeState.WAITING


def test_only_recent_new_performance_changes_become_events(relational: sqlalchemy.Engine) -> None:
    now = datetime.now(UTC)
    change = change_of_numpy("new", seen_at=now)
    entries = [
        change,
        replace(change, change_id="old", seen_at=now - timedelta(days=15)),
        replace(change, change_id="more", event=ChangeEvent.CONFIRMED, refers_to="new"),
        replace(change, change_id="end", event=ChangeEvent.WITHDRAWN, refers_to="new"),
    ]
    for _ in range(2):
        with relational.begin() as connection:
            add_changes(connection, entries, {})
    with relational.connect() as connection:
        events = connection.execute(
            select(EventRow.kind, EventRow.subject, EventRow.data).order_by(EventRow.event_id)
        ).all()
    assert [(it.kind, it.subject) for it in events] == [
        ("change.recorded", "new"),
        ("change.recorded", "end"),
    ]
    assert events[0].data["interval_percent"] == [14.0, 18.0]


def deliver(engine: sqlalchemy.Engine, settings: Settings) -> list[ListedNotice]:
    """The notices after a round of a worker."""
    with engine.begin() as connection:
        Queue(engine, 10).enqueue(connection, NOTICES)
    run_jobs(settings, [QueueName.PEOPLE])
    with engine.connect() as connection:
        return list_notices(connection, None, 10)


def record(engine: sqlalchemy.Engine, *subjects: str) -> None:
    with engine.begin() as connection:
        for subject in subjects:
            record_event(connection, EventKind.RELEASE_GIVEN_UP, subject, {"reason": "no wheel"})


def test_worker_sends_notices_that_commands_can_list_and_repeat(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    record(relational, "flask==3.0.0", "numpy==2.4.0")
    with receiver() as server:
        aim = hooked(settings, server.url)
        server.answers = [lambda _: 410]
        assert [it.state for it in deliver(relational, aim)].count(NoticeState.GIVEN_UP) == 1
        deliver(relational, aim)
        assert len(server.identifiers()) == 1
        shown = json.loads(run_here(notices, aim, "list", "--state", "given_up", "--json").stdout)
        assert shown["truncated"] is False
        notice = shown["notices"][0]
        assert (notice["target"], notice["kind"], notice["attempts"], notice["error"]) == (
            "build", "release.given_up", 1, "the receiver answers 410",
        )  # fmt: skip
        table = run_here(notices, aim, "list", "--limit", "1")
        assert (table.stdout.count("msg_"), table.stdout.count(" build ")) == (1, 1)
        assert "only the newest 1 are listed" in table.stderr
        retried = run_here(notices, aim, "retry", notice["notice_id"], "--json")
        assert json.loads(retried.stdout) == {"retried": 1}
        again = run_here(notices, aim, "retry", notice["notice_id"])
        assert (again.exit_code, again.stdout) == (2, "")
        assert "was given up; see `thoth notices list`" in again.stderr
        assert run_here(notices, aim, "retry").stdout == "0 notices will be sent again\n"
        deliver(relational, aim)
    assert len(server.identifiers()) == 2
    assert notice["notice_id"] == server.identifiers()[-1]


def test_test_notice_is_sent_at_once_and_not_stored(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    with receiver() as server:
        aim = hooked(settings, server.url)
        done = run_here(notices, aim, "send-test", "build", "--json")
        assert done.exit_code == 0, done.stderr
        request = server.received[0]
        assert json.loads(done.stdout) == {"target": "build", "notice_id": request.notice_id}
        assert request.document["type"] == "notice.test"
        server.answers = [lambda _: 500]
        failed = run_here(notices, aim, "send-test", "build")
    assert (failed.exit_code, failed.stderr) == (1, "error: build: the receiver answers 500\n")
    unknown = run_here(notices, aim, "send-test", "mail")
    assert unknown.exit_code == 2
    assert "'mail' is not in WEBHOOKS or NOTICE_TARGETS; known targets: build" in unknown.stderr
    insecure = run_here(notices, hooked(settings, "http://build.example/x"), "send-test", "build")
    assert insecure.exit_code == 2
    assert "WEBHOOKS: build: only receivers on this machine may use http" in insecure.stderr
    with relational.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM events")) == 0


def test_loop_night_sends_its_notices_and_names_unusable_targets(stores: Stores) -> None:
    record(stores.engine, "flask==3.0.0")
    with receiver() as server:
        aim = hooked(stores.settings, server.url)
        aim = replace(aim, webhooks=(*aim.webhooks, ("other", "https://build.example/")))
        done = run_here(loop, aim, "run")
        assert done.exit_code == 0, done.stderr
        assert len(server.identifiers()) == 1
    assert "notify    1 delivered" in done.stderr
    assert "warning: WEBHOOK_SECRETS: the webhook other has no secret" in done.stderr


def test_metrics_show_waiting_and_given_up_notices(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    record(relational, "flask==3.0.0", "numpy==2.4.0", "scipy==1.17.0")
    with receiver() as server:
        server.answers = [lambda _: 410]
        deliver(relational, hooked(settings, server.url))
        # Enough for a busy machine, where the next attempt may be due already.
        server.answers = [lambda _: 500] * 20
        deliver(relational, hooked(settings, server.url))
    with relational.begin() as connection:
        connection.execute(text("UPDATE notices SET created_at = now() - interval '90 s'"))
    with client_of(settings, Scope.READ) as client:
        lines = client.get("/metrics").text.splitlines()
    figures = dict(it.rsplit(" ", 1) for it in lines if it.startswith("thoth_notices_"))
    assert (float(figures["thoth_notices_waiting"]), float(figures["thoth_notices_given_up"])) == (
        2, 1,
    )  # fmt: skip
    assert float(figures["thoth_notices_age_seconds"]) >= 90


def test_notices_are_scheduled_only_if_there_is_a_target(settings: Settings) -> None:
    from api.jobs.tasks import schedules

    assert NOTICES.task not in {it.task for it in schedules(settings)}
    due = {it.task: it for it in schedules(hooked(settings, "https://build.example/"))}
    assert (due[NOTICES.task].cron, due[NOTICES.task].queue) == ("* * * * *", QueueName.PEOPLE)


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


def test_several_files_changed_on_an_index_make_one_notice(
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


def test_nightly_run_sends_one_notice_for_each_failure(stores: Stores, tmp_path: Path) -> None:
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


def test_nightly_run_that_cannot_start_sends_no_notice(stores: Stores, tmp_path: Path) -> None:
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


def test_notice_of_a_failed_nightly_run_contains_no_credentials(
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


def test_failed_loop_night_is_reported_at_once(
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


def test_nearly_full_disk_is_reported_once_until_space_is_free(
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


def test_disk_space_is_not_checked_without_a_notice_target(
    relational: sqlalchemy.Engine, settings: Settings, tmp_path: Path
) -> None:
    with mounted_disk(tmp_path / "disk", 20) as disk:
        fill(disk)
        deliver_notices(relational, replace(settings, home=disk))
    assert kinds(relational) == []


def test_concurrent_reports_of_a_problem_record_one_event(relational: sqlalchemy.Engine) -> None:
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


def test_event_that_was_rolled_back_is_reported_by_the_next_attempt(
    relational: sqlalchemy.Engine,
) -> None:
    problems = night_problems({"record": "rows differ"})
    for wanted in (0, 1):
        with suppress(ZeroDivisionError), relational.begin() as connection:
            assert record_problem(connection, EventKind.NIGHT_FAILED, "nightly", problems)
            1 / wanted
    assert kinds(relational) == ["night.failed"]
