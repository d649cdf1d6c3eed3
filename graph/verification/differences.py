"""Where the record differs from what its documents say."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import InvalidDocument
from common.redaction import without_secrets

#: Characters of a value that a person needs to recognise it.
_LONGEST = 200
_ROW, _NO_ROW = "a row", "no row"
#: What an empty column is for a person.
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not what a document says.

    :param row: key of the row in ``table``; empty for the document's own
    :param field: column; empty if the row is missing, or should not be there
    :param stored: for a person, shortened and without secrets; so is ``expected``
    """

    document_id: str
    table: str
    row: str
    field: str
    stored: str
    expected: str

    @property
    def column(self) -> str:
        """``table.column``, or the table alone for a whole row."""
        return f"{self.table}.{self.field}" if self.field else self.table


def of_document(document_id: str, field: str, stored: object, expected: object) -> Difference:
    """A difference in a document's own row."""
    return Difference(document_id, "documents", "", field, shown(stored), shown(expected))


def unreadable(document_id: str, schema_version: str, error: InvalidDocument) -> Difference:
    """A document of which no rows can be made: of another schema, or refused by now."""
    expected = f"a schema by which the body can be read: {error}"
    return of_document(document_id, "schema_version", schema_version, expected)


def missing_row(document_id: str, table: str, row: str) -> Difference:
    """A row that a document makes and that is not there."""
    return Difference(document_id, table, row, "", _NO_ROW, _ROW)


def extra_row(document_id: str, table: str, row: str) -> Difference:
    """A row that no document makes."""
    return Difference(document_id, table, row, "", _ROW, _NO_ROW)


def row_differences(
    document_id: str,
    table: str,
    row: str,
    stored: Mapping[str, Any],
    expected: Mapping[str, Any],
    left_out: Collection[str] = (),
) -> Iterator[Difference]:
    """The columns of ``expected`` in which a stored row has another value.

    :param left_out: columns that are not compared
    """
    for field, value in expected.items():
        if field not in left_out and not same(stored[field], value):
            yield Difference(document_id, table, row, field, shown(stored[field]), shown(value))


def same(stored: Any, expected: Any) -> bool:
    """Whether PostgreSQL would store ``expected`` as ``stored``.

    Arrays come back as lists, and JSONB writes ``1e300`` with all its digits, as an integer.

    >>> same([1.0, 2], (1, 2)), same({"a": 10**300}, {"a": 1e300}), same(1, True)
    (True, True, False)
    """
    if type(stored) is type(expected) and not isinstance(expected, dict | list):
        return bool(stored == expected)  # as nearly always
    if isinstance(expected, Mapping) and isinstance(stored, Mapping):
        return stored.keys() == expected.keys() and all(
            same(stored[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(stored, list | tuple):
        return len(stored) == len(expected) and all(map(same, stored, expected))
    if isinstance(expected, bool) or isinstance(stored, bool):
        return stored is expected
    if isinstance(expected, float) and isinstance(stored, int):
        return float(str(stored)) == expected  # infinite, and not an error, if it is too large
    return bool(stored == expected)


def shown(value: object) -> str:
    """``value`` for a person: shortened, and without the secrets of addresses.

    >>> shown(None), shown(214.5e9), shown("https://me:word@host.example/a")
    ('nothing', '214500000000.0', 'https://host.example/a')
    """
    if value is None:
        return NOTHING
    text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
    text = without_secrets(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
