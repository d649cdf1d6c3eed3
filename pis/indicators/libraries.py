"""The libraries that can be measured, by name."""

from __future__ import annotations

from pis.indicators.frameworks import Framework
from pis.indicators.numpy_framework import NumpyFramework
from pis.indicators.tensorflow_framework import TensorflowFramework
from pis.indicators.torch_framework import TorchFramework

_LIBRARIES = {it.name: it for it in (NumpyFramework, TorchFramework, TensorflowFramework)}


def load_framework(name: str, device: str, threads: int, mode: str) -> Framework:
    """Import the library called ``name`` and set it up.

    :raises Unsupported: if it is not installed, or has no such device
    """
    return _LIBRARIES[name](device, threads, mode)
