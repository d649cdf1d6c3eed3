"""What a search was made of, in the words that existing clients have for its parts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from adviser.advise import Advice

#: Kinds that have no part here: nothing runs before or after, and no name stands for another.
_NONE_OF = ("boots", "pseudonyms", "wraps")


def pipeline_of(advice: Advice) -> dict[str, list[dict[str, Any]]]:
    """The rules that left versions out, the criteria that weighed the others, and the search.

    All six kinds are there, as clients expect; those in :data:`_NONE_OF` are empty.
    """
    refused = Counter(it.reason for them in advice.universe.refused.values() for it in them)
    criteria, options = advice.assessment.criteria, advice.asked.options
    kinds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _NONE_OF}
    kinds["sieves"] = [
        _unit(reason.value, {"versions": count}) for reason, count in sorted(refused.items())
    ]
    kinds["steps"] = [
        _unit(it.name, {"weight": it.weight, "unit": it.unit, "penalty": it.penalty})
        for it in criteria
    ]
    limits = {
        "count": options.count,
        "time_s": options.time_s,
        "memory_bytes": options.memory_bytes,
    }
    kinds["strides"] = [_unit("search", limits)]
    return dict(sorted(kinds.items()))


def _unit(name: str, configuration: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "configuration": configuration, "unit_run": True}
