"""The indicator ``generate``: tokens per second of a small decoder with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from operator import sub
from typing import Any

from pis.indicators.decoder import Decoder, DecoderShape, decoder_weights
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter
from pis.indicators.rounding import root_mean_square, roundoff_of

#: Limit for the logits' errors: their root mean square relative to that of the logits, in units of
#: roundoff.
_ROUNDINGS = 64

_PHASES = ("prefill", "decode")
_SIZES = ("layers", "hidden_size", "heads", "vocabulary", "sequence_length")

#: Added to the seed for the tokens, so that no weight is drawn from the same stream.
_DATA_SEED = 10_000


def generate_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """A pass over the prompts, and the step that adds a token to each sequence.

    :raises Unsupported: if the hidden size is not divisible by the number of heads
    """
    shape = DecoderShape(**{name: values[name] for name in _SIZES})
    if shape.hidden_size % shape.heads:
        raise Unsupported(
            f"a hidden_size of {shape.hidden_size} is not divisible by {shape.heads} heads"
        )
    for phase in _PHASES if values["phase"] == "all" else (values["phase"],):
        yield _work(framework, values, shape, phase)


def _work(framework: Framework, values: dict[str, Any], shape: DecoderShape, phase: str) -> Work:
    batch, dtype, seed = values["batch"], values["dtype"], values["seed"]
    decoder = Decoder(framework, shape.heads, decoder_weights(framework, shape, dtype, seed))
    sizes = (batch, shape.sequence_length + 1)
    tokens = framework.integers(sizes, 0, shape.vocabulary, seed + _DATA_SEED)
    prompt, last = tokens[:, :-1], tokens[:, -1:]
    grad_free = framework.module.inference_mode if framework.name == "torch" else nullcontext
    if phase == "prefill":
        seen, tokens_a_call = prompt, batch * shape.sequence_length
        step = framework.compiled(lambda given: decoder.prefill(given)[0])
        call = partial(step, prompt)
    else:
        seen, tokens_a_call = tokens, batch
        with grad_free():
            cache = decoder.prefill(prompt)[1]
        step = framework.compiled(decoder.decode)
        call = partial(step, last, cache)
    return Work(
        call=_without_gradients(grad_free, call),
        per_call=tokens_a_call,
        unit="tokens",
        parameters={
            "phase": phase,
            "batch": batch,
            **{name: values[name] for name in _SIZES},
            "dtype": dtype,
        },
        check=LogitsCheck(framework, shape, values, seen),
        kind="none",
    )


def _without_gradients(grad_free: Callable[[], Any], call: Callable[[], Any]) -> Callable[[], Any]:
    def logits() -> Any:
        with grad_free():
            return call()

    return logits


class LogitsCheck:
    """Compares the logits of the first sequence with a float64 pass over all its tokens.

    Therefore, a step with the cache must give what a pass without one gives.
    """

    def __init__(
        self, framework: Framework, shape: DecoderShape, values: dict[str, Any], tokens: Any
    ) -> None:
        weights = decoder_weights(framework, shape, values["dtype"], values["seed"])
        module = framework.module
        if framework.name == "torch":
            exact = [matrix.to("cpu", module.float64) for matrix in weights]
            tokens = tokens.to("cpu")
        else:
            exact = [module.cast(matrix, module.float64) for matrix in weights]
        logits, _ = Decoder(framework, shape.heads, exact).prefill(tokens[:1])
        self._framework = framework
        self._wanted = framework.to_host(logits[0])
        scale = root_mean_square(self._wanted)
        self._tolerance = _ROUNDINGS * roundoff_of(framework, values["dtype"]) * scale

    def __call__(self, output: Any) -> float:
        """:returns: sum of the first sequence's logits"""
        computed = self._framework.to_host(output[0])
        error = root_mean_square(list(map(sub, computed, self._wanted)))
        # Written so that a NaN is refused.
        if not error <= self._tolerance:
            raise WrongResult(
                f"the logits differ from those of a float64 pass by {error:.3g}, "
                f"more than {self._tolerance:.3g}"
            )
        return float(sum(computed))


INDICATOR = Indicator(
    name="generate",
    title="PiGenerate",
    summary="Run a small decoder with random weights: tokens a second for prompts and new tokens.",
    parameters=(
        Parameter("phase", "all", "what to run", ("all", *_PHASES)),
        Parameter("batch", 4, "sequences in a batch"),
        Parameter("sequence_length", 128, "tokens of a prompt"),
        Parameter("layers", 4, "blocks", high=1000),
        Parameter("hidden_size", 256, "numbers a token, divisible by heads"),
        Parameter("heads", 8, "attention heads"),
        Parameter("vocabulary", 8000, "kinds of tokens", low=2),
        Parameter("dtype", "float32", "element type", ("float32", "bfloat16", "float64")),
    ),
    frameworks=("torch", "tensorflow"),
    works=generate_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
