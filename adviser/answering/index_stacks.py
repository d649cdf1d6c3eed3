"""The best stack of requirements over one index, without the stores; see :class:`IndexStacks`."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from adviser.advice_request import RequestOptions, StackRequest
from adviser.advise import Advice, Resolver, SnapshotAndEvidence
from adviser.answering.index_clients import opened_clients, urls_of
from adviser.answering.index_memory import IndexMemory
from adviser.answering.index_resolution import IndexResolution
from adviser.answering.index_selection import indexes_to_search
from adviser.answering.index_snapshot import IndexSnapshot
from adviser.projects.parsing import REQUIREMENTS_TXT, parse_project
from adviser.resolver.checker import check_stack
from adviser.scoring.criteria import RecommendationType
from common.settings import Settings
from model.errors import IndexFault, IndexProblem, ProjectError
from model.measurements.evidence import Evidence
from model.packages.environments import Environment
from model.text import first_few

#: Maximum number of packages and versions in a message that they were not read.
_SHOWN = 5


class NoValidStack(ProjectError):
    """No stack meets the requirements; the message says why."""


class IndexStacks:
    """Resolves requirements by the newest releases, from wheels of one index.

    Pages and metadata that were read are kept for the next stack.

    :param index: its name in the settings
    """

    def __init__(
        self, settings: Settings, index: str, environment: Environment, resolver: Resolver
    ) -> None:
        self._settings = settings
        self._index = index
        self._environment = environment
        self._resolver = resolver
        self._memory = IndexMemory(settings.index_page_age_s)
        self._evidence = Evidence(datetime.now(UTC))

    def best(self, requirements: Sequence[str]) -> dict[str, str]:
        """The version of each package of the best stack, checked independently of the resolver.

        :param requirements: such as ``numpy==2.1.0``
        :raises NoValidStack: with the conflict
        :raises IndexProblem: if something was not read, so that nothing is proven
        """
        text = "".join(f"{it}\n" for it in requirements)
        project = parse_project({REQUIREMENTS_TXT: text.encode()})
        options = RequestOptions(
            only_wheels=True, indexes=indexes_to_search(self._settings, project, [self._index])
        )
        return asyncio.run(
            self._best(StackRequest(project, self._environment, RecommendationType.LATEST, options))
        )

    async def _best(self, request: StackRequest) -> dict[str, str]:
        async with opened_clients(self._settings, [self._index]) as clients:
            resolution = IndexResolution(
                request, clients, self._known, self._resolver,
                memory=self._memory.for_request(request, urls_of(clients)),
            )  # fmt: skip
            advice = await resolution.advise()
        if advice.best is None and advice.unread:
            message = first_few(advice.unread, _SHOWN)
            raise IndexProblem(IndexFault.UNREACHABLE, message, retryable=True)
        if advice.best is None:
            raise NoValidStack(_conflict(advice, resolution))
        resolution.keep()
        if faults := check_stack(advice.universe, advice.best):
            raise NoValidStack(f"the resolver's stack is invalid: {faults[0]}")
        return advice.best.versions()

    def _known(self, listed: IndexSnapshot) -> SnapshotAndEvidence:
        return listed.freeze(), self._evidence


def _conflict(advice: Advice, resolution: IndexResolution) -> str:
    """Why there is no stack, in one line."""
    conflict = advice.resolution.conflict
    steps = [] if conflict is None else [it.message for it in conflict.steps]
    return "; ".join([*steps, *resolution.unmet().values()]) or "no stack was found in time"
