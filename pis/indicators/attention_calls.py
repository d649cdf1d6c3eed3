"""Scaled dot-product attention in each library (Vaswani et al. 2017, arXiv:1706.03762).

The shape of queries, keys and values is (batch, heads, positions, numbers per head).
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from pis.indicators.frameworks import Framework

#: ``attention(queries, keys, values, causal)``; with ``causal``, a query sees the keys of its own
#: position and of those before it, and there are as many queries as keys.
Attention = Callable[..., Any]


def attention_of(framework: Framework) -> Attention:
    """The library's attention: fused in PyTorch, two products and a softmax elsewhere."""
    make = {"numpy": _numpy, "torch": _torch, "tensorflow": _tensorflow}
    return make[framework.name](framework.module)


def _torch(torch: Any) -> Attention:
    fused = torch.nn.functional.scaled_dot_product_attention  # since 2.0

    def attention(queries: Any, keys: Any, values: Any, causal: bool) -> Any:
        return fused(queries, keys, values, is_causal=causal)

    return attention


def _tensorflow(tf: Any) -> Attention:
    def attention(queries: Any, keys: Any, values: Any, causal: bool) -> Any:
        scores = tf.matmul(queries, keys, transpose_b=True) / sqrt(queries.shape[-1])
        if causal:
            visible = tf.linalg.band_part(tf.ones(scores.shape[-2:], tf.bool), -1, 0)
            scores = tf.where(visible, scores, scores.dtype.min)
        return tf.matmul(tf.nn.softmax(scores), values)

    return attention


def _numpy(numpy: Any) -> Attention:
    def attention(queries: Any, keys: Any, values: Any, causal: bool) -> Any:
        scores = numpy.matmul(queries, numpy.swapaxes(keys, -1, -2))
        scores /= queries.dtype.type(sqrt(queries.shape[-1]))
        if causal:
            visible = numpy.tri(*scores.shape[-2:], dtype=bool)
            numpy.copyto(scores, -numpy.inf, where=~visible)
        scores -= scores.max(axis=-1, keepdims=True)
        numpy.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return numpy.matmul(scores, values)

    return attention
