"""A small transformer that predicts a token for each token, in PyTorch and in TensorFlow.

It is an encoder without mask (Vaswani et al. 2017, arXiv:1706.03762), normalised before each block
(Xiong et al. 2020, arXiv:2002.04745), with GELU, inner layers four times as wide, and no dropout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from pis.indicators.frameworks import Framework

#: Weights of one block: two of each normalisation, four matrices and their biases.
BLOCK = 12


@dataclass(frozen=True)
class TransformerShape:
    """Sizes of the network and its sequences.

    :param hidden_size: numbers per token, divisible by ``heads``
    """

    sequence_length: int
    layers: int
    hidden_size: int
    heads: int
    vocabulary: int

    @property
    def block_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of one block's weights, in the order that ``tensorflow_block`` reads them."""
        size = self.hidden_size
        return [
            *((size,), (size,), (size, 3 * size), (3 * size,), (size, size), (size,)),
            *((size,), (size,), (size, 4 * size), (4 * size,), (4 * size, size), (size,)),
        ]


def torch_transformer(torch: Any, shape: TransformerShape) -> Any:
    """The network's parts; ``torch_transformer_logits`` runs them."""
    nn, size = torch.nn, shape.hidden_size
    block = nn.TransformerEncoderLayer(
        size, shape.heads, 4 * size, dropout=0.0, activation="gelu",
        batch_first=True, norm_first=True,
    )  # fmt: skip
    return nn.ModuleDict(
        {
            "tokens": nn.Embedding(shape.vocabulary, size),
            "positions": nn.Embedding(shape.sequence_length, size),
            "encoder": nn.TransformerEncoder(
                block, shape.layers, norm=nn.LayerNorm(size), enable_nested_tensor=False
            ),
            "output": nn.Linear(size, shape.vocabulary),
        }
    )


def torch_transformer_logits(parts: Any, tokens: Any) -> Any:
    """Logits of ``tokens``, which are (batch, sequence)."""
    embedded = parts["tokens"](tokens) + parts["positions"].weight
    return parts["output"](parts["encoder"](embedded))


def tensorflow_transformer_weights(
    framework: Framework, shape: TransformerShape, dtype: str, seed: int
) -> list[Any]:
    """The network's variables: embeddings, blocks, last normalisation, output layer."""
    size = shape.hidden_size
    shapes = [
        *((shape.vocabulary, size), (shape.sequence_length, size)),
        *(shape.block_shapes * shape.layers),
        *((size,), (size,), (size, shape.vocabulary), (shape.vocabulary,)),
    ]
    tf, native = framework.module, framework.dtype(dtype)
    weights = []
    for number, sizes in enumerate(shapes):
        if len(sizes) == 2:
            weights.append(tf.Variable(framework.normal(sizes, dtype, seed + number) / sqrt(size)))
        else:
            weights.append(tf.Variable(tf.zeros(sizes, native)))
    return weights


def tensorflow_transformer(tf: Any, heads: int, weights: Sequence[Any], tokens: Any) -> Any:
    """Logits of ``tokens``, which are (batch, sequence)."""
    hidden = tf.gather(weights[0], tokens) + weights[1]
    for start in range(2, len(weights) - 4, BLOCK):
        hidden = tensorflow_block(tf, heads, weights[start : start + BLOCK], hidden)
    normal = normalised(tf, hidden, weights[-4], weights[-3])
    return tf.tensordot(normal, weights[-2], 1) + weights[-1]


def tensorflow_block(tf: Any, heads: int, weights: Sequence[Any], hidden: Any) -> Any:
    """Attention, then two linear layers; each part is added to its input."""
    normal = normalised(tf, hidden, *weights[0:2])
    mixed = tensorflow_attention(tf, heads, tf.tensordot(normal, weights[2], 1) + weights[3])
    hidden += tf.tensordot(mixed, weights[4], 1) + weights[5]
    normal = normalised(tf, hidden, *weights[6:8])
    inner = tf.nn.gelu(tf.tensordot(normal, weights[8], 1) + weights[9])
    return hidden + tf.tensordot(inner, weights[10], 1) + weights[11]


def tensorflow_attention(tf: Any, heads: int, projected: Any) -> Any:
    """softmax(Q Kᵀ / √d) V of each head.

    :param projected: queries, keys and values beside each other: (batch, sequence, 3 · hidden)
    """
    batch, length, triple = projected.shape
    size = triple // 3 // heads
    parted = tf.reshape(projected, (batch, length, 3, heads, size))
    query, key, value = tf.unstack(tf.transpose(parted, (2, 0, 3, 1, 4)))
    scores = tf.matmul(query, key, transpose_b=True) / sqrt(size)
    mixed = tf.matmul(tf.nn.softmax(scores), value)
    return tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (batch, length, heads * size))


def normalised(tf: Any, hidden: Any, scale: Any, shift: Any) -> Any:
    """Layer normalisation (Ba et al. 2016, arXiv:1607.06450) with the factor 1 + ``scale``."""
    mean, variance = tf.nn.moments(hidden, -1, keepdims=True)
    return tf.nn.batch_normalization(hidden, mean, variance, shift, 1 + scale, 1e-5)
