"""Derives the states of releases from the claims, and the advice of watched projects.

A release is resolvable if a watched project can install it, and settled, measured or given up after
its measurements.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from adviser.advice_request import StackRequest
from adviser.advise import Resolver
from adviser.answering.answers import PREFIX, make_answer, store
from adviser.changes import LOOK_ALPHA, MAX_LOOKS, is_due, next_look
from adviser.reports.summary import summary_of
from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.verdicts import Verdict
from graph.engine import Stores
from graph.record.changes import standing_changes
from graph.record.events import EventKind, record_event
from graph.record.loop import (
    BatchState,
    LoopRelease,
    LoopState,
    Night,
    ReleaseKey,
    batches_in,
    releases_in,
    set_release_state,
)
from graph.record.native import add_analysis, artifacts_of
from graph.record.watches import AdviceWatch, set_closure, set_watch_state
from ingest.native.wheels import analyze_wheel, fetched_wheel, parse_pin
from loop.stacks import NoSuchStack, WatchKnowledge, stack_with
from model.changes import ChangeLook, PerformanceChange
from model.errors import IndexProblem, InvalidArgument, InvalidDocument
from model.json_documents import digest
from model.packages.identity import same_version, version_of

#: A watch without a measurement in progress.
_NO_JOBS = {"measured_jobs": 0, "planned_jobs": 0}


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """The verdict of the claims about a release.

    :param settled: text for people if a verdict holds at the error rate of one look, else ``None``
    :param jobs: jobs of its stack that comparisons use
    :param arm_jobs: jobs of the stack that has fewer
    :param tested: whether there are enough jobs for a verdict
    :param missing: further jobs until a verdict, as estimated; 0 if no estimate exists
    """

    settled: str | None
    jobs: int
    arm_jobs: int
    tested: bool
    missing: int


def verdict_on(release: LoopRelease, knowns: Sequence[WatchKnowledge]) -> ReleaseVerdict | None:
    """The verdict with the most jobs on a release, settled ones first; ``None`` if not measured."""
    claims = [
        claim
        for known in knowns
        for claim in known.claims
        if release.key.purl in (claim.purl, claim.baseline_purl) and claim.here
    ]
    if not claims:
        return None
    best = max(claims, key=lambda it: (_holds(it), it.jobs, it.comparison_key))
    return ReleaseVerdict(
        ClaimTexts([best]).sentence(best) if _holds(best) else None,
        best.jobs,
        min(best.jobs, best.baseline_jobs),
        best.tested,
        max(best.jobs_missing, best.baseline_jobs_missing),
    )


def _holds(claim: Claim) -> bool:
    """Whether a verdict holds at the error rate of one of several looks."""
    return claim.verdict.settled and claim.p_value < LOOK_ALPHA


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
        state, reason = _resolve(stores, release, knowns, resolver)
        nights = release.nights_with(night)
        if state is LoopState.SEEN and nights >= stores.settings.loop_nights:
            state = LoopState.GIVEN_UP
        with stores.engine.begin() as connection:
            set_release_state(
                connection, release.key, state, reason, nights=nights, last_night=night
            )
        counts["waiting" if state is LoopState.SEEN else state.value] += 1
    return counts


def _resolve(
    stores: Stores, release: LoopRelease, knowns: Sequence[WatchKnowledge], resolver: Resolver
) -> tuple[LoopState, str | None]:
    key, reasons, unread, unlisted = release.key, [], False, False
    for known in knowns:
        if key.name not in known.advice.snapshot.revisions:
            continue
        # Whether a snapshot has a release, be it one that cannot be installed.
        candidates, excluded = (
            known.advice.snapshot.packages.get(key.name, ()),
            known.advice.snapshot.excluded.get(key.name, ()),
        )
        versions = [*(it.version for it in candidates), *(it.version for it in excluded)]
        if not any(same_version(it, key.version) for it in versions):
            unlisted = True
            continue
        try:
            stack_with(stores, known, {key.name: key.version}, resolver)
        except NoSuchStack as error:
            reasons.append(str(error))
            unread = unread or error.unread
            continue
        return _analyse(stores, key, known)
    if unread:
        return LoopState.SEEN, f"unknown, because something was not read yet: {reasons[0]}"
    if reasons:
        return LoopState.SEEN if unlisted else LoopState.GIVEN_UP, reasons[0]
    reason = "the index does not list it" if unlisted else "no watched project needs it"
    return LoopState.SEEN, reason


def _analyse(
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


def settle_releases(stores: Stores, night: int, knowns: Sequence[WatchKnowledge]) -> dict[str, int]:
    """Store the states of planned releases: settled, measured so far, or given up.

    A release whose batch has not ended stays planned.

    :returns: counts for people
    """
    counts: dict[str, int] = {}
    with stores.engine.begin() as connection:
        unfinished = batches_in(connection, [BatchState.PLANNED])
        busy = {it for batch in unfinished for stack in batch.stacks for it in stack["releases"]}
        for release in releases_in(connection, [LoopState.PLANNED]):
            if release.key.subject in busy:
                state = LoopState.PLANNED
            else:
                state = _settle(connection, night, release, verdict_on(release, knowns), stores)
            counts[state.value] = counts.get(state.value, 0) + 1
    return counts


def announce_releases(stores: Stores, knowns: Sequence[WatchKnowledge]) -> dict[str, int]:
    """End the work on settled releases, and on the watches that wait for no release.

    :returns: counts for people
    """
    with stores.engine.begin() as connection:
        settled = releases_in(connection, [LoopState.SETTLED])
        for release in settled:
            set_release_state(connection, release.key, LoopState.ANNOUNCED, release.reason)
        waiting = _waiting(connection)
        measuring = {it.watch_id for it in batches_in(connection, [BatchState.PLANNED])}
        for known in knowns:
            if known.advice.best is not None:
                state, reason = _watch_state(known, waiting)
                jobs = {} if known.watch.watch_id in measuring else _NO_JOBS
                set_watch_state(connection, known.watch.watch_id, state, reason, **jobs)
    return {LoopState.ANNOUNCED.value: len(settled)} if settled else {}


def _waiting(connection: Connection) -> list[LoopRelease]:
    return releases_in(connection, [it for it in LoopState if not it.is_terminal])


def _watch_state(
    known: WatchKnowledge, waiting: Sequence[LoopRelease]
) -> tuple[LoopState, str | None]:
    """The state of the release that is furthest behind, or announced if none waits."""
    names = known.advice.snapshot.revisions
    states = [it.state for it in waiting if it.key.name in names]
    if not states:
        return LoopState.ANNOUNCED, None
    releases = "release is" if len(states) == 1 else "releases are"
    return min(states, key=list(LoopState).index), f"{len(states)} {releases} not settled yet"


def _settle(
    connection: Connection, night: int, release: LoopRelease, verdict: ReleaseVerdict | None,
    stores: Stores,
) -> LoopState:  # fmt: skip
    """Store the result of a night for a release.

    A release is judged at planned looks only, so more nights do not make false claims more likely.
    """
    nights = release.nights_with(night)
    last = ChangeLook(release.looks, release.look_jobs)
    look = last
    if verdict is not None and verdict.tested:
        before = last if last.looks else None
        if is_due(before, verdict.arm_jobs):
            look = next_look(before, verdict.arm_jobs)
    jobs, missing = (0, 0) if verdict is None else (verdict.jobs, verdict.missing)
    if verdict is not None and verdict.settled is not None and look != last:
        state, reason = LoopState.SETTLED, verdict.settled
    elif nights >= stores.settings.loop_nights or look.looks >= MAX_LOOKS:
        of = f"of {', '.join(stores.settings.loop_indicators)} on {platform.node()}"
        reason = f"not settled after {nights} nights and {jobs} jobs {of}"
        state = LoopState.GIVEN_UP
    elif verdict is None:
        state, reason = LoopState.RESOLVABLE, "no job of it could be used"
    elif missing:
        state, reason = LoopState.MEASURED, f"about {missing} jobs are missing"
    else:
        state, reason = LoopState.MEASURED, f"{jobs} jobs are too few for a verdict"
    set_release_state(
        connection, release.key, state, reason,
        nights=nights, last_night=night, measured_jobs=jobs, planned_jobs=jobs + missing,
        looks=look.looks, look_jobs=look.jobs,
    )  # fmt: skip
    return state


def advise_again(stores: Stores, night: Night, known: WatchKnowledge) -> bool:
    """Store the advice of a watch; if it names other versions than before, also an event.

    :returns: whether the advice changed
    """
    watch, advice = known.watch, known.advice
    advice_id = _identifier(night, watch)
    made = make_answer(stores, advice, {}, advice_id=advice_id)
    changed = watch.versions is not None and dict(watch.versions) != dict(known.advised)

    def also(connection: Connection) -> None:
        state, reason = _watch_state(known, _waiting(connection))
        if advice.best is None:
            state = LoopState.SEEN if advice.unread else LoopState.GIVEN_UP
            reason = made.report["result"]["error_msg"]
        set_watch_state(
            connection, watch.watch_id, state, reason,
            advice_id=advice_id, versions=dict(known.advised) or None,
        )  # fmt: skip
        if changed:
            differences = _differences(watch.versions or {}, known.advised)
            data = {
                "advice_id": advice_id,
                "packages": differences,
                "change_ids": changes_behind(connection, advice.request, differences),
                "reason": summary_of(advice) or None,
                "hardware": advice.request.hardware_name,
                "indicators": sorted(
                    {
                        it.indicator
                        for it in advice.assessment.claims
                        if it.package in {package["name"] for package in differences}
                    }
                ),
            }
            record_event(connection, EventKind.ADVICE_CHANGED, watch.name, data)

    if watch.advice_id != advice_id:  # else an earlier attempt stored it
        store(stores, made, also)
    return changed


def _identifier(night: Night, watch: AdviceWatch) -> str:
    """Identifier of the advice of a night; the same after an interruption."""
    key = digest({"night": night.night, "watch": watch.watch_id}).rpartition(":")[2][:16]
    return f"{PREFIX}-{night.began_at:%y%m%d%H%M%S}-{key}"


def changes_behind(
    connection: Connection, request: StackRequest, differences: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Identifiers of the changes that support the new versions of an advice, oldest first.

    These are announced changes by release, on the hardware and Python of the advice, between the
    old and the new version of a package: faster on the way up, or slower on the way down.

    :param differences: packages as the event ``advice.changed`` has them
    """
    moves = {
        it["name"]: (it["from_version"], it["to_version"])
        for it in differences
        if it["from_version"] is not None and it["to_version"] is not None
    }
    target = request.target
    return [
        change.announcement
        for change in standing_changes(connection, moves)
        if change.package is not None
        and target.distance(change) == 0
        and _speaks_for(change, *moves[change.package])
    ]


def _speaks_for(change: PerformanceChange, before: str, after: str) -> bool:
    """Whether a change lies between two versions, and its faster side is that of ``after``."""
    old, new = version_of(before), version_of(after)
    first, second = version_of(change.from_version), version_of(change.to_version)
    if old is None or new is None or first is None or second is None:
        return False
    low, high = min(old, new), max(old, new)
    wanted = Verdict.FASTER if old < new else Verdict.SLOWER
    return change.verdict == wanted and low < second <= high and low <= first < high


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "from_version": before.get(name), "to_version": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
