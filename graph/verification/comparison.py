"""Compares stored rows with the rows that documents produce."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, any_, or_, select

from graph.record.postgresql_helpers import texts
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    AdvisoryPackage,
    AdvisoryRow,
    ArtifactInterface,
    ArtifactRow,
    Base,
    ClaimPackage,
    ClaimRow,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    ObservationRow,
    PackageVersionRow,
    ReleaseFileRow,
    RequirementRow,
    RuntimeEnvironmentRow,
    StackPackage,
    StackRow,
    table_of,
)
from model.errors import InvalidDocument, Reason
from model.redaction import without_secrets

#: Longer values are shortened in messages.
_LONGEST = 200
_ROW, _NO_ROW = "a row", "no row"
#: Text for an empty column in messages.
EMPTY_VALUE = "nothing"


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """A stored value that differs from the document.

    :param row: key of the row in ``table``; empty for the row of the document itself
    :param field: column; empty if a row is missing or unexpected
    :param stored: shortened and without secrets, like ``expected``
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


def of_document(document_id: str, field: str, stored: object, expected: object) -> RecordDifference:
    """A difference in the row of a document."""
    return RecordDifference(
        document_id, "documents", "", field, stored_text(stored), stored_text(expected)
    )


def unreadable(document_id: str, schema_version: str, error: InvalidDocument) -> RecordDifference:
    """A document that cannot be parsed: it has another schema, or this release refuses it."""
    expected = f"a schema by which the body can be read: {error}"
    return of_document(document_id, "schema_version", schema_version, expected)


def missing_row(document_id: str, table: str, row: str) -> RecordDifference:
    """A row that the document produces, but that is missing from the record."""
    return RecordDifference(document_id, table, row, "", _NO_ROW, _ROW)


def extra_row(document_id: str, table: str, row: str) -> RecordDifference:
    """A row that no document produces."""
    return RecordDifference(document_id, table, row, "", _ROW, _NO_ROW)


def row_differences(
    document_id: str,
    table: str,
    row: str,
    stored: Mapping[str, Any],
    expected: Mapping[str, Any],
    left_out: Collection[str] = (),
) -> Iterator[RecordDifference]:
    """Differences between a stored row and the columns of ``expected``.

    :param left_out: columns that are not compared
    """
    for field, value in expected.items():
        if field not in left_out and not same(stored[field], value):
            yield RecordDifference(
                document_id, table, row, field, stored_text(stored[field]), stored_text(value)
            )


def same(stored: Any, expected: Any) -> bool:
    """Whether PostgreSQL would store ``expected`` as ``stored``.

    PostgreSQL returns arrays as lists, and it writes ``1e300`` in JSONB as an integer with all
    digits.

    >>> same([1.0, 2], (1, 2)), same({"a": 10**300}, {"a": 1e300}), same(1, True)
    (True, True, False)
    """
    if type(stored) is type(expected) and not isinstance(expected, dict | list):
        return bool(stored == expected)  # the usual case
    if isinstance(expected, Mapping) and isinstance(stored, Mapping):
        return stored.keys() == expected.keys() and all(
            same(stored[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(stored, list | tuple):
        return len(stored) == len(expected) and all(map(same, stored, expected))
    if isinstance(expected, bool) or isinstance(stored, bool):
        return stored is expected
    if isinstance(expected, float) and isinstance(stored, int):
        return float(str(stored)) == expected  # too large integers become infinite, not an error
    return bool(stored == expected)


def stored_text(value: object) -> str:
    """``value`` for a message: shortened, and without secrets in URLs.

    >>> stored_text(None), stored_text(214.5e9), stored_text("https://me:word@host.example/a")
    ('nothing', '214500000000.0', 'https://host.example/a')
    """
    if value is None:
        return EMPTY_VALUE
    text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
    text = without_secrets(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


#: A row's values by column.
Row = dict[str, Any]
#: Values of a row's primary key.
Key = tuple[Any, ...]

#: Rows that several documents share; their ``document_id`` is the first document.
_SHARED: tuple[type[Base], ...] = (
    HardwareRow, RuntimeEnvironmentRow, IndicatorRow, StackRow, PackageVersionRow,
    NativeInterfaceRow, ClaimRow,
)  # fmt: skip
#: Rows that belong to one document; later documents with the same row do not change it.
_OWNED: tuple[type[Base], ...] = (
    InspectionRow,
    ObservationRow,
    AdvisoryRow,
    ArtifactRow,
    NativeEnvironmentRow,
)

#: Tables whose key starts with the key of a parent row.
_PART_OF: Mapping[type[Base], type[Base]] = {
    StackPackage: StackRow,
    RequirementRow: PackageVersionRow,
    ReleaseFileRow: PackageVersionRow,
    AdvisoryPackage: AdvisoryRow,
    ArtifactInterface: ArtifactRow,
    NativeEnvironmentInterface: NativeEnvironmentRow,
    AdvisedStack: AdviceRow,
    AdviceObservation: AdviceRow,
    AdviceClaim: AdviceRow,
    ClaimPackage: ClaimRow,
}


def compare_rows(
    connection: Connection,
    made: Mapping[str, Collection[tuple[type[Base], Row]]],
    parts: Collection[type[Base]] = (),
) -> Iterator[RecordDifference]:
    """Differences between stored rows and the rows of documents; one query for each table.

    :param made: expected rows by document; must contain all rows that belong to one document
    :param parts: tables for which ``made`` contains all rows of a parent, such as files of a
        release
    """
    stored = _Stored.read(connection, made, parts)
    for document_id, rows in made.items():
        yield from _differences(document_id, rows, parts, stored)


def key_of(model: type[Base], row: Mapping[str, Any]) -> Key:
    """The values of a row's primary key."""
    return tuple(row[name] for name in _key_columns(model))


@cache
def _key_columns(model: type[Base]) -> tuple[str, ...]:
    return tuple(table_of(model).primary_key.columns.keys())


class _Stored:
    """The stored rows of some documents, by table and key.

    ``owned`` holds the keys of rows that belong to one document, by document. ``parts`` holds the
    keys of rows that belong to a parent row, by the key of the parent.
    """

    def __init__(self) -> None:
        self.rows: dict[type[Base], dict[Key, Row]] = defaultdict(dict)
        self.owned: dict[tuple[type[Base], str], list[Key]] = defaultdict(list)
        self.parts: dict[tuple[type[Base], str], list[Key]] = defaultdict(list)

    @classmethod
    def read(
        cls,
        connection: Connection,
        made: Mapping[str, Iterable[tuple[type[Base], Row]]],
        parts: Collection[type[Base]],
    ) -> _Stored:
        keys: dict[type[Base], set[str]] = defaultdict(set)
        columns: dict[type[Base], Iterable[str]] = {model: _key_columns(model) for model in parts}
        for rows in made.values():
            for model, row in rows:
                keys[model].add(key_of(model, row)[0])
                columns[model] = row.keys()
        for model in parts:
            keys[model] |= keys.get(_PART_OF[model], set())
        stored = cls()
        for model, of_model in keys.items():
            query = select(*(table_of(model).c[name] for name in columns[model]))
            for stored_row in connection.execute(query.where(_among(model, of_model, made))):
                stored._add(model, dict(stored_row._mapping))
        return stored

    def _add(self, model: type[Base], row: Row) -> None:
        key = key_of(model, row)
        self.rows[model][key] = row
        if model in _OWNED:
            self.owned[model, row["document_id"]].append(key)
        elif model in _PART_OF:
            self.parts[model, key[0]].append(key)


def _among(model: type[Base], keys: Iterable[str], documents: Iterable[str]) -> ColumnElement[bool]:
    """The rows with these keys, and the rows that belong to these documents."""
    table = table_of(model)
    wanted = table.c[_key_columns(model)[0]] == any_(texts(keys))
    if model not in _OWNED:
        return wanted
    return or_(wanted, table.c.document_id == any_(texts(documents)))


def _differences(
    document_id: str,
    rows: Iterable[tuple[type[Base], Row]],
    parts: Collection[type[Base]],
    stored: _Stored,
) -> Iterator[RecordDifference]:
    keys: dict[type[Base], set[Key]] = defaultdict(set)
    foreign: set[str] = set()
    for model, row in rows:
        key = key_of(model, row)
        if key in keys[model] or (model in _PART_OF and key[0] in foreign):
            continue
        keys[model].add(key)
        stored_row = stored.rows[model].get(key)
        if stored_row is None:
            yield missing_row(document_id, table_of(model).name, _key_text(key))
        elif model in _OWNED and stored_row["document_id"] != document_id:
            foreign.add(key[0])
        else:
            yield from _in_row(document_id, model, stored_row, row)
    extra = [
        (model, key)
        for model in _OWNED
        for key in stored.owned[model, document_id]
        if key not in keys[model]
    ]
    extra += [
        (model, key)
        for model in parts
        for parent in sorted({key[0] for key in keys[_PART_OF[model]]} - foreign)
        for key in stored.parts[model, parent]
        if key not in keys[model]
    ]
    for model, key in extra:
        yield extra_row(document_id, table_of(model).name, _key_text(key))


def _in_row(
    document_id: str, model: type[Base], stored: Row, row: Row
) -> Iterator[RecordDifference]:
    left_out = {"document_id"} if model in _SHARED else set()
    if model is HardwareRow and stored["document_id"] != document_id:
        # Machines of a class may report different labels; the first one is kept.
        left_out.add("label")
    if model is ObservationRow and stored["quarantine_reason"] == Reason.TAMPERED:
        left_out = {"quarantine_reason"}
    name = _key_text(key_of(model, row))
    yield from row_differences(document_id, table_of(model).name, name, stored, row, left_out)


def _key_text(key: Key) -> str:
    return " ".join(map(str, key))
