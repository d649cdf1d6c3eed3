"""What surrounds every request: health, figures, headers, limits, the list of writes."""

import asyncio
import gzip
import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from click.testing import CliRunner
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from api.app import create_app
from api.jobs import queue
from api.jobs.queue import Queue, QueueJob, QueueName, connection_name
from api.jobs.worker import queue_app
from api.server.certificates import self_signed
from api.store_access import EXTENSION
from cli.access import audit
from cli.stores import status
from common import __version__
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record.access import AuditEntry, add_write, latest_writes
from graph.record.analyses import AnalysisKind, AnalysisState, NewAnalysis, accept, finish, start
from model.errors import InvalidArgument, InvalidSettings
from tests.requirements import needs
from tests.services.commands import run_here
from tests.services.jobs import execute
from tests.services.ports import closed_port

ADVISE = "/api/v1/advise/python?recommendation_type=latest&dev=false&debug=false&force=false"
STATES = ("ready", "degraded", "unavailable")
REQUEST = {
    "application_stack": {"requirements": '[packages]\nflask = "*"\n', "requirements_lock": ""},
    "runtime_environment": {"python_version": "3.11"},
}


@contextmanager
def application(settings: Settings, **changes: Any) -> Iterator[Flask]:
    app = create_app(replace(settings, **changes))
    try:
        yield app
    finally:
        app.extensions[EXTENSION].close()


@pytest.fixture
def client(settings: Settings, stores: Stores) -> Iterator[FlaskClient]:
    with application(settings) as app:
        yield app.test_client()


def figure(client: FlaskClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


class TestHealth:
    def test_service_with_all_stores_is_ready(self, client: FlaskClient) -> None:
        answer = client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json["status"] == "ready"
        assert answer.json["checks"]["graph"]["status"] == "up"
        assert client.get("/livez").json["status"] == "alive"
        assert client.get("/readiness").json.keys() == {"status", "version"}
        assert client.get("/readiness").json["status"] == "ready"
        assert client.get("/liveness").status_code == 200

    def test_readiness_reports_the_lag_of_the_graph(
        self, client: FlaskClient, relational: sqlalchemy.Engine
    ) -> None:
        entry = "INSERT INTO outbox (kind, key, created_at)"
        execute(relational, f"{entry} VALUES ('stack', 'x', now() - interval '90 s')")
        graph = client.get("/readyz").json["checks"]["graph"]
        assert graph["waiting"] == 1
        assert graph["lag_s"] >= 90
        assert figure(client, "thoth_outbox_entries") == 1
        assert figure(client, "thoth_outbox_age_seconds") >= 90

    def test_readiness_reports_waiting_requests_without_a_worker(
        self, client: FlaskClient, relational: sqlalchemy.Engine
    ) -> None:
        idle = client.get("/readyz").json
        assert (idle["status"], idle["checks"]["workers"]["status"]) == ("ready", "none")
        files = {"requirements.txt": "web\n"}
        assert client.post("/api/v2/advice", json={"files": files}).status_code == 202
        assert client.get("/readyz").json["status"] == "ready"
        execute(relational, "UPDATE analyses SET accepted_at = now() - interval '90 s'")
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json["status"]) == (200, "degraded")
        workers = answer.json["checks"]["workers"]
        assert (workers["count"], workers["requests_waiting"]) == (0, 1)
        assert workers["longest_wait_s"] >= 90
        assert "`thoth worker`" in workers["problem"]
        execute(relational, "INSERT INTO procrastinate_workers DEFAULT VALUES")
        late = client.get("/readyz").json
        assert (late["status"], late["checks"]["workers"]["status"]) == ("degraded", "up")
        assert "`thoth queue list`" in late["checks"]["workers"]["problem"]
        execute(relational, "UPDATE analyses SET kind = 'inspection'")
        busy = client.get("/readyz").json
        assert (busy["status"], busy["checks"]["workers"]["status"]) == ("ready", "up")
        assert "problem" not in busy["checks"]["workers"]

    def test_readiness_reports_a_stalled_projection(
        self, client: FlaskClient, relational: sqlalchemy.Engine
    ) -> None:
        entry = "INSERT INTO outbox (kind, key, created_at) VALUES ('stack', 'a', now() - interval "
        execute(relational, f"{entry} '10 s')")
        assert client.get("/readyz").json["status"] == "ready"
        execute(relational, f"{entry} '90 s')")
        execute(
            relational, "DELETE FROM outbox WHERE entry_id = (SELECT min(entry_id) FROM outbox)"
        )
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json["status"]) == (200, "degraded")
        assert answer.json["checks"]["graph"]["status"] == "up"
        assert "`thoth graph sync`" in answer.json["checks"]["graph"]["problem"]

    def test_readiness_reports_waiting_jobs_without_a_worker(
        self, client: FlaskClient, settings: Settings, relational: sqlalchemy.Engine
    ) -> None:
        job = QueueJob("graph.project", QueueName.BULK)
        with relational.begin() as connection:
            Queue(relational, 10).enqueue(connection, job)
        assert client.get("/readyz").json["status"] == "ready"
        execute(relational, "UPDATE procrastinate_events SET at = now() - interval '90 s'")
        answer = client.get("/readyz").json
        assert answer["status"] == "degraded"
        assert answer["checks"]["workers"]["jobs_waiting"] == 1
        assert answer["checks"]["workers"]["problem"].startswith("1 job has waited")
        assert "1 job has waited" in run_here(status, settings).stdout

    def test_service_without_the_graph_is_degraded(
        self, settings: Settings, stores: Stores
    ) -> None:
        url = f"bolt://127.0.0.1:{closed_port()}"
        with application(settings, graph_url=url, connect_timeout_s=1.0) as app:
            answer = app.test_client().get("/readyz")
            assert answer.status_code == 200
            assert answer.json["status"] == "degraded"
            assert answer.json["checks"]["graph"]["status"] == "down"
            assert app.test_client().get("/readiness").status_code == 200
            assert figure(app.test_client(), "thoth_graph_up") == 0
            assert figure(app.test_client(), 'thoth_readiness{status="degraded"}') == 1

    def test_service_without_postgresql_is_alive_but_not_ready(self, settings: Settings) -> None:
        url = f"postgresql://nobody:hidden@127.0.0.1:{closed_port()}/nothing"
        with application(settings, database_url=url) as app:
            client = app.test_client()
            answer = client.get("/readyz")
            assert answer.status_code == 503
            assert answer.json["status"] == "unavailable"
            assert "hidden" not in answer.text
            assert "127.0.0.1" not in answer.text
            assert client.get("/readiness").status_code == 503
            refused = client.get("/api/v1/advise/python/adviser-1-1")
            assert refused.status_code == 503
            assert refused.headers["Retry-After"]
            assert "hidden" not in refused.text
            assert "127.0.0.1" not in refused.text
            assert str(settings.home) not in refused.text
            assert client.get("/livez").status_code == 200
            assert figure(client, "thoth_record_up") == 0

    @pytest.mark.parametrize("revision", ["0000", "1a2b3c4d5e6f"])
    def test_service_with_an_unknown_schema_is_not_ready(
        self, client: FlaskClient, relational: sqlalchemy.Engine, revision: str
    ) -> None:
        stamp(relational, revision)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json["checks"]["postgresql"]["status"] == "up"
        refused = client.post(ADVISE, json=REQUEST)
        assert refused.status_code == 503
        assert "schema is not this release's" in refused.json["detail"]
        assert client.get("/api/v2/packages").status_code == 200

    def test_server_continues_reading_after_a_newer_release_migrated(
        self, client: FlaskClient, relational: sqlalchemy.Engine
    ) -> None:
        stamp(relational, "9999")
        answer = client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json["status"] == "degraded"
        assert answer.json["checks"]["postgresql"] == {
            "status": "up",
            "problem": "a newer release migrated it: upgrade this server",
        }
        for path in ("stacks", "packages", "inspections", "hardware"):
            assert client.get(f"/api/v2/{path}").status_code == 200


def stamp(relational: sqlalchemy.Engine, revision: str) -> None:
    """Write the revision of the schema, as a migration does."""
    execute(relational, f"UPDATE alembic_version SET version_num = '{revision}'")


class TestFigures:
    def test_metrics_count_requests_by_url_pattern(self, client: FlaskClient) -> None:
        name = (
            'thoth_http_requests_total{method="GET",'
            'route="/api/v1/advise/python/<string:analysis_id>",status="404"}'
        )
        for number in range(3):
            client.get(f"/api/v1/advise/python/adviser-1-{number}")
        assert figure(client, name) >= 3
        assert "adviser-1-" not in client.get("/metrics").text

    def test_unknown_paths_and_methods_make_no_metric_series(self, client: FlaskClient) -> None:
        for number in range(3):
            client.open(f"/nowhere/{number}", method=f"MADEUP{number}")
        found = client.get("/metrics").text
        assert "MADEUP" not in found
        assert 'method="other",route="none"' in found

    def test_metrics_include_queue_and_requests(self, client: FlaskClient) -> None:
        assert figure(client, 'thoth_queue_jobs{queue="people"}') == 0
        assert client.post(ADVISE, json=REQUEST).status_code == 202
        assert figure(client, 'thoth_queue_jobs{queue="people"}') == 1
        assert figure(client, 'thoth_analyses{kind="adviser",state="pending"}') == 1

    def test_metrics_count_all_request_kinds(self, client: FlaskClient, stores: Stores) -> None:
        with stores.engine.begin() as connection:
            for kind in AnalysisKind:
                new = NewAnalysis(f"{kind}-1", kind, {}, {}, "key")
                accept(connection, stores.settings, new)
                start(connection, new.analysis_id)
                finish(connection, new.analysis_id, AnalysisState.SUCCEEDED)
        for kind in AnalysisKind:
            assert figure(client, f'thoth_analyses{{kind="{kind}",state="succeeded"}}') == 1
            took = f'thoth_analysis_run_seconds{{kind="{kind}",quantile="0.5"}}'
            assert figure(client, took) >= 0

    def test_metrics_show_workers_and_the_oldest_job_of_each_queue(
        self,
        client: FlaskClient,
        settings: Settings,
        relational: sqlalchemy.Engine,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with relational.begin() as connection:
            jobs = Queue(relational, 10)
            jobs.enqueue(connection, QueueJob("graph.project", QueueName.BULK))
            jobs.enqueue(connection, QueueJob("graph.project", QueueName.PEOPLE, delay_s=600))
        execute(relational, "UPDATE procrastinate_events SET at = now() - interval '90 s'")
        assert figure(client, 'thoth_queue_age_seconds{queue="bulk"}') >= 90
        assert figure(client, 'thoth_queue_age_seconds{queue="people"}') == 0
        numbers = {it: f'thoth_queue_workers{{queue="{it}"}}' for it in QueueName}
        assert {figure(client, it) for it in numbers.values()} == {0}
        name = connection_name([QueueName.BULK, QueueName.PEOPLE], f"12345@{'host' * 20}")

        async def connected() -> dict[QueueName, float]:
            async with queue_app(settings, name).open_async():
                return {queue: figure(client, it) for queue, it in numbers.items()}

        attended = asyncio.run(connected())
        assert attended == {QueueName.PEOPLE: 1, QueueName.BULK: 1, QueueName.INSPECTIONS: 0}
        # A connection on which nothing was asked for a while is no sign of life.
        monkeypatch.setattr(queue, "ALIVE_S", 0.0)
        assert set(asyncio.run(connected()).values()) == {0}

    def test_metrics_show_the_state_of_the_service(
        self, settings: Settings, stores: Stores, tmp_path: Path
    ) -> None:
        certificate = self_signed(tmp_path)
        with application(settings) as app:
            app.config["CERTIFICATE"] = certificate.path
            client = app.test_client()
            states = [figure(client, f'thoth_readiness{{status="{it}"}}') for it in STATES]
            assert states == [1, 0, 0]
            assert figure(client, "thoth_graph_up") == 1
            expiry = figure(client, "thoth_certificate_expiry_timestamp_seconds")
            assert expiry == certificate.expires_at.timestamp()
            free, size = (figure(client, f"thoth_disk_{it}_bytes") for it in ("free", "size"))
            assert 0 < free <= size
            assert figure(client, "thoth_record_size_bytes") > 0
            build = (
                f'thoth_build_info{{python="{platform.python_version()}",version="{__version__}"}}'
            )
            assert figure(client, build) == 1

    def test_knowledge_metrics_are_cached_for_minutes(
        self, client: FlaskClient, relational: sqlalchemy.Engine
    ) -> None:
        execute(
            relational,
            """
            INSERT INTO quarantine (kind, source, place, reason, field, message, resolved_at)
            VALUES ('inspection', 'a', '', 'tampered', '$', '', NULL),
                ('inspection', 'b', '', 'tampered', '$', '', now());
            INSERT INTO package_events (kind, index_name, name, version, detail, occurred_at)
            VALUES ('changed_hash', 'pypi', 'web', '1', '{}', now() - interval '6 days'),
                ('changed_hash', 'pypi', 'web', '2', '{}', now() - interval '8 days'),
                ('yanked', 'pypi', 'web', '2', '{}', now())
            """,
        )
        assert figure(client, 'thoth_quarantine_entries{reason="tampered"}') == 1
        assert figure(client, "thoth_hash_alarms") == 1
        assert figure(client, 'thoth_advice{status="feasible"}') == 0
        execute(relational, "UPDATE quarantine SET resolved_at = now()")
        assert figure(client, 'thoth_quarantine_entries{reason="tampered"}') == 1

    @needs("promtool")
    def test_promtool_accepts_the_metrics(self, client: FlaskClient) -> None:
        assert client.post(ADVISE, json=REQUEST).status_code == 202
        checked = subprocess.run(
            ["promtool", "check", "metrics"],  # noqa: S607 - found where the machine has it
            input=client.get("/metrics").data, capture_output=True, check=False,
        )  # fmt: skip
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


class TestHeaders:
    @pytest.fixture
    def client(self, filled_app: Flask) -> FlaskClient:
        """A client of a service that is not changed."""
        return filled_app.test_client()

    def test_every_response_forbids_scripts_and_framing(self, client: FlaskClient) -> None:
        for path in ("/api/v1", "/livez", "/nowhere", "/openapi.json"):
            headers = client.get(path).headers
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["X-Frame-Options"] == "DENY"
            assert headers["Referrer-Policy"] == "same-origin"
            assert "Access-Control-Allow-Origin" not in headers
            assert headers["X-Request-Id"]

    def test_strict_transport_security_is_sent_for_public_names_over_tls_only(
        self, client: FlaskClient
    ) -> None:
        for base in ("https://api.example", "http://api.example", "https://localhost"):
            headers = client.get("/livez", base_url=base).headers
            assert ("Strict-Transport-Security" in headers) is (base == "https://api.example")

    def test_only_configured_origins_may_read_responses(
        self, settings: Settings, stores: Stores
    ) -> None:
        with application(settings, cors_origins=("https://app.example",)) as app:
            client = app.test_client()
            allowed = client.get("/livez", headers={"Origin": "https://app.example"}).headers
            other = client.get("/livez", headers={"Origin": "https://app.example.evil"}).headers
        assert allowed["Access-Control-Allow-Origin"] == "https://app.example"
        assert "Access-Control-Allow-Credentials" not in allowed
        assert "Access-Control-Allow-Origin" not in other

    def test_large_responses_are_compressed_for_clients_that_accept_gzip(
        self, client: FlaskClient
    ) -> None:
        plain = client.get("/openapi.json")
        packed = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in plain.headers
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.data) == plain.data

    def test_forwarded_headers_count_only_behind_a_proxy(self, settings: Settings) -> None:
        for behind, told in ((True, True), (False, False)):
            app = create_app(settings, behind_proxy=behind)
            headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "api.example"}
            answer = app.test_client().get("/livez", headers=headers)
            app.extensions[EXTENSION].close()
            assert ("Strict-Transport-Security" in answer.headers) is told


class TestLimits:
    def test_rate_limit_none_disables_the_limit(self, settings: Settings, stores: Stores) -> None:
        with application(settings, rate_limit=None) as app:
            client = app.test_client()
            assert {client.get("/api/v1").status_code for _ in range(50)} == {200}

    def test_unknown_rate_limit_storage_is_named(self, settings: Settings) -> None:
        with (
            pytest.raises(InvalidSettings, match="RATE_LIMIT_STORAGE:"),
            application(settings, rate_limit_storage="nowhere://x"),
        ):
            pass

    def test_statements_of_a_request_have_a_time_limit(self, settings: Settings) -> None:
        with (
            application(settings, query_timeout_s=0.5) as app,
            app.extensions[EXTENSION].reading() as connection,
        ):
            assert connection.scalar(text("SHOW statement_timeout")) == "500ms"
        engine = relational_engine(settings)
        with engine.connect() as connection:
            assert connection.scalar(text("SHOW statement_timeout")) == "10min"
        engine.dispose()


class TestWrites:
    def test_audit_log_contains_only_writes(
        self, client: FlaskClient, relational: sqlalchemy.Engine
    ) -> None:
        client.get("/api/v1")
        made = client.post(ADVISE, json=REQUEST, headers={"X-Request-Id": "request-of-mine"})
        assert client.post(ADVISE, json={}).status_code == 400
        with relational.connect() as connection:
            (write,) = latest_writes(connection)
        assert write.request_id == "request-of-mine"
        assert write.subject == made.json["analysis_id"]
        assert (write.method, write.route, write.status) == ("POST", "/api/v1/advise/python", 202)
        assert write.address == "127.0.0.1"
        assert write.token_id is None

    def test_audit_command_lists_writes(self, client: FlaskClient, settings: Settings) -> None:
        made = [client.post(ADVISE, json=REQUEST).json["analysis_id"] for _ in "12"]
        again = client.post(f"{ADVISE}&force=true".replace("&force=false", ""), json=REQUEST)
        assert made[0] == made[1] != again.json["analysis_id"]
        listed = CliRunner().invoke(audit, ["--json"], obj=settings)
        writes = json.loads(listed.stdout)["writes"]
        assert [it["subject"] for it in writes] == [again.json["analysis_id"], made[0]]
        newest = CliRunner().invoke(audit, ["--limit", "1"], obj=settings)
        (line,) = newest.stdout.splitlines()
        assert again.json["analysis_id"] in line
        assert "anonymous  127.0.0.1  POST /api/v1/advise/python  202" in line
        assert newest.stderr == "only the newest 1 are listed; --limit lists more\n"
        whole = CliRunner().invoke(audit, ["--limit", "2", "--json"], obj=settings)
        assert (json.loads(whole.stdout)["truncated"], whole.stderr) == (False, "")


def test_audit_log_is_exported_as_lines(settings: Settings, stores: Stores) -> None:
    with stores.engine.begin() as connection:
        add_write(connection, AuditEntry("r", None, "::1", "POST", "/a", 201, "é,x"))
        columns = "request_id, address, method, route, status, subject"
        copied = f"INSERT INTO audit_log ({columns}) SELECT {columns} FROM audit_log"
        connection.execute(text(f"{copied}, generate_series(2, 5000)"))
        old = "UPDATE audit_log SET at = at - interval '3 days' WHERE entry_id <= 10"
        connection.execute(text(old))

    def exported(*options: str) -> list[str]:
        done = CliRunner().invoke(audit, ["export", *options], obj=settings)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    entries = [json.loads(line) for line in exported()]
    assert len(entries) == 5_000
    assert [it["at"] for it in entries] == sorted(it["at"] for it in entries)
    assert entries[0]["subject"] == "é,x"
    assert len(exported("--until", "2d")) == 10
    assert len(exported("--since", "2d")) == 4_990
    assert exported("--since", "2100-01-01") == []
    wrong = CliRunner().invoke(audit, ["export", "--since", "soon"], obj=settings)
    assert isinstance(wrong.exception, InvalidArgument)
    turned = run_here(audit, settings, "export", "--since", "1d", "--until", "2d")
    assert (turned.exit_code, turned.stdout) == (2, "")
    assert "--since 1d is not before --until 2d" in turned.stderr


def test_server_threads_share_a_bounded_number_of_connections(stores: Stores) -> None:
    """One is enough for whatever a request does, so that no request waits for itself."""
    settings = replace(stores.settings, rate_limit=None)
    app = create_app(settings, threads=1)
    service = app.extensions[EXTENSION]
    try:
        client = app.test_client()
        for path in ("/readyz", "/metrics", "/api/v2/status", "/api/v2/stacks", "/api/v2/packages"):
            assert client.get(path).status_code == 200, path
        assert client.post(ADVISE, json=REQUEST).status_code == 202
        service.engine.pool._timeout = 0.01
        with service.reading(), pytest.raises(sqlalchemy.exc.TimeoutError):
            service.engine.connect()
    finally:
        service.close()
    with application(settings) as default:
        pool = default.extensions[EXTENSION].engine.pool
        assert pool.size() + pool._max_overflow > 1


def test_api_description_page_needs_no_script(client: FlaskClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    document = client.get("/openapi.json").json
    assert document is not None
    assert document["openapi"] == "3.1.0"
    for path in document["paths"]:
        assert path in page.text
    assert "<script" not in page.text
    assert "style=" not in page.text
    assert "'unsafe-inline'" not in page.headers["Content-Security-Policy"]
    with client.get("/static/docs.css") as style:
        assert style.status_code == 200
    assert client.get("/docs", headers={"If-None-Match": page.headers["ETag"]}).status_code == 304
