"""What each version of a package adds to the score of a stack that has it, criterion by criterion.

A stack's score is the sum over its versions, and is never above 0, the ideal. Penalties, such as
known vulnerabilities, count from zero: they weigh the same whether or not the package has a better
version, so that doing without the package is better. The other criteria say which version of a
package is preferred. They count as the difference to the version that is best in their sum:
otherwise a package that is good by them, such as a fast one, would be installed for no other
reason, and one that is needed would be held against a stack for what none of its versions has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import sub

from common.packages import Purl
from graph.candidates import Candidate

#: What a version is worth by each criterion, in the order of the criteria, as fixed-point integers.
Scores = Mapping[Purl, tuple[int, ...]]
#: The same as it counts for a stack.
Contributions = dict[Purl, tuple[int, ...]]


def contributions_of(
    candidates: Sequence[Candidate],
    scores: Scores,
    penalties: Collection[int],
    plain: Callable[[Candidate], bool],
) -> Iterator[tuple[Purl, tuple[int, ...]]]:
    """The contributions of every version of one package; nothing where nothing has a score.

    The best is looked for before what a request refuses, so a further constraint can make an
    answer worse and never better. Versions that something has to ask for by name are best only
    where there are no others; one that scores above the best of the others loses nothing.

    :param candidates: of one index, newest first
    :param penalties: places of the criteria that count from zero
    :param plain: whether nothing has to ask for a version by name
    :raises ValueError: if a penalty is above zero
    """
    if not scores or not candidates:
        return
    width = max(len(scores.get(it.purl, ())) for it in candidates)
    counted = [place for place in penalties if place < width]

    def preferences(worth: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(0 if place in counted else one for place, one in enumerate(worth))

    worths = [scores.get(it.purl) or (0,) * width for it in candidates]
    sums = [sum(worth) - sum(worth[place] for place in counted) for worth in worths]
    places = [place for place, it in enumerate(candidates) if plain(it)]
    best = max(places or range(len(candidates)), key=sums.__getitem__)
    reference = preferences(worths[best])
    for it, worth, preferred in zip(candidates, worths, sums, strict=True):
        if any(worth[place] > 0 for place in counted):
            raise ValueError(f"a penalty of {it.purl} is above zero: {worth}")
        above = preferred > sums[best]
        yield it.purl, tuple(map(sub, worth, preferences(worth) if above else reference))
