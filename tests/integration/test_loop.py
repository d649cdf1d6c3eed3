"""Nights of the loop on real stores, with an index and real inspections; its watches."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy
from sqlalchemy import Engine, insert, select, update

from adviser.advice_request import StackRequest
from adviser.advise import in_this_process
from adviser.projects.parsing import parse_project
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.verdicts import Verdict
from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.tasks import schedules
from api.jobs.worker import queue_app
from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from graph.record.changes import add_changes, all_changes
from graph.record.events import EventKind
from graph.record.loop import (
    BatchState,
    LoopState,
    Night,
    NightState,
    ReleaseKey,
    ReleaseSource,
    add_batch,
    add_releases_seen,
    batches_in,
    batches_of_night,
    fail_step,
    finish_step,
    latest_nights,
    latest_releases,
    open_night,
    recent_identical_pairs,
    reference_stacks,
    releases_in,
    set_batch_state,
    set_measured_jobs,
    set_release_state,
    steps_of,
)
from graph.record.stacks import packages_in
from graph.record.watches import (
    AdviceWatch,
    NewWatch,
    WatchKind,
    WatchSource,
    add_watch,
    remove_watches,
    set_watch_state,
    watches,
)
from graph.tables import EventRow, HardwareRow, WatchRow
from loop.measuring import measure_batches
from loop.night import STEPS, NightReport, run_night
from loop.release_states import (
    advise_again,
    announce_releases,
    changes_behind,
    resolve_releases,
    settle_releases,
)
from loop.stacks import WatchKnowledge, current_knowledge
from loop.status import morning_summary, status_document
from loop.watched_projects import adopt_requests, identifiers_of, package_project, project_watch
from model.changes import ChangeEvent, RecordedChange
from model.errors import InvalidArgument
from model.packages.environments import Environment, host_environment
from pis.amun.conditions import MachineBusy, free_machine
from tests.factories.changes import change_of_numpy
from tests.factories.evidence import simulated
from tests.factories.inspections import write_stack
from tests.factories.releases import release
from tests.factories.requests import advice_for, request_for
from tests.services.commands import thoth
from tests.services.index import Index, package_index
from tests.services.jobs import client_of, run_jobs
from tests.services.projection import deliver
from tests.services.receiver import hooked, receiver

KEY = ReleaseKey("pypi", "app", "2.0")


@pytest.fixture
def index() -> Iterator[Index]:
    """An index with two releases of a package that needs another."""
    with package_index(protected=False, json=True) as served:
        served.add_wheel("app", "1.0", metadata="Requires-Dist: lib>=1\n")
        served.add_wheel("lib", "1.0")
        yield served


@pytest.fixture
def night_settings(stores: Stores, index: Index) -> Settings:
    return replace(
        stores.settings, package_indexes=(("pypi", index.url),), loop_busy_share=1.0,
        loop_blocks=5, loop_wait_s=600.0,
    )  # fmt: skip


def night(settings: Settings) -> NightReport:
    with ResolverWorker() as worker:
        return run_night(settings, worker.resolve)


def watch_app(stores: Stores) -> None:
    watch(stores, {"requirements.in": b"app\n", "requirements.txt": b"app==1.0\nlib==1.0\n"})


def watch(
    stores: Stores,
    files: dict[str, bytes],
    hardware: str | None = None,
    where: Environment | None = None,
) -> None:
    request = StackRequest(
        parse_project(files, None), where or host_environment(),
        RecommendationType.PERFORMANCE, hardware=hardware,
    )  # fmt: skip
    with stores.engine.begin() as connection:
        add_watch(connection, project_watch("project", request))


def test_releases_that_cannot_be_installed_or_measured_are_given_up_with_their_reasons(
    stores: Stores, night_settings: Settings, index: Index
) -> None:
    watch_app(stores)
    settings = replace(night_settings, loop_nights=1)
    assert night(settings).problem is None
    index.add_wheel("app", "2.0", metadata="Requires-Dist: lib>=9\n")
    index.add_wheel("lib", "2.0")
    report = night(settings)
    assert [it.step for it in report.steps] == list(STEPS)
    with stores.engine.connect() as connection:
        releases = {it.key.subject: it for it in latest_releases(connection)}
        kinds = [kind for kind, subject in events(connection) if subject == KEY.subject]
    assert {it.state for it in releases.values()} == {LoopState.GIVEN_UP}
    assert "lib" in (releases["app==2.0"].reason or "")
    unmeasured = releases["lib==2.0"].reason or ""
    assert "matmul measures numpy, which the lock does not have" in unmeasured
    assert kinds == [EventKind.RELEASE_STATE, EventKind.RELEASE_GIVEN_UP]


def test_two_measurements_never_run_at_once_on_a_machine() -> None:
    program = (
        "import sys, time\n"
        "from pis.amun.conditions import free_machine\n"
        "with free_machine(600, 1):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(MachineBusy), free_machine(0, 1):
            pytest.fail("the machine was held twice")
        other.kill()
        other.wait()
        with free_machine(600, 1):
            pass


def test_indicator_run_waits_for_a_free_machine(settings: Settings) -> None:
    with free_machine(600):
        refused = thoth(settings, "pi", "run", "matmul", "--wait", "0.1")
        helped = thoth(settings, "pi", "run", "matmul", "--wait", "0.1", "--", "--help")
    assert refused.returncode == 5, refused.stderr
    assert "another measurement runs on this machine: waiting up to 0.1 s" in refused.stderr
    assert "--share-machine" in refused.stderr
    assert (helped.returncode, "--matrix-size" in helped.stdout) == (0, True)


def test_already_advised_release_is_compared_with_another_version(
    stores: Stores, night_settings: Settings, index: Index
) -> None:
    index.add_wheel("numpy", "1.0")
    watch(stores, {"requirements.txt": b"numpy\n"})
    night(night_settings)
    index.add_wheel("numpy", "2.0")
    with stores.engine.begin() as connection:
        connection.execute(update(WatchRow).values(versions={"numpy": "2.0"}))
    assert night(night_settings).problem is None
    with stores.engine.connect() as connection:
        (release,) = latest_releases(connection)
        (batch,) = batches_of_night(connection, 2)
        (reference,) = reference_stacks(connection)
        beside = [(it.name, it.version) for it in packages_in(connection, reference)]
        (lines,) = morning_summary(connection, night_settings)
    assert [it.split()[0] for it in lines[1:]] == ["why", "new", "measured", "next"]
    assert lines[0].endswith(": the advice stays as it is")
    assert lines[1].startswith("  why           Use these versions")
    assert lines[2:] == [
        "  new releases  numpy 2.0 (resolvable)",
        f"  measured      0 of {batch.jobs} jobs of matmul",
        "  next          1 release is not settled yet",
    ]
    assert beside == [("numpy", "2.0")]
    # These wheels are empty, so no job can run.
    assert (release.state, release.reason) == (LoopState.RESOLVABLE, "no job of it could be used")
    assert [(it["label"], it["releases"]) for it in batch.stacks] == [
        ("reference", []), ("reference again", []), ("numpy==1.0", ["numpy==2.0"])
    ]  # fmt: skip


def test_loop_plans_no_batch_without_a_stack_of_a_new_release(
    stores: Stores, night_settings: Settings, index: Index
) -> None:
    for version in ("0.9", "1.0"):
        index.add_wheel("numpy", version)
    lock = b"numpy==0.9\nlib==1.0\n"  # the advised stack has numpy 1.0
    watch(stores, {"requirements.in": b"numpy\nlib\n", "requirements.txt": lock})
    night(night_settings)
    index.add_wheel("lib", "2.0", metadata="Requires-Dist: numpy<1\n")
    index.facts["lib-2.0-py3-none-any.whl"]["hashes"] = {}  # so it cannot be locked
    assert night(night_settings).problem is None
    with stores.engine.connect() as connection:
        (release,) = latest_releases(connection)
        assert batches_of_night(connection, 2) == []
    assert release.state is LoopState.RESOLVABLE
    assert release.reason == "no stack that can be measured contains it"


def test_release_missing_from_the_index_is_awaited_and_finally_given_up(
    stores: Stores, night_settings: Settings
) -> None:
    watch_app(stores)
    night(night_settings)
    key = ReleaseKey("pypi", "app", "99.0")
    with stores.engine.begin() as connection:
        add_releases_seen(connection, [key], ReleaseSource.REQUEST, backlog=9)
    seen = []
    with ResolverWorker() as worker:
        knowns = [current_knowledge(stores, it, worker.resolve) for it in watched(stores)]
        for number in (2, 3):
            resolve_releases(replace_nights(stores, 2), number, knowns, worker.resolve)
            with stores.engine.connect() as connection:
                seen += [(it.state, it.reason) for it in latest_releases(connection)]
    reason = "the index does not list it"
    assert seen == [(LoopState.SEEN, reason), (LoopState.GIVEN_UP, reason)]


def test_given_up_release_names_the_conflict_of_a_project(
    stores: Stores, night_settings: Settings, index: Index
) -> None:
    watch_app(stores)
    night(night_settings)
    seen = []
    with ResolverWorker() as worker:
        (stored,) = watched(stores)
        earlier = current_knowledge(stores, stored, worker.resolve)
        index.add_wheel("app", "2.0", metadata="Requires-Dist: lib>=9\n")
        night(night_settings)
        knowns = [earlier, current_knowledge(stores, stored, worker.resolve)]
        with stores.engine.begin() as connection:
            set_release_state(connection, KEY, LoopState.SEEN, nights=0, last_night=2)
        for number in (3, 4):
            resolve_releases(replace_nights(stores, 2), number, knowns, worker.resolve)
            with stores.engine.connect() as connection:
                seen += [(it.state, it.reason) for it in latest_releases(connection)]
    assert [state for state, _ in seen] == [LoopState.SEEN, LoopState.GIVEN_UP]
    assert ["lib>=9" in (reason or "") for _, reason in seen] == [True, True], seen


@pytest.mark.parametrize(
    ("requirement", "state"),
    [(b"nowhere\n", LoopState.SEEN), (b"lib>=9\n", LoopState.GIVEN_UP)],
)
def test_watch_is_given_up_only_for_a_proven_conflict(
    stores: Stores, requirement: bytes, state: LoopState
) -> None:
    deliver(stores, [release("lib", "1.0")])
    watch(stores, {"requirements.in": requirement})
    (stored,) = watched(stores)
    now = datetime.now(UTC)
    known = current_knowledge(stores, stored, in_this_process)
    advise_again(stores, Night(1, NightState.RUNNING, None, now, None), known)
    assert [it.state for it in watched(stores)] == [state]


def test_new_advice_for_a_watch_is_announced_when_its_releases_are_decided(
    stores: Stores, night_settings: Settings
) -> None:
    watch_app(stores)
    night(night_settings)
    with stores.engine.begin() as connection:
        add_releases_seen(connection, [KEY], ReleaseSource.REQUEST, backlog=9)
    with ResolverWorker() as worker:
        knowns = [current_knowledge(stores, it, worker.resolve) for it in watched(stores)]
    nights = []
    for number in (2, 2, 3):  # the first settle step of night 2 was interrupted
        with stores.engine.begin() as connection:
            set_release_state(connection, KEY, LoopState.PLANNED)
        settle_releases(stores, number, knowns)
        with stores.engine.connect() as connection:
            nights += [it.nights for it in latest_releases(connection)]
    assert nights == [1, 1, 2]
    announce_releases(stores, knowns)
    assert [(it.state, it.reason) for it in watched(stores)] == [
        (LoopState.RESOLVABLE, "1 release is not settled yet")
    ]
    with stores.engine.begin() as connection:
        set_release_state(connection, KEY, LoopState.GIVEN_UP, "no wheel")
    announce_releases(stores, knowns)
    assert [it.state for it in watched(stores)] == [LoopState.ANNOUNCED]


def test_release_is_settled_only_at_planned_looks(stores: Stores) -> None:
    index, evidence = simulated(np.random.default_rng(7), 2, 8, 0.01, (0.3,), in_turns=True)
    advice = advice_for(request_for("fast\n", RecommendationType.PERFORMANCE), index, evidence)
    watch(stores, {"requirements.txt": b"fast\n"})
    (stored,) = watched(stores)
    (claim,) = advice.assessment.claims
    key = ReleaseKey("pypi", "fast", "1.1")
    assert (claim.purl, claim.verdict, claim.tested) == (key.purl, Verdict.FASTER, True)
    with stores.engine.begin() as connection:
        add_releases_seen(connection, [key], ReleaseSource.REFRESH, backlog=9)
    seen = []
    for number, (jobs, p_value) in enumerate(
        [(8, 0.02), (15, 1e-9), (16, 0.02), (31, 1e-9), (32, 1e-9)], start=1
    ):
        with stores.engine.begin() as connection:
            set_release_state(connection, key, LoopState.PLANNED)
        now = replace(claim, jobs=jobs, baseline_jobs=jobs + 5, p_value=p_value)
        known = WatchKnowledge(stored, advice, advice.baseline or {}, (now,))
        settle_releases(replace_nights(stores, 9), number, [known])
        with stores.engine.connect() as connection:
            (release,) = latest_releases(connection)
        seen.append((release.state, release.looks, release.look_jobs))
    # Verdicts between two looks do not count, and each look has a fifth of the error rate.
    waits = LoopState.MEASURED
    assert seen == [
        (waits, 1, 8), (waits, 1, 8), (waits, 2, 16), (waits, 2, 16), (LoopState.SETTLED, 3, 32)
    ]  # fmt: skip
    assert "% faster than" in (release.reason or "")


def replace_nights(stores: Stores, nights: int) -> Stores:
    return replace(stores, settings=replace(stores.settings, loop_nights=nights))


def watched(stores: Stores) -> list[AdviceWatch]:
    with stores.engine.connect() as connection:
        return watches(connection)


def test_release_reported_over_the_api_is_recorded_once(
    stores: Stores, night_settings: Settings
) -> None:
    watch_app(stores)
    night(night_settings)
    body = {"releases": [{"name": "App", "version": "2.0"}, {"name": "flask", "version": "3"}]}
    with client_of(night_settings, Scope.INGEST) as client:
        assert client.post("/api/v2/loop/releases", json=body).status_code == 403
    with client_of(night_settings, Scope.RELEASES, Scope.READ) as client:
        first = client.post("/api/v2/loop/releases", json=body)
        again = client.post("/api/v2/loop/releases", json=body)
        broken = {"releases": [{"name": "app", "version": "new"}]}
        refused = client.post("/api/v2/loop/releases", json=broken)
        shown = client.get("/api/v2/loop").get_json()
    assert (first.status_code, first.get_json()) == (202, {"noticed": ["app==2.0"], "ignored": 1})
    assert again.get_json() == {"noticed": [], "ignored": 2}
    assert refused.status_code == 422
    assert "releases.0.version" in refused.text
    assert [(it["subject"], it["state"]) for it in shown["releases"]] == [("app==2.0", "seen")]
    # A project is private; its name appears in no answer.
    assert shown["watches"] == []


def test_notice_of_new_advice_names_the_settled_performance_change(
    stores: Stores, night_settings: Settings, index: Index, tmp_path: Path
) -> None:
    measure(stores, tmp_path, 0, "2.1.0", 160.0)
    with stores.engine.connect() as connection:
        hardware = connection.scalar(select(HardwareRow.digest))
    files = {"requirements.in": b"numpy\n", "requirements.txt": b"numpy==2.1.0\n"}
    index.add_wheel("numpy", "2.1.0")
    # The Python of the inspections.
    watch(stores, files, hardware, replace(host_environment(), python_version="3.11"))
    with receiver() as server:
        settings = replace(hooked(night_settings, server.url), loop_minutes=1e-9)
        assert night(settings).problem is None
        index.add_wheel("numpy", "2.2.0")
        measure(stores, tmp_path, 1, "2.2.0", 200.0)
        assert night(settings).problem is None
    (change,) = recorded_changes(stores)
    assert (change.from_version, change.to_version, change.verdict) == ("2.1.0", "2.2.0", "faster")
    notices = [it.document for it in server.received]
    (changed,) = [it["data"] for it in notices if it["type"] == "advice.changed"]
    assert changed["details"]["change_ids"] == [change.change_id]
    assert f"Changes: {change.change_id}." in changed["text"]


def recorded_changes(stores: Stores) -> list[RecordedChange]:
    with stores.engine.connect() as connection:
        return all_changes(connection)


def measure(stores: Stores, folder: Path, turn: int, version: str, rate: float) -> None:
    """Ingest an inspection of a release of numpy with ten jobs of about this rate, in turns."""
    name = f"inspection-matmul-0000000{'ab'[turn]}"
    rates = [rate * (1 + 0.002 * (-1) ** (block + turn)) for block in range(10)]
    write_stack(folder, name, rates, {"numpy": version}, turn)
    done = thoth(stores.settings, "ingest", "inspections", str(folder))
    assert done.returncode == 0, done.stderr


def test_notice_of_changed_advice_names_supporting_performance_changes(relational: Engine) -> None:
    up = change_of_numpy("up")
    entries = [
        up,
        replace(up, change_id="down", from_version="2.3.5", to_version="2.4.0", verdict="slower"),
        replace(up, change_id="elsewhere", hardware_digest="sha256:e"),
        replace(up, change_id="older", from_version="1.26.4", to_version="2.0.2"),
        replace(up, change_id="gone"),
        replace(up, change_id="end", event=ChangeEvent.WITHDRAWN, refers_to="gone"),
        replace(up, change_id="more", event=ChangeEvent.CONFIRMED, refers_to="up"),
        replace(up, change_id="flask", package="flask"),
    ]
    request = StackRequest(
        parse_project({"requirements.txt": b"numpy\n"}, None),
        replace(host_environment(), python_version="3.11"),
        RecommendationType.PERFORMANCE, hardware="sha256:d",
    )  # fmt: skip

    def behind(before: str | None, after: str) -> list[str]:
        move = {"name": "numpy", "from_version": before, "to_version": after}
        return changes_behind(connection, request, [move])

    with relational.begin() as connection:
        add_changes(connection, entries, {})
        assert behind("2.0.2", "2.3.5") == ["up"]
        assert behind("2.0.2", "2.4.0") == ["up"]
        assert behind("2.4.0", "2.3.5") == ["down"]
        assert behind("2.0.2", "2.2.6") == []
        assert behind(None, "2.3.5") == []


def test_batches_beyond_the_duration_of_a_night_wait_for_the_next_night(stores: Stores) -> None:
    watch(stores, {"requirements.txt": b"numpy\n"})
    (stored,) = watched(stores)
    with stores.engine.begin() as connection:
        night_number = open_night(connection).night
        add_batch(connection, night_number, stored.watch_id, "matmul", [], 12)
    for _ in range(stores.settings.loop_nights + 1):
        counts = measure_batches(stores, lambda _done, _jobs: None, until=0.0)
        assert counts == {"measured": 0, "jobs": 0, "postponed": 1}
    with stores.engine.connect() as connection:
        (batch,) = batches_in(connection, [BatchState.PLANNED])
    assert (batch.attempts, batch.reason) == (0, "the minutes of the night are over")


def test_loop_status_counts_the_jobs_of_a_running_batch(stores: Stores) -> None:
    watch_app(stores)
    (stored,) = watched(stores)
    others: list[dict[str, Any]] = [{"releases": []}, {"releases": []}]
    with stores.engine.begin() as connection:
        add_releases_seen(connection, [KEY], ReleaseSource.REFRESH, backlog=9)
        set_release_state(connection, KEY, LoopState.PLANNED, planned_jobs=5)
        stacks = [*others, {"releases": [KEY.subject]}]
        number = open_night(connection).night
        batch = add_batch(connection, number, stored.watch_id, "matmul", stacks, 5)
        set_measured_jobs(connection, batch, 9)
        status = status_document(connection)
    assert [(it["measured_jobs"], it["planned_jobs"]) for it in status["releases"]] == [(3, 5)]
    assert [it["measured_jobs"] for it in status["watches"]] == [9]


def test_worker_runs_a_night_at_its_scheduled_time(
    stores: Stores, night_settings: Settings, index: Index
) -> None:
    watch_app(stores)
    settings = replace(night_settings, cron_loop="0 3 * * *")
    due = [it for it in schedules(settings) if it.task == "cron.loop"]
    assert [(it.cron, it.queue) for it in due] == [("0 3 * * *", QueueName.INSPECTIONS)]
    assert not [it for it in schedules(night_settings) if it.task == "cron.loop"]

    async def enqueue() -> None:
        app = queue_app(settings)
        async with app.open_async():
            job = app.configure_task(f"{NAMESPACE}:cron.loop", queue=QueueName.INSPECTIONS.value)
            await job.defer_async(timestamp=0)

    asyncio.run(enqueue())
    run_jobs(settings, [QueueName.INSPECTIONS])
    with stores.engine.connect() as connection:
        (ran,) = latest_nights(connection)
    assert (ran.state, ran.reason) == ("finished", None)
    assert [it.state for it in watched(stores)] == [LoopState.ANNOUNCED]


def test_projects_of_requests_are_watched(
    stores: Stores, night_settings: Settings, index: Index
) -> None:
    watch(stores, {"requirements.txt": b"app\n"})
    night(night_settings)  # the record has app
    asked_for = {"files": {"requirements.in": "app\n"}, "environment": {"python": "3.11"}}
    with client_of(night_settings, Scope.ADVISE) as client:
        for label in ("one", "two"):
            body = {**asked_for, "labels": {"client": label}}
            assert client.post("/api/v2/advice?force=true", json=body).status_code == 202
    run_jobs(night_settings)
    with stores.engine.begin() as connection:
        (adopted,) = adopt_requests(connection, night_settings)
        assert adopt_requests(connection, night_settings) == []
        remove_watches(connection, [adopted])
        assert adopt_requests(connection, night_settings) == []
        listed = {it.watch_id: it for it in watches(connection, enabled=False)}
    kept = listed[adopted]
    assert (kept.source, kept.weight, kept.enabled) == (WatchSource.SERVICE, 2.0, False)
    assert kept.name == "app (requirements.in, Python 3.11)"
    with stores.engine.connect() as connection:
        assert identifiers_of(connection, [kept.name]) == {kept.name: adopted}
    assert night(replace(night_settings, loop_requests=False)).steps[0].output == {"new": 0}


PACKAGE = NewWatch(WatchKind.PACKAGE, "numpy", {})
KEYS = [ReleaseKey("pypi", "numpy", version) for version in ("2.0.2", "2.1.0", "2.2.0")]


def events(connection: sqlalchemy.Connection) -> list[tuple[str, str]]:
    query = select(EventRow.kind, EventRow.subject).order_by(EventRow.event_id)
    return [tuple(row) for row in connection.execute(query)]


def test_package_is_watched_once_and_found_by_its_name(relational: sqlalchemy.Engine) -> None:
    with relational.begin() as connection:
        assert add_watch(connection, PACKAGE)
        assert not add_watch(connection, PACKAGE)
        assert [it.name for it in watches(connection)] == ["numpy"]
        assert identifiers_of(connection, ["NumPy"]) == {"NumPy": PACKAGE.watch_id}
        with pytest.raises(InvalidArgument, match="'flask' is not watched"):
            identifiers_of(connection, ["flask"])
        assert remove_watches(connection, [PACKAGE.watch_id]) == [PACKAGE.watch_id]
        assert watches(connection, enabled=False) == []


def test_watch_switched_off_by_a_person_stays_off(relational: sqlalchemy.Engine) -> None:
    requested = NewWatch(WatchKind.PROJECT, "app", {"a": 1}, WatchSource.SERVICE, 7.0)
    with relational.begin() as connection:
        add_watch(connection, requested)
        remove_watches(connection, [requested.watch_id])
        assert not add_watch(connection, requested)
        assert watches(connection) == []
        assert [it.enabled for it in watches(connection, enabled=False)] == [False]


def test_storing_a_release_state_again_records_no_second_event(
    relational: sqlalchemy.Engine,
) -> None:
    with relational.begin() as connection:
        add_watch(connection, PACKAGE)
        add_releases_seen(connection, KEYS[:1], ReleaseSource.REFRESH, backlog=5)
        for _ in range(2):
            set_release_state(connection, KEYS[0], LoopState.PLANNED, planned_jobs=8)
            set_watch_state(connection, PACKAGE.watch_id, LoopState.PLANNED, planned_jobs=8)
            set_release_state(connection, KEYS[0], LoopState.GIVEN_UP, "no wheel")
            set_release_state(connection, KEYS[0], LoopState.GIVEN_UP, "no wheel")
        kinds = [kind for kind, _ in events(connection)]
    # Planned and given up alternate twice; repeating a state adds nothing.
    assert kinds.count(EventKind.RELEASE_GIVEN_UP) == 2
    assert kinds.count(EventKind.RELEASE_STATE) == 3
    assert kinds.count(EventKind.PROJECT_STATE) == 1


def test_loop_backlog_is_bounded_and_starts_with_the_oldest_release(
    relational: sqlalchemy.Engine,
) -> None:
    with relational.begin() as connection:
        first = add_releases_seen(connection, KEYS, ReleaseSource.REFRESH, backlog=2)
    assert first == KEYS[:2]
    with relational.begin() as connection:
        assert add_releases_seen(connection, KEYS, ReleaseSource.REFRESH, backlog=2) == []
        set_release_state(connection, KEYS[0], LoopState.ANNOUNCED)
        assert add_releases_seen(connection, KEYS, ReleaseSource.REFRESH, backlog=2) == KEYS[2:]
        waiting = releases_in(connection, [LoopState.SEEN])
    assert [it.key for it in waiting] == KEYS[1:]


def test_loop_night_stays_open_until_its_end_and_counts_failed_steps(
    relational: sqlalchemy.Engine,
) -> None:
    with relational.begin() as connection:
        night = open_night(connection)
        assert open_night(connection) == night
        assert [fail_step(connection, night.night, "refresh", "away") for _ in range(2)] == [1, 2]
        finish_step(connection, night.night, "refresh", {"new": 3})
        (step,) = steps_of(connection, night.night)
    assert (step.finished, step.attempts, step.reason, step.output) == (True, 2, None, {"new": 3})


@pytest.mark.parametrize("text", ["./missing", "a @ https://b/c.whl", "a; python_version < '3'"])
def test_watch_on_no_project_or_package_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        package_project(text)


def test_comparisons_of_identical_stacks_are_counted_by_verdict(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        watch = {"watch_id": "w", "kind": "package", "name": "numpy", "source": "person"}
        more = {"weight": 1.0, "request": {}, "state": "seen"}
        connection.execute(insert(WatchRow), [{**watch, **more}])
        night = open_night(connection).night
        for verdict in ("equivalent", "faster", "undetermined"):
            stacks = [{"label": verdict}]
            batch = add_batch(connection, night, "w", "PiMatmul", stacks, blocks=2)
            report = {"aa_verdict": verdict}
            set_batch_state(connection, batch, BatchState.INGESTED, report=report)
        # A batch without a report has no pair yet.
        add_batch(connection, night, "w", "PiMatmul", [{"label": "planned"}], blocks=2)
    with stores.engine.connect() as connection:
        recent = recent_identical_pairs(connection)
    assert recent == {"equivalent": 1, "faster": 1, "undetermined": 1}
