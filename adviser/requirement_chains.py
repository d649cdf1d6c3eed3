"""Why a release is in a stack: the chain of requirements that leads to it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequirementChain:
    """A shortest chain of requirements.

    :param releases: from the release where it starts to the release that it leads to
    :param requirements: text of each requirement between two releases
    """

    releases: tuple[str, ...]
    requirements: tuple[str, ...]


def starting_releases(
    releases: Collection[str], edges: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Releases that no other release requires; of a circle without such a release, all.

    >>> starting_releases(["app", "lib"], {"app": {"lib": "lib>=1"}})
    ['app']
    """
    required = {target for targets in edges.values() for target in targets}
    return sorted(set(releases) - required) or sorted(releases)


def chains_to(
    target: str, starts: Sequence[str], edges: Mapping[str, Mapping[str, str]]
) -> list[RequirementChain]:
    """A shortest chain from each start that leads to ``target``, in the order of the starts.

    :param edges: requirement text by required release, by release

    >>> edges = {"app": {"web": "web"}, "web": {"lib": "lib<2"}}
    >>> chains_to("lib", ["app"], edges)[0].requirements
    ('web', 'lib<2')
    """
    chains = (_chain(start, target, edges) for start in starts)
    return [chain for chain in chains if chain is not None]


def _chain(
    start: str, target: str, edges: Mapping[str, Mapping[str, str]]
) -> RequirementChain | None:
    came_from: dict[str, str | None] = {start: None}
    waiting = deque([start])
    while waiting and target not in came_from:
        release = waiting.popleft()
        for required in edges.get(release, {}):
            if required not in came_from:
                came_from[required] = release
                waiting.append(required)
    if target not in came_from:
        return None
    releases = [target]
    while (before := came_from[releases[-1]]) is not None:
        releases.append(before)
    releases.reverse()
    texts = [edges[source][end] for source, end in itertools.pairwise(releases)]
    return RequirementChain(tuple(releases), tuple(texts))
