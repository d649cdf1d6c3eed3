"""Requests that are made to break the service, and what nobody else is to learn."""

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import werkzeug.exceptions
from flask.testing import FlaskClient
from sqlalchemy import Engine, text

from api.app import create_app
from api.http.errors import ProblemType
from api.jobs import ingestion
from api.store_access import EXTENSION, ServiceStores
from common.settings import Settings
from graph.engine import GRAPH, POSTGRESQL, Stores
from graph.record.access import Scope
from graph.record.documents import UPLOAD
from model.errors import InvalidArgument, StoreUnavailable
from model.json_documents import canonical_json, digest_bytes
from tests.factories.documents import document_2020_02
from tests.factories.releases import release
from tests.services.commands import ROOT, row_counts
from tests.services.databases import new_database
from tests.services.jobs import client_of, run_jobs
from tests.services.ports import closed_port
from tests.services.projection import deliver

ADVISE = "/api/v1/advise/python?recommendation_type=latest"
PROVENANCE = "/api/v1/provenance/python"
KNOWN = "https://index.example/simple"
INDEXES = (("pypi", KNOWN), ("wheels", "file:///srv/secret-wheels"))
SCOPES = (Scope.READ, Scope.ADVISE, Scope.INGEST, Scope.INSPECT, Scope.CYPHER)
PIPFILE = '[packages]\nweb = "*"\n'
PYLOCK = """\
lock-version = "1.0"
created-by = "a test"
packages = [{name = "web", version = "1.0", wheels = [
    {url = "https://index.example/web-1.0-py3-none-any.whl", hashes = {sha256 = "00"}}]}]
"""


@pytest.fixture
def known(stores: Stores) -> Stores:
    """A record with one package, an index that nobody serves, and one that is a folder."""
    settings = replace(stores.settings, package_indexes=INDEXES, fetch_missing=False)
    made = replace(stores, settings=replace(settings, rate_limit=None))
    deliver(made, [release("web", "1.0")])
    return made


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    """Who may write."""
    with client_of(known.settings, *SCOPES) as made:
        yield made


@pytest.fixture(scope="module")
def refusing(postgresql: Engine, embedded_settings: Settings) -> Iterator[FlaskClient]:
    """The same, of a service that is asked only for what it refuses."""
    settings = replace(
        embedded_settings, package_indexes=INDEXES, fetch_missing=False, rate_limit=None
    )
    with new_database(postgresql, settings) as own, client_of(own, *SCOPES) as made:
        yield made


def v1(more: str = "", pipfile: str = PIPFILE, lock: str | None = None) -> bytes:
    stack = json.dumps({"requirements": pipfile, "requirements_lock": lock})
    return f'{{"application_stack": {stack}{more}}}'.encode()


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


BROKEN = [
    (ADVISE, v1(', "labels": {"a": "\\ud800"}')),
    (ADVISE, v1(', "labels": {"a\\u0000": "b"}')),
    (ADVISE, v1(f', "runtime_environment": {{"x": {deep(900)}}}')),
    (ADVISE, v1(f', "runtime_environment": {{"x": {"9" * 40}}}')),
    (ADVISE, v1(f', "runtime_environment": {{"x": {"9" * 5000}}}')),
    (ADVISE, v1(', "runtime_environment": {"x": NaN}')),
    (ADVISE, v1(pipfile=f"{PIPFILE}[x]\na = {'9' * 40}\n")),
    (ADVISE, v1(pipfile=f"{PIPFILE}[x]\na = nan\n")),
    (ADVISE, v1(pipfile=f"{PIPFILE}[pipenv]\nx = {deep(300)}\n")),
    (ADVISE, v1(pipfile=f'{PIPFILE}[pipenv]\nx = "a\\u0000"\n')),
    (ADVISE, v1(lock=f'{{"_meta": {{"x": {deep(900)}}}}}')),
    (PROVENANCE, v1(lock=f'{{"_meta": {{"x": {deep(900)}}}}}')),
    (ADVISE, b"[" * 200_000),
    (PROVENANCE, b"[" * 200_000),
    ("/api/v2/advice", b"[" * 200_000),
    ("/api/v2/advice", b'{"files": {"requirements.txt": "web #\\ud800"}}'),
    ("/api/v2/advice", b'{"files": {"requirements.txt": "web", "a\\u0000b": "x"}}'),
    ("/api/v2/advice", b'{"files": {"requirements.txt": "web"}, "manifest": "\\ud800"}'),
    ("/api/v2/advice", b'{"files": {"requirements.txt": "web"}, "count": ' + b"9" * 5000 + b"}"),
    ("/api/v2/advice", b'{"files": {"requirements.txt": "web"}, "time_limit_s": NaN}'),
    ("/api/v2/packages", b'{"requirements": ["a\\ud800"]}'),
    ("/api/v2/cypher", b'{"query": "RETURN $a", "parameters": {"a": 18446744073709551615}}'),
    ("/amun/api/v1/inspect", b'{"base": "x", "identifier": "\\ud800"}'),
    ("/amun/api/v1/inspect", b"[" * 200_000),
    ("/amun/api/v1/inspect", b'{"a": "\xff"}'),
]


@pytest.mark.parametrize(("path", "body"), BROKEN)
def test_no_json_body_causes_a_server_error(refusing: FlaskClient, path: str, body: bytes) -> None:
    response = refusing.post(path, data=body, content_type="application/json")
    assert response.status_code == 400, response.text
    kinds = {"/problems/invalid-request", "/problems/invalid-document"}
    assert response.get_json()["type"] in kinds


def test_request_error_names_the_field(refusing: FlaskClient) -> None:
    body = v1(', "runtime_environment": {"x": [1, "a\\u0000"]}')
    problem = refusing.post(ADVISE, data=body, content_type="application/json").get_json()
    assert problem["detail"].startswith("runtime_environment.x[1]: ")
    assert list(problem["errors"]["json"]) == ["runtime_environment.x[1]"]


#: One byte more than people write.
LARGE = "#" * 262_145
NAMES = (
    "", "../../etc/x", "/etc/x.txt", "a//x.txt", "./x.txt", "a/../x.txt", "a\\x.txt", "C:x.txt",
    "a\nb.txt", "a\x7f.txt", "x" * 300 + ".txt", "setup.py", ".txt", "notes.md", "meta.yaml",
    "file:///etc/passwd", "https://h.example/x.txt",
)  # fmt: skip
WEB = {"requirements.txt": "web\n"}
#: What takes long to read is refused unread, with what there is too much of.
TOO_MUCH = [
    ({"Pipfile": LARGE}, "262144"),
    ({"requirements.in": LARGE}, "262144"),
    ({"requirements.in": "web\n", "p/pyproject.toml": LARGE}, "262144"),
    ({"a.txt": "web\n", "p/constraints.txt": LARGE}, "262144"),
    ({"requirements.txt": f"web==1{' ' * 262_145}"}, "262144"),
    ({"requirements.txt": "a\n" + "#\n" * 75_000}, " lines"),
    ({"requirements.txt": "a\x0b" * 75_001}, " lines"),
    ({"requirements.txt": "a==1" + " --hash=sha256:aa" * 40_001}, " hashes"),
    ({"requirements.txt": "a\n" + "-f b\n" * 2_001}, " options"),
    ({"requirements.txt": "a\n" * 3_001}, " requirements"),
    ({"requirements.txt": "a\x85" * 3_001}, " requirements"),
    ({"requirements.txt": "#" + "://" * 40_001}, " URLs"),
    ({"Pipfile.lock": f"[{'0,' * 75_000}0]"}, " values"),
    *(({**WEB, "pylock.toml": lock}, "pylock.toml: ") for lock in (
        "".join(f"a{it}={{}}\n" for it in range(200_000)), "x=[" + "[]," * 900_000 + "]",
        "x=[" + "1," * 900_000 + "]", "\n" * 1_000_000, 'x="' + "\\\\" * 700_000 + '"',
    )),
    ({f"../{it}": 5 for it in range(5000)}, "5000 files"),
]  # fmt: skip
REFUSED = [
    *(({"files": files}, "files", words) for files, words in TOO_MUCH),
    *(({"files": {**WEB, name: "web\n"}}, "files", "") for name in NAMES),
    *(({"files": WEB, "manifest": name}, "manifest", "") for name in NAMES),
]


@pytest.mark.parametrize(("body", "field", "words"), REFUSED, ids=range(len(REFUSED)))
def test_invalid_project_file_names_are_refused_with_a_short_message(
    refusing: FlaskClient, body: dict[str, Any], field: str, words: str
) -> None:
    response = refusing.post("/api/v2/advice", json=body)
    assert response.status_code == 400
    problem = response.get_json()
    assert list(problem["errors"]["json"]) == [field], response.text
    assert words in problem["detail"]
    assert len(response.get_data()) < 1000


@pytest.mark.parametrize("more", [{}, {"constraints": LARGE}])
def test_manifest_in_a_v1_request_is_limited_in_size(
    refusing: FlaskClient, more: dict[str, str]
) -> None:
    stack = {"requirements": PIPFILE if more else LARGE, "requirements_lock": None}
    response = refusing.post(ADVISE, json={"application_stack": stack, **more})
    assert (response.status_code, "262144" in response.get_json()["detail"]) == (400, True)


def test_lock_with_all_hashes_of_a_large_project_is_accepted(client: FlaskClient) -> None:
    """The size of the largest ones that people have."""
    hashes = "".join(f" \\\n    --hash=sha256:{it:064x}" for it in range(30))
    text = "".join(f"web-{it}==1.0{hashes}\n    # via -r requirements.in\n" for it in range(1000))
    assert len(text) > 2_500_000
    files = {"requirements.in": "web-1\n", "requirements.txt": text}
    response = client.post("/api/v2/advice", json={"files": files})
    assert response.status_code == 202, response.text


def test_usual_names_of_project_files_are_accepted(client: FlaskClient) -> None:
    files = {
        "requirements.in": "-r requirements/base.in\n-c pins/all.txt\n",
        "requirements/base.in": "web\n", "pins/all.txt": "web<9\n", "pylock.toml": PYLOCK,
    }  # fmt: skip
    response = client.post("/api/v2/advice", json={"files": files, "manifest": "requirements.in"})
    assert response.status_code == 202, response.text


def test_lock_in_a_v1_request_may_be_larger_than_a_manifest(client: FlaskClient) -> None:
    lock = json.dumps({"_meta": {"sources": []}, "default": {}, "develop": {}}) + " " * 300_000
    stack = {"requirements": PIPFILE, "requirements_lock": lock}
    assert client.post(ADVISE, json={"application_stack": stack}).status_code == 202


class TestUploads:
    def test_large_inspection_document_is_ingested_over_http(
        self, client: FlaskClient, known: Stores
    ) -> None:
        body = canonical_json(document_2020_02(stderr="x" * 2_000_000))
        assert len(body) > 1024**2
        first = client.post("/api/v2/inspections", data=body, content_type="application/json")
        assert first.status_code == 202, first.text
        run_jobs(known.settings)
        done = client.get(first.headers["Location"]).get_json()
        result = client.get(done["result"]).get_json()
        assert (result["new"], result["known"]) == (1, 0)
        assert row_counts(known.engine)["inspections"] == 1
        with known.engine.connect() as connection:
            query = text("SELECT kind FROM documents WHERE document_id = :id")
            assert connection.scalar(query, {"id": digest_bytes(body)}) == "inspection"

    def test_repeated_upload_is_stored_separately(self, client: FlaskClient, known: Stores) -> None:
        """One that was sent again is kept from then on, whenever it was sent first."""
        for _ in range(2):
            answer = client.post(
                "/api/v2/inspections?force=true", data=b"no", content_type="application/zip"
            )
            assert answer.status_code == 202
        with known.engine.connect() as connection:
            query = text("SELECT count(*) FROM documents WHERE kind = :kind")
            assert connection.scalar(query, {"kind": UPLOAD}) == 2

    def test_two_workers_ingest_one_upload_without_sharing_files(
        self, client: FlaskClient, known: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        archive = (ROOT / "samples" / "inspections.tar.gz").read_bytes()
        sent = client.post("/api/v2/inspections", data=archive, content_type="application/gzip")
        where = sent.headers["Location"]
        monkeypatch.setattr(ingestion, "SAME_UPLOAD_WAIT_S", 0.0)
        (known.settings.home / "uploads").mkdir(exist_ok=True)
        with ingestion.lock_of(known.settings, digest_bytes(archive)):
            run_jobs(known.settings)
            waiting = client.get(where).get_json()
            assert (waiting["state"], waiting["attempts"]) == ("running", 1)
        with known.engine.begin() as connection:
            connection.execute(text("UPDATE procrastinate_jobs SET scheduled_at = NULL"))
        run_jobs(known.settings)
        assert client.get(where).get_json()["state"] == "succeeded"


class TestWhatIsTold:
    def test_service_errors_do_not_reveal_store_addresses(
        self, client: FlaskClient, known: Stores
    ) -> None:
        port = closed_port()
        url = f"bolt://127.0.0.1:{port}"
        away = replace(known.settings, graph_url=url, connect_timeout_s=0.2, outage_patience_s=1e-6)
        asked = {"files": {"requirements.in": "web\n"}}
        where = client.post("/api/v2/advice", json=asked).headers["Location"]
        run_jobs(away)
        done = client.get(where).get_json()
        assert done["state"] == "error"
        told = json.dumps(done) + client.get(f"{where}/log").text
        assert "the graph is unavailable" in told
        assert str(port) not in told
        assert "127.0.0.1" not in told

    def test_schema_mismatch_ends_a_job_without_revealing_the_store(
        self, client: FlaskClient, known: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from api.jobs import advice
        from model.errors import SchemaMismatch

        def refuse(*_: Any, **__: Any) -> Any:
            raise SchemaMismatch("the schema of bolt://10.9.8.7 is 9999", "migrate")

        monkeypatch.setattr(advice, "store", refuse)
        asked = {"files": {"requirements.in": "web\n"}}
        where = client.post("/api/v2/advice", json=asked).headers["Location"]
        run_jobs(known.settings)
        done = client.get(where).get_json()
        assert done["state"] == "error"
        assert "10.9.8.7" not in json.dumps(done) + client.get(f"{where}/log").text

    def test_server_error_is_logged_with_its_request_id(
        self, known: Stores, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = create_app(known.settings)

        @app.get("/broken")
        def broken() -> str:
            raise RuntimeError("a bug")

        with caplog.at_level(logging.ERROR):
            answer = app.test_client().get("/broken", headers={"X-Request-Id": "request-of-mine"})
        app.extensions[EXTENSION].close()
        assert answer.status_code == 500
        (line,) = [it for it in caplog.records if it.getMessage() == "request_broke"]
        assert line.__dict__["request_id"] == "request-of-mine"

    def test_paths_of_local_index_folders_are_not_shown_to_clients(
        self, client: FlaskClient, known: Stores
    ) -> None:
        deliver(known, [release("own", "1.0", index="wheels")])
        found = client.get("/api/v2/packages/own")
        assert found.status_code == 200
        assert "secret-wheels" not in found.text
        lock = {"_meta": {"sources": []}, "default": {"web": {"version": "==1.0"}}, "develop": {}}
        stack = {"requirements": PIPFILE, "requirements_lock": json.dumps(lock)}
        sent = client.post(PROVENANCE, json={"application_stack": stack})
        run_jobs(known.settings)
        report = client.get(f"{PROVENANCE}/{sent.get_json()['analysis_id']}")
        assert report.get_json()["result"]["parameters"]["whitelisted_sources"] == [KNOWN]


class TestWatching:
    def test_monitoring_needs_no_token_and_liveness_no_postgresql(self, known: Stores) -> None:
        shown = {"Authorization": "Bearer nobody-knows"}
        away = f"postgresql://nobody:hidden@127.0.0.1:{closed_port()}/nothing"
        for url, paths in (
            (known.settings.database_url, ("/livez", "/liveness", "/readyz", "/readiness")),
            (away, ("/livez",) * 3),
        ):
            settings = replace(known.settings, database_url=url, rate_limit="1/hour")
            with client_of(settings) as client:
                for path in paths:
                    assert client.get(path, headers=shown).status_code == 200, path


class TestGraphConnections:
    def test_error_in_one_request_keeps_connections_of_others_open(self, known: Stores) -> None:
        service = ServiceStores(known.settings)
        with service.stores() as other:
            with pytest.raises(InvalidArgument), service.stores():
                raise InvalidArgument("a request's own fault")
            with pytest.raises(StoreUnavailable), service.stores():
                raise StoreUnavailable(POSTGRESQL, "away", "")
            with service.stores() as again:
                assert again.driver is other.driver
        service.close()

    def test_lost_graph_is_reconnected_without_cutting_off_running_requests(
        self, known: Stores
    ) -> None:
        service = ServiceStores(known.settings)
        gone = threading.Event()

        def lose() -> None:
            with pytest.raises(StoreUnavailable), service.stores():
                raise StoreUnavailable(GRAPH, "away", "")
            gone.set()

        with service.stores() as other:
            thread = threading.Thread(target=lose)
            thread.start()
            thread.join()
            assert gone.is_set()
            other.driver.verify_connectivity()
            with service.stores() as anew:
                assert anew.driver is not other.driver
        service.close()


#: What werkzeug says to people who look at a page.
THEIRS = {
    it.description for it in werkzeug.exceptions.default_exceptions.values() if it.description
}


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nowhere", 404, ProblemType.NOT_FOUND),
        ("GET", "/api/v1/nowhere", 404, ProblemType.NOT_FOUND),
        ("DELETE", "/api/v2/packages", 405, ProblemType.METHOD_NOT_ALLOWED),
        ("POST", "/api/v2/inspections", 415, ProblemType.UNSUPPORTED_MEDIA_TYPE),
        ("POST", "/api/v2/advice", 415, ProblemType.UNSUPPORTED_MEDIA_TYPE),
    ],
)
def test_client_error_is_a_typed_problem_document(
    refusing: FlaskClient, method: str, path: str, status: int, kind: ProblemType
) -> None:
    answer = refusing.open(path, method=method, data=b"x", content_type="text/plain")
    assert answer.status_code == status
    assert answer.json["type"] == f"/problems/{kind}"
    assert answer.json["detail"] not in THEIRS
    assert len(answer.json["detail"]) < 120
    assert refusing.get(answer.json["type"]).json["type"] == answer.json["type"]
    assert ("Allow" in answer.headers) is (status == 405)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v2/packages?limit=1&limit=2", "limit"),
        ("/api/v2/packages/web/versions/1.0?index=pypi&index=own", "index"),
        ("/api/v1/python/imports?import_name=a&import_name=b", "import_name"),
    ],
)
def test_repeated_single_value_parameter_is_refused(
    refusing: FlaskClient, path: str, name: str
) -> None:
    answer = refusing.get(path)
    assert answer.status_code == 400, answer.text
    assert answer.json["type"] == "/problems/invalid-request"
    assert list(answer.json["errors"]["query"]) == [name]
    # Clients of the original service may repeat what is not read.
    assert refusing.get("/api/v1/python/environment?x=1&x=2").status_code == 200


def test_pending_result_is_answered_with_the_state_of_the_request(client: FlaskClient) -> None:
    sent = client.post("/api/v2/advice", json={"files": WEB})
    early = client.get(f"{sent.headers['Location']}/result")
    assert (early.status_code, early.json["status"]) == (202, 202)
    assert early.json["analysis"]["state"] == "pending"
    assert early.headers["Retry-After"] == "1"
