"""Rows of documents that were accepted before change only with the version of the parsers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from graph.record.inspections import derived_rows
from graph.tables import Base, table_of
from graph.verification.parser_version import CHANGED_COLUMNS, PARSER_VERSION, changed_since
from ingest.inspections.parsing import parse_inspections, parse_stored
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument
from model.measurements.inspection import InspectionDocument
from tests.factories.documents import GENERATIONS, SAMPLES

#: Of all rows of the documents in the samples and in ``tests/data``, by version.
ROWS = {4: "76416b035dcc5978ddc2dc3c761937c28892e9a679d652e52369bd22fd023ac6"}


def documents(source: Path) -> list[InspectionDocument]:
    found = []
    for raw in documents_of(str(source)):
        assert isinstance(raw, RawDocument)
        for document in parse_inspections(raw):
            assert isinstance(document, InspectionDocument)
            found.append(document)
    return found


@pytest.fixture(scope="module")
def known() -> list[InspectionDocument]:
    return [*documents(SAMPLES), *documents(GENERATIONS)]


def test_stored_documents_are_parsed_as_delivered_ones(known: list[InspectionDocument]) -> None:
    assert len({it.schema_version for it in known}) >= 4
    for it in known:
        assert parse_stored(it.body, it.schema_version, it.name) == it


def test_every_column_of_an_inspection_is_made_of_its_document(
    known: list[InspectionDocument],
) -> None:
    made = {model: row for it in known for model, row in derived_rows(it)}
    assert len(made) == 5
    for model, row in made.items():
        assert row.keys() == set(table_of(model).columns.keys()), model


def test_the_rows_of_known_documents_are_those_of_this_version(
    known: list[InspectionDocument],
) -> None:
    digest = hashlib.sha256()
    for it in sorted(known, key=lambda document: document.document_id):
        for model, row in derived_rows(it):
            # A column that is empty for all that was stored before is no change.
            known_values = {name: value for name, value in row.items() if value is not None}
            text = json.dumps([table_of(model).name, known_values], default=str, sort_keys=True)
            digest.update(text.encode())
    assert {PARSER_VERSION: digest.hexdigest()} == ROWS, (
        "parsers make other rows of known documents: raise PARSER_VERSION, name the columns in"
        " CHANGED_COLUMNS, and set the digest here"
    )


def test_changed_columns_are_columns() -> None:
    assert max(CHANGED_COLUMNS) == PARSER_VERSION
    tables = Base.metadata.tables
    for name in changed_since(-1):
        table, _, column = name.removeprefix("+").partition("=")[0].partition(".")
        assert table in tables, name
        assert not column or column in tables[table].columns, name
    assert changed_since(PARSER_VERSION) == frozenset()
