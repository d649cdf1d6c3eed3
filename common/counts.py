"""Numbers with their nouns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Names of counts that are nouns, with their singular; others, such as ``solved``, have none.
_SINGULAR = {
    "batches": "batch",
    "documents": "document",
    "jobs": "job",
    "packages_added": "package added",
    "watches": "watch",
}


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun, in the singular or plural.

    :param plural: the plural, if it is not the noun with ``s`` at its end

    >>> counted(1, "entry", "entries"), counted(2, "job"), counted(1652, "job")
    ('1 entry', '2 jobs', '1,652 jobs')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts in one line, the largest first.

    >>> counts_text({"no_metadata": 1, "solved": 3}), counts_text({"watches": 1})
    ('3 solved, 1 no metadata', '1 watch')
    """
    largest_first = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(
        counted(count, _SINGULAR.get(name, name.replace("_", " ")), name.replace("_", " "))
        for name, count in largest_first
    )


def step_text(result: Mapping[str, Any]) -> str:
    """What a step of the loop did, in one line: its counts that are not zero.

    >>> step_text({"watches": 1, "packages_added": 0, "warnings": []}), step_text({})
    ('1 watch', 'nothing to do')
    """
    numbers = {name: it for name, it in result.items() if isinstance(it, int) and it}
    return counts_text(numbers) or "nothing to do"
