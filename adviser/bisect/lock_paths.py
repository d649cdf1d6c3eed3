"""A path of valid stacks from one lock to another, one package at a time where that is possible.

The step in the rate along this path names the package that caused it. The answer belongs to the
path: if packages interact, another order may attribute the effect to another package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: Sizes of the groups that are tried if no package can move alone.
_GROUPS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class PathStep:
    """One stack of a path.

    :param moved: packages that differ from the stack before; empty for the first stack
    :param pins: version of each package
    """

    moved: tuple[str, ...]
    pins: Mapping[str, str]


def path_between(
    old: Mapping[str, str],
    new: Mapping[str, str],
    is_valid: Callable[[Mapping[str, str]], bool],
) -> list[PathStep]:
    """Return stacks from ``old`` to ``new``, both included, that each differ in few packages.

    New packages come first and dropped packages last, since other packages may require them.

    :param old: version of each package
    :param is_valid: whether a stack can be installed

    >>> path = path_between({"a": "1", "b": "1"}, {"a": "2", "b": "1", "c": "1"}, lambda pins: True)
    >>> [step.moved for step in path]
    [(), ('c',), ('a',)]
    """
    remaining = sorted(
        (name for name in old.keys() | new.keys() if old.get(name) != new.get(name)),
        key=lambda name: (name in old, name not in new, name),
    )
    steps = [PathStep((), dict(old))]
    while remaining:
        step = next(_valid_moves(steps[-1].pins, new, remaining, is_valid))
        steps.append(step)
        remaining = [name for name in remaining if name not in step.moved]
    return steps


def _valid_moves(
    pins: Mapping[str, str],
    new: Mapping[str, str],
    remaining: Sequence[str],
    is_valid: Callable[[Mapping[str, str]], bool],
) -> Iterator[PathStep]:
    """Yield valid next stacks, those that move few packages first; the last is ``new`` itself."""
    for size in _GROUPS:
        for moved in itertools.combinations(remaining, size):
            if size < len(remaining):
                moved_pins = _moved(pins, new, moved)
                if is_valid(moved_pins):
                    yield PathStep(moved, moved_pins)
    yield PathStep(tuple(remaining), _moved(pins, new, remaining))


def _moved(pins: Mapping[str, str], new: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    kept = {name: version for name, version in pins.items() if name not in names}
    return kept | {name: new[name] for name in names if name in new}
