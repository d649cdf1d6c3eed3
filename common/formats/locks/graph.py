"""Follow the dependencies of a lock that is a graph, whose edges have markers.

A package is installed if a path leads to it from the project, so its marker combines the markers of
all paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from common.formats.file_fields import refuse
from common.formats.locks.entries import ALWAYS, MAKE_AGAIN, NEVER, marker_fault, marker_holds
from model.errors import Reason

#: Position of a package, and one of its extras; empty for the package itself.
Node = tuple[int, str]
#: Markers that must all hold.
Condition = frozenset[str]
#: A package that another one needs, and the marker of that need.
Edge = tuple[Node, str | None]

#: Limits of edges that are followed, and of conditions of a package; real locks stay far below.
_MOST_STEPS, _MOST_CONDITIONS = 200_000, 256


def conditions_of(
    starts: Iterable[Edge],
    edges: Callable[[Node], Iterable[Edge]],
    markers: Mapping[str, str] | None,
    at: str,
) -> dict[Node, list[Condition]]:
    """By node that is reached, the conditions of which one must hold; a node comes after its cause.

    :param markers: variables of PEP 508; edges whose marker is false there are not followed
    :raises InvalidFile: if nodes need each other in too many ways
    """
    known: dict[Node, list[Condition]] = defaultdict(list)
    holds: dict[str, bool] = {}
    pending, steps = [(edge, Condition()) for edge in starts][::-1], 0
    while pending:
        ((node, marker), condition), steps = pending.pop(), steps + 1
        if marker is not None and marker != ALWAYS:
            if marker == NEVER:
                continue
            if markers is None or marker_fault(marker) is not None:
                condition |= {marker}  # the fault is reported with the entry
            elif not holds.setdefault(marker, marker_holds(marker, markers)):
                continue
        listed = known[node]
        if any(it <= condition for it in listed):
            continue
        if steps > _MOST_STEPS or len(listed) == _MOST_CONDITIONS:
            refuse(Reason.OUT_OF_RANGE, "is required in too many ways", at, MAKE_AGAIN)
        known[node] = [it for it in listed if not condition <= it] + [condition]
        pending += [(edge, condition) for edge in edges(node)][::-1]
    return dict(known)


def by_package(conditions: Mapping[Node, Iterable[Condition]]) -> dict[int, frozenset[Condition]]:
    """The conditions of each package, with or without extras."""
    joined: dict[int, frozenset[Condition]] = defaultdict(frozenset)
    for (place, _), listed in conditions.items():
        joined[place] |= {*listed}
    return joined


def marker_of(conditions: Collection[Condition]) -> str | None:
    """The marker that says the same as conditions; ``None`` for always."""
    joined = sorted(" and ".join(f"({it})" for it in sorted(each)) for each in conditions)
    return None if "" in joined else " or ".join(dict.fromkeys(joined))
