"""Convert frozen dataclasses to canonical JSON and back, to store and replay requests."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from cattrs import Converter
from cattrs.errors import BaseValidationError

from adviser.scoring.assessment_types import Claim
from model.errors import InvalidDocument
from model.json_documents import canonical_json, digest, fault_in
from model.packages.releases import as_json_time
from model.reasons import Reason

T = TypeVar("T")


def _converter() -> Converter:
    # Unknown keys come from a later version and must not be ignored.
    converter = Converter(forbid_extra_keys=True, prefer_attrib_converters=False)
    converter.register_unstructure_hook(datetime, as_json_time)
    converter.register_structure_hook(datetime, lambda text, _: _moment(text))
    return converter


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_CONVERTER = _converter()


def dataclass_to_json(value: Any) -> bytes:
    """A dataclass as canonical JSON; equal values give equal bytes.

    The result is the canonical JSON of :func:`plain`, in a fraction of the time.
    """
    written = orjson.dumps(value, default=_json_value, option=_OPTIONS)
    # Fields of a dataclass are written in their own order.
    return canonical_json(orjson.loads(written))


_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def _json_value(value: Any) -> Any:
    """A value of a type that orjson does not write, as :func:`plain` converts it."""
    # Thousands of files have a time, and a converter takes ten times as long.
    return as_json_time(value) if isinstance(value, datetime) else plain(value)


def plain(value: Any) -> Any:
    """A dataclass as JSON values: dictionaries with string keys, lists, numbers, strings.

    Infinite numbers and NaN become ``None``, which means unbounded or unknown.
    """
    return _sorted(_CONVERTER.unstructure(value))


def dataclass_from_json(data: bytes, kind: type[T]) -> T:
    """Read a dataclass that :func:`dataclass_to_json` has written.

    :raises InvalidDocument: if it is not of this kind, or another version of this code wrote it
    """
    try:
        return dataclass_of(orjson.loads(data), kind)
    except ValueError as error:
        raise _unreadable(kind, error) from error


def dataclass_of(value: Any, kind: type[T]) -> T:
    """The dataclass that :func:`plain` converted to ``value``.

    :raises InvalidDocument: if it is not of this kind, or another version of this code wrote it
    """
    try:
        return _CONVERTER.structure(value, kind)
    except (BaseValidationError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(kind, error) from error


def _unreadable(kind: type[Any], error: Exception) -> InvalidDocument:
    return InvalidDocument(Reason.UNREADABLE, f"not a {kind.__name__}: {fault_in(error)}")


def _sorted(value: Any) -> Any:
    """Sort sets, since digests need an order, and replace infinite numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _sorted(inner) for key, inner in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(_sorted, value))
    if isinstance(value, list | tuple):
        return [_sorted(inner) for inner in value]
    return value


def claim_document(claim: Claim) -> dict[str, Any]:
    """A claim as JSON values.

    If the error is unknown, as with a single job in an arm, then ``interval_low_pct``,
    ``interval_high_pct`` and ``effect_pct`` are ``None``. ``observed_pct`` is always given.
    """
    document: dict[str, Any] = plain(claim)
    if not bounded(claim):
        document |= {"interval_low_pct": None, "interval_high_pct": None, "effect_pct": None}
    return document


def identified_claim(claim: Claim) -> dict[str, Any]:
    """A claim as JSON values, with its identifier: the digest of all other values."""
    document = claim_document(claim)
    return {"claim_id": digest(document), **document}


def bounded(claim: Claim) -> bool:
    """Whether the error is known, so that both ends of the interval are finite."""
    return math.isfinite(claim.interval_low_pct) and math.isfinite(claim.interval_high_pct)
