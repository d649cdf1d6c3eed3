"""The rows of a query as a Parquet file; needs the extra ``export``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq


def parquet_of(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]
) -> bytes:
    """A Parquet file with a typed column for each name.

    A column of texts, of numbers or of flags has that type. Any other column, such as one of nodes
    or of mixed types, holds JSON.

    :param metadata: of the schema, such as the query
    """
    table = pa.table({name: _array([row.get(name) for row in rows]) for name in columns})
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(dict(metadata)), sink)
    return bytes(sink.getvalue())


def _array(values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array([None if it is None else float(it) for it in values])
    if len(kinds) > 1 or not kinds <= {int, float, str, bool}:
        return pa.array([None if it is None else orjson.dumps(it).decode() for it in values])
    return pa.array(values)
