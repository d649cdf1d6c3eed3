"""Locks that contradict themselves."""

from __future__ import annotations

from ingest.inspections.specification import stack_of
from model.errors import InvalidDocument, Reason
from model.json_fields import Fields
from tests.factories.errors import raised


def test_one_package_in_two_spellings_is_a_conflict() -> None:
    lock = {"default": {"numpy": {"version": "==1.18.1"}, "NumPy": {"version": "==1.99.0"}}}
    with raised(InvalidDocument, reason=Reason.CONFLICTING_FIELDS):
        stack_of(Fields(lock))
