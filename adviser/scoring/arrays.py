"""NumPy and the types of its arrays. NumPy is loaded when it is used first.

Advice on packages that nobody measured needs no statistics, and loading NumPy takes 0.1 s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["BoolArray", "FloatArray", "IntArray", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]
else:

    class _NumPy:
        """Loads NumPy for the first attribute, and keeps every attribute that was used."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _NumPy()
    FloatArray = IntArray = BoolArray = Any
