"""Writes dataclasses as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from model.declared_fields import declared_fields, is_declared
from model.json_documents import as_json_time, finite_or_none


def document_of(value: Any) -> Any:
    """The declared fields of a dataclass by name, as JSON values.

    Infinite numbers and NaN become null.
    """
    if isinstance(value, Mapping):
        return {key: document_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [document_of(inner) for inner in value]
    kind: Any = type(value)
    if is_declared(kind):
        names = (it.name for it in declared_fields(kind))
        return {name: document_of(getattr(value, name)) for name in names}
    return _plain(value)


def report_of(report: Any, *left_out: str) -> dict[str, Any]:
    """The public fields of a report by name: counts as objects, other dataclasses likewise."""
    names = (it.name for it in fields(report) if it.name not in left_out and it.name[0] != "_")
    return {name: _reported(getattr(report, name)) for name in names}


def _reported(value: Any) -> Any:
    if is_dataclass(value):
        return report_of(value)
    if isinstance(value, list | tuple):
        return [_reported(it) for it in value]
    return dict(value) if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return as_json_time(value)
    return finite_or_none(value) if isinstance(value, float) else value
