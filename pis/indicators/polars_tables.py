"""The indicator ``polars``: what analyses of tables are made of.

- ``groupby``: sum and mean of 500,000 numbers by 1,000 keys.
- ``join``: inner join of 200,000 rows with a table of 10,000 rows, which has half of the keys.
- ``read_csv``: parse 50,000 rows of a whole number, a decimal number and a word.
"""

from __future__ import annotations

import io
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same
from pis.indicators.tables import csv_of, grouped, joined, keyed_rows


def groupby(polars: Any, seed: int) -> Made:
    keys, values = keyed_rows(seed, 500_000, 1_000)
    table, expected = polars.DataFrame({"key": keys, "value": values}), grouped(keys, values)
    sums = [polars.col("value").sum().alias("sum"), polars.col("value").mean().alias("mean")]

    def check(output: Any) -> float:
        return same(expected, {key: (total, mean) for key, total, mean in output.rows()})

    call = lambda: table.group_by("key").agg(sums)  # noqa: E731
    return Made(call, check, {"rows": 500_000, "keys": 1_000})


def join(polars: Any, seed: int) -> Made:
    keys, values = keyed_rows(seed, 200_000, 20_000)
    prices = {key: 3 * key + 1 for key in range(0, 20_000, 2)}
    left = polars.DataFrame({"key": keys, "value": values})
    right = polars.DataFrame({"key": list(prices), "price": list(prices.values())})
    expected = joined(keys, values, prices)

    def check(output: Any) -> float:
        return same(expected, (output.height, (output["value"] * output["price"]).sum()))

    return Made(lambda: left.join(right, on="key"), check, {"rows": 200_000, "keys": 20_000})


def read_csv(polars: Any, seed: int) -> Made:
    keys, values = keyed_rows(seed, 50_000, 1_000)
    text, words = csv_of(keys, values), [f"w{value}" for value in values]

    def check(output: Any) -> float:
        cents = [round(100 * price) for price in output["price"].to_list()]
        found = (output["key"].to_list(), cents, output["word"].to_list())
        return same((keys, values, words), found)

    return Made(lambda: polars.read_csv(io.BytesIO(text)), check, {"rows": 50_000})


INDICATOR = library_indicator(
    "polars",
    "PiPolars",
    "Group, join and parse tables with Polars.",
    {"groupby": groupby, "join": join, "read_csv": read_csv},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
