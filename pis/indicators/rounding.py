"""Tolerance of a result compared with its float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from pis.indicators.frameworks import ROUNDOFF, ROUNDOFF_TF32, Framework


def heed_cudnn(framework: Framework) -> None:
    """Set ``framework.tf32`` to cuDNN's switch; cuDNN computes convolutions and recurrent layers.

    PyTorch has one switch for matrix products and one for cuDNN, which is on by default
    (``torch.backends.cudnn.allow_tf32``). The tolerance of checks and the peak depend on this
    switch.
    """
    if framework.name == "torch" and framework.device == "cuda":
        framework.tf32 = framework.tf32 or bool(framework.module.backends.cudnn.allow_tf32)


def roundoff_of(framework: Framework, dtype: str) -> float:
    """Unit roundoff with which ``framework`` computes ``dtype``."""
    if dtype == "float32" and framework.tf32:
        return ROUNDOFF_TF32
    return ROUNDOFF[dtype]


def root_mean_square(values: Sequence[float]) -> float:
    """
    >>> root_mean_square([3.0, -3.0])
    3.0
    """
    return sqrt(sum(value * value for value in values) / len(values))
