"""A trace goes from the request through the queue to the worker and both stores."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import sqlalchemy
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import text

from common import tracing
from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from graph.store_tracing import trace_stores
from tests.services.commands import ROOT
from tests.services.jobs import ASKED, client_of, run_jobs

ADVICE = "/api/v2/advice"
#: A trace that a client has begun.
BEGUN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_stores()
    tracing.use_provider(provider)
    yield exporter
    tracing.stop_tracing()


def named(spans: tuple[ReadableSpan, ...], start: str) -> list[ReadableSpan]:
    return [it for it in spans if it.name.startswith(start)]


def test_trace_covers_a_request_its_job_and_both_stores(
    stores: Stores, exported: InMemorySpanExporter
) -> None:
    with client_of(stores.settings, Scope.ADVISE) as client:
        headers = {"traceparent": BEGUN, "baggage": "private=hidden"}
        sent = client.post(f"{ADVICE}?force=true", json=ASKED, headers=headers)
        assert sent.status_code == 202, sent.text
    run_jobs(stores.settings)
    spans = exported.get_finished_spans()
    (server,) = named(spans, f"POST {ADVICE}")
    (job,) = named(spans, "process advice.make")
    assert server.context is not None
    assert job.parent is not None
    assert f"{server.context.trace_id:032x}" == BEGUN.split("-")[1]
    assert job.parent.span_id == server.context.span_id
    assert server.attributes == {
        "http.request.method": "POST", "http.route": ADVICE, "http.response.status_code": 202,
    }  # fmt: skip
    for parent in (server, job):
        assert parent.context is not None
        below = [it for it in spans if it.parent and it.parent.span_id == parent.context.span_id]
        assert named(tuple(below), "postgresql INSERT" if parent is server else "postgresql ")
        assert bool(named(tuple(below), "graph query")) == (parent is job)
    in_trace = [it for it in spans if it.context and it.context.trace_id == server.context.trace_id]
    assert len(in_trace) > 10


def test_trace_spans_contain_no_request_values(
    stores: Stores, exported: InMemorySpanExporter
) -> None:
    with client_of(stores.settings, Scope.ADVISE) as client:
        asked = {**ASKED, "files": {"requirements.in": "secretpackage\n"}}
        assert client.post(f"{ADVICE}?force=true", json=asked).status_code == 202
        client.get(f"{ADVICE}/adviser-secretid")
        client.get("/nowhere/secretpath?token=secretquery")
        secret = client.environ_base["HTTP_AUTHORIZATION"].partition(" ")[2]
    run_jobs(stores.settings)
    spans = exported.get_finished_spans()
    assert named(spans, f"GET {ADVICE}/<")
    assert named(spans, "GET")[-1].name == "GET"
    written = "\n".join(it.to_json() for it in spans)
    for hidden in ("secret", "SELECT ", "force", "127.0.0.1", secret):
        assert hidden not in written
    names = {name for it in spans for name in it.attributes or {}}
    assert names <= {
        "http.request.method", "http.route", "http.response.status_code", "error.type",
        "db.system.name", "db.operation.name", "messaging.system", "messaging.destination.name",
    }  # fmt: skip


def test_failed_statement_is_traced_only_with_its_error_type(
    relational: sqlalchemy.Engine, exported: InMemorySpanExporter
) -> None:
    with (
        pytest.raises(sqlalchemy.exc.DBAPIError),
        tracing.span("a job", "consumer", {}),
        relational.connect() as connection,
    ):
        connection.execute(text("SELECT CAST(:value AS integer)"), {"value": "hidden"})
    statement, job = exported.get_finished_spans()[-2:]
    assert (statement.name, job.name) == ("postgresql SELECT", "a job")
    for it in (statement, job):
        assert not it.status.is_ok
        assert it.attributes is not None
        assert it.attributes["error.type"] in {"InvalidTextRepresentation", "DataError"}
        assert "hidden" not in it.to_json()


def test_monitoring_requests_make_no_trace_spans(
    settings: Settings, relational: sqlalchemy.Engine, exported: InMemorySpanExporter
) -> None:
    with relational.connect() as connection:
        connection.execute(text("SELECT 1"))
    with client_of(settings, Scope.READ) as client:
        for path in ("/livez", "/readyz", "/metrics"):
            assert client.get(path).status_code == 200
    assert exported.get_finished_spans() == ()


def test_job_has_no_trace_context_if_tracing_is_disabled(
    relational: sqlalchemy.Engine, settings: Settings
) -> None:
    with client_of(settings, Scope.ADVISE) as client:
        headers = {"traceparent": BEGUN}
        assert client.post(ADVICE, json=ASKED, headers=headers).status_code == 202
    with relational.connect() as connection:
        (arguments,) = connection.scalars(text("SELECT args FROM procrastinate_jobs"))
    assert arguments.keys() == {"analysis_id"}


_STARTED = """
import logging, os, sys
logging.basicConfig()
import api.app, api.jobs.worker
from api.health.monitoring import trace_process
from common.tracing import start_tracing
address = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
for variables in ({}, {**address, "OTEL_SDK_DISABLED": "true"}, {"OTEL_SDK_DISABLED": "false"}, {}):
    os.environ.update(variables)
    if variables.get("OTEL_SDK_DISABLED") == "false":
        sys.modules["opentelemetry"] = None
    trace_process()
    print(start_tracing(), "opentelemetry.sdk" in sys.modules)
    if sys.modules.get("opentelemetry", 0) is None:
        del sys.modules["opentelemetry"]
"""


def test_tracing_libraries_load_only_if_configured_and_installed() -> None:
    """Not configured, disabled, not installed, and configured."""
    run = subprocess.run(
        [sys.executable, "-c", _STARTED], cwd=ROOT, text=True, capture_output=True, check=False,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (0, "False False\n" * 3 + "True True\n"), run.stderr
    assert "tracing_not_installed" in run.stderr
