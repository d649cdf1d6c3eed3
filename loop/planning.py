"""Plans a night: which releases can be installed, and which stacks are measured with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adviser.advise import Advice, Resolver
from adviser.reports.unfetched_versions import unread_texts
from graph.engine import Stores
from graph.record.loop import (
    BatchState,
    LoopRelease,
    LoopState,
    ReleaseKey,
    add_batch,
    batches_in,
    releases_in,
    set_release_state,
)
from graph.record.native import add_analysis, artifacts_of
from graph.record.watches import set_closure, set_watch_state
from ingest.native.wheels import analyze_wheel, fetched_wheel, parse_pin
from loop.priorities import ReleasePriority, night_priorities
from loop.stacks import (
    MeasuredIndicator,
    NoSuchStack,
    WatchKnowledge,
    specification_of_stack,
    stack_with,
)
from model.errors import IndexProblem, InvalidArgument, InvalidDocument
from model.packages.identity import same_version
from model.packages.snapshot import Snapshot

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StackToMeasure:
    """A stack of a batch.

    :param releases: subjects of the releases that it is measured for
    """

    label: str
    releases: tuple[str, ...]
    specification: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """JSON values, as :class:`graph.record.loop.LoopBatch` has them."""
        return {
            "label": self.label,
            "releases": list(self.releases),
            "specification": dict(self.specification),
        }


def resolve_releases(
    stores: Stores, night: int, knowns: Sequence[WatchKnowledge], resolver: Resolver
) -> dict[str, int]:
    """Find out which noticed releases a watched project can install, and analyse their wheels.

    A release that no watched project can install is given up with the conflict: at once, or after
    ``LOOP_NIGHTS`` nights if the index of a project does not list it.

    :returns: counts for people
    """
    with stores.engine.begin() as connection:
        for known in knowns:
            set_closure(connection, known.watch.watch_id, list(known.advice.snapshot.revisions))
        waiting = releases_in(connection, [LoopState.SEEN])
    counts = {"resolvable": 0, "given_up": 0, "waiting": 0}
    for release in waiting:
        state, reason = _resolved(stores, release, knowns, resolver)
        nights = release.nights_with(night)
        if state is LoopState.SEEN and nights >= stores.settings.loop_nights:
            state = LoopState.GIVEN_UP
        with stores.engine.begin() as connection:
            set_release_state(
                connection, release.key, state, reason, nights=nights, last_night=night
            )
        counts["waiting" if state is LoopState.SEEN else state.value] += 1
    return counts


def _resolved(
    stores: Stores, release: LoopRelease, knowns: Sequence[WatchKnowledge], resolver: Resolver
) -> tuple[LoopState, str | None]:
    key, reasons, unread, unlisted = release.key, [], False, False
    for known in knowns:
        if key.name not in known.advice.snapshot.revisions:
            continue
        if not _is_listed(known.advice.snapshot, key):
            unlisted = True
            continue
        try:
            stack_with(stores, known, {key.name: key.version}, resolver)
        except NoSuchStack as error:
            reasons.append(str(error))
            unread = unread or bool(unread_texts(known.advice.snapshot))
            continue
        return _analysed(stores, key, known)
    if unread:
        return LoopState.SEEN, "not all versions were read from the index yet"
    if reasons:
        return LoopState.SEEN if unlisted else LoopState.GIVEN_UP, reasons[0]
    reason = "the index does not list it" if unlisted else "no watched project needs it"
    return LoopState.SEEN, reason


def _is_listed(snapshot: Snapshot, key: ReleaseKey) -> bool:
    """Whether a snapshot has a release, be it one that cannot be installed."""
    candidates, excluded = snapshot.packages.get(key.name, ()), snapshot.excluded.get(key.name, ())
    versions = [*(it.version for it in candidates), *(it.version for it in excluded)]
    return any(same_version(it, key.version) for it in versions)


def _analysed(
    stores: Stores, key: ReleaseKey, known: WatchKnowledge
) -> tuple[LoopState, str | None]:
    """Analyse the wheel: its native libraries and its import names; a known wheel is not read."""
    with stores.engine.connect() as connection:
        if artifacts_of(connection, key.purl):
            return LoopState.RESOLVABLE, None
    wanted, environment = parse_pin(key.subject), known.advice.request.environment
    try:
        with fetched_wheel(stores.settings, wanted, key.index, environment) as (path, index):
            analysis = analyze_wheel(path, index=index)
    except IndexProblem as error:
        return LoopState.SEEN, str(error)
    except (InvalidArgument, InvalidDocument) as error:
        return LoopState.GIVEN_UP, str(error)
    with stores.engine.begin() as connection:
        add_analysis(connection, stores.settings, analysis, f"loop:{key.subject}")
    return LoopState.RESOLVABLE, None


def stacks_of_batch(
    stores: Stores,
    known: WatchKnowledge,
    priorities: Sequence[ReleasePriority],
    indicator: MeasuredIndicator,
    resolver: Resolver,
) -> Sequence[StackToMeasure]:
    """The reference stack, the reference with each release, and the advised stack.

    A stack differs from the reference in the release alone wherever requirements permit, because
    only such a comparison is scored. The reference comes twice: the pair measures the noise (A/A).
    If the reference has a release, the stack has another version in its place.

    :raises NoSuchStack: if the reference cannot be measured
    """
    reference = stack_with(stores, known, known.reference, resolver)
    first = specification_of_stack(stores, reference, indicator)
    stacks = [StackToMeasure("reference", (), first), StackToMeasure("reference again", (), first)]
    versions = {tuple(sorted(known.reference.items()))}
    for priority in priorities:
        key = priority.release.key
        pins = {**known.reference, key.name: priority.compared}
        try:
            advice = _nearest(stores, known, key.name, pins, resolver)
            specification = specification_of_stack(stores, advice, indicator)
        except NoSuchStack as error:
            _LOG.info("release_left_out", extra={"release": key.subject, "reason": str(error)})
            continue
        versions.add(tuple(sorted(pins.items())))
        label = f"{key.name}=={priority.compared}"
        stacks.append(StackToMeasure(label, (key.subject,), specification))
    if known.advised and tuple(sorted(known.advised.items())) not in versions:
        advised = stack_with(stores, known, known.advised, resolver)
        specification = specification_of_stack(stores, advised, indicator)
        stacks.append(StackToMeasure("advised", (), specification))
    return stacks


def _nearest(
    stores: Stores,
    known: WatchKnowledge,
    name: str,
    pins: Mapping[str, str],
    resolver: Resolver,
) -> Advice:
    """The stack with all these versions, or else the best one with that of ``name``."""
    try:
        return stack_with(stores, known, pins, resolver)
    except NoSuchStack:
        return stack_with(stores, known, {name: pins[name]}, resolver)


#: Stacks of a batch beside those of its releases: the reference, its repetition, the advised one.
_FURTHER_STACKS = 3


def plan_batches(
    stores: Stores, night: int, knowns: Sequence[WatchKnowledge], resolver: Resolver
) -> dict[str, int]:
    """Plan the batches of a night within its budget of jobs, the most valuable jobs first.

    A release without a job that is worth its time is given up with the reason. So is a release
    without a stack to measure in ``LOOP_NIGHTS`` nights.

    :returns: counts for people
    """
    settings = stores.settings
    with stores.engine.connect() as connection:
        waiting = releases_in(connection, [LoopState.RESOLVABLE, LoopState.MEASURED])
        earlier = batches_in(connection, [BatchState.PLANNED])
    busy = {it.watch_id for it in earlier}
    in_batches = {it for batch in earlier for stack in batch.stacks for it in stack["releases"]}
    free = [it for it in knowns if it.watch.watch_id not in busy]
    waiting = [it for it in waiting if it.key.subject not in in_batches]
    ranking = night_priorities(stores, free, waiting)
    left = settings.loop_jobs - sum(it.jobs - it.measured_jobs for it in earlier)
    counts = {"batches": 0, "jobs": 0}
    planned: set[str] = set()
    without: dict[str, str] = {}
    for batch in _within(ranking.ranked, left):
        first = batch[0]
        try:
            stacks = stacks_of_batch(stores, first.known, batch, first.indicator, resolver)
        except NoSuchStack as error:
            stacks = ()
            without |= {it.release.key.subject: str(error) for it in batch}
        planned.update(subject for it in stacks for subject in it.releases)
        for it in batch:
            without.setdefault(it.release.key.subject, "no stack that can be measured contains it")
        if any(it.releases for it in stacks):  # else only the advised stack is left
            counts["batches"] += 1
            counts["jobs"] += first.blocks * len(stacks)
            _store(stores, night, batch, stacks)
    without = {name: it for name, it in without.items() if name not in planned}
    _leave_out(stores, night, waiting, ranking.dropped, without)
    return counts


def _within(ranked: Sequence[ReleasePriority], budget: int) -> list[tuple[ReleasePriority, ...]]:
    """Choose jobs within a budget, by watch and indicator; the most valuable decide the number."""
    batches: dict[tuple[str, str], list[ReleasePriority]] = {}
    for priority in ranked:
        key = priority.known.watch.watch_id, priority.indicator.text
        batch = batches.get(key, [])
        jobs = batch[0].blocks if batch else (1 + _FURTHER_STACKS) * priority.blocks
        if jobs <= budget:
            budget -= jobs
            batches[key] = [*batch, priority]
    return [tuple(it) for it in batches.values()]


def _leave_out(
    stores: Stores,
    night: int,
    releases: Sequence[LoopRelease],
    dropped: Mapping[str, str],
    without: Mapping[str, str],
) -> None:
    """Give up releases that get no further jobs, or that have no stack for ``LOOP_NIGHTS`` nights.

    :param dropped: releases that get no further jobs: subject and reason
    :param without: releases that no stack could be made for: subject and reason
    """
    for release in releases:
        key, nights = release.key, release.nights_with(night)
        if key.subject in dropped:
            state, reason = LoopState.GIVEN_UP, dropped[key.subject]
        elif key.subject in without:
            state, reason = release.state, without[key.subject]
            if nights >= stores.settings.loop_nights:
                state = LoopState.GIVEN_UP
        else:
            continue
        with stores.engine.begin() as connection:
            set_release_state(connection, key, state, reason, nights=nights, last_night=night)


def _store(
    stores: Stores,
    night: int,
    batch: Sequence[ReleasePriority],
    stacks: Sequence[StackToMeasure],
) -> None:
    """Store a batch and the states of its releases in one transaction."""
    planned = {subject for it in stacks for subject in it.releases}
    watch, blocks = batch[0].known.watch, batch[0].blocks
    with stores.engine.begin() as connection:
        documents = [it.as_json() for it in stacks]
        add_batch(connection, night, watch.watch_id, batch[0].indicator.text, documents, blocks)
        for release in (it.release for it in batch):
            if release.key.subject in planned:
                set_release_state(
                    connection, release.key, LoopState.PLANNED,
                    measured_jobs=release.measured_jobs,
                    planned_jobs=release.measured_jobs + blocks,
                )  # fmt: skip
        set_watch_state(
            connection, watch.watch_id, LoopState.PLANNED,
            planned_jobs=blocks * len(stacks), measured_jobs=0,
        )  # fmt: skip
