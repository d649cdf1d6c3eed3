"""JSON values, and documents with any value at any place, for laws about parsers."""

import copy
from typing import Any

from hypothesis import strategies as st

#: Keys and indexes that lead to a value within a document.
Path = tuple[str | int, ...]

_KEYS = st.text(max_size=8)


def json_values(
    scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[str] = _KEYS, max_leaves: int = 6
) -> st.SearchStrategy[Any]:
    """Values that JSON can hold.

    :param scalars: besides null, booleans and numbers, such as texts
    """
    numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=max_leaves,
    )


def paths_of(document: Any) -> list[Path]:
    """The path of every value within a document, those of containers before their content."""
    paths: list[Path] = []
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inner:
        paths.append((key,))
        if isinstance(value, dict | list):
            paths += [(key, *path) for path in paths_of(value)]
    return paths


def replaced(document: Any, path: Path, value: Any) -> Any:
    """A copy of a document with another value at a path; at the empty path, the value itself."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = replaced(document[path[0]], path[1:], value)
    return changed
