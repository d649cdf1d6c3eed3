"""The indicator ``msgspec``: documents of 1,000 orders with nested lines.

- ``json_encode``: write them as JSON.
- ``json_decode``: parse the JSON into dictionaries and lists.
- ``json_typed``: parse it into declared types, with every field checked.
- ``msgpack``: write them as MessagePack and parse that.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, List, Optional

from pis.indicators.documents import orders
from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, same

_SIZES = {"orders": 1_000, "threads": 1}


def json_encode(msgspec: Any, seed: int) -> Made:
    document, encode = orders(seed, 1_000), msgspec.json.Encoder().encode
    expected = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return Made(lambda: encode(document), partial(same, expected), _SIZES)


def json_decode(msgspec: Any, seed: int) -> Made:
    document, decode = orders(seed, 1_000), msgspec.json.Decoder().decode
    text = json.dumps(document, ensure_ascii=False).encode()
    return Made(lambda: decode(text), partial(same, document), _SIZES)


def json_typed(msgspec: Any, seed: int) -> Made:
    struct: Any = msgspec.defstruct
    lists: Any = List
    customer = struct("Customer", [("name", str), ("email", str), ("vip", bool)])
    line = struct("Line", [("sku", str), ("quantity", int), ("price", float), ("tags", List[str])])
    fields = [("id", int), ("customer", customer), ("note", Optional[str])]
    order = struct("Order", [*fields, ("lines", lists[line])])
    document, decode = orders(seed, 1_000), msgspec.json.Decoder(lists[order]).decode
    text = json.dumps(document, ensure_ascii=False).encode()

    def check(output: Any) -> float:
        return same(document, msgspec.to_builtins(output))

    return Made(lambda: decode(text), check, _SIZES)


def msgpack(msgspec: Any, seed: int) -> Made:
    document = orders(seed, 1_000)
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    return Made(lambda: decode(encode(document)), partial(same, document), _SIZES)


INDICATOR = library_indicator(
    "msgspec",
    "PiMsgspec",
    "Read, check and write documents with msgspec.",
    {"json_encode": json_encode, "json_decode": json_decode, "json_typed": json_typed,
     "msgpack": msgpack},
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
