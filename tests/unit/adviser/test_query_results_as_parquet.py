"""Rows of a query as Parquet: types of columns, and values without a type of their own."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq

from adviser.exports.arrow_files import parquet_of


def test_each_column_has_the_type_of_its_values() -> None:
    rows = [
        {"name": "numpy", "rate": 1, "flag": True, "node": {"a": [1]}, "mixed": 1},
        {"name": None, "rate": 2.5, "flag": None, "node": None, "mixed": "x"},
    ]
    columns = ["name", "rate", "flag", "node", "mixed", "nothing"]
    table = pq.read_table(io.BytesIO(parquet_of(columns, rows, {"query": "RETURN 1"})))
    assert [str(it) for it in table.schema.types] == [
        "string", "double", "bool", "string", "string", "null",
    ]  # fmt: skip
    first, second = table.to_pylist()
    assert (first["rate"], second["rate"]) == (1.0, 2.5)
    assert json.loads(first["node"]) == {"a": [1]}
    assert (first["mixed"], second["mixed"]) == ("1", '"x"')
    assert table.schema.metadata[b"query"] == b"RETURN 1"


def test_a_table_without_rows_is_written() -> None:
    assert pq.read_table(io.BytesIO(parquet_of(["a"], [], {}))).num_rows == 0
