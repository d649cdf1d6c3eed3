"""Why a release is in a stack: the chain of requirements that leads to it."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
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
    following = _following(target, edges)
    chains = []
    for start in starts:
        releases = [start]
        while (release := following.get(releases[-1])) is not None:
            releases.append(release)
        if releases[-1] == target:
            texts = [edges[source][end] for source, end in itertools.pairwise(releases)]
            chains.append(RequirementChain(tuple(releases), tuple(texts)))
    return chains


def _following(target: str, edges: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The next release of a shortest chain to ``target``, by release; one walk for all starts."""
    requiring = defaultdict(list)
    for source, targets in edges.items():
        for required in targets:
            requiring[required].append(source)
    following: dict[str, str] = {}
    waiting = deque([target])
    while waiting:
        release = waiting.popleft()
        for source in requiring[release]:
            if source != target and source not in following:
                following[source] = release
                waiting.append(source)
    return following
