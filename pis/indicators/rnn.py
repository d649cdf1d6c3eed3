"""The indicator ``rnn``: recurrent layers of a chosen cell, in FLOP/s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter
from pis.indicators.recurrent import GATES
from pis.indicators.recurrent_work import (
    RECURRENT_FRAMEWORKS,
    RECURRENT_PARAMETERS,
    recurrent_works,
)


def rnn_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One pass."""
    yield from recurrent_works(framework, values, values["cell"])


INDICATOR = Indicator(
    name="rnn",
    title="PiRnn",
    summary="Recurrent layers: rate of the operations in their matrix products.",
    parameters=(Parameter("cell", "rnn", "kind of layer", tuple(GATES)), *RECURRENT_PARAMETERS),
    frameworks=RECURRENT_FRAMEWORKS,
    works=rnn_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
