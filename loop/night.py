"""A night: the steps from new releases to changed advice, each of which can be repeated."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from adviser.advise import Resolver
from adviser.answering.change_recording import record_changes
from common.settings import Settings
from graph.engine import Stores
from graph.migrate import migrated_stores
from graph.projection import sync
from graph.record.crawls import known_projects
from graph.record.events import EventKind, night_problems, record_problem, record_solution
from graph.record.freshness import LOOP, add_successes, set_sources
from graph.record.loop import (
    Night,
    NightState,
    NightStep,
    ReleaseSource,
    add_releases_seen,
    appeared_releases,
    end_night,
    fail_step,
    finish_step,
    open_night,
    steps_of,
)
from graph.record.watches import set_closure, watches
from ingest.crawl.closure import CrawlBounds, WantedPackage
from ingest.crawl.runs import add_packages, refresh_indexes
from ingest.record import exclusive_run
from loop.measuring import OnJob, ingest_batches, measure_batches
from loop.notices import deliver_notices
from loop.planning import plan_batches
from loop.release_states import advise_again, announce_releases, resolve_releases, settle_releases
from loop.stacks import WatchKnowledge, current_knowledge
from loop.watched_projects import adopt_requests, request_of_watch
from model.errors import AlreadyRunning, ProjectError
from model.redaction import cut

_LOG = logging.getLogger(__name__)

#: Key of the advisory lock of the loop; any number that nothing else uses.
_LOOP_LOCK = 7_401_313
#: After so many failed attempts of a step, the night ends; the next night begins anew.
MOST_ATTEMPTS = 3

#: Called when a step begins, with its name, and when it ends, with its counts.
OnStep = Callable[[str, Mapping[str, Any] | None], None]


@dataclass(frozen=True, slots=True)
class NightReport:
    """The result of a night.

    :param steps: the steps with their counts, in order
    :param problem: why the night ended early; ``None`` if it finished
    """

    night: int
    steps: tuple[NightStep, ...]
    problem: str | None = None


@dataclass(slots=True)
class _RunningNight:
    """A night in this process, with the state that its steps share.

    :param known_watches: knowledge for each watch; read again after the graph has changed
    """

    stores: Stores
    night: Night
    resolver: Resolver
    on_job: OnJob
    known_watches: list[WatchKnowledge] | None = field(default=None)

    def knowledge(self) -> list[WatchKnowledge]:
        """The knowledge for each watch; a watch that cannot be read is left out."""
        if self.known_watches is None:
            with self.stores.engine.connect() as connection:
                listed = watches(connection)
            self.known_watches = []
            for watch in listed:
                try:
                    self.known_watches.append(current_knowledge(self.stores, watch, self.resolver))
                except ProjectError as error:
                    extra = {"watch": watch.name, "reason": str(error)}
                    _LOG.warning("watch_left_out", extra=extra)
        return self.known_watches


def run_night(
    settings: Settings,
    resolver: Resolver,
    *,
    on_step: OnStep = lambda _step, _counts: None,
    on_job: OnJob = lambda _done, _jobs: None,
) -> NightReport:
    """Run a night to its end, or continue the night that was interrupted.

    Every step stores its end in the record. A step that was interrupted runs again; rows that it
    stored before are not stored twice, because every row has its own key.

    :raises AlreadyRunning: if a night is in progress, on this or another machine
    """
    with (
        migrated_stores(settings) as stores,
        exclusive_run(stores.engine, _LOOP_LOCK, "another night is in progress") as lock,
    ):
        lock.commit()
        with stores.engine.begin() as connection:
            night = open_night(connection)
            finished = {it.step for it in steps_of(connection, night.night) if it.finished}
        running = _RunningNight(stores, night, resolver, on_job)
        problem = None
        for step, work in STEPS.items():
            if step not in finished:
                problem = _attempt(running, step, work, on_step)
                if problem is not None:
                    break
        with stores.engine.begin() as connection:
            if problem is None:
                record_solution(connection, EventKind.NIGHT_FAILED, "loop")
            else:
                problems = night_problems({step: problem.removeprefix(f"{step}: ")})
                record_problem(connection, EventKind.NIGHT_FAILED, "loop", problems)
        if problem is not None and step != _LAST_STEP:  # what is settled is sent all the same
            _attempt(running, _LAST_STEP, STEPS[_LAST_STEP], on_step)
        with stores.engine.begin() as connection:
            state = NightState.FINISHED if problem is None else NightState.FAILED
            end_night(connection, night.night, state, problem)
            set_sources(connection, LOOP, ["loop"])
            if problem is None:
                add_successes(connection, LOOP, ["loop"])
            steps = steps_of(connection, night.night)
    order = list(STEPS)
    return NightReport(
        night.night, tuple(sorted(steps, key=lambda it: order.index(it.step))), problem
    )


def _attempt(
    running: _RunningNight,
    step: str,
    work: Callable[[_RunningNight], Mapping[str, Any]],
    on_step: OnStep,
) -> str | None:
    """Run a step up to :data:`MOST_ATTEMPTS` times; return why the night must end, if it must."""
    engine, night = running.stores.engine, running.night.night
    while True:
        on_step(step, None)
        try:
            counts = work(running)
        except Exception as error:
            reason = str(error)
            if not isinstance(error, ProjectError):
                # A defect must not keep the night open for ever.
                reason = f"{type(error).__name__}: {cut(error)}"
                _LOG.exception("loop_step_crashed", extra={"step": step})
            with engine.begin() as connection:
                attempts = fail_step(connection, night, step, reason)
            _LOG.warning("loop_step_failed", extra={"step": step, "reason": reason})
            if attempts >= MOST_ATTEMPTS:
                return f"{step}: {reason}"
            continue
        with engine.begin() as connection:
            finish_step(connection, night, step, counts)
        on_step(step, counts)
        return None


def _watch_requests(running: _RunningNight) -> Mapping[str, Any]:
    """Watch the projects that clients of the service ask about, unless switched off."""
    stores = running.stores
    if not stores.settings.loop_requests:
        return {"new": 0}
    with stores.engine.begin() as connection:
        return {"new": len(adopt_requests(connection, stores.settings))}


def _refresh(running: _RunningNight) -> Mapping[str, Any]:
    """Read watched packages that the record lacks, then the news of all known packages."""
    stores = running.stores
    with stores.engine.connect() as connection:
        known = {name for names in known_projects(connection).values() for name in names}
        listed = watches(connection)
    names = {it.name for watch in listed for it in request_of_watch(watch).roots} - known
    if names:
        wanted = [WantedPackage(name) for name in sorted(names)]
        add_packages(stores.settings, wanted, CrawlBounds(), watching=False)
    with suppress(AlreadyRunning):  # another process refreshes at this moment
        refresh_indexes(stores.settings, stores.engine)
    sync(stores.engine, stores.driver, database=stores.database)
    for known_watch in running.knowledge():
        with stores.engine.begin() as connection:
            closure = list(known_watch.advice.snapshot.revisions)
            set_closure(connection, known_watch.watch.watch_id, closure)
    return {"watches": len(listed), "packages_added": len(names)}


def _notice_releases(running: _RunningNight) -> Mapping[str, Any]:
    """Notice releases that came out after their packages were watched, within the backlog."""
    stores = running.stores
    with stores.engine.begin() as connection:
        new = add_releases_seen(
            connection, appeared_releases(connection), ReleaseSource.REFRESH,
            backlog=stores.settings.loop_backlog,
        )  # fmt: skip
    return {"new": len(new)}


def _ingest(running: _RunningNight) -> Mapping[str, Any]:
    stores, counts = running.stores, ingest_batches(running.stores)
    sync(stores.engine, stores.driver, database=stores.database)
    running.known_watches = None
    return counts


def _advise(running: _RunningNight) -> Mapping[str, Any]:
    """Store the advice of every watch."""
    knowns, stores = running.knowledge(), running.stores
    changed = sum(advise_again(stores, running.night, known) for known in knowns)
    sync(stores.engine, stores.driver, database=stores.database)
    return {"watches": len(knowns), "changed": changed}


def _notify(running: _RunningNight) -> Mapping[str, Any]:
    """Send the notices of the night; workers and later nights repeat failed ones."""
    stores = running.stores
    counts = deliver_notices(stores.engine, stores.settings)
    for target, reason in counts.unusable.items():
        _LOG.error("notice_target_unusable", extra={"target": target, "error": reason})
    sent = {name: getattr(counts, name) for name in ("planned", "delivered", "failed", "given_up")}
    return {**sent, "warnings": sorted({str(it) for it in counts.unusable.values()})}


#: The steps of a night in their order.
STEPS: Mapping[str, Callable[[_RunningNight], Mapping[str, Any]]] = {
    "watch": _watch_requests,
    "refresh": _refresh,
    "notice": _notice_releases,
    "resolve": lambda it: resolve_releases(it.stores, it.night.night, it.knowledge(), it.resolver),
    "plan": lambda it: plan_batches(it.stores, it.night.night, it.knowledge(), it.resolver),
    "measure": lambda it: measure_batches(it.stores, it.on_job),
    "ingest": _ingest,
    "settle": lambda it: settle_releases(it.stores, it.night.night, it.knowledge()),
    "changes": lambda it: {"new": len(record_changes(it.stores.engine))},
    "advise": _advise,
    "announce": lambda it: announce_releases(it.stores, it.knowledge()),
    "notify": _notify,
}
_LAST_STEP = "notify"
