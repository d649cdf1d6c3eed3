"""A small decoder with random weights and a cache of keys and values, in PyTorch and TensorFlow.

The blocks are those of GPT-2 (Radford et al. 2019) with RMS normalisation (Zhang & Sennrich 2019,
arXiv:1910.07467), no biases, and the embedding as output layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from pis.indicators.attention_calls import Attention, attention_of
from pis.indicators.frameworks import Framework

#: Matrices of one block: queries, keys and values; output; two inner layers.
BLOCK_MATRICES = 4

#: Keys and values of the positions before, for each block.
Cache = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of a decoder.

    :param hidden_size: numbers per token, divisible by ``heads``
    :param sequence_length: tokens of a prompt; there is one position more
    """

    layers: int
    hidden_size: int
    heads: int
    vocabulary: int
    sequence_length: int

    @property
    def matrix_shapes(self) -> list[tuple[int, int]]:
        """Shapes of all matrices: embeddings of tokens and positions, then the blocks.

        >>> DecoderShape(1, 2, 1, 5, 3).matrix_shapes
        [(5, 2), (4, 2), (2, 6), (2, 2), (2, 8), (8, 2)]
        """
        size = self.hidden_size
        block = [(size, 3 * size), (size, size), (size, 4 * size), (4 * size, size)]
        embeddings = [(self.vocabulary, size), (self.sequence_length + 1, size)]
        return embeddings + block * self.layers


def decoder_weights(framework: Framework, shape: DecoderShape, dtype: str, seed: int) -> list[Any]:
    """Random matrices, in the order of ``DecoderShape.matrix_shapes``, scaled by their inputs."""
    return [
        framework.normal(sizes, dtype, seed + number) / sqrt(sizes[0] if number > 1 else sizes[1])
        for number, sizes in enumerate(shape.matrix_shapes)
    ]


class Decoder:
    """Runs a decoder with given weights.

    :param weights: as ``decoder_weights`` makes them, of any element type
    """

    def __init__(self, framework: Framework, heads: int, weights: Sequence[Any]) -> None:
        self._module = framework.module
        self._torch = framework.name == "torch"
        self._attention: Attention = attention_of(framework)
        self._heads = heads
        self._embedding, self._positions, *matrices = weights
        self._blocks = [
            matrices[start : start + BLOCK_MATRICES]
            for start in range(0, len(matrices), BLOCK_MATRICES)
        ]

    def prefill(self, tokens: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """Logits of the last position of a prompt, and the cache that it leaves.

        :param tokens: (batch, positions)
        """
        hidden = self._rows(self._embedding, tokens) + self._positions[: tokens.shape[1]]
        cache = []
        for matrices in self._blocks:
            hidden, keys, values = self._block(matrices, hidden, None)
            cache.append((keys, values))
        return self._logits(hidden), cache

    def decode(self, tokens: Any, cache: Cache) -> Any:
        """Logits after one more token of each sequence.

        :param tokens: (batch, 1)
        :param cache: of all positions before; it is not changed
        """
        position = cache[0][0].shape[2]
        hidden = self._rows(self._embedding, tokens)
        hidden = hidden + self._positions[position : position + 1]
        for matrices, before in zip(self._blocks, cache):
            hidden, _, _ = self._block(matrices, hidden, before)
        return self._logits(hidden)

    def _block(
        self, matrices: Sequence[Any], hidden: Any, before: tuple[Any, Any] | None
    ) -> tuple[Any, Any, Any]:
        """The next hidden state, and the keys and values of this block."""
        together, output, inner, outer = matrices
        batch, length, size = hidden.shape
        parted = self._module.reshape(
            self._normal(hidden) @ together, (batch, length, 3, self._heads, size // self._heads)
        )
        queries, keys, values = self._unstacked(self._transposed(parted, (2, 0, 3, 1, 4)))
        if before is not None:
            keys, values = (self._joined(pair) for pair in zip(before, (keys, values)))
        mixed = self._attention(queries, keys, values, before is None)
        mixed = self._module.reshape(self._transposed(mixed, (0, 2, 1, 3)), (batch, length, size))
        hidden = hidden + mixed @ output
        return hidden + self._gelu(self._normal(hidden) @ inner) @ outer, keys, values

    def _logits(self, hidden: Any) -> Any:
        return self._normal(hidden[:, -1]) @ self._transposed(self._embedding, (1, 0))

    def _normal(self, hidden: Any) -> Any:
        squares = hidden * hidden
        if self._torch:
            mean = squares.mean(-1, keepdim=True)
            return hidden * self._module.rsqrt(mean + 1e-5)
        mean = self._module.reduce_mean(squares, -1, keepdims=True)
        return hidden * self._module.math.rsqrt(mean + 1e-5)

    def _rows(self, matrix: Any, indices: Any) -> Any:
        return matrix[indices] if self._torch else self._module.gather(matrix, indices)

    def _transposed(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.permute(axes) if self._torch else self._module.transpose(array, axes)

    def _unstacked(self, array: Any) -> Any:
        return array.unbind(0) if self._torch else self._module.unstack(array)

    def _joined(self, pair: tuple[Any, Any]) -> Any:
        join = self._module.cat if self._torch else self._module.concat
        return join(pair, 2)

    def _gelu(self, values: Any) -> Any:
        neural = self._module.nn
        return neural.functional.gelu(values) if self._torch else neural.gelu(values)
