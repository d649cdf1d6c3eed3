"""The indicator ``deepbench-rnn``: recurrent layers of DeepBench's shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.deepbench_shapes import RECURRENT_PRESETS
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter
from pis.indicators.recurrent_work import RECURRENT_FRAMEWORKS, recurrent_works

_ONE_LAYER = r"\s*(rnn|gru|lstm)\s*(,\s*[1-9]\d{0,6}\s*){3}"
_LAYERS = "|".join((*RECURRENT_PRESETS, f"{_ONE_LAYER}(;{_ONE_LAYER})*;?"))


def recurrent_shapes(text: str) -> list[tuple[str, int, int, int]]:
    """Cell, hidden units, batch and time steps of each layer of a preset or of a list.

    >>> recurrent_shapes("lstm,256,1,150; gru, 512, 32, 1")
    [('lstm', 256, 1, 150), ('gru', 512, 32, 1)]
    >>> len(recurrent_shapes("deepbench-training"))  # 12 plain, 22 LSTM and 19 GRU layers
    53
    """
    if text in RECURRENT_PRESETS:
        return list(RECURRENT_PRESETS[text])
    shapes = []
    for layer in filter(str.strip, text.split(";")):
        cell, hidden, batch, steps = (part.strip() for part in layer.split(","))
        shapes.append((cell, int(hidden), int(batch), int(steps)))
    return shapes


def deepbench_rnn_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One layer for each shape; it has as many inputs as hidden units, as in DeepBench."""
    for cell, hidden, batch, steps in recurrent_shapes(values["shapes"]):
        sizes = {"layers": 1, "hidden_size": hidden, "input_size": hidden}
        shape = {**sizes, "batch": batch, "sequence_length": steps}
        yield from recurrent_works(framework, {**values, **shape}, cell)


INDICATOR = Indicator(
    name="deepbench-rnn",
    title="PiDeepBenchRnn",
    summary="Recurrent layers of the sizes in DeepBench's lists, forward.",
    parameters=(
        Parameter(
            "shapes", "deepbench-inference-device",
            "a preset (" + ", ".join(RECURRENT_PRESETS) + ") or CELL,HIDDEN,BATCH,STEPS;…",
            pattern=_LAYERS,
        ),
        Parameter(
            "dtype", "float32", "element type", ("float32", "float16", "bfloat16", "float64")
        ),
    ),
    frameworks=RECURRENT_FRAMEWORKS,
    works=deepbench_rnn_works,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
