"""The service as processes: over TLS, killed, stopped, traced, on a full disk, on two machines."""

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import neo4j
import psutil
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import text

from cli.service import serve
from common.settings import Settings
from graph.embedded import arcadedb
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import graph_url, relational_engine
from tests.factories.advisories import flask_sessions, write_archive
from tests.services.commands import ROOT, run_here, thoth
from tests.services.conformance import conformance
from tests.services.disks import fill, mounted_disk
from tests.services.embedded import kill_store
from tests.services.object_store import object_store
from tests.services.page_site import fill as fill_service
from tests.services.ports import closed_port
from tests.services.receiver import Receiver, receiver
from tests.services.served import Served, end, serving
from tests.services.waiting import DEADLINE_S, wait_until, waiting_for_locks

ADVISE = "/api/v1/advise/python"
QUERY = {
    "recommendation_type": "latest", "dev": "False", "debug": "False", "force": "False",
    "source_type": "cli", "origin": "None",
}  # fmt: skip
PIPFILE = '[packages]\nflask = "*"\n'
REQUEST = {
    "application_stack": {"requirements": PIPFILE, "requirements_lock": ""},
    "runtime_environment": {"python_version": "3.11"},
}


@pytest.fixture
def own() -> Iterator[Served]:
    """A service that a test may hurt."""
    with (
        tempfile.TemporaryDirectory(prefix="thoth-hurt-") as home,
        serving(Path(home), {"ANONYMOUS_SCOPES": "none"}, queues=["people"]) as running,
    ):
        yield running


def test_guard_trusts_the_certificate_in_ssl_cert_file(served: Served, tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("flask==3.1.2\n", encoding="utf-8")
    other = tmp_path / "new.txt"
    other.write_text("flask==3.1.3\n", encoding="utf-8")
    command = ("guard", str(lock), str(other), "--service", served.base_url)
    refused = thoth(served.settings, *command)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "hint: set SSL_CERT_FILE to a file with the certificate" in refused.stderr
    answered = thoth(served.settings, *command, SSL_CERT_FILE=str(served.ca))
    assert "flask: 3.1.2 → 3.1.3" in answered.stdout, answered.stderr


def test_server_certificate_is_valid_for_every_name_of_this_machine(served: Served) -> None:
    port = served.base_url.rpartition(":")[2]
    context = ssl.create_default_context(cafile=str(served.ca))
    for name in ("localhost", "127.0.0.1"):
        with (
            socket.create_connection(("127.0.0.1", int(port))) as plain,
            context.wrap_socket(plain, server_hostname=name) as secured,
        ):
            assert secured.version() in {"TLSv1.2", "TLSv1.3"}
    assert (served.ca.parent / "key.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
        httpx.get(f"{served.base_url}/livez")


def test_server_loads_comparisons_at_start_up(served: Served) -> None:
    log = served.log
    wait_until(lambda: "comparisons_read" in log.read_text("utf-8"), "it has read them", log=log)


def test_metrics_are_the_sum_of_all_server_processes(served: Served) -> None:
    def counted(client: httpx.Client) -> float:
        pattern = r'thoth_http_requests_total\{method="GET",route="/api/v1",status="200"\} (\S+)'
        found = re.search(pattern, client.get("/metrics").text)
        return float(found[1]) if found else 0.0

    with served.client() as client:
        before = counted(client)
    for _ in range(8):  # connections of their own, so that both processes have some
        with served.client() as client:
            assert client.get("/api/v1").status_code == 200
    with served.client() as client:
        assert counted(client) == before + 8


@pytest.mark.slow
def test_killed_worker_process_is_replaced_by_a_working_one(own: Served) -> None:
    supervisor = psutil.Process(own.worker.pid)
    (killed,) = supervisor.children()
    killed.send_signal(signal.SIGKILL)
    wait_until(
        lambda: {it.pid for it in supervisor.children()} not in ({killed.pid}, set()),
        "a worker is started again",
    )
    with own.client(own.token("advise", "read")) as client:
        accepted = client.post(ADVISE, params=QUERY, json=REQUEST)
        assert accepted.status_code == 202, accepted.text
        url = f"{ADVISE}/{accepted.json()['analysis_id']}/status"
        wait_until(
            lambda: client.get(url).json()["status"]["state"] in {"succeeded", "failed"},
            "the analysis has ended",
        )
        assert "thoth_worker_restarts_total 1.0" in client.get("/metrics").text


@pytest.mark.slow
def test_server_without_workers_restarts_dead_stores(own: Served) -> None:
    end(own.worker)
    stores = EmbeddedStores(own.settings)
    for kind in stores.kinds:
        kill_store(stores, kind)
    with own.client() as client:
        # Its answer is older than the death for up to two seconds.
        wait_until(lambda: all(stores.record_of(it) for it in stores.kinds), "both stores run")
        wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready", log=own.log)
    assert own.log.read_text("utf-8").count("store_died") == len(stores.kinds)


@pytest.mark.slow
def test_child_processes_end_when_the_supervisor_dies(own: Served) -> None:
    children = psutil.Process(own.worker.pid).children()
    own.worker.kill()
    own.worker.wait()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive


@pytest.mark.slow
def test_running_request_is_finished_before_the_server_ends(own: Served) -> None:
    served = psutil.Process(own.server.pid).children()
    secret = own.token("read")
    engine = relational_engine(own.settings)
    try:
        with ThreadPoolExecutor(1) as pool, engine.connect() as holder:
            holder.execute(text("LOCK TABLE tokens"))  # whoever shows a token waits for it
            with own.client(secret) as client:
                answer = pool.submit(client.get, "/api/v1")
                wait_until(lambda: waiting_for_locks(engine) == 1, "a request runs")
                own.server.send_signal(signal.SIGTERM)
                wait_until(lambda: not accepts(own), "it takes no more requests")
                assert own.server.poll() is None
                holder.rollback()
                assert answer.result(DEADLINE_S).status_code == 200
    finally:
        engine.dispose()
    assert end(own.server) == 0
    assert not psutil.wait_procs(served, timeout=DEADLINE_S)[1]
    assert not list((own.settings.home / "run" / "metrics").glob("serve@*"))


def accepts(service: Served) -> bool:
    try:
        with service.client() as client:
            # A connection may still be queued, but nobody takes it.
            return client.get("/livez", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_stores_and_service_stop_when_the_up_command_ends(tmp_path: Path) -> None:
    environ = {**os.environ, "THOTH_HOME": str(tmp_path)}
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", "from cli.main import main; main()"]
        up = subprocess.Popen(
            [*command, "up", "--serve", "--port", "0"],
            env=environ, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        ready = "Ctrl-C stops the service"
        wait_until(lambda: ready in log.read_text("utf-8"), "the service starts", log=log)
        children = psutil.Process(up.pid).children()
        assert len(children) == 4
        up.send_signal(signal.SIGINT)
        assert up.wait(DEADLINE_S) == 0, log.read_text("utf-8")
        assert "{" not in log.read_text("utf-8")  # a person reads it
        assert not psutil.wait_procs(children, timeout=DEADLINE_S)[1]
        stores = EmbeddedStores(Settings.from_env({"THOTH_HOME": str(tmp_path)}))
        assert [stores.record_of(kind) for kind in stores.kinds] == [None, None]
    finally:
        up.kill()
        EmbeddedStores(Settings.from_env({"THOTH_HOME": str(tmp_path)})).stop()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--host", "0.0.0.0"], "--tls-self-signed"),
        (["--host", "0.0.0.0", "--tls-self-signed", "--fetch-missing"], "--fetch-missing"),
        (["--behind-proxy", "--fetch-missing"], "--fetch-missing"),
    ],
)
def test_open_service_with_unsafe_options_does_not_start(
    options: list[str], named: str, tmp_path: Path
) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    refused = run_here(serve, settings, *options, "--port", "0")
    assert (refused.exit_code, named in refused.stderr) == (2, True)


SCOPES = ("read", "advise", "ingest", "inspect", "cypher", "admin")
#: Each operation's own; what boundary values make of it comes on top.
EXAMPLES = 2


@pytest.mark.slow  # sends some thousand requests
def test_every_response_to_generated_requests_matches_the_openapi_document(tmp_path: Path) -> None:
    """The worker runs what people wait for: no generated script is run, and no index is asked."""
    index = f"pypi=http://127.0.0.1:{closed_port()}/simple"
    with (
        tempfile.TemporaryDirectory(prefix="thoth-conforms-") as home,
        serving(Path(home), {"PACKAGE_INDEXES": index}, queues=["people"]) as full,
    ):
        fill_service(full)
        advisories = write_archive(tmp_path / "all.zip", flask_sessions())
        done = full.thoth("advisories", "sync", str(advisories))
        assert done.returncode == 0, done.stderr
        ran = conformance(
            full.base_url, full.token(*SCOPES), tmp_path,
            "--max-examples", str(EXAMPLES), "--seed", "1",
            phases=("examples", "coverage", "fuzzing"), ca=full.ca,
        )  # fmt: skip
    assert ran.failures == 0, ran.output
    assert ran.operations >= 60
    assert ran.cases >= 500


def test_unreadable_request_gets_problem_document_with_request_id(served: Served) -> None:
    with served.client() as client:
        response = client.get("/api/v1", params={"long": "x" * 9000})
    assert response.status_code == 414
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == 414
    assert response.json()["error"] == response.json()["detail"]
    request_id = response.headers["X-Request-Id"]
    assert response.json()["request_id"] == request_id
    assert response.headers["X-Thoth-Version"]
    assert any(request_id in line for line in served.log.read_text("utf-8").splitlines())


def spans_of(server: Receiver) -> Iterator[tuple[str, Span]]:
    """The name of the service and each span that arrived."""
    for request in server.received:
        assert request.path == "/v1/traces"
        export = ExportTraceServiceRequest.FromString(request.body)
        for resource in export.resource_spans:
            values = {it.key: it.value.string_value for it in resource.resource.attributes}
            for scope in resource.scope_spans:
                yield from ((values["service.name"], span) for span in scope.spans)


@pytest.mark.slow
def test_trace_of_a_request_and_its_job_reaches_the_collector() -> None:
    with receiver() as collector, tempfile.TemporaryDirectory(prefix="thoth-traced-") as home:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with serving(Path(home), variables) as service, service.client() as client:
            body = {"files": {"requirements.in": "web\n"}, "environment": {"python": "3.11"}}
            sent = client.post("/api/v2/advice?force=true", json=body)
            assert sent.status_code == 202, sent.text

            def job_arrived() -> bool:
                return any(it.name == "process advice.make" for _, it in spans_of(collector))

            wait_until(job_arrived, "the span of the job arrives", log=service.worker_log)
        spans = list(spans_of(collector))
    assert {name for name, _ in spans} == {"thoth"}
    (request,) = [it for _, it in spans if it.name == "POST /api/v2/advice"]
    (job,) = [it for _, it in spans if it.name == "process advice.make"]
    assert (job.trace_id, job.parent_span_id) == (request.trace_id, request.span_id)
    below = {it.name.partition(" ")[0] for _, it in spans if it.parent_span_id == job.span_id}
    assert below == {"postgresql", "graph"}


#: Each makes series of its own, in files that processes map into memory.
ROUTES = (
    "benchmarks", "bisects", "changes", "comparison-groups", "coverage", "hardware",
    "inspections", "loop", "packages", "reports", "stacks", "status", "vulnerabilities",
)  # fmt: skip


@pytest.mark.faults
@pytest.mark.slow
def test_service_answers_reads_on_a_full_disk(
    settings: Settings, graph: neo4j.Driver, tmp_path: Path
) -> None:
    """Writes to mapped files without space would end a process with SIGBUS."""
    stores = {"DATABASE_URL": settings.database_url or "", "GRAPH_URL": graph_url(settings)}
    with mounted_disk(tmp_path / "disk", 60) as disk, serving(disk, stores) as service:
        children = psutil.Process(service.server.pid).children()
        assert len(children) == 2

        def status_of_new_connection(path: str) -> int:
            with service.client() as client:
                return client.get(path).status_code

        filler = fill(disk)
        paths = [f"/api/v2/{it}{end}" for it in ROUTES for end in ("", "/unknown", "/unknown/x")]
        answers = {path: status_of_new_connection(path) for path in paths * 2}
        assert {it for path, it in answers.items() if path.count("/") == 3} == {200}, answers
        assert max(answers.values()) < 500, answers
        with service.client() as client:
            unready: httpx.Response = client.get("/readyz")
            assert unready.status_code == 503
            problem = unready.json()["checks"]["disk"]["problem"]
            assert problem == "the disk of THOTH_HOME is full"
            assert client.get("/livez").status_code == 200
            filler.unlink()
            wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready again")
        assert psutil.Process(service.server.pid).children() == children


PROJECT = {
    "files": {"requirements.in": "numpy\n"},
    "environment": {"python": "3.11", "platform": "manylinux_2_28_x86_64"},
}


@pytest.fixture
def shared(
    settings: Settings, graph: neo4j.Driver, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mapping[str, str]]:
    """Settings of all machines: PostgreSQL, graph and object store over the network."""
    passwords = EmbeddedStores(settings).passwords()
    assert passwords is not None
    with object_store(monkeypatch):
        yield {
            "DATABASE_URL": settings.database_url or "",
            "GRAPH_URL": graph_url(settings),
            "GRAPH_USER": arcadedb.USER,
            "GRAPH_PASSWORD": passwords.graph,
            "GRAPH_DATABASE": arcadedb.DATABASE,
            "DOCUMENT_STORE_URL": "s3://knowledge/documents",
            "FETCH_MISSING": "0",
        }


def result_of(client: httpx.Client, accepted: httpx.Response) -> Any:
    """The result of a request that was accepted, perhaps by another machine."""
    assert accepted.status_code == 202, accepted.text
    address = f"/api/v2/requests/{accepted.json()['analysis_id']}/result"

    def answered() -> httpx.Response | None:
        answer = client.get(address)
        return None if answer.status_code == 202 else answer

    answer = wait_until(answered, "the request has a result")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.slow
def test_each_machine_answers_requests_that_another_machine_accepted(
    shared: Mapping[str, str],
) -> None:
    """Advice is made on the first, uploads are ingested on the second."""
    with ExitStack() as stack:
        homes = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2)]
        first, second = (
            stack.enter_context(serving(Path(home), shared, queues=[queue]))
            for home, queue in zip(homes, ("people", "bulk"), strict=True)
        )
        token = first.token("read", "advise", "ingest")
        archive = (ROOT / "samples" / "inspections.tar.gz").read_bytes()
        with first.client(token) as one, second.client(token) as other:
            # Too large for PostgreSQL, so the second machine gets it from the object store.
            headers = {"Content-Type": "application/gzip"}
            uploaded = one.post("/api/v2/inspections", content=archive, headers=headers)
            ingested = result_of(one, uploaded)
            assert ingested["new"] == ingested["read"] == 22
            imported = second.thoth("packages", "import", str(ROOT / "samples/packages.jsonl.gz"))
            assert imported.returncode == 0, imported.stderr

            advised = other.post("/api/v2/advice", json=PROJECT)
            report = result_of(other, advised)
            assert report["result"]["report"]["products"]
            # The same request at the other machine is served from the cache.
            again = one.post("/api/v2/advice", json=PROJECT)
            assert again.json()["cached"], again.text

            assert end(first.server) == 0
            assert result_of(other, advised) == report
        assert second.thoth("graph", "sync").returncode == 0
        for machine in (first, second):
            assert not (machine.settings.home / "documents").exists()
            assert machine.thoth("graph", "verify").returncode == 0
        checked = second.thoth("record", "verify")
        assert checked.returncode == 0, checked.stdout
