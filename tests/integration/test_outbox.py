"""The outbox: order, late commits, failures and several projectors at once."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import insert, text

from common.errors import SchemaMismatch, StoreUnavailable
from graph.engine import Stores
from graph.projection import lag
from graph.projection.outbox import only_projector
from graph.tables import OutboxEntry
from tests.factories.rows import (
    Rows,
    entries_of,
    inspection_rows,
    store,
)
from tests.services.projection import project, verified


@pytest.fixture
def rows(stores: Stores) -> Rows:
    rows = inspection_rows(40)
    store(stores.engine, rows)
    return rows


def test_an_inspection_brings_what_it_needs_without_entries_for_it(stores: Stores) -> None:
    rows = inspection_rows(60, stacks=1, machines=1)
    # No inspection brings what is known of packages besides its own, nor native interfaces.
    apart = {"inspection", "package", "vulnerability", "artifact", "native_environment"}
    only = [entry for entry in entries_of(rows) if entry["kind"] in apart]
    store(stores.engine, rows, only)
    project(stores)
    assert verified(stores).equal


def test_a_graph_that_fails_in_the_middle_leaves_its_entries(
    stores: Stores, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    pending = lag(stores.engine).count
    with monkeypatch.context() as patch:
        patch.setitem(
            __import__("graph.projection.outbox").projection.outbox.PROJECTORS, "inspection", broken
        )
        with pytest.raises(KeyboardInterrupt):
            project(stores)
    assert lag(stores.engine).count == pending
    project(stores)
    assert verified(stores).equal


def test_an_entry_that_commits_late_is_found(stores: Stores) -> None:
    rows = inspection_rows(10)
    entries = entries_of(rows)
    store(stores.engine, rows, entries[5:])
    with stores.engine.connect() as late:
        late.execute(insert(OutboxEntry), entries[:5])
        with stores.engine.begin() as other:
            other.execute(insert(OutboxEntry), [{"kind": "stack", "key": "sha256:gone"}])
        project(stores)
        late.commit()
    assert lag(stores.engine).count == 5
    assert project(stores).entries == 5
    assert verified(stores).equal


def test_one_projector_at_a_time(stores: Stores, rows: Rows) -> None:
    with (
        only_projector(stores.engine, 1.0),
        pytest.raises(StoreUnavailable, match="another process"),
    ):
        project(stores, wait_s=0.2)
    assert project(stores).entries == len(entries_of(rows))


def test_projectors_at_once_wait_for_each_other(stores: Stores, rows: Rows) -> None:
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda: done.append(project(stores, batch=5).entries))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == len(entries_of(rows))
    assert verified(stores).equal


def test_a_kind_from_a_newer_version_is_refused_and_kept(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        connection.execute(insert(OutboxEntry), [{"kind": "advice", "key": "1"}])
    with pytest.raises(SchemaMismatch, match="advice"):
        project(stores)
    assert lag(stores.engine).count == 1


def test_progress_counts_up_to_the_total(stores: Stores, rows: Rows) -> None:
    seen: list[tuple[int, int]] = []
    project(stores, batch=10, progress=lambda done, total: seen.append((done, total)))
    count = len(entries_of(rows))
    assert seen[-1] == (count, count)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_lag_tells_the_age_of_the_oldest_entry(stores: Stores, rows: Rows) -> None:
    with stores.engine.begin() as connection:
        connection.execute(text("UPDATE outbox SET created_at = now() - interval '1 hour'"))
    behind = lag(stores.engine)
    assert behind.count == len(entries_of(rows))
    assert 3_600 <= behind.oldest_s < 3_700
