"""The indicator ``attention``: scaled dot-product attention, for each shape of a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, fsum, sqrt
from operator import mul, sub
from typing import Any

from pis.indicators.attention_calls import attention_of
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter
from pis.indicators.rounding import root_mean_square, roundoff_of

#: Limit for the root mean square of an output's errors, relative to that of the output, in units
#: of roundoff.
_ROUNDINGS = 64

_ONE_SHAPE = r"\s*[1-9]\d{0,6}\s*(,\s*[1-9]\d{0,6}\s*){4},\s*(full|causal)\s*"
#: The first pass over a prompt, and the step that adds one token to each of eight sequences.
_PRESETS = {"prefill": "1,8,512,512,64,causal", "decode": "8,8,1,1024,64,full"}
_SHAPES = "|".join((*_PRESETS, "all", f"{_ONE_SHAPE}(;{_ONE_SHAPE})*;?"))


@dataclass(frozen=True)
class AttentionShape:
    """Sizes of an attention.

    :param queries: positions that ask, in each head of each sequence
    :param keys: positions that answer
    :param head_size: numbers per position and head
    :param mask: ``full``, or ``causal``: a query sees no key after its own position
    """

    batch: int
    heads: int
    queries: int
    keys: int
    head_size: int
    mask: str

    @property
    def pairs(self) -> int:
        """Number of pairs of a query and a key that it sees, in one head of one sequence.

        >>> AttentionShape(1, 1, 3, 3, 2, "causal").pairs  # 1 + 2 + 3
        6
        """
        if self.mask == "full":
            return self.queries * self.keys
        return self.queries * (self.queries + 1) // 2

    @property
    def operations(self) -> int:
        """Operations of the two products; softmax and scaling are not counted.

        A score is a dot product of d numbers: 2d - 1 operations. Each of a query's d outputs sums
        up one product for each key that the query sees. Pairs that the mask hides do not count,
        although some libraries compute them.

        One query with two keys of three numbers: 2 scores of 5 operations, 3 outputs of 3.

        >>> AttentionShape(1, 1, 1, 2, 3, "full").operations
        19
        >>> AttentionShape(2, 5, 1, 2, 3, "full").operations
        190

        Two queries, of which the first sees one key: 3 scores of 3 operations, and outputs
        of 1 and of 3 operations, two each.

        >>> AttentionShape(1, 1, 2, 2, 2, "causal").operations
        17
        """
        scores = self.pairs * (2 * self.head_size - 1)
        outputs = self.head_size * (2 * self.pairs - self.queries)
        return self.batch * self.heads * (scores + outputs)


def attention_shapes(text: str) -> list[AttentionShape]:
    """The shapes of a preset, or the shapes that ``text`` lists.

    :raises Unsupported: for a causal attention with unequal numbers of queries and keys

    >>> attention_shapes("2,4,8,8,16,causal")[0].pairs
    36
    """
    if text == "all":
        return [shape for preset in _PRESETS for shape in attention_shapes(preset)]
    shapes = []
    for listed in filter(str.strip, _PRESETS.get(text, text).split(";")):
        *sizes, mask = (part.strip() for part in listed.split(","))
        batch, heads, queries, keys, head_size = map(int, sizes)
        if mask == "causal" and queries != keys:
            raise Unsupported(f"--shapes {listed.strip()}: causal needs as many queries as keys")
        shapes.append(AttentionShape(batch, heads, queries, keys, head_size, mask))
    return shapes


def attention_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One work for each shape."""
    for shape in attention_shapes(values["shapes"]):
        yield _work(framework, values, shape)


def _work(framework: Framework, values: dict[str, Any], shape: AttentionShape) -> Work:
    dtype, seed = values["dtype"], values["seed"]
    arrays = [
        framework.normal((shape.batch, shape.heads, length, shape.head_size), dtype, seed + number)
        for number, length in enumerate((shape.queries, shape.keys, shape.keys))
    ]
    causal = shape.mask == "causal"
    call = framework.compiled(partial(attention_of(framework), causal=causal))
    return Work(
        call=partial(call, *arrays),
        per_call=shape.operations,
        unit="FLOP",
        parameters={**asdict(shape), "dtype": dtype},
        check=partial(check_attention, framework, shape, arrays, dtype),
    )


def check_attention(
    framework: Framework, shape: AttentionShape, arrays: list[Any], dtype: str, output: Any
) -> float:
    """Compare the outputs of three queries with float64, and return their sum.

    :raises WrongResult: if they differ by more than rounding
    """
    total = 0.0
    for batch, head, query in (
        (0, 0, 0),
        (shape.batch // 2, shape.heads // 2, shape.queries // 2),
        (shape.batch - 1, shape.heads - 1, shape.queries - 1),
    ):
        queries, keys, values = (framework.to_host(array[batch, head]) for array in arrays)
        seen = query + 1 if shape.mask == "causal" else shape.keys
        wanted = attended(queries[query], keys[:seen], values[:seen])
        computed = framework.to_host(output[batch, head, query])
        error = root_mean_square(list(map(sub, computed, wanted)))
        # Written so that a NaN is refused.
        if not error <= _ROUNDINGS * roundoff_of(framework, dtype) * root_mean_square(wanted):
            raise WrongResult(
                f"the output of query {query} in head {head} differs from float64 by {error:.3g}"
            )
        total += fsum(computed)
    return total


def attended(query: list[float], keys: list[list[float]], values: list[list[float]]) -> list[float]:
    """The output of one query in float64: the values, weighted by softmax of the scaled scores.

    Two keys with equal scores share the weight:

    >>> attended([1.0, 0.0], [[2.0, 3.0], [2.0, 5.0]], [[1.0, 4.0], [3.0, 8.0]])
    [2.0, 6.0]
    """
    scores = [fsum(map(mul, query, key)) / sqrt(len(query)) for key in keys]
    weights = [exp(score - max(scores)) for score in scores]
    total = fsum(weights)
    return [fsum(map(mul, weights, column)) / total for column in zip(*values)]


INDICATOR = Indicator(
    name="attention",
    title="PiAttention",
    summary="Scaled dot-product attention: rate of the operations in its two products.",
    parameters=(
        Parameter(
            "shapes", "all",
            "all, a preset (" + ", ".join(_PRESETS) + ") or BATCH,HEADS,QUERIES,KEYS,SIZE,MASK;…",
            pattern=_SHAPES,
        ),
        Parameter(
            "dtype", "float32", "element type", ("float32", "bfloat16", "float16", "float64")
        ),
    ),
    frameworks=("torch", "tensorflow", "numpy"),
    works=attention_works,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
