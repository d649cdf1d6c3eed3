"""The indicator ``pyarrow``: reading and filtering columns.

- ``read_parquet``: read 200,000 rows of two whole numbers and a word, compressed with Snappy, from
  memory.
- ``write_parquet``: the same table, written to memory.
- ``filter``: the rows of that table with a value above 50,000.
"""

from __future__ import annotations

import importlib
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same
from pis.indicators.tables import keyed_rows

_SIZES = {"rows": 200_000, "keys": 1_000}


def _table(pyarrow: Any, seed: int) -> tuple[Any, dict[str, list[Any]]]:
    keys, values = keyed_rows(seed, 200_000, 1_000)
    columns: dict[str, list[Any]] = {
        "key": keys,
        "value": values,
        "word": [f"w{key}" for key in keys],
    }
    return pyarrow.table(columns), columns


def _written(pyarrow: Any, table: Any) -> Any:
    sink = pyarrow.BufferOutputStream()
    importlib.import_module("pyarrow.parquet").write_table(table, sink, compression="snappy")
    return sink.getvalue()


def read_parquet(pyarrow: Any, seed: int) -> Made:
    table, columns = _table(pyarrow, seed)
    parquet, data = importlib.import_module("pyarrow.parquet"), _written(pyarrow, table)
    call = lambda: parquet.read_table(pyarrow.BufferReader(data))  # noqa: E731
    return Made(call, lambda output: same(columns, output.to_pydict()), _SIZES)


def write_parquet(pyarrow: Any, seed: int) -> Made:
    table, columns = _table(pyarrow, seed)
    parquet = importlib.import_module("pyarrow.parquet")

    def check(output: Any) -> float:
        return same(columns, parquet.read_table(pyarrow.BufferReader(output)).to_pydict())

    return Made(lambda: _written(pyarrow, table), check, _SIZES)


def filtered(pyarrow: Any, seed: int) -> Made:
    table, columns = _table(pyarrow, seed)
    compute = importlib.import_module("pyarrow.compute")
    kept = [row for row in zip(*columns.values()) if row[1] > 50_000]

    def check(output: Any) -> float:
        return same(kept, list(zip(*output.to_pydict().values())))

    call = lambda: table.filter(compute.greater(table["value"], 50_000))  # noqa: E731
    return Made(call, check, _SIZES)


INDICATOR = library_indicator(
    "pyarrow",
    "PiPyarrow",
    "Read, write and filter tables with Arrow.",
    {"read_parquet": read_parquet, "write_parquet": write_parquet, "filter": filtered},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
