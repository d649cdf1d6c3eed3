"""Writes dataclasses with declared fields as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
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


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return as_json_time(value)
    return finite_or_none(value) if isinstance(value, float) else value
