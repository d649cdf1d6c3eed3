"""Tolerance of a result compared with its float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from pis.indicators.frameworks import ROUNDOFF, ROUNDOFF_TF32, Framework


def heed_cudnn(framework: Framework) -> None:
    """Set ``framework.tf32`` to cuDNN's switch; cuDNN computes convolutions and recurrent layers.

    PyTorch has a switch for it besides that of matrix products; cuDNN's is on unless turned off
    (``torch.backends.cudnn.allow_tf32``). The tolerance of checks and the peak depend on it.
    """
    if framework.name == "torch" and framework.device == "cuda":
        framework.tf32 = framework.tf32 or bool(framework.module.backends.cudnn.allow_tf32)


def roundoff_of(framework: Framework, dtype: str) -> float:
    """Unit roundoff that ``framework`` computes ``dtype`` with."""
    if dtype == "float32" and framework.tf32:
        return ROUNDOFF_TF32
    return ROUNDOFF[dtype]


def root_mean_square(values: Sequence[float]) -> float:
    """
    >>> root_mean_square([3.0, -3.0])
    3.0
    """
    return sqrt(sum(value * value for value in values) / len(values))
