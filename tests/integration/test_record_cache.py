"""Values that depend on the record are computed once for each of its states."""

from __future__ import annotations

from typing import Any

from flask import Flask
from sqlalchemy import event

from api.service import EXTENSION, ServiceStores
from graph.engine import Stores
from graph.record.freshness import count_change
from graph.record.job_samples import browse_series
from graph.record.observations import newest_series


def test_a_value_is_computed_again_after_a_change_only(stores: Stores) -> None:
    service, computed = ServiceStores(stores.settings), list[int]()

    def value() -> int:
        computed.append(1)
        return len(computed)

    with service.reading() as connection:
        assert [service.record_value(connection, "a", value) for _ in range(3)] == [1, 1, 1]
        assert service.record_value(connection, "b", value) == 2
    with service.writing() as connection:
        count_change(connection)
    with service.reading() as connection:
        assert service.record_value(connection, "a", value) == 3
    service.close()


def test_series_are_counted_once_for_many_requests(filled_app: Flask) -> None:
    client, statements = filled_app.test_client(), list[str]()
    first = client.get("/api/v2/reports?limit=7").get_json()

    def note(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    engine = filled_app.extensions[EXTENSION].engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        again = client.get("/api/v2/reports?limit=7").get_json()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert again == first
    assert first["items"]
    assert statements
    assert not any("observations" in it for it in statements)


def test_a_page_of_series_counts_the_measurements_of_these_series(filled_app: Flask) -> None:
    counted: list[list[str]] = []

    def note(*arguments: Any) -> None:
        if "GROUP BY" in arguments[2]:
            counted.extend(it for it in arguments[3].values() if isinstance(it, list))

    engine = filled_app.extensions[EXTENSION].engine
    with engine.connect() as connection:
        keys = [it.comparison_key for it in browse_series(connection)]
        event.listen(engine, "before_cursor_execute", note)
        try:
            page = browse_series(connection, after=keys[0], limit=2)
        finally:
            event.remove(engine, "before_cursor_execute", note)
    assert [it.comparison_key for it in page] == keys[1:3]
    assert counted == [keys[1:3]]


def test_newest_series_are_bounded(filled_app: Flask) -> None:
    with filled_app.extensions[EXTENSION].engine.connect() as connection:
        every = newest_series(connection, 50, 2_000)
        assert len(every) == 6
        assert len(newest_series(connection, 2, 2_000)) == 2
        # The series of two stacks have 20 measurements each; those with more are left out.
        assert len(newest_series(connection, 50, 59)) == 2
        assert newest_series(connection, 50, 10) == ()
