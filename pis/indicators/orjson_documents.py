"""The indicator ``orjson``: JSON as services read and write it.

- ``dumps``: write 1,000 orders with nested lines as compact JSON, about 0.4 MB.
- ``dumps_sorted``: the same with indentation and sorted keys, as for a file under version control.
- ``loads``: parse the compact JSON.
- ``loads_numbers``: parse an array of 50,000 decimal numbers.
"""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

from pis.indicators.documents import orders
from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same

_SIZES = {"orders": 1_000, "threads": 1}


def dumps(orjson: Any, seed: int) -> Made:
    document = orders(seed, 1_000)
    expected = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return Made(lambda: orjson.dumps(document), partial(same, expected), _SIZES)


def dumps_sorted(orjson: Any, seed: int) -> Made:
    document, option = orders(seed, 1_000), orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    expected = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True).encode()
    return Made(lambda: orjson.dumps(document, option=option), partial(same, expected), _SIZES)


def loads(orjson: Any, seed: int) -> Made:
    document = orders(seed, 1_000)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return Made(lambda: orjson.loads(text), partial(same, document), _SIZES)


def loads_numbers(orjson: Any, seed: int) -> Made:
    gauss = Random(seed).gauss  # noqa: S311
    numbers = [gauss(0, 1000) for _ in range(50_000)]
    text = json.dumps(numbers).encode()
    sizes = {"numbers": len(numbers), "threads": 1}
    return Made(lambda: orjson.loads(text), partial(same, numbers), sizes)


INDICATOR = library_indicator(
    "orjson",
    "PiOrjson",
    "Read and write JSON documents with orjson.",
    {"dumps": dumps, "dumps_sorted": dumps_sorted, "loads": loads, "loads_numbers": loads_numbers},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
