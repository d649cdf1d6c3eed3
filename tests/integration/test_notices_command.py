"""``thoth notices``, the worker's job and the metrics of the outbox of notices."""

from __future__ import annotations

import json
from dataclasses import replace

import sqlalchemy
from sqlalchemy import text

from api.jobs.queue import Queue, QueueName
from api.jobs.tasks import NOTICES
from cli.loop import loop
from cli.notices import notices
from common.settings import Settings
from graph.engine import Stores
from graph.record.events import EventKind, record_event
from graph.record.notices import ListedNotice, NoticeState, list_notices
from graph.record.tokens import Scope
from tests.services.commands import run_here
from tests.services.jobs import client_of, run_jobs
from tests.services.receiver import hooked, receiver


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


def test_a_worker_sends_notices_which_commands_list_and_repeat(
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


def test_a_test_notice_is_sent_at_once_and_stored_nowhere(
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


def test_a_night_sends_its_notices_and_names_targets_that_cannot_be_used(stores: Stores) -> None:
    record(stores.engine, "flask==3.0.0")
    with receiver() as server:
        aim = hooked(stores.settings, server.url)
        aim = replace(aim, webhooks=(*aim.webhooks, ("other", "https://build.example/")))
        done = run_here(loop, aim, "run")
        assert done.exit_code == 0, done.stderr
        assert len(server.identifiers()) == 1
    assert "notify    1 delivered" in done.stderr
    assert "warning: WEBHOOK_SECRETS: the webhook other has no secret" in done.stderr


def test_metrics_say_how_far_the_outbox_of_notices_is(
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
    from api.jobs.schedules import schedules

    assert NOTICES.task not in {it.task for it in schedules(settings)}
    due = {it.task: it for it in schedules(hooked(settings, "https://build.example/"))}
    assert (due[NOTICES.task].cron, due[NOTICES.task].queue) == ("* * * * *", QueueName.PEOPLE)
