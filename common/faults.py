"""What is wrong with a document, of what reading it raised."""

from __future__ import annotations

import orjson


def fault_in(error: Exception) -> str:
    """For a person who knows no Python.

    >>> fault_in(KeyError("nodes"))
    "it has no 'nodes'"
    """
    if isinstance(error, orjson.JSONDecodeError):
        return f"it is no JSON: {error.msg} in line {error.lineno}, column {error.colno}"
    if isinstance(error, KeyError) and error.args:
        return f"it has no {error.args[0]!r}"
    return "something in it is not of the kind that belongs there"
