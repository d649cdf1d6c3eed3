"""Locks that contradict themselves."""

from __future__ import annotations

import pytest

from ingest.inspections.specification import stack_of
from model.errors import InvalidDocument
from model.json_fields import Fields
from model.reasons import Reason


def test_one_package_in_two_spellings_is_a_conflict() -> None:
    lock = {"default": {"numpy": {"version": "==1.18.1"}, "NumPy": {"version": "==1.99.0"}}}
    with pytest.raises(InvalidDocument) as refused:
        stack_of(Fields(lock))
    assert refused.value.reason == Reason.CONFLICTING_FIELDS
