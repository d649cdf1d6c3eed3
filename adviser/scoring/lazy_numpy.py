"""NumPy, which is loaded when it is first used, and the types of its arrays.

Loading NumPy takes 0.1 s, and advice on packages that nobody measured does not need NumPy.
"""

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
        """Loads NumPy when its first attribute is used, and caches every used attribute."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _NumPy()
    FloatArray = IntArray = BoolArray = Any
