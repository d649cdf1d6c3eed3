"""Notices reach their targets on this machine: signed, once, and in spite of failures."""

import base64
import hashlib
import hmac
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import text

import loop.notices
from api.server.certificates import self_signed
from common.settings import Settings
from graph.record.events import (
    MAX_ATTEMPTS,
    EventKind,
    ListedNotice,
    NoticeState,
    list_notices,
    notice_lag,
    record_event,
)
from loop.notices import DeliveryPace, deliver_notices
from tests.services.commands import ROOT, variables
from tests.services.receiver import KEY, SECRET, Receiver, receiver
from tests.services.receiver import hooked as hooked_settings
from tests.services.threads import in_threads
from tests.services.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.faults

#: Attempts follow each other at once, and a dead process loses its claim soon.
HASTY = DeliveryPace((timedelta(),), timedelta(seconds=1), 60.0)


hooked = partial(hooked_settings, events="all")


def record(engine: sqlalchemy.Engine, number: int = 1) -> list[int]:
    with engine.begin() as connection:
        return [
            record_event(
                connection, EventKind.RELEASE_GIVEN_UP, f"flask=={it}", {"reason": "no wheel"}
            )
            for it in range(number)
        ]


def listed(engine: sqlalchemy.Engine, state: NoticeState | None = None) -> list[ListedNotice]:
    with engine.connect() as connection:
        return list_notices(connection, state, 1000)


def delivered_all(engine: sqlalchemy.Engine, settings: Settings) -> bool:
    deliver_notices(engine, settings, HASTY)
    with engine.connect() as connection:
        return notice_lag(connection).waiting == 0


def test_webhook_notice_is_signed_and_has_the_documented_fields(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    event_id = record(relational)[0]
    with receiver() as server:
        counts = deliver_notices(relational, hooked(settings, f"{server.url}/hook?at=1"))
    assert (counts.planned, counts.delivered, counts.failed, counts.unusable) == (1, 1, 0, {})
    request = server.received[0]
    assert (request.path, request.headers["content-type"]) == ("/hook?at=1", "application/json")
    moment = request.headers["webhook-timestamp"]
    content = f"{request.notice_id}.{moment}.".encode() + request.body
    digest = hmac.new(KEY, content, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert request.document["type"] == "release.given_up"
    assert request.document["data"] == {
        "event_id": event_id,
        "subject": "flask==0",
        "text": "flask==0 will not be settled: no wheel.",
        "details": {"reason": "no wheel"},
    }
    assert [it.notice_id for it in listed(relational, NoticeState.DELIVERED)] == [request.notice_id]


def test_notice_delivery_is_retried_after_each_kind_of_failure(
    relational: sqlalchemy.Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(_: BaseHTTPRequestHandler) -> int:
        released.wait()
        return 0

    def error_of_attempt() -> str:
        deliver_notices(relational, aim, HASTY)
        return listed(relational)[0].error or ""

    record(relational)
    with receiver() as server:
        port, aim = server.port, hooked(settings, server.url)
        server.answers = [lambda _: 500, lambda _: 302, lambda _: 0, hang]
        errors = [error_of_attempt() for _ in range(3)]
        with monkeypatch.context() as patch:
            # Only this attempt may be hasty: on a busy machine, all others take their time.
            patch.setattr(loop.notices, "_ATTEMPT_S", 0.5)
            errors.append(error_of_attempt())
        released.set()
        bodies = {it.body for it in server.received}
    errors.append(error_of_attempt())
    with receiver(port) as server:
        counts = deliver_notices(relational, aim, HASTY)
        bodies |= {it.body for it in server.received}
    assert counts.delivered == len(server.received) == 1
    for said, expected in zip(
        errors, ("500", "302", "closed", "no answer", "connect"), strict=True
    ):
        assert expected in said
    assert len(bodies) == 1
    notice = listed(relational)[0]
    assert (notice.state, notice.attempts, notice.error) == (NoticeState.DELIVERED, 6, None)


def test_endless_response_of_a_webhook_receiver_is_not_read(
    relational: sqlalchemy.Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def flood(handler: BaseHTTPRequestHandler) -> int:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nmore")
        released.wait()
        return 0

    def drip(handler: BaseHTTPRequestHandler) -> int:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        with suppress(ConnectionError):
            while not released.wait(0.05):
                handler.wfile.write(b"X-More: 1\r\n")
        return 0

    with receiver() as server:
        server.answers = [flood, drip]
        aim = hooked(settings, server.url)
        record(relational)
        assert deliver_notices(relational, aim, HASTY).delivered == 1
        record(relational)
        monkeypatch.setattr(loop.notices, "_ATTEMPT_S", 1.0)
        assert deliver_notices(relational, aim, HASTY).failed == 1
        released.set()
    assert "no answer within 1 s" in [it.error for it in listed(relational)]


def test_webhook_receiver_needs_a_trusted_certificate(
    relational: sqlalchemy.Engine,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = self_signed(tmp_path)
    record(relational)
    with receiver(certificate=certificate) as server:
        aim = hooked(settings, server.url)
        assert deliver_notices(relational, aim, HASTY).failed == 1
        assert "certificate" in (listed(relational)[0].error or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
        assert deliver_notices(relational, aim, HASTY).delivered == 1
    assert len(server.received) == 1


def test_notice_delivery_ends_after_the_last_attempt_or_status_410(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    record(relational, 2)
    with receiver() as server:
        server.answers = [lambda _: 410, *[lambda _: 500] * MAX_ATTEMPTS]
        aim = hooked(settings, server.url)
        given_up = [deliver_notices(relational, aim, HASTY).given_up for _ in range(12)]
    assert given_up == [1, *[0] * (MAX_ATTEMPTS - 1), 1, 0]
    assert len(server.received) == 1 + MAX_ATTEMPTS
    assert {it.state for it in listed(relational)} == {NoticeState.GIVEN_UP}


def test_notice_retry_pauses_grow(relational: sqlalchemy.Engine, settings: Settings) -> None:
    pauses = [DeliveryPace().pause_after(it) for it in range(1, MAX_ATTEMPTS + 1)]
    assert pauses[-1] is None
    lengths = [it for it in pauses if it is not None]
    assert lengths == sorted(lengths)
    record(relational)
    with receiver() as server:
        server.answers = [lambda _: 500]
        for _ in range(3):
            deliver_notices(relational, hooked(settings, server.url))
    assert len(server.received) == 1


def test_notice_waits_for_a_process_that_knows_its_target(
    relational: sqlalchemy.Engine, settings: Settings, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    record(relational)
    with receiver() as server:
        aim = hooked(settings, server.url, str(secret))
        counts = deliver_notices(relational, aim)
        assert counts.planned == 1
        assert "No such file" in counts.unusable["build"]
        for _ in range(MAX_ATTEMPTS + 1):
            deliver_notices(relational, settings)
        assert listed(relational)[0].attempts == 0
        secret.write_text(f"{SECRET}\n{SECRET[:-2]}A=\n")
        deliver_notices(relational, aim)
    signatures = server.received[0].headers["webhook-signature"].split()
    assert len(set(signatures)) == 2


KILLED = """
import os, signal, sys
from dataclasses import replace
from datetime import timedelta
from sqlalchemy import event
from common.settings import Settings
from graph.engine import relational_engine
from loop.notices import DeliveryPace, deliver_notices

settings = Settings.from_env()
engine = relational_engine(settings)
commits, last = 0, int(sys.argv[1])

@event.listens_for(engine, "commit")
def count(_):
    global commits
    commits += 1
    if commits == last:  # before the commit reaches PostgreSQL
        os.kill(os.getpid(), signal.SIGKILL)

@event.listens_for(engine, "checkin")
def after(*_):
    if len(sys.argv) > 2 and commits == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

print("started", flush=True)
deliver_notices(engine, settings, DeliveryPace((timedelta(),), timedelta(seconds=1), 60.0))
"""


def deliverer(settings: Settings, *arguments: str) -> subprocess.Popen[bytes]:
    hooks = {
        "WEBHOOKS": f"build={dict(settings.webhooks)['build']}",
        "WEBHOOK_SECRETS": f"build={SECRET}",
        "WEBHOOK_EVENTS": "all",
    }
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, *arguments],
        env=os.environ | variables(settings, **hooks), cwd=ROOT,
    )  # fmt: skip


#: Before the n-th transaction of a deliverer is committed, and after it. The first two write
#: notices; then each notice is claimed and marked.
POINTS = [*[(str(it),) for it in range(1, 9)], *[("99", str(it)) for it in range(1, 9)]]


def test_killed_delivery_process_loses_no_notice(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    with receiver() as server:
        aim = hooked(settings, server.url)
        for point in POINTS:
            record(relational, 3)
            assert deliverer(aim, *point).wait() == -signal.SIGKILL, point
            wait_until(lambda: delivered_all(relational, aim), f"all is delivered after {point}")
    check_acknowledged(relational, server, 3 * len(POINTS))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_delivery_process_killed_while_sending_loses_no_notice(
    relational: sqlalchemy.Engine, settings: Settings, moment: str
) -> None:
    record(relational, 3)
    killed = threading.Event()
    with receiver() as server:
        aim = hooked(settings, server.url)
        process = deliverer(aim, "99")

        def kill() -> None:
            if not killed.is_set():
                process.kill()
                process.wait()
                killed.set()

        def kill_before_answer(_: BaseHTTPRequestHandler) -> int:
            kill()
            return 0

        if moment == "before":
            server.answers = [kill_before_answer]
        else:
            server.acknowledged = kill
        process.wait()
        wait_until(killed.is_set, "the deliverer is killed")
        wait_until(lambda: delivered_all(relational, aim), "all is delivered")
    check_acknowledged(relational, server, 3)


def check_acknowledged(engine: sqlalchemy.Engine, server: Receiver, number: int) -> None:
    """Every event has one notice, and the receiver has acknowledged exactly these."""
    notices = listed(engine)
    assert {it.state for it in notices} == {NoticeState.DELIVERED}
    assert len({it.event_id for it in notices}) == len(notices) == number
    assert set(server.identifiers()) == {it.notice_id for it in notices}
    # Repetitions have the identifier and the body of the first attempt.
    assert len({(it.notice_id, it.body) for it in server.received}) == number


def test_concurrent_processes_send_each_notice_once(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    record(relational, 30)
    with receiver() as server:
        aim = hooked(settings, server.url)
        patient = replace(HASTY, lease=timedelta(hours=1))
        in_threads(*[lambda: deliver_notices(relational, aim, patient)] * 3)
    assert len(server.received) == len(set(server.identifiers())) == 30


# A plugin of apprise imports this module of the standard library.
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_chat_notice_is_sent_without_logging_the_secret_url(
    relational: sqlalchemy.Engine,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    pytest.importorskip("apprise", reason="apprise is not installed: pip install thoth[notify]")
    caplog.set_level(logging.DEBUG)
    record(relational)
    with receiver() as server:
        address = tmp_path / "address"
        # By default, it waits 4 s for a connection and an answer.
        times = f"cto={DEADLINE_S:.0f}&rto={DEADLINE_S:.0f}"
        address.write_text(f"json://me:hunter2@127.0.0.1:{server.port}/secret-path/?{times}\n")
        aim = replace(settings, notice_targets=(("team", str(address)),))
        server.answers = [lambda _: 500, lambda _: 302]
        failed = [deliver_notices(relational, aim, HASTY).failed for _ in range(3)]
    assert failed == [1, 1, 0]
    assert [it.status for it in server.received] == [500, 302, 204]
    message = server.received[-1].document
    assert message["title"] == "Thoth: a release was given up"
    assert "flask==0 will not be settled: no wheel." in message["message"]
    notice = listed(relational, NoticeState.DELIVERED)[0]
    assert f"Notice: {notice.notice_id}" in message["message"]
    with relational.connect() as connection:
        stored = "".join(map(str, connection.execute(text("TABLE notices"))))
    for secret in ("hunter2", "secret-path"):
        assert secret not in caplog.text
        assert secret not in stored
