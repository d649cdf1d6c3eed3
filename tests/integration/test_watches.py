"""Watches and the states of the loop, in a real record."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import select

from graph.record.events import EventKind
from graph.record.loop import (
    LoopState,
    ReleaseKey,
    ReleaseSource,
    add_releases_seen,
    fail_step,
    finish_step,
    open_night,
    releases_in,
    set_release_state,
    steps_of,
)
from graph.record.watches import (
    NewWatch,
    WatchKind,
    WatchSource,
    add_watch,
    remove_watches,
    set_watch_state,
    watches,
)
from graph.tables import EventRow
from loop.watching import identifiers_of, package_project
from model.errors import InvalidArgument

PACKAGE = NewWatch(WatchKind.PACKAGE, "numpy", {})
KEYS = [ReleaseKey("pypi", "numpy", version) for version in ("2.0.2", "2.1.0", "2.2.0")]


def events(connection: sqlalchemy.Connection) -> list[tuple[str, str]]:
    query = select(EventRow.kind, EventRow.subject).order_by(EventRow.event_id)
    return [tuple(row) for row in connection.execute(query)]


def test_a_package_is_watched_once_and_found_by_its_name(relational: sqlalchemy.Engine) -> None:
    with relational.begin() as connection:
        assert add_watch(connection, PACKAGE)
        assert not add_watch(connection, PACKAGE)
        assert [it.name for it in watches(connection)] == ["numpy"]
        assert identifiers_of(connection, ["NumPy"]) == {"NumPy": PACKAGE.watch_id}
        with pytest.raises(InvalidArgument, match="'flask' is not watched"):
            identifiers_of(connection, ["flask"])
        assert remove_watches(connection, [PACKAGE.watch_id]) == [PACKAGE.watch_id]
        assert watches(connection, enabled=False) == []


def test_a_project_of_the_service_stays_off_once_a_person_switched_it_off(
    relational: sqlalchemy.Engine,
) -> None:
    requested = NewWatch(WatchKind.PROJECT, "app", {"a": 1}, WatchSource.SERVICE, 7.0)
    with relational.begin() as connection:
        add_watch(connection, requested)
        remove_watches(connection, [requested.watch_id])
        assert not add_watch(connection, requested)
        assert watches(connection) == []
        assert [it.enabled for it in watches(connection, enabled=False)] == [False]


def test_a_state_that_is_stored_again_records_no_second_event(
    relational: sqlalchemy.Engine,
) -> None:
    with relational.begin() as connection:
        add_watch(connection, PACKAGE)
        add_releases_seen(connection, KEYS[:1], ReleaseSource.REFRESH, backlog=5)
        for _ in range(2):
            set_release_state(connection, KEYS[0], LoopState.PLANNED, planned_jobs=8)
            set_watch_state(connection, PACKAGE.watch_id, LoopState.PLANNED, planned_jobs=8)
            set_release_state(connection, KEYS[0], LoopState.GIVEN_UP, "no wheel")
            set_release_state(connection, KEYS[0], LoopState.GIVEN_UP, "no wheel")
        kinds = [kind for kind, _ in events(connection)]
    # Planned and given up alternate twice; repeating a state adds nothing.
    assert kinds.count(EventKind.RELEASE_GIVEN_UP) == 2
    assert kinds.count(EventKind.RELEASE_STATE) == 3
    assert kinds.count(EventKind.PROJECT_STATE) == 1


def test_the_backlog_is_bounded_and_the_oldest_release_comes_first(
    relational: sqlalchemy.Engine,
) -> None:
    with relational.begin() as connection:
        first = add_releases_seen(connection, KEYS, ReleaseSource.REFRESH, backlog=2)
    assert first == KEYS[:2]
    with relational.begin() as connection:
        assert add_releases_seen(connection, KEYS, ReleaseSource.REFRESH, backlog=2) == []
        set_release_state(connection, KEYS[0], LoopState.ANNOUNCED)
        assert add_releases_seen(connection, KEYS, ReleaseSource.REFRESH, backlog=2) == KEYS[2:]
        waiting = releases_in(connection, [LoopState.SEEN])
    assert [it.key for it in waiting] == KEYS[1:]


def test_a_night_stays_open_until_it_ends_and_counts_failed_steps(
    relational: sqlalchemy.Engine,
) -> None:
    with relational.begin() as connection:
        night = open_night(connection)
        assert open_night(connection) == night
        assert [fail_step(connection, night.night, "refresh", "away") for _ in range(2)] == [1, 2]
        finish_step(connection, night.night, "refresh", {"new": 3})
        (step,) = steps_of(connection, night.night)
    assert (step.finished, step.attempts, step.reason, step.output) == (True, 2, None, {"new": 3})


@pytest.mark.parametrize("text", ["./missing", "a @ https://b/c.whl", "a; python_version < '3'"])
def test_what_is_neither_a_project_nor_a_package_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        package_project(text)
