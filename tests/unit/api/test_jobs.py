"""Requests between API and worker: stored forms, options, shares of clients, waiting, schedules."""

from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from marshmallow import ValidationError

from adviser.advice_request import RequestOptions, StackRequest
from adviser.projects.parsing import parse_project
from adviser.scoring.criteria import RecommendationType
from api.http.errors import ApiError
from api.jobs.queue import QueueClient
from api.jobs.stored_requests import AdviceRequest, ProvenanceRequest
from api.jobs.tasks import CONTEXT, _postponed, schedules
from api.resources.advice import ProjectSchema, advice_request
from api.store_access import MAX_READINGS, ClientShares, answer_within
from common.settings import Settings
from graph.snapshot_reader import CheckTime
from model.errors import InvalidArgument, StoreUnavailable
from model.packages.environments import environment

PIPFILE = b'[packages]\nweb = {version = ">=1", index = "own"}\n[dev-packages]\ntool = "*"\n'
LOCK = orjson.dumps({"_meta": {}, "default": {"web": {"version": "==1.0"}}, "develop": {}})
PROJECT = parse_project({"Pipfile": PIPFILE, "Pipfile.lock": LOCK, "constraints.txt": b"web<3\n"})
REQUEST = AdviceRequest(
    StackRequest(
        PROJECT,
        environment("3.11", "linux_x86_64"),
        RecommendationType.STABLE,
        RequestOptions(published_before=datetime(2026, 1, 1, tzinfo=UTC), labels={"team": "blue"}),
    ),
    described_hardware={"cpu_family": 6, "cpu_model": 85},
    library_usage={"web": ("web.a", "web.b")},
)


def test_worker_reads_a_queued_request_as_it_was_accepted() -> None:
    stored = orjson.dumps(REQUEST.to_document())
    assert AdviceRequest.from_document(orjson.loads(stored)) == REQUEST
    checked = ProvenanceRequest(PROJECT, {"packages": {}}, {"default": {}}, origin="https://h/")
    stored = orjson.dumps(checked.to_document())
    assert ProvenanceRequest.from_document(orjson.loads(stored)) == checked


def test_cache_key_of_a_request_does_not_depend_on_its_sender() -> None:
    sent = replace(REQUEST, origin="https://git.example/x", source_type="cli")
    assert sent.to_document().keys() - REQUEST.to_document().keys() == {"origin", "source_type"}
    assert sent.cache_key == REQUEST.cache_key
    assert replace(REQUEST, may_fetch=True).cache_key != REQUEST.cache_key


@pytest.mark.parametrize(
    "document",
    [
        {"files": {"requirements.txt": "web\n"}, "type": "latest"},
        {"application_stack": {"requirements": "[packages]\n"}, "dev": False},
        {**REQUEST.to_document(), "schema_version": "advice-request-3"},
        {**REQUEST.to_document(), "more": 1},
        {},
    ],
    ids=["older v2", "older v1", "newer", "unknown field", "empty"],
)
def test_queued_request_of_another_version_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="another version"):
        AdviceRequest.from_document(document)


FILES = {"requirements.in": "web\n"}


def options_of(home: Path, **more: Any) -> RequestOptions:
    body = ProjectSchema().load({"files": FILES, **more})
    settings = Settings.from_env({"THOTH_HOME": str(home)})
    return advice_request(settings, body, may_fetch=False).asked.options


def test_api_request_may_forbid_but_not_request_builds(tmp_path: Path) -> None:
    assert not options_of(tmp_path).only_wheels
    assert options_of(tmp_path, only_wheels=True).only_wheels
    assert not options_of(tmp_path).build
    with pytest.raises(ValidationError, match="build"):
        options_of(tmp_path, build=True)


def test_unsupported_project_file_is_refused_with_its_tool() -> None:
    with pytest.raises(ValidationError, match="conda"):
        ProjectSchema().load({"files": {**FILES, "sub/meta.yaml": "name: a\n"}})


NEAR, FAR, OTHER = (QueueClient(f"192.0.2.{it}", anonymous=True) for it in (1, 2, 3))
WITH_TOKEN = QueueClient("token-1", anonymous=False)


def refused(shares: ClientShares, client: QueueClient) -> str:
    with pytest.raises(ApiError) as error, shares.place_for(client):
        pass
    assert (error.value.status, error.value.headers) == (429, {"Retry-After": "5"})
    return error.value.detail


def test_anonymous_requests_occupy_at_most_their_share_of_slots() -> None:
    shares = ClientShares(4)
    with ExitStack() as running:
        running.enter_context(shares.place_for(NEAR))
        assert refused(shares, NEAR) == (
            "1 such requests run, 1 of them of this client: try again later"
        )
        for client in (FAR, OTHER):
            running.enter_context(shares.place_for(client))
        assert refused(shares, QueueClient("198.51.100.7", anonymous=True)).startswith("3 such")
        running.enter_context(shares.place_for(WITH_TOKEN))
        assert refused(shares, WITH_TOKEN).startswith("4 such")
    with shares.place_for(NEAR):
        pass


def test_request_slot_is_released_after_an_error() -> None:
    shares = ClientShares(0)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), shares.place_for(NEAR):
            raise ValueError("broken")


def test_client_with_a_token_has_a_limited_number_of_slots() -> None:
    shares = ClientShares(4, each=2)
    token, other = (QueueClient(name, anonymous=False) for name in "ab")
    with ExitStack() as running:
        for client in (token, token, other, other):
            running.enter_context(shares.place_for(client))
            if client is token:
                continue
            assert refused(shares, token).startswith(("2 such", "3 such", "4 such"))
    with shares.place_for(token):
        pass


def test_request_to_a_silent_store_fails_at_its_time_limit() -> None:
    """More of them than there are places for."""
    stuck = Event()
    try:
        for _ in range(MAX_READINGS + 2):
            with pytest.raises(StoreUnavailable, match="no answer"):
                answer_within(0.02, lambda _: stuck.wait())
    finally:
        stuck.set()
    assert answer_within(60, lambda _: 7) == 7


def test_error_inside_a_time_limited_store_request_is_raised_unchanged() -> None:
    def broken(_: CheckTime) -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        answer_within(60, broken)


def test_answer_that_comes_as_its_time_runs_out_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class JustEnded(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            if not self.done():
                self.set_result(7)
                raise TimeoutError
            return super().result(timeout)

    pool = SimpleNamespace(submit=lambda *_: JustEnded())
    monkeypatch.setattr("api.store_access._pool", pool)
    assert answer_within(0, lambda _: 7) == 7


def test_abandoned_store_request_ends_at_its_next_time_check() -> None:
    ended = Event()

    def work(check_time: CheckTime) -> None:
        try:
            while True:
                check_time()
                ended.wait(0.001)
        finally:
            ended.set()

    with pytest.raises(StoreUnavailable, match="no answer"):
        answer_within(0.02, work)
    assert ended.wait(60)


def test_worker_schedules_follow_the_settings() -> None:
    settings = Settings.from_env({"CRON_NIGHTLY": "30 3 * * *", "FETCH_MISSING": "0"})
    due = {it.task: it.cron for it in schedules(settings)}
    assert due["cron.nightly"] == "30 3 * * *"
    assert due.keys() == {"cron.prune", "cron.nightly"}
    assert settings.fetch_missing is False


@pytest.mark.parametrize(("transient", "level"), [(True, "INFO"), (False, "WARNING")])
def test_only_a_store_that_is_away_is_a_warning(
    transient: bool, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = StoreUnavailable("the graph", "another projects", "wait", transient=transient)

    def writing() -> ExitStack:
        raise error

    worker = SimpleNamespace(service=SimpleNamespace(writing=writing))
    context: Any = SimpleNamespace(additional_context={CONTEXT: worker}, job=None)
    caplog.set_level("INFO", logger="api")
    _postponed(context, error, 1)
    assert [it.levelname for it in caplog.records] == [level]
