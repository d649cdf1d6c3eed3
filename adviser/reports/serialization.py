"""Frozen dataclasses as canonical JSON and back, so that a stored request can be replayed."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from cattrs import Converter
from cattrs.errors import BaseValidationError

from adviser.scoring.assessments import Claim
from common.errors import InvalidDocument
from common.formats.json_documents import canonical_json, fault_in
from common.reasons import Reason
from common.releases import as_json_time

T = TypeVar("T")


def _converter() -> Converter:
    # Unknown keys would be things that a later version asked for and this one ignores.
    made = Converter(forbid_extra_keys=True, prefer_attrib_converters=False)
    made.register_unstructure_hook(datetime, as_json_time)
    made.register_structure_hook(datetime, lambda text, _: _moment(text))
    return made


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_CONVERTER = _converter()


def packed(value: Any) -> bytes:
    """``value``, a dataclass, as canonical JSON; equal values have equal bytes."""
    return canonical_json(plain(value))


def plain(value: Any) -> Any:
    """``value`` as what JSON has: dictionaries with text keys, lists, numbers, texts.

    Infinite numbers and those that are none become ``null``: the data do not bound or tell them.
    """
    return _sorted(_CONVERTER.unstructure(value))


def unpacked(data: bytes, kind: type[T]) -> T:
    """The dataclass that :func:`packed` wrote.

    :raises InvalidDocument: if it is none of this kind, or of another version of this code
    """
    try:
        return _CONVERTER.structure(orjson.loads(data), kind)
    except (BaseValidationError, ValueError, TypeError, KeyError) as error:
        message = f"not a {kind.__name__}: {fault_in(error)}"
        raise InvalidDocument(Reason.UNREADABLE, message) from error


def _sorted(value: Any) -> Any:
    """As JSON has it: sets have no order, and digests need one; no number is infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _sorted(inner) for key, inner in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(_sorted, value))
    if isinstance(value, list | tuple):
        return [_sorted(inner) for inner in value]
    return value


def claim_document(it: Claim) -> dict[str, Any]:
    """A claim as JSON values.

    Where the error is unknown, as of one job an arm, neither end of the interval is bounded, and
    nothing can be said of the effect that would last: ``interval_low_pct``, ``interval_high_pct``
    and ``effect_pct`` are ``None``. What was observed is told all the same.
    """
    found: dict[str, Any] = plain(it)
    if not bounded(it):
        found |= {"interval_low_pct": None, "interval_high_pct": None, "effect_pct": None}
    return found


def bounded(it: Claim) -> bool:
    """Whether the error is known, so that the interval has two ends."""
    return math.isfinite(it.interval_low_pct) and math.isfinite(it.interval_high_pct)
