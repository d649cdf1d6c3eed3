"""What a request lacks is read from this machine's indexes, until nothing more is to be had."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from adviser.answering.answers import text_of
from adviser.answering.lacking import Answers, Lack, lacks_of
from adviser.asked import Asked
from adviser.resolver.requests import Request
from common.errors import ProjectionFailed
from common.terminal import first_few
from graph.candidates import Dependency
from graph.engine import GRAPH, Stores
from graph.projection import lag, sync
from graph.record.indexes import IndexAnswer, answers_of
from graph.snapshot import Snapshot
from graph.snapshot_reader import load_snapshot
from graph.watchdog import watchdog

#: What one round brings may need more; a closure that is still open after so many stays so.
ROUNDS = 5
#: Names in a line; the rest is counted.
_SHOWN = 10

#: Reads packages from an index: its name, the requirements, and whether pre-releases are read
#: like any other release. Returns whether the index answered.
Add = Callable[[str, Sequence[str], bool], bool]
#: Tells a person one line.
Tell = Callable[[str], None]


def fetch_missing(
    stores: Stores, asked: Asked, add: Add, tell: Tell, more: Iterable[Dependency] = ()
) -> dict[str, str]:
    """Read what the closure of a request lacks, round by round; asks nothing if it lacks nothing.

    Each index is asked for the same thing once, and those that are not configured never. What
    could not be had is for the advice to tell: nothing of it ends this.

    :param more: what is looked at beside the request
    :returns: why packages are lacking still, in name order
    :raises StoreUnavailable: if a store does not answer
    """
    return _Fetching(stores, asked, add, tell, more).run()


class _Fetching:
    def __init__(
        self, stores: Stores, asked: Asked, add: Add, tell: Tell, more: Iterable[Dependency]
    ) -> None:
        self._stores = stores
        self._add = add
        self._tell = tell
        self._environment = asked.environment
        self._roots = [*(it.text for it in asked.requirements), *map(text_of, more)]
        self._request = asked.resolver_request({})
        self._configured = [it.name for it in asked.options.indexes if it.known]
        self._tried: set[tuple[str, str]] = set()
        self._silent: set[str] = set()
        self._lacks: Sequence[Lack] = ()
        self._answers: Answers = {}

    def run(self) -> dict[str, str]:
        self._look()
        for _ in range(ROUNDS):
            before = len(self._tried)
            for index in self._configured:
                self._ask(index)
            if len(self._tried) == before:
                break
        return {it.name: self._why(it) for it in self._lacks}

    def _look(self) -> None:
        """Read the snapshot, and what indexes said of its packages so far."""
        snapshot = self._snapshot()
        with self._stores.engine.connect() as connection:
            said = answers_of(connection, list(snapshot.revisions))
        # What an index said that is silent now may hold no more.
        self._answers = {key: it for key, it in said.items() if key[0] not in self._silent}
        self._lacks = lacks_of(snapshot, self._request, self._answers)

    def _snapshot(self) -> Snapshot:
        stores = self._stores
        with watchdog(GRAPH, stores.settings.query_timeout_s * 2):
            return load_snapshot(
                stores.driver, self._roots, self._environment, database=stores.database
            )

    def _ask(self, index: str) -> None:
        """Ask an index for all that it is its turn for, and look again."""
        for prereleases in (False, True):
            lacks = [it for it in self._due(index) if _welcome(self._request, it) == prereleases]
            texts = [text for it in lacks for text in it.texts if (index, text) not in self._tried]
            if not texts or index in self._silent:
                continue
            self._tried.update((index, text) for text in texts)
            self._tell(f"reading {first_few(texts, _SHOWN)} from {index}")
            if not self._add(index, texts, prereleases):
                self._silent.add(index)
                self._tell(_silence(index, [it.name for it in lacks]))
            self._catch_up()
            self._look()

    def _due(self, index: str) -> list[Lack]:
        return [it for it in self._lacks if it.may_be_asked(index, self._answers, self._configured)]

    def _catch_up(self) -> None:
        """Finish the projection: what the graph does not show is in no snapshot."""
        stores = self._stores
        try:
            if lag(stores.engine).count:
                sync(stores.engine, stores.driver, database=stores.database)
        except ProjectionFailed as error:
            self._tell(f"error: {error}; {error.hint}")

    def _why(self, lack: Lack) -> str:
        return "; ".join(self._said(index, lack) for index in lack.indexes) or "no index is asked"

    def _said(self, index: str, lack: Lack) -> str:
        if index not in self._configured:
            return f"the index {index} is not configured on this machine (PACKAGE_INDEXES)"
        if index in self._silent:
            return f"{index} does not answer"
        answer = self._answers.get((index, lack.name))
        if answer is None:
            return f"{index} was not asked, as one before it gave no answer"
        return _told(index, answer, lack)


def _told(index: str, answer: IndexAnswer, lack: Lack) -> str:
    if answer.state == "missing":
        return f"{index} does not have it"
    if answer.state == "failed":
        return f"{index} gave no page of it: {answer.trouble}"
    return f"{index} has no release that can be chosen and is {first_few(lack.texts, _SHOWN)}"


def _welcome(request: Request, lack: Lack) -> bool:
    """Whether pre-releases are read like any other."""
    return request.all_prereleases or lack.name in request.prereleases


def _silence(index: str, names: Collection[str]) -> str:
    again = " ".join(sorted(names)[:_SHOWN])
    more = len(names) - _SHOWN
    return (
        f"error: the index {index} does not answer, so the advice goes on with what is known; "
        f"check its address (PACKAGE_INDEXES) and the network, then run this again or "
        f"`thoth packages add {again} --index {index}`"
        + (f", and the same for {more} more packages" if more > 0 else "")
    )
