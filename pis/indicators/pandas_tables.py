"""The indicator ``pandas``: what analyses of tables are made of.

- ``groupby``: sum and mean of 200,000 numbers by 1,000 keys.
- ``merge``: inner join of 100,000 rows with a table of 10,000 rows, which has half of the keys.
- ``read_csv``: parse 20,000 rows of a whole number, a decimal number and a word.
"""

from __future__ import annotations

import io
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same
from pis.indicators.tables import csv_of, grouped, joined, keyed_rows


def groupby(pandas: Any, seed: int) -> Made:
    keys, values = keyed_rows(seed, 200_000, 1_000)
    table, expected = pandas.DataFrame({"key": keys, "value": values}), grouped(keys, values)

    def check(output: Any) -> float:
        found = zip(output.index.tolist(), output["sum"].tolist(), output["mean"].tolist())
        return same(expected, {key: (total, mean) for key, total, mean in found})

    call = lambda: table.groupby("key")["value"].agg(["sum", "mean"])  # noqa: E731
    return Made(call, check, {"rows": 200_000, "keys": 1_000})


def merge(pandas: Any, seed: int) -> Made:
    keys, values = keyed_rows(seed, 100_000, 20_000)
    prices = {key: 3 * key + 1 for key in range(0, 20_000, 2)}
    left = pandas.DataFrame({"key": keys, "value": values})
    right = pandas.DataFrame({"key": list(prices), "price": list(prices.values())})
    expected = joined(keys, values, prices)

    def check(output: Any) -> float:
        return same(expected, (len(output), int((output["value"] * output["price"]).sum())))

    return Made(lambda: left.merge(right, on="key"), check, {"rows": 100_000, "keys": 20_000})


def read_csv(pandas: Any, seed: int) -> Made:
    keys, values = keyed_rows(seed, 20_000, 1_000)
    text, words = csv_of(keys, values), [f"w{value}" for value in values]

    def check(output: Any) -> float:
        cents = [round(100 * price) for price in output["price"].tolist()]
        return same((keys, values, words), (output["key"].tolist(), cents, list(output["word"])))

    return Made(lambda: pandas.read_csv(io.BytesIO(text)), check, {"rows": 20_000})


INDICATOR = library_indicator(
    "pandas",
    "PiPandas",
    "Group, join and parse tables with pandas.",
    {"groupby": groupby, "merge": merge, "read_csv": read_csv},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
