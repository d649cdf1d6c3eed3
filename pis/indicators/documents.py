"""Documents as services exchange them."""

from __future__ import annotations

from random import Random
from typing import Any

_WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "Straße", "日本")


def orders(seed: int, count: int) -> list[dict[str, Any]]:
    """Orders with nested lines: texts, some beyond ASCII, whole and decimal numbers, nulls."""
    draw = Random(seed)  # noqa: S311
    return [
        {
            "id": number,
            "customer": {
                "name": " ".join(draw.choices(_WORDS, k=2)),
                "email": f"user{draw.randrange(10**6)}@mail.example",
                "vip": draw.random() < 0.1,
            },
            "note": " ".join(draw.choices(_WORDS, k=12)) if draw.random() < 0.3 else None,
            "lines": [
                {
                    "sku": f"{draw.choice(_WORDS)}-{draw.randrange(1000)}",
                    "quantity": draw.randint(1, 9),
                    "price": draw.randint(1, 99_999) / 100,
                    "tags": draw.choices(_WORDS, k=2),
                }
                for _ in range(draw.randint(1, 5))
            ],
        }
        for number in range(count)
    ]
