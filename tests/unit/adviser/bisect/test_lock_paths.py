"""Paths between two locks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from adviser.bisect.series import path_between

OLD = {"a": "1", "b": "1", "c": "1", "gone": "1"}
NEW = {"a": "2", "b": "2", "c": "1", "fresh": "1"}


def anything(_pins: Mapping[str, str]) -> bool:
    return True


def test_each_stack_differs_from_the_one_before_in_what_moved() -> None:
    path = path_between(OLD, NEW, anything)
    assert (path[0].pins, path[-1].pins) == (OLD, NEW)
    for before, after in itertools.pairwise(path):
        names = before.pins.keys() | after.pins.keys()
        changed = {it for it in names if before.pins.get(it) != after.pins.get(it)}
        assert changed == set(after.moved)


def test_new_packages_come_first_and_dropped_packages_last() -> None:
    assert [it.moved for it in path_between(OLD, NEW, anything)] == [
        (), ("fresh",), ("a",), ("b",), ("gone",),
    ]  # fmt: skip


def test_packages_that_need_each_other_move_together() -> None:
    def together(pins: Mapping[str, str]) -> bool:
        return pins["a"] == pins["b"]

    path = path_between(OLD, NEW, together)
    assert ("a", "b") in [it.moved for it in path]
    assert all(together(it.pins) for it in path)


def test_without_a_valid_stack_between_them_all_packages_move_at_once() -> None:
    path = path_between(OLD, NEW, lambda _pins: False)
    assert [it.pins for it in path] == [OLD, NEW]


def test_equal_locks_have_a_path_of_one_stack() -> None:
    assert [it.pins for it in path_between(OLD, OLD, anything)] == [OLD]
