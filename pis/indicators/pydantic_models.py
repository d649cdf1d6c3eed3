"""The indicator ``pydantic``: models of 500 orders with nested lines, as web services have them.

- ``validate``: make models from dictionaries, with every field checked.
- ``validate_json``: make models from JSON.
- ``dump``: turn models into dictionaries.
- ``dump_json``: turn models into JSON.
- ``define``: declare the three models, as a program's start does for each of its models.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, List, Optional

from pis.indicators.documents import orders
from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same

_LISTS: Any = List
_SIZES = {"orders": 500, "threads": 1}


def _order_model(pydantic: Any, note: str = "") -> Any:
    make, field = pydantic.create_model, pydantic.Field
    customer = make("Customer", name=(str, ...), email=(str, ...), vip=(bool, ...))
    line = make(
        "Line", sku=(str, ...), quantity=(int, field(ge=1)), price=(float, ...),
        tags=(List[str], ...),
    )  # fmt: skip
    return make(
        "Order", id=(int, ...), customer=(customer, ...), note=(Optional[str], note),
        lines=(_LISTS[line], field(min_length=1)),
    )  # fmt: skip


def _prepared(pydantic: Any, seed: int) -> tuple[Any, Any, Any]:
    """A validator of a list of orders, which version 1 lacks, orders, and their models."""
    adapter, document = pydantic.TypeAdapter(_LISTS[_order_model(pydantic)]), orders(seed, 500)
    return adapter, document, adapter.validate_python(document)


def _check_models(document: Any, models: Any) -> float:
    return same(document, [it.model_dump() for it in models])


def validate(pydantic: Any, seed: int) -> Made:
    adapter, document, _ = _prepared(pydantic, seed)
    check = partial(_check_models, document)
    return Made(lambda: adapter.validate_python(document), check, _SIZES)


def validate_json(pydantic: Any, seed: int) -> Made:
    adapter, document, _ = _prepared(pydantic, seed)
    text = json.dumps(document, ensure_ascii=False).encode()
    return Made(lambda: adapter.validate_json(text), partial(_check_models, document), _SIZES)


def dump(pydantic: Any, seed: int) -> Made:
    adapter, document, models = _prepared(pydantic, seed)
    return Made(lambda: adapter.dump_python(models), partial(same, document), _SIZES)


def dump_json(pydantic: Any, seed: int) -> Made:
    adapter, document, models = _prepared(pydantic, seed)
    check = lambda output: same(document, json.loads(output))  # noqa: E731
    return Made(lambda: adapter.dump_json(models), check, _SIZES)


def define(pydantic: Any, seed: int) -> Made:
    order, note = orders(seed, 1)[0], f"note {seed}"
    del order["note"]

    def check(model: Any) -> float:
        return same({**order, "note": note}, model.model_validate(order).model_dump())

    return Made(lambda: _order_model(pydantic, note), check, {"models": 3, "threads": 1})


INDICATOR = library_indicator(
    "pydantic",
    "PiPydantic",
    "Declare, validate and dump models with pydantic.",
    {"validate": validate, "validate_json": validate_json, "dump": dump, "dump_json": dump_json,
     "define": define},
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
