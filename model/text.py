"""Parts of sentences: numbers with nouns, names in a line, safe text, similar names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def two_digits(value: float) -> str:
    """A positive number with two significant digits; at least 0.1.

    >>> two_digits(12.34), two_digits(3.26), two_digits(0.04)
    ('12', '3.3', '0.1')
    """
    return f"{value:.0f}" if value >= 9.95 else f"{max(value, 0.1):.1f}"


def duration_text(seconds: float) -> str:
    """A duration in the unit that a person would choose.

    >>> duration_text(42), duration_text(600), duration_text(9000)
    ('42 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 100:
        return counted(max(1, round(seconds)), "second")
    if seconds < 6000:
        return counted(round(seconds / 60), "minute")
    return f"{seconds / 3600:.1f} hours"


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
    """The counts of a step of the loop that are not zero, in one line.

    >>> step_text({"watches": 1, "packages_added": 0, "warnings": []}), step_text({})
    ('1 watch', 'nothing to do')
    """
    numbers = {name: it for name, it in result.items() if isinstance(it, int) and it}
    return counts_text(numbers) or "nothing to do"


def printable(text: str, keep: str = "") -> str:
    """``text`` with control characters escaped, except those in ``keep``.

    >>> printable("red\\x1b[31m")
    'red\\\\x1b[31m'
    """
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def first_few(names: Sequence[str], most: int, total: int | None = None) -> str:
    """The first ``most`` names in one line, and the number of the remaining names.

    :param total: number of all names, if ``names`` is incomplete

    >>> first_few(["flask", "numpy", "torch"], 2), first_few(["flask"], 2)
    ('flask, numpy and 1 more', 'flask')
    """
    shown = names[:most]
    more = (len(names) if total is None else total) - len(shown)
    return " and ".join(filter(None, (", ".join(shown), f"{more} more" if more > 0 else "")))


#: Least similarity of a suggestion, as :mod:`difflib` measures it.
_SIMILARITY = 0.6


def suggestion(
    name: str,
    known: Iterable[str],
    similarity: float = _SIMILARITY,
    shown: Callable[[str], str] = str,
) -> str:
    """The most similar known name in parentheses, whatever its case; empty if none is similar.

    :param shown: writes the known name

    >>> suggestion("packge", ["Package", "Stack"]), suggestion("x", ["Package"])
    (' (did you mean Package?)', '')
    """
    from difflib import get_close_matches

    spelt = {it.lower(): it for it in known}
    close = get_close_matches(name.lower(), spelt, 1, similarity)
    return f" (did you mean {shown(spelt[close[0]])}?)" if close else ""
