"""Tables of numbers and words, and what plain Python finds in them."""

from __future__ import annotations

import random


def keyed_rows(seed: int, rows: int, keys: int) -> tuple[list[int], list[int]]:
    """Keys of ``range(keys)``, and whole numbers whose sums are exact in any type.

    >>> keyed_rows(0, 3, 100)
    ([84, 75, 42], [25891, 51127, 40493])
    """
    choices = random.Random(seed).choices  # noqa: S311
    return choices(range(keys), k=rows), choices(range(100_000), k=rows)


def grouped(keys: list[int], values: list[int]) -> dict[int, tuple[int, float]]:
    """Sum and mean of the values of each key.

    >>> grouped([1, 2, 1], [3, 4, 6])
    {1: (9, 4.5), 2: (4, 4.0)}
    """
    sums: dict[int, int] = {}
    counts: dict[int, int] = {}
    for key, value in zip(keys, values):
        sums[key] = sums.get(key, 0) + value
        counts[key] = counts.get(key, 0) + 1
    return {key: (total, total / counts[key]) for key, total in sums.items()}


def joined(keys: list[int], values: list[int], prices: dict[int, int]) -> tuple[int, int]:
    """Rows of an inner join of values with prices, and the sum of their products.

    >>> joined([1, 2, 1], [3, 4, 6], {1: 10})
    (2, 90)
    """
    products = [value * prices[key] for key, value in zip(keys, values) if key in prices]
    return len(products), sum(products)


def csv_of(keys: list[int], values: list[int]) -> bytes:
    """The table as CSV: a whole number, a number with two decimals, and a word.

    >>> csv_of([7], [12345])
    b'key,price,word\\n7,123.45,w12345\\n'
    """
    lines = [f"{key},{value / 100:.2f},w{value}" for key, value in zip(keys, values)]
    return ("key,price,word\n" + "\n".join(lines) + "\n").encode()
