"""Values that depend on the record are computed once for each of its states."""

from __future__ import annotations

from flask import Flask
from sqlalchemy import event

from api.record_cache import RecordCache
from api.service import EXTENSION
from graph.engine import Stores
from graph.record.freshness import count_change
from graph.record.observations import newest_series


def test_a_value_is_computed_again_after_a_change_only(stores: Stores) -> None:
    cache, computed = RecordCache(), list[int]()

    def value() -> int:
        computed.append(1)
        return len(computed)

    with stores.engine.connect() as connection:
        assert [cache.value(connection, "a", value) for _ in range(3)] == [1, 1, 1]
        assert cache.value(connection, "b", value) == 2
    with stores.engine.begin() as connection:
        count_change(connection)
    with stores.engine.connect() as connection:
        assert cache.value(connection, "a", value) == 3


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


def test_newest_series_are_bounded(filled_app: Flask) -> None:
    with filled_app.extensions[EXTENSION].engine.connect() as connection:
        every = newest_series(connection, 50, 2_000)
        assert len(every) == 6
        assert len(newest_series(connection, 2, 2_000)) == 2
        # The series of two stacks have 20 measurements each; those with more are left out.
        assert len(newest_series(connection, 50, 59)) == 2
        assert newest_series(connection, 50, 10) == ()
