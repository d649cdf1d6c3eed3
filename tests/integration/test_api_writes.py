"""What clients of our own resources send: inspections, requests for advice and packages, Cypher."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.jobs.queue import QueueClient
from graph.engine import Stores
from graph.projection import lag
from graph.record.access import Scope, latest_writes
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from tests.factories.documents import document_2020_02
from tests.factories.releases import release
from tests.services.commands import ROOT, row_counts
from tests.services.index import package_index
from tests.services.jobs import client_of, jobs_in, run_jobs
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


def asked(client: FlaskClient, **more: Any) -> dict[str, Any]:
    """A request for advice, at its end."""
    body = {"files": {"requirements.in": "web\ntool\n"}, "environment": {"python": "3.11"}, **more}
    response = client.post("/api/v2/advice", json=body)
    assert response.status_code == 202, response.text
    settings = client.application.extensions["thoth"].settings
    run_jobs(settings)
    return dict(client.get(response.headers["Location"]).get_json())


def test_advice_can_be_requested_replayed_and_explained(client: FlaskClient, known: Stores) -> None:
    done = asked(client)
    assert (done["state"], done["reason"]) == ("succeeded", None)
    result = client.get(done["result"])
    assert result.headers["X-Thoth-Graph-Revision"] == str(done["graph_revision"])
    assert done["as_of"].startswith(result.headers["X-Thoth-As-Of"][:19])
    report = result.get_json()
    (product,) = report["result"]["report"]["products"]
    versions = {it["name"]: it["version"] for it in product["packages"]}
    assert versions == {"core": "1.0", "tool": "1.0", "web": "2.0"}
    advice = f"/api/v2/advice/{done['analysis_id']}"
    replay = client.post(f"{advice}/replay")
    why = client.post(f"{advice}/why-not?requirement=core>=2")
    assert (replay.status_code, why.status_code) == (202, 202)
    run_jobs(known.settings)
    again = client.get(replay.get_json()["result"] or f"{replay.headers['Location']}/result")
    assert again.get_json()["same"] is True
    told = client.get(f"{why.headers['Location']}/result")
    assert told.status_code == 200
    assert told.get_json()["outcome"] == "conflict"
    # What is only read makes no work.
    jobs = jobs_in(known.engine)
    assert client.get(f"{advice}/why-not?requirement=core>=2").status_code == 200
    assert jobs_in(known.engine) == jobs
    lines = client.get(done["log"]).get_json()["lines"]
    assert any("attempt 1" in it["message"] for it in lines)


def test_missing_releases_are_read_before_the_advice(known: Stores) -> None:
    with package_index(protected=False, json=True) as index:
        for version in ("1.0", "1.1"):
            index.add_wheel("app", version, metadata="Requires-Dist: lib>=1\n")
        index.add_wheel("lib", "2.0")
        settings = replace(known.settings, package_indexes=(("pypi", index.url),))
        with client_of(settings, Scope.ADVISE, Scope.INGEST) as client:
            body = {"files": {"requirements.in": "app\n"}, "environment": {"python": "3.11"}}
            first = client.post("/api/v2/advice", json=body)
            run_jobs(settings)
            where = first.headers["Location"]
            report = client.get(f"{where}/result").get_json()["result"]["report"]
            (product,) = report["products"]
            versions = {it["name"]: it["version"] for it in product["packages"]}
            assert versions == {"app": "1.1", "lib": "2.0"}
            assert report["certificate"]["status"] == "optimal"
            progress = client.get(where).get_json()["progress"]
            assert progress["bytes_received"] > 0
            counts = {name: progress[name] for name in ("packages", "listed", "read", "requests")}
            assert counts == {"packages": 2, "listed": 3, "read": 2, "requests": 4}
            lines = client.get(f"{where}/log").get_json()["lines"]
            assert any("read 2 of 3 listed releases" in it["message"] for it in lines)
            # What was read is stored, and needs no further requests.
            seen = len(index.seen)
            again = client.post("/api/v2/advice?force=true", json=body)
            run_jobs(settings)
            second = client.get(f"{again.headers['Location']}/result").get_json()
            assert second["result"]["report"]["products"] == report["products"]
            releases = client.get("/api/v2/packages/app/versions").get_json()
            assert [it["version"] for it in releases["items"]] == ["1.1"]
            assert len(index.seen) == seen
            # An older version is read when a question is about it.
            question = f"/api/v2/advice/{again.get_json()['analysis_id']}/why-not"
            why_not = client.post(f"{question}?requirement=app<1.1")
            run_jobs(settings)
            answer = client.get(f"{why_not.headers['Location']}/result").get_json()
            assert answer["outcome"] == "possible"
            assert len(index.seen) == seen + 1


def test_advice_that_lacks_a_page_is_not_cached(known: Stores) -> None:
    with client_of(known.settings, Scope.ADVISE, Scope.INGEST) as client:
        body = {"files": {"requirements.in": "web\nnobody\n"}, "environment": {"python": "3.11"}}
        first = client.post("/api/v2/advice", json=body)
        run_jobs(known.settings)
        where = first.headers["Location"]
        assert client.get(where).get_json()["state"] == "succeeded"
        messages = [it["message"] for it in client.get(f"{where}/log").get_json()["lines"]]
        missing = "still missing: nobody: it was not read from pypi"
        assert any(it.startswith(missing) for it in messages)
        assert any("only what is stored counts" in it for it in messages)
        again = client.post("/api/v2/advice", json=body)
        assert again.get_json()["cached"] is False


@pytest.mark.parametrize("scopes", [(), (Scope.ADVISE,)], ids=["anonymous", "advise"])
def test_request_of_a_client_that_may_not_ingest_reads_no_index(
    known: Stores, scopes: tuple[Scope, ...]
) -> None:
    """Nor may they by a member of the request that is the service's own."""
    with package_index(protected=False, json=True) as index:
        index.add_wheel("app", "1.0")
        settings = replace(known.settings, package_indexes=(("pypi", index.url),))
        with client_of(settings, *scopes) as client:
            body = {"files": {"requirements.in": "app\n"}}
            ours = client.post("/api/v2/advice", json=body)
            assert (
                client.post("/api/v2/advice", json={**body, "may_fetch": True}).status_code == 400
            )
            stack = {"requirements": '[packages]\napp = "*"\n', "requirements_lock": None}
            theirs = client.post(
                "/api/v1/advise/python?recommendation_type=latest",
                json={"application_stack": stack, "may_fetch": True},
            )
            assert (ours.status_code, theirs.status_code) == (202, 202)
            run_jobs(settings)
            assert client.get(ours.headers["Location"]).get_json()["state"] == "succeeded"
        assert index.seen == []


def test_open_service_reads_missing_packages_and_a_closed_one_says_how(known: Stores) -> None:
    with package_index(protected=False, json=True) as index:
        index.add_wheel("app", "1.0")
        settings = replace(known.settings, package_indexes=(("pypi", index.url),), rate_limit=None)
        with client_of(settings, Scope.ADVISE, Scope.READ) as client:
            body = {"files": {"requirements.in": "app\n"}}
            first = client.post("/api/v2/advice", json=body).get_json()["analysis_id"]
            run_jobs(settings)
            page = client.get(f"/advice/{first}").text
            assert "Nothing is known here yet." in page
            remedy = page.index("<code>thoth up --serve</code> started it")
            assert remedy < page.index("How sure is this?")
            assert "thoth advise --fetch" not in page[remedy:]
            # As `thoth up --serve` starts the service:
            client.application.config["FETCH_MISSING"] = True
            del client.environ_base["HTTP_AUTHORIZATION"]
            second = client.post("/api/v2/advice", json=body).headers["Location"]
            run_jobs(settings)
            report = client.get(f"{second}/result").get_json()["result"]["report"]
            assert [it["version"] for it in report["products"][0]["packages"]] == ["1.0"]


def test_no_index_is_read_if_the_setting_forbids_it(known: Stores) -> None:
    with package_index(protected=False, json=True) as index:
        index.add_wheel("app", "1.0")
        at_index = (("pypi", index.url),)
        settings = replace(known.settings, package_indexes=at_index, fetch_missing=False)
        with client_of(settings, Scope.ADVISE, Scope.INGEST) as client:
            first = client.post("/api/v2/advice", json={"files": {"requirements.in": "app\n"}})
            run_jobs(settings)
            state = client.get(first.headers["Location"]).get_json()
            assert (state["state"], state["progress"]) == ("succeeded", None)
        assert index.seen == []


def test_an_archive_is_ingested_by_a_worker_once(client: FlaskClient, known: Stores) -> None:
    archive = SAMPLES.read_bytes()
    response = client.post("/api/v2/inspections", data=archive, content_type="application/gzip")
    assert response.status_code == 202
    again = client.post("/api/v2/inspections", data=archive, content_type="application/gzip")
    assert again.get_json()["cached"] is True
    run_jobs(known.settings)
    done = client.get(response.headers["Location"]).get_json()
    assert done["state"] == "succeeded"
    result = client.get(done["result"]).get_json()
    assert result["read"] == result["new"] > 0
    assert result["refusals"] == []
    assert row_counts(known.engine)["inspections"] == result["new"]
    assert lag(known.engine).count == 0
    kept = (known.settings.home / "uploads").iterdir()
    assert [it for it in kept if it.suffix != ".lock"] == []


def test_documents_of_an_archive_that_are_no_inspections_are_listed(
    client: FlaskClient, known: Stores
) -> None:
    response = client.post(
        "/api/v2/inspections", data=tar_of("broken.json", b"{[}"), content_type="application/gzip"
    )
    run_jobs(known.settings)
    done = client.get(response.headers["Location"]).get_json()
    result = client.get(done["result"]).get_json()
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


def tar_of(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_refused_upload_fails_with_its_reason(client: FlaskClient, known: Stores) -> None:
    uploads = (
        (b"no archive", "application/zip", "archive_broken"),
        (SAMPLES.read_bytes()[:1000], "application/gzip", "archive_broken"),
        (tar_of("../../etc/x.json", b"{}"), "application/gzip", "archive_path: ../../etc/x.json"),
        (tar_of("a.json", b"\0" * 20_000_000), "application/gzip", "archive_bomb"),
        (tar_of("notes.md", b"words"), "application/gzip", "empty_folder"),
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


def test_packages_are_read_from_a_configured_index_alone(known: Stores) -> None:
    with package_index(protected=False, json=True) as index:
        index.add_wheel("app", "1.0")
        settings = replace(known.settings, package_indexes=(("pypi", index.url),))
        with client_of(settings, Scope.INGEST) as client:
            response = client.post("/api/v2/packages", json={"requirements": ["app>=1"]})
            assert response.status_code == 202
            run_jobs(settings)
            done = client.get(response.headers["Location"]).get_json()
            assert done["state"] == "succeeded", done
            (report,) = client.get(done["result"]).get_json()["indexes"]
            assert report["new"] == 1
            unknown = {"requirements": ["app"], "index": "elsewhere"}
            assert client.post("/api/v2/packages", json=unknown).status_code == 400
            where = {"requirements": [f"app @ http://127.0.0.1:{index.port}/app.whl"]}
            assert client.post("/api/v2/packages", json=where).status_code == 400


def test_unreachable_index_ends_a_fetch_in_error(known: Stores) -> None:
    with client_of(known.settings, Scope.INGEST) as client:
        response = client.post("/api/v2/packages", json={"requirements": ["app"]})
        for _ in range(3):
            run_jobs_now(known)
        done = client.get(response.headers["Location"]).get_json()
        assert done["state"] == "error"
        assert done["attempts"] == 3
        assert "3 attempts" in done["reason"]


def run_jobs_now(stores: Stores) -> None:
    """Run what waits although it is to be tried again only later."""
    with stores.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE procrastinate_jobs SET scheduled_at = NULL")
    run_jobs(stores.settings)


def test_cypher_endpoint_reads_within_limits_and_cannot_write(client: FlaskClient) -> None:
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


def test_queries_beyond_a_share_of_the_threads_are_refused(client: FlaskClient) -> None:
    analysts = client.application.extensions["thoth"].analysts
    with analysts.taken(QueueClient("another", anonymous=False)):
        refused = client.post("/api/v2/cypher", json={"query": "RETURN 1 AS n"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert client.post("/api/v2/cypher", json={"query": "RETURN 1 AS n"}).status_code == 200


def test_query_results_and_pages_end_at_the_byte_limit(known: Stores) -> None:
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


def test_requests_are_shown_only_with_the_scope_to_make_them(
    client: FlaskClient, known: Stores
) -> None:
    response = client.post("/api/v2/packages", json={"requirements": ["app"]})
    where = response.headers["Location"]
    with client_of(known.settings) as other:
        assert other.get(where).status_code == 401
    assert client.get("/api/v2/requests/upload-1-2").status_code == 404


def test_a_stored_inspection_can_be_sent_again(known: Stores) -> None:
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


def test_a_document_is_ingested_at_once(client: FlaskClient, known: Stores) -> None:
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
