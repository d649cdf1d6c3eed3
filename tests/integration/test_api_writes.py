"""What clients of our own resources send: inspections, requests for advice and packages, Cypher."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.jobs.queue import QueueClient
from common.settings import Settings
from graph.engine import Stores
from graph.projection import lag
from graph.record.access import Scope, latest_writes
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from pis.catalogue import INDICATORS
from tests.factories.archives import tar_of
from tests.factories.documents import document_2020_02
from tests.factories.releases import release
from tests.requirements import needs
from tests.services.commands import ROOT, row_counts
from tests.services.index import Index, package_index
from tests.services.jobs import client_of, execute, jobs_in, run_jobs
from tests.services.ports import closed_port
from tests.services.projection import deliver

SAMPLES = ROOT / "samples" / "inspections.tar.gz"
#: No request of a test may reach an index of this machine.
NOWHERE = (("pypi", f"http://127.0.0.1:{closed_port()}/simple"),)


@pytest.fixture
def known(stores: Stores) -> Stores:
    """``web`` needs ``core``; ``tool`` holds it back."""
    made = replace(stores, settings=replace(stores.settings, package_indexes=NOWHERE))
    deliver(
        made,
        [
            release("web", "3.0", ["core>=2"]),
            release("web", "2.0", ["core>=1"]),
            release("core", "2.0"),
            release("core", "1.0"),
            release("tool", "1.0", ["core<2"]),
        ],
    )
    return made


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    """With every scope that writes."""
    with client_of(known.settings, Scope.INGEST, Scope.ADVISE, Scope.CYPHER) as made:
        yield made


def done(client: FlaskClient, path: str, **options: Any) -> dict[str, Any]:
    """The state of a request at its end."""
    response = client.post(path, **options)
    assert response.status_code == 202, response.text
    run_jobs(client.application.extensions["thoth"].settings)
    return dict(client.get(response.headers["Location"]).get_json())


def result_of(client: FlaskClient, state: dict[str, Any]) -> Any:
    return client.get(state["result"]).get_json()


def messages(client: FlaskClient, state: dict[str, Any]) -> list[str]:
    return [it["message"] for it in client.get(state["log"]).get_json()["lines"]]


@pytest.fixture
def index() -> Iterator[Index]:
    """An index with one release of ``app``."""
    with package_index(protected=False, json=True) as made:
        made.add_wheel("app", "1.0", metadata="Requires-Dist: lib>=1\n")
        made.add_wheel("lib", "2.0")
        yield made


@pytest.fixture
def at_index(known: Stores, index: Index) -> Settings:
    """Settings with this index."""
    return replace(known.settings, package_indexes=(("pypi", index.url),), rate_limit=None)


APP = {"files": {"requirements.in": "app\n"}, "environment": {"python": "3.11"}}


def test_advice_can_be_requested_replayed_and_explained(client: FlaskClient, known: Stores) -> None:
    body = {"files": {"requirements.in": "web\ntool\n"}, "environment": {"python": "3.11"}}
    made = done(client, "/api/v2/advice", json=body)
    assert (made["state"], made["reason"]) == ("succeeded", None)
    result = client.get(made["result"])
    assert result.headers["X-Thoth-Graph-Revision"] == str(made["graph_revision"])
    assert made["as_of"].startswith(result.headers["X-Thoth-As-Of"][:19])
    (product,) = result.get_json()["result"]["report"]["products"]
    versions = {it["name"]: it["version"] for it in product["packages"]}
    assert versions == {"core": "1.0", "tool": "1.0", "web": "2.0"}
    advice = f"/api/v2/advice/{made['analysis_id']}"
    assert result_of(client, done(client, f"{advice}/replay"))["same"] is True
    why_not = f"{advice}/why-not?requirement=core>=2"
    assert result_of(client, done(client, why_not))["outcome"] == "conflict"
    # What is only read makes no work.
    jobs = jobs_in(known.engine)
    assert client.get(why_not).status_code == 200
    assert jobs_in(known.engine) == jobs
    assert any("attempt 1" in it for it in messages(client, made))


def test_missing_releases_are_read_before_the_advice(at_index: Settings, index: Index) -> None:
    index.add_wheel("app", "1.1", metadata="Requires-Dist: lib>=1\n")
    with client_of(at_index, Scope.ADVISE, Scope.INGEST) as client:
        first = done(client, "/api/v2/advice", json=APP)
        report = result_of(client, first)["result"]["report"]
        (product,) = report["products"]
        versions = {it["name"]: it["version"] for it in product["packages"]}
        assert versions == {"app": "1.1", "lib": "2.0"}
        assert report["certificate"]["status"] == "optimal"
        progress = first["progress"]
        assert progress["bytes_received"] > 0
        counts = {name: progress[name] for name in ("packages", "listed", "read", "requests")}
        assert counts == {"packages": 2, "listed": 3, "read": 2, "requests": 4}
        assert any("read 2 of 3 listed releases" in it for it in messages(client, first))
        # What was read is stored, and needs no further requests.
        seen = len(index.seen)
        again = done(client, "/api/v2/advice?force=true", json=APP)
        assert result_of(client, again)["result"]["report"]["products"] == report["products"]
        releases = client.get("/api/v2/packages/app/versions").get_json()
        assert [it["version"] for it in releases["items"]] == ["1.1"]
        assert len(index.seen) == seen
        # An older version is read when a question is about it.
        question = f"/api/v2/advice/{again['analysis_id']}/why-not?requirement=app<1.1"
        assert result_of(client, done(client, question))["outcome"] == "possible"
        assert len(index.seen) == seen + 1


def test_advice_without_an_unavailable_page_is_not_cached(client: FlaskClient) -> None:
    body = {"files": {"requirements.in": "web\nnobody\n"}, "environment": {"python": "3.11"}}
    first = done(client, "/api/v2/advice", json=body)
    assert first["state"] == "succeeded"
    logged = messages(client, first)
    missing = "still missing: nobody: it was not read from pypi"
    assert any(it.startswith(missing) for it in logged)
    assert any("only stored releases count" in it for it in logged)
    assert client.post("/api/v2/advice", json=body).get_json()["cached"] is False


def test_only_answers_that_were_proven_are_shared(known: Stores) -> None:
    shared = {}
    with client_of(replace(known.settings, fetch_missing=False), Scope.ADVISE) as client:
        for requirement in ("nobody", "web>=9", "web"):
            body = {**APP, "files": {"requirements.in": f"{requirement}\n"}}
            made = done(client, "/api/v2/advice", json=body)
            again = client.post("/api/v2/advice", json=body).get_json()
            shared[requirement] = again["cached"]
        for requirement in ("nobody", "core>=2"):
            question = f"/api/v2/advice/{made['analysis_id']}/why-not?requirement={requirement}"
            done(client, question)
            shared[f"why not {requirement}"] = client.post(question).get_json()["cached"]
    assert shared == {
        "nobody": False, "web>=9": True, "web": True,
        "why not nobody": False, "why not core>=2": True,
    }  # fmt: skip


@pytest.mark.parametrize("scopes", [(), (Scope.ADVISE,)], ids=["anonymous", "advise"])
def test_index_is_not_read_for_a_client_without_the_ingest_scope(
    at_index: Settings, index: Index, scopes: tuple[Scope, ...]
) -> None:
    """Nor may they by a member of the request that is the service's own."""
    with client_of(at_index, *scopes) as client:
        assert client.post("/api/v2/advice", json={**APP, "may_fetch": True}).status_code == 400
        stack = {"requirements": '[packages]\napp = "*"\n', "requirements_lock": None}
        theirs = client.post(
            "/api/v1/advise/python?recommendation_type=latest",
            json={"application_stack": stack, "may_fetch": True},
        )
        assert theirs.status_code == 202
        assert done(client, "/api/v2/advice", json=APP)["state"] == "succeeded"
    assert index.seen == []


def test_only_an_open_service_reads_missing_packages_for_any_client(at_index: Settings) -> None:
    with client_of(at_index, Scope.ADVISE, Scope.READ) as client:
        first = done(client, "/api/v2/advice", json=APP)["analysis_id"]
        page = client.get(f"/advice/{first}").text
        assert "Nothing is known here yet." in page
        remedy = page.index("<code>thoth up --serve</code> started it")
        assert remedy < page.index("How sure is this?")
        assert "thoth advise --fetch" not in page[remedy:]
        # As `thoth up --serve` starts the service:
        client.application.config["FETCH_MISSING"] = True
        del client.environ_base["HTTP_AUTHORIZATION"]
        second = done(client, "/api/v2/advice", json=APP)
        (product,) = result_of(client, second)["result"]["report"]["products"]
        assert {it["version"] for it in product["packages"]} == {"1.0", "2.0"}


def test_no_index_is_read_if_the_setting_forbids_it(at_index: Settings, index: Index) -> None:
    with client_of(replace(at_index, fetch_missing=False), Scope.ADVISE, Scope.INGEST) as client:
        state = done(client, "/api/v2/advice", json=APP)
        assert (state["state"], state["progress"]) == ("succeeded", None)
    assert index.seen == []


def test_uploaded_archive_is_ingested_once(client: FlaskClient, known: Stores) -> None:
    upload = {"data": SAMPLES.read_bytes(), "content_type": "application/gzip"}
    made = done(client, "/api/v2/inspections", **upload)
    assert made["state"] == "succeeded"
    assert client.post("/api/v2/inspections", **upload).get_json()["cached"] is True
    result = result_of(client, made)
    assert result["read"] == result["new"] > 0
    assert result["refusals"] == []
    assert row_counts(known.engine)["inspections"] == result["new"]
    assert lag(known.engine).count == 0
    left = (known.settings.home / "uploads").iterdir()
    assert [it for it in left if it.suffix != ".lock"] == []


def test_documents_in_an_uploaded_archive_that_are_refused_are_listed(client: FlaskClient) -> None:
    upload = {"data": tar_of({"broken.json": b"{[}"}), "content_type": "application/gzip"}
    result = result_of(client, done(client, "/api/v2/inspections", **upload))
    assert result["quarantined"] == 1
    assert [it["place"] for it in result["refusals"]] == ["broken.json"]


def test_invalid_documents_are_refused_and_nothing_is_stored(
    client: FlaskClient, known: Stores
) -> None:
    before = row_counts(known.engine)
    for body, kind, status in (
        (b"", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{[}", "application/json", 422),
        (b'{"a": 1}', "application/json", 422),
        (b"\x00\xff", "application/json", 422),
    ):
        response = client.post("/api/v2/inspections", data=body, content_type=kind)
        assert response.status_code == status, response.text
    # Tokens are used.
    assert {**row_counts(known.engine), "tokens": before["tokens"]} == before


def test_refused_upload_fails_with_its_reason(client: FlaskClient, known: Stores) -> None:
    uploads = (
        (b"no archive", "application/zip", "archive_broken"),
        (SAMPLES.read_bytes()[:1000], "application/gzip", "archive_broken"),
        (tar_of({"../../etc/x.json": b"{}"}), "application/gzip", "archive_path: ../../etc/x.json"),
        (tar_of({"a.json": b"\0" * 20_000_000}), "application/gzip", "archive_bomb"),
        (tar_of({"notes.md": b"words"}), "application/gzip", "empty_folder"),
        (b"[" + b" " * 1024**2, "application/json", "truncated_json"),
    )
    sent = [
        client.post("/api/v2/inspections", data=data, content_type=kind)
        for data, kind, _ in uploads
    ]
    run_jobs(known.settings)
    for accepted, (_, _, reason) in zip(sent, uploads, strict=True):
        done = client.get(accepted.headers["Location"]).get_json()
        assert done["state"] == "failed"
        assert f"refused: {reason}" in done["reason"]
    assert row_counts(known.engine)["inspections"] == 0


def test_packages_are_fetched_from_the_configured_index(at_index: Settings) -> None:
    with client_of(at_index, Scope.INGEST) as client:
        state = done(client, "/api/v2/packages", json={"requirements": ["lib>=1"]})
        assert state["state"] == "succeeded", state
        (report,) = result_of(client, state)["indexes"]
        assert report["new"] == 1


def test_unreachable_index_makes_a_fetch_fail(client: FlaskClient, known: Stores) -> None:
    response = client.post("/api/v2/packages", json={"requirements": ["app"]})
    for _ in range(3):
        execute(known.engine, "UPDATE procrastinate_jobs SET scheduled_at = NULL")
        run_jobs(known.settings)
    state = client.get(response.headers["Location"]).get_json()
    assert (state["state"], state["attempts"]) == ("error", 3)
    assert "3 attempts" in state["reason"]


def test_cypher_endpoint_cannot_write_and_obeys_limits(client: FlaskClient) -> None:
    query = "MATCH (p:Package) WHERE p.name = $name RETURN p, p.name AS name"
    body = {"query": query, "parameters": {"name": "web"}}
    found = client.post("/api/v2/cypher", json=body)
    assert found.status_code == 200, found.text
    document = found.get_json()
    assert document["columns"] == ["p", "name"]
    (row,) = document["rows"]
    assert row["name"] == "web"
    assert row["p"]["labels"] == ["Package"]
    assert found.headers["X-Thoth-Graph-Revision"]
    many = client.post("/api/v2/cypher", json={"query": "MATCH (n) RETURN n", "limit": 2})
    assert (len(many.get_json()["rows"]), many.get_json()["truncated"]) == (2, True)
    assert many.get_json()["truncated_by"] == "rows"
    assert many.get_json()["warnings"] == []
    misspelt = client.post("/api/v2/cypher", json={"query": "MATCH (p:Packge) RETURN p"}).get_json()
    warning = "the graph has no label Packge (did you mean Package?)"
    assert (misspelt["rows"], misspelt["warnings"]) == ([], [warning])
    strange = client.post(
        "/api/v2/cypher", json={"query": "UNWIND [1, 2] AS n RETURN n, 1.0 / 0.0 AS big"}
    )
    assert [it["n"] for it in strange.get_json()["rows"]] == [1, 2]
    for wrong in (
        {"query": "CREATE (n:Package {name: 'x'}) RETURN n"},
        {"query": "MATCH (n) DETACH DELETE n"},
        {"query": ";"},
        {"query": "RETURN 1", "timeout_s": 1e6},
        {"query": "RETURN"},
    ):
        response = client.post("/api/v2/cypher", json=wrong)
        assert response.status_code == 400, wrong
        assert response.get_json()["type"].startswith("/problems/invalid-")
    assert client.post("/api/v2/cypher", json=body).get_json()["rows"]


def test_cypher_queries_beyond_their_share_of_threads_are_refused(client: FlaskClient) -> None:
    analysts = client.application.extensions["thoth"].analysts
    with analysts.place_for(QueueClient("another", anonymous=False)):
        refused = client.post("/api/v2/cypher", json={"query": "RETURN 1 AS n"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert client.post("/api/v2/cypher", json={"query": "RETURN 1 AS n"}).status_code == 200


def test_cypher_results_end_at_the_byte_limit(known: Stores) -> None:
    small = replace(known.settings, query_byte_limit=3000)
    query = "UNWIND range(1, 50) AS n RETURN n, reduce(s = 'ab', y IN range(1, 8) | s + s) AS big"
    with client_of(small, Scope.READ, Scope.CYPHER) as client:
        answer = client.post("/api/v2/cypher", json={"query": query}).get_json()
        assert [it["n"] for it in answer["rows"]] == [1, 2, 3, 4, 5]
        assert (answer["truncated"], answer["truncated_by"]) == (True, "bytes")
    tiny = replace(known.settings, query_byte_limit=1)
    with client_of(tiny, Scope.READ) as client:
        names, path = [], "/api/v2/packages"
        while path:
            page = client.get(path).get_json()
            assert len(page["items"]) == 1
            names += [it["name"] for it in page["items"]]
            path = page["next"]
        assert names == ["core", "tool", "web"]


def test_request_is_shown_only_to_clients_with_its_scope(
    client: FlaskClient, known: Stores
) -> None:
    response = client.post("/api/v2/packages", json={"requirements": ["app"]})
    where = response.headers["Location"]
    with client_of(known.settings) as other:
        assert other.get(where).status_code == 401
    assert client.get("/api/v2/requests/upload-1-2").status_code == 404


def test_stored_inspection_can_be_sent_to_another_service(known: Stores) -> None:
    ingest_inspections(known.settings, known.engine, [str(SAMPLES)], SourceLimits())
    with client_of(known.settings, Scope.INGEST, Scope.READ) as client:
        listed = client.get("/api/v2/inspections").get_json()["items"]
        assert listed
        for item in listed:
            where = f"/api/v2/inspections/{item['document_id']}/document"
            body = client.get(where).data
            sent = client.post("/api/v2/inspections", data=body, content_type="application/json")
            assert sent.status_code == 200, sent.text
            assert sent.get_json()["documents"] == [item["document_id"]]


def test_single_inspection_document_is_ingested_at_once(client: FlaskClient, known: Stores) -> None:
    """One inspection as one JSON document, as older runners sent them."""
    body = json.dumps(document_2020_02()).encode()
    first = client.post("/api/v2/inspections", data=body, content_type="application/json")
    assert first.status_code == 201, first.text
    assert first.get_json()["new"] == len(first.get_json()["documents"]) > 0
    again = client.post("/api/v2/inspections", data=body, content_type="application/json")
    assert (again.status_code, again.get_json()["new"]) == (200, 0)
    assert client.post("/api/v2/cypher", json={"query": "RETURN 1 AS one"}).status_code == 200
    with known.engine.connect() as connection:
        (write,) = latest_writes(connection)  # the others were answered with what was there
    assert (write.status, write.subject) == (201, first.get_json()["documents"][0])
    assert jobs_in(known.engine) == [("graph.project", "todo")]
    run_jobs(known.settings)
    assert lag(known.engine).count == 0


BASE = "/amun/api/v1"
SCRIPT = """
import json, socket
try:
    socket.create_connection(("127.0.0.1", 22), 1)
    reached = True
except OSError:
    reached = False
result = {"rate": 1.0, "elapsed": 1.0}
print(json.dumps({"name": "Mine", "@parameters": {"reached": reached}, "@result": result}))
"""


@pytest.fixture
def measuring(stores: Stores) -> Iterator[FlaskClient]:
    """Who may have stacks measured."""
    with client_of(replace(stores.settings, rate_limit=None), Scope.INSPECT) as made:
        yield made


@needs("bwrap")
def test_script_submitted_to_amun_runs_in_the_sandbox_and_is_ingested(
    measuring: FlaskClient, stores: Stores
) -> None:
    specification = {
        "base": "registry.example/python:3.11", "identifier": "mine", "batch_size": 2,
        "script": SCRIPT, "timeout_s": 60,
    }  # fmt: skip
    response = measuring.post(f"{BASE}/inspect", json=specification)
    assert response.status_code == 202, response.text
    name = response.get_json()["inspection_id"]
    assert name.startswith("inspection-mine-")
    assert response.get_json()["parameters"]["batch_size"] == 2
    where = f"{BASE}/inspect/{name}"
    waiting = measuring.get(f"{where}/status").get_json()["status"]
    assert (waiting["build"], waiting["data_stored"]) == (None, False)
    assert waiting["workflow"]["state"] == "pending"
    assert measuring.get(f"{where}/build/log").get_json()["log"] is None
    assert measuring.get(f"{where}/job/0/result").status_code == 404

    run_jobs(measuring.application.extensions["thoth"].settings)

    status = measuring.get(f"{where}/status").get_json()["status"]
    assert status["workflow"]["state"] == "succeeded", status
    assert status["build"]["state"] == "succeeded", status
    assert status["data_stored"] is True
    assert measuring.get(f"{where}/job/batch-size").get_json()["batch_size"] == 2
    for item in range(2):
        document = measuring.get(f"{where}/job/{item}/result").get_json()
        assert document["result"]["confined"] is True
        assert document["result"]["stdout"]["@parameters"] == {"reached": False}
        assert "reached" in measuring.get(f"{where}/job/{item}/log").get_json()["log"]
    assert measuring.get(f"{where}/job/2/result").status_code == 404
    assert "not used" in measuring.get(f"{where}/build/log").get_json()["log"]
    asked = measuring.get(f"{where}/specification").get_json()["specification"]
    assert asked["script"] == SCRIPT
    listed = measuring.get(f"{BASE}/inspect?page=1&limit=5").get_json()
    assert listed == {"inspections": [name], "parameters": {"page": 1, "limit": 5}}
    assert measuring.get(f"{BASE}/inspect?page=2").get_json()["inspections"] == []
    assert row_counts(stores.engine)["inspections"] == 1
    second = measuring.post(f"{BASE}/inspect", json=specification).get_json()["inspection_id"]
    assert second != name


def test_amun_records_a_stack_that_cannot_be_built(measuring: FlaskClient) -> None:
    specification = {"script": "print(1)", "packages": ["no-such-native-package"]}
    name = measuring.post(f"{BASE}/inspect", json=specification).get_json()["inspection_id"]
    run_jobs(measuring.application.extensions["thoth"].settings)
    status = measuring.get(f"{BASE}/inspect/{name}/status").get_json()["status"]
    assert status["build"]["state"] == "failed"
    assert status["build"]["reason"] == "native-packages-missing"
    assert status["workflow"]["state"] == "succeeded"
    assert "no-such-native-package" in measuring.get(f"{BASE}/inspect/{name}/build/log").text


REFUSED: tuple[tuple[dict[str, Any] | bytes, str], ...] = (
    ({}, "script"),
    ({"script": "https://index.example/script.py"}, "script"),
    ({"script": " HTTPS://index.example/script.py\n"}, "script"),
    ({"script": "nobody-knows-it"}, "script"),
    ({"script": "print(1)", "batch_size": 0}, "batch_size"),
    ({"script": "print(1)", "batch_size": 10_000, "timeout_s": 3600}, "batch_size"),
    ({"script": "print(1)", "identifier": "../../up"}, "identifier"),
    ({"script": "print(1)", "files": [{"path": "../x", "content": ""}]}, "files"),
    ({"script": "print(1)", "unknown": 1}, "unknown"),
    ({"script": {"file": "secret"}}, "script"),
    *((it, "") for it in (b"", b"[]", b"{", b"\xff")),
)


def test_invalid_amun_request_is_refused_with_its_field(measuring: FlaskClient) -> None:
    for body, field in REFUSED:
        data = body if isinstance(body, bytes) else json.dumps(body)
        response = measuring.post(f"{BASE}/inspect", data=data, content_type="application/json")
        assert response.status_code == 400, response.text
        document = response.get_json()
        assert field in document["detail"]
        assert document["error"] == document["detail"]
        assert "parameters" in document
    assert measuring.get(f"{BASE}/inspect").get_json()["inspections"] == []


def test_amun_dockerfile_endpoint_returns_a_recipe_only(measuring: FlaskClient) -> None:
    body = {"base": "registry.example/python:3.11", "script": next(iter(INDICATORS))}
    response = measuring.post(
        f"{BASE}/_debug/generate-dockerfile", json={**body, "script": "print(1)"}
    )
    assert response.status_code == 200, response.text
    assert response.get_json()["dockerfile"].startswith("FROM registry.example/python:3.11\n")
    missing = measuring.post(f"{BASE}/_debug/generate-dockerfile", json={"script": "print(1)"})
    assert missing.status_code == 400
    assert measuring.get(f"{BASE}/inspect").get_json()["inspections"] == []


def test_amun_version_states_api_and_service_version(measuring: FlaskClient) -> None:
    response = measuring.get(f"{BASE}/version")
    assert set(response.get_json()) == {"version", "service_version"}
    assert response.headers["X-Amun-Version"] == response.get_json()["version"]


def test_unknown_amun_inspection_is_not_found(measuring: FlaskClient) -> None:
    for path in ("status", "specification", "build/log", "job/batch-size", "job/0/log"):
        missing = measuring.get(f"{BASE}/inspect/inspection-none-00000000/{path}")
        assert missing.status_code == 404
        assert missing.headers["X-Amun-Version"]
        assert missing.get_json()["error"]
