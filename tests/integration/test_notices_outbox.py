"""The outbox of notices: one message for each event and target, claimed once, with an end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import sqlalchemy
from sqlalchemy import select, text

from graph.record.changes import add_changes
from graph.record.events import EventKind, record_event
from graph.record.notices import (
    MAX_ATTEMPTS,
    NoticeState,
    claim_notices,
    give_up_abandoned,
    list_notices,
    mark_delivered,
    mark_failed,
    notice_lag,
    plan_notices,
    retry_notices,
)
from graph.record.retention import forget_events
from graph.tables import EventRow
from model.changes import ChangeEvent, ChangeKind, PerformanceChange

TARGETS = {"build": True, "mail": False}
LEASE = timedelta(minutes=2)


def planned(engine: sqlalchemy.Engine, *kinds: EventKind) -> None:
    with engine.begin() as connection:
        for kind in kinds:
            record_event(connection, kind, "flask==3.0.0", {"reason": "no wheel"})
        plan_notices(connection, TARGETS)


def test_an_event_gets_one_notice_for_each_target_that_asks_for_its_kind(
    relational: sqlalchemy.Engine,
) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP, EventKind.RELEASE_STATE)
    with relational.begin() as connection:
        assert plan_notices(connection, TARGETS) == 0
        notices = list_notices(connection, None, 10)
    assert sorted((it.kind, it.target) for it in notices) == [
        ("release.given_up", "build"),
        ("release.given_up", "mail"),
        ("release.state", "build"),
    ]


def test_a_notice_is_claimed_by_one_process_only(relational: sqlalchemy.Engine) -> None:
    planned(relational, *[EventKind.RELEASE_GIVEN_UP] * 3)
    with relational.begin() as one, relational.begin() as other:
        first = claim_notices(one, TARGETS, LEASE, 4)
        second = claim_notices(other, TARGETS, LEASE, 4)
    assert (len(first), len(second)) == (4, 2)
    assert len({it.notice_id for it in (*first, *second)}) == 6
    with relational.begin() as connection:
        assert claim_notices(connection, TARGETS, LEASE, 4) == []


def test_a_delivered_notice_is_never_sent_again(relational: sqlalchemy.Engine) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP)
    with relational.begin() as connection:
        notice = claim_notices(connection, ["mail"], timedelta(), 1)[0]
        mark_delivered(connection, notice.notice_id)
        mark_failed(connection, notice, "too late", timedelta())
    with relational.begin() as connection:
        assert claim_notices(connection, ["mail"], LEASE, 9) == []
        assert retry_notices(connection) == 0


def test_a_notice_whose_process_dies_is_due_again_and_ends(relational: sqlalchemy.Engine) -> None:
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


def test_old_notices_of_another_process_wait_until_they_are_deleted_with_their_events(
    relational: sqlalchemy.Engine,
) -> None:
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


def test_an_attempt_that_was_overtaken_fails_nothing(relational: sqlalchemy.Engine) -> None:
    planned(relational, EventKind.RELEASE_GIVEN_UP)
    with relational.begin() as connection:
        slow = claim_notices(connection, ["mail"], timedelta(), 1)[0]
    with relational.begin() as connection:
        claim_notices(connection, ["mail"], LEASE, 1)
        mark_failed(connection, slow, "timeout", None)
        states = {it.target: it.state for it in list_notices(connection, None, 9)}
    assert states["mail"] is NoticeState.WAITING


def test_a_new_change_is_an_event_unless_it_is_old_or_only_confirms_another(
    relational: sqlalchemy.Engine,
) -> None:
    now = datetime.now(UTC)
    change = PerformanceChange(
        change_id="new", kind=ChangeKind.RELEASE, event=ChangeEvent.ANNOUNCED, refers_to=None,
        package="numpy", host=None, from_version="2.3.5", to_version="2.4.0", from_stack="a",
        to_stack="b", indicator="conv2d", parameters={}, device=None, comparison_key="c",
        python_version="3.11", hardware_digest="d", hardware_label="Xeon", verdict="slower",
        effect_pct=-16.2, observed_pct=-16.5, interval_low_pct=-18.0, interval_high_pct=-14.5,
        delta_pct=5.0, jobs=10, baseline_jobs=10, comparisons=1, look=1, seen_at=now, rule="1",
    )  # fmt: skip
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
    assert events[0].data["interval_percent"] == [-18.0, -14.5]
