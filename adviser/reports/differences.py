"""Where two JSON documents differ, leaf by leaf."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

#: Characters of a value in a message, and messages in a list: a person stops reading there.
_SHOWN, _TOLD = 60, 20


def differences(told: Any, true: Any, place: str = "") -> Iterator[str]:
    """In words, every leaf of ``told`` that is another in ``true``, or there in one alone.

    ``1``, ``1.0`` and ``true`` are three different values.

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}))
    ['a[1] is 2, and not 3']
    """
    if isinstance(told, Mapping) and isinstance(true, Mapping):
        for key in sorted(told.keys() | true.keys()):
            inner = f"{place}.{key}" if place else key
            if key not in true:
                yield f"{inner} should not be there"
            elif key not in told:
                yield f"{inner} is missing"
            else:
                yield from differences(told[key], true[key], inner)
    elif _is_list(told) and _is_list(true):
        if len(told) != len(true):
            yield f"{place} has {len(told)} entries, and not {len(true)}"
        for number, (one, other) in enumerate(zip(told, true, strict=False)):
            yield from differences(one, other, f"{place}[{number}]")
    elif type(told) is not type(true) or told != true:
        yield f"{place} is {_short(told)}, and not {_short(true)}"


def shortened(problems: Iterator[str]) -> Iterator[str]:
    """The first problems, and whether there are more."""
    yield from islice(problems, _TOLD)
    if next(problems, None) is not None:
        yield "and more of the kind"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
