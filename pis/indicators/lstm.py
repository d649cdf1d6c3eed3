"""The indicator ``lstm``: long short-term memory, in FLOP/s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.recurrent_work import (
    RECURRENT_FRAMEWORKS,
    RECURRENT_PARAMETERS,
    recurrent_works,
)


def lstm_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One pass."""
    yield from recurrent_works(framework, values, "lstm")


INDICATOR = Indicator(
    name="lstm",
    title="PiLstm",
    summary="LSTM layers: rate of the operations in their matrix products.",
    parameters=RECURRENT_PARAMETERS,
    frameworks=RECURRENT_FRAMEWORKS,
    works=lstm_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
