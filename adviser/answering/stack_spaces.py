"""The universe from which Dependency Monkey generates stacks, from the graph or the indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adviser.advise import newest_universe
from adviser.monkey.strategies import GeneratedStack
from adviser.monkey.version_classes import closed_universe
from adviser.resolver.resolve import resolve
from adviser.resolver.results import ResolutionStatus
from adviser.resolver.universe import Universe
from adviser.stack_request import StackRequest
from common.packages import Purl
from common.releases import ReleaseFile
from graph.candidates import Dependency
from graph.engine import Stores
from graph.evidence import Evidence
from graph.record.release_queries import files_of
from graph.snapshot import Snapshot

if TYPE_CHECKING:
    from adviser.answering.index_resolution import IndexResolution


@dataclass(frozen=True, slots=True)
class StackKnowledge:
    """What stacks are generated from.

    :param universe: scored so that the newest versions are the best
    :param unread: number of versions that were not read and so cannot occur, by package
    """

    universe: Universe
    snapshot: Snapshot
    evidence: Evidence
    unread: Mapping[str, int]


def stack_knowledge(
    request: StackRequest, snapshot: Snapshot, evidence: Evidence
) -> StackKnowledge:
    """The universe of a request.

    Inferred bounds count unless no stack meets them, as for advice.
    """
    universe = _universe(request, snapshot, evidence, bounds=True)
    if universe.inferred:
        newest = resolve(closed_universe(universe), request.options.budget())
        if newest.status is ResolutionStatus.INFEASIBLE:
            universe = _universe(request, snapshot, evidence, bounds=False)
    unread = {
        name: count
        for name, candidates in snapshot.packages.items()
        if (count := sum(not it.read for it in candidates))
    }
    return StackKnowledge(universe, snapshot, evidence, unread)


def _universe(
    request: StackRequest, snapshot: Snapshot, evidence: Evidence, *, bounds: bool
) -> Universe:
    return newest_universe(request, bounds, (snapshot, evidence))[0]


async def read_varied(
    resolution: IndexResolution, request: StackRequest, varied: tuple[str, ...]
) -> tuple[Snapshot, Evidence]:
    """Read what generated stacks may contain, and return what is known then.

    All versions of the packages that vary are read. For each of them, the newest versions are read
    that meet its requirements, and so on. Older versions of other packages stay unread, unless
    another package requires them.

    :param varied: packages that vary; empty for the direct requirements
    """
    await resolution.advise()
    roots = {it.name: it for it in request.roots}
    names = varied or tuple(roots)
    await resolution.read_down(roots.get(name, Dependency(name)) for name in names)
    advice = await resolution.advise()
    return advice.snapshot, advice.evidence


def files_of_stack(
    stores: Stores, generated: GeneratedStack
) -> dict[Purl, tuple[ReleaseFile, ...]]:
    """The recorded files of each release of a stack."""
    with stores.engine.connect() as connection:
        return files_of(connection, [it.purl for it in generated.stack.choices])
