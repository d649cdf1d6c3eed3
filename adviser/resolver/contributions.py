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
    relative = [place for place in range(width) if place not in penalties]
    zeroes = (0,) * width

    def worth(it: Candidate) -> tuple[int, ...]:
        return scores.get(it.purl) or zeroes

    def preferred(it: Candidate) -> int:
        score = worth(it)
        return sum(score[place] for place in relative)

    best = max([it for it in candidates if plain(it)] or candidates, key=preferred)
    for it in candidates:
        reference = it if preferred(it) > preferred(best) else best
        ours, theirs = worth(it), worth(reference)
        if any(ours[place] > 0 for place in penalties if place < width):
            raise ValueError(f"a penalty of {it.purl} is above zero: {ours}")
        yield (
            it.purl,
            tuple(
                ours[place] if place in penalties else ours[place] - theirs[place]
                for place in range(width)
            ),
        )
