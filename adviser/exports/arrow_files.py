"""Writes tables as Parquet files."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from adviser.exports.tables import ColumnType, ExportColumn, ExportTable
from graph.record.exported_rows import RowSet
from model.redaction import scrubbed, without_secrets

#: Rows that are Python objects at one time. This and the size of a row group bound the memory.
_CONVERTED_ROWS = 2_000
_GROUP_ROWS = 50_000
_FILE_ROWS = 1_000_000
#: Characters of a folder's name that come from the data; a longer name ends with its digest.
_LONGEST_NAME = 80

_ARROW_TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.JSON: pa.string(),
    ColumnType.CATEGORY: pa.dictionary(pa.int32(), pa.string()),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
    ColumnType.REAL: pa.float64(),
    ColumnType.INTEGER: pa.int64(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.TEXTS: pa.list_(pa.string()),
    ColumnType.REALS: pa.list_(pa.float64()),
}


def write_table(
    table: ExportTable, row_sets: Iterable[RowSet], folder: Path, progress: Callable[[int], None]
) -> int:
    """Write the rows of a table into Parquet files below ``folder``; return their number.

    Row sets with the same partition share its folder. A table without rows has one empty file, so
    that its columns are known.

    :param progress: called with the number of rows so far
    """
    schema = schema_of_table(table)
    files = rows = 0
    for partition, alike in groupby(row_sets, key=lambda it: it.partition):
        batches = chain.from_iterable(_batches(table.columns, schema, it) for it in alike)
        place = folder if partition is None else folder / folder_name(partition)
        for first in batches:
            place.mkdir(parents=True, exist_ok=True)
            path = place / f"part-{files:05}.parquet"
            for written in _write_file(path, schema, chain([first], batches)):
                progress(rows + written)
            rows, files = rows + written, files + 1
    if not files:
        folder.mkdir(parents=True)
        for _ in _write_file(folder / "part-00000.parquet", schema, iter(())):
            pass
    return rows


def folder_name(value: str) -> str:
    """A name for the folder of a partition; readers skip names that begin with a dot or ``_``.

    >>> folder_name("PiMatmul"), folder_name("../a b"), folder_name("")
    ('PiMatmul', '%2E.%2Fa%20b', 'empty')
    """
    name = quote(value, safe="") or "empty"
    if name[0] in "._":
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def schema_of_table(table: ExportTable) -> pa.Schema:
    """Columns of a table with description and unit as metadata."""
    fields = []
    for column in table.columns:
        metadata = {"description": column.description}
        if column.unit:
            metadata["unit"] = column.unit
        fields.append(pa.field(column.name, _ARROW_TYPES[column.type], metadata=metadata))
    return pa.schema(fields, metadata={"description": table.description})


def _write_file(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Write one file of limited length; yield its number of rows after each row group."""
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows < _FILE_ROWS and (
            group := list(islice(batches, _GROUP_ROWS // _CONVERTED_ROWS))
        ):
            writer.write_table(pa.Table.from_batches(group, schema), row_group_size=_GROUP_ROWS)
            rows += sum(batch.num_rows for batch in group)
            yield rows


def _batches(
    columns: Sequence[ExportColumn], schema: pa.Schema, row_set: RowSet
) -> Iterator[pa.RecordBatch]:
    places = [row_set.columns.index(it.name) for it in columns]
    rows = iter(row_set.rows)
    while chunk := list(islice(rows, _CONVERTED_ROWS)):
        values = list(zip(*chunk, strict=True))
        arrays = [
            pa.array(_converted(column.type, values[place]), field.type)
            for column, place, field in zip(columns, places, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _converted(kind: ColumnType, values: Sequence[Any]) -> Sequence[Any]:
    if kind is ColumnType.JSON:
        texts = (
            it
            if it is None or isinstance(it, str)
            else json.dumps(dict(it), sort_keys=True, ensure_ascii=False)
            for it in values
        )
        return [it if it is None else _public(it) for it in texts]
    if kind in (ColumnType.TEXT, ColumnType.CATEGORY):
        return [it if it is None else _public(it) for it in values]
    if kind is ColumnType.TEXTS:
        return [it if it is None else [_public(text) for text in it] for it in values]
    return values


def _public(text: str) -> str:
    """The text without secrets in URLs and without tokens, as documents are stored."""
    return without_secrets(scrubbed(text)) if "://" in text or "thoth_" in text else text
