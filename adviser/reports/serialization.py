"""Convert frozen dataclasses to canonical JSON and back, to store and replay requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

import common
from adviser.scoring.assessment_types import Claim
from model.errors import InvalidDocument, Reason
from model.json_documents import as_json_time, canonical_json, digest, fault_in

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


def dataclass_to_json(value: Any) -> bytes:
    """A dataclass as canonical JSON; equal values give equal bytes."""
    return canonical_json(plain(value))


def plain(value: Any) -> Any:
    """A dataclass as JSON values: dictionaries with string keys, lists, numbers, strings.

    Infinite numbers and NaN become ``None``, which means unbounded or unknown.
    """
    return orjson.loads(orjson.dumps(value, default=_json_value, option=_OPTIONS))


_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def _json_value(value: Any) -> Any:
    """A value of a type that orjson does not write."""
    if isinstance(value, datetime):
        return as_json_time(value)
    if isinstance(value, AbstractSet):
        return sorted(map(plain, value))  # digests need an order
    return dict(value) if isinstance(value, Mapping) else list(value)


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
    from cattrs.errors import BaseValidationError  # loading it takes 0.03 s

    try:
        return _converter().structure(value, kind)
    except (BaseValidationError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(kind, error) from error


@cache
def _converter() -> Converter:
    from cattrs import Converter

    # Unknown keys come from a later version and must not be ignored.
    converter = Converter(forbid_extra_keys=True, prefer_attrib_converters=False)
    converter.register_structure_hook(
        datetime, lambda text, _: datetime.fromisoformat(text).astimezone(UTC)
    )
    return converter


def _unreadable(kind: type[Any], error: Exception) -> InvalidDocument:
    return InvalidDocument(Reason.UNREADABLE, f"not a {kind.__name__}: {fault_in(error)}")


def claim_document(claim: Claim) -> dict[str, Any]:
    """A claim as JSON values.

    If the error is unknown, as with a single job in an arm, then ``interval_low_pct``,
    ``interval_high_pct`` and ``effect_pct`` are ``None``. ``observed_pct`` is always given. Empty
    fields about packs are left out, so that claims from own jobs keep their digests.
    """
    document: dict[str, Any] = plain(claim)
    for key in ("origin", "confirms", "overrules"):
        if not document[key]:
            del document[key]
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


#: Packages whose code can change a report.
_PACKAGES = ("adviser", "common", "graph", "model")


@cache
def code_version() -> str:
    """The version of Thoth and a digest of its code, such as ``0.2.0+5c1d9a3076f2``.

    In a checkout, the code changes between releases. Without the digest, ``thoth record verify``
    would call advice altered that an earlier commit has worded differently.
    """
    return f"{common.__version__}+{digest_of_code(Path(common.__file__).parents[1])[:12]}"


def digest_of_code(folder: Path) -> str:
    """SHA-256 of the names and contents of the modules under ``folder``."""
    code = sha256()
    for package in _PACKAGES:
        for path in sorted((folder / package).rglob("*.py")):
            code.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            code.update(path.read_bytes())
    return code.hexdigest()
