"""What clients of the original service rely on, request by request."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import update
from werkzeug.test import TestResponse

from api.jobs import request_submission
from api.thamos.requests import AdviceQuerySchema
from common import __version__
from graph.engine import Stores
from graph.record.access import Scope
from graph.record.analyses import analysis_of, request_of
from graph.tables import AnalysisRow
from tests.factories.releases import release
from tests.services.index import package_index
from tests.services.jobs import client_of, run_jobs
from tests.services.ports import closed_port
from tests.services.projection import deliver

ADVISE = "/api/v1/advise/python"
PROVENANCE = "/api/v1/provenance/python"
QUERY = {
    "recommendation_type": "latest", "dev": "False", "debug": "False", "force": "False",
    "source_type": "cli", "origin": "None",
}  # fmt: skip
PIPFILE = '[packages]\nweb = "*"\n'
INDEX = f"http://127.0.0.1:{closed_port()}/simple"
USAGE = {"version": "0.2.2", "report": {"web": ["web.b", "web.a"]}}


@pytest.fixture
def known(stores: Stores) -> Stores:
    """``web`` needs ``core``; no request may reach an index of this machine."""
    settings = replace(stores.settings, package_indexes=(("pypi", INDEX),))
    made = replace(stores, settings=settings)
    deliver(made, [release("web", "2.0", ["core>=1"]), release("core", "2.0")])
    return made


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    """Anonymous, as the client is."""
    with client_of(known.settings) as made:
        yield made


@pytest.fixture
def refused(filled_app: Flask) -> FlaskClient:
    """The same, of a service whose record nobody changes."""
    return filled_app.test_client()


def body(pipfile: str = PIPFILE, lock: str = "", **more: Any) -> dict[str, Any]:
    stack = {"requirements": pipfile, "requirements_lock": lock}
    return {
        "application_stack": stack,
        "runtime_environment": {"name": "prod", "python_version": "3.11"},
        **more,
    }


def submit(client: FlaskClient, asked: Any = None, **query: str) -> TestResponse:
    return client.post(ADVISE, query_string=QUERY | query, json=body() if asked is None else asked)


def identifier(client: FlaskClient, asked: Any = None, **query: str) -> str:
    response = submit(client, asked, **query)
    assert response.status_code == 202, response.text
    return str(response.get_json()["analysis_id"])


def advised(client: FlaskClient, known: Stores, asked: Any = None, **query: str) -> dict[str, Any]:
    """The document of a request, at its end."""
    found = identifier(client, asked, **query)
    run_jobs(known.settings)
    response = client.get(f"{ADVISE}/{found}")
    assert response.status_code == 200, response.text
    return dict(response.get_json())


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_v1_root_answers_without_a_redirect(refused: FlaskClient, path: str, method: str) -> None:
    response = refused.open(path, method=method)
    assert response.status_code == 200
    assert response.headers["X-Thoth-Version"] == __version__


def test_v1_errors_have_version_headers_and_documented_members(refused: FlaskClient) -> None:
    response = refused.get("/api/v1/no/such?import_name=x&Password=hidden")
    assert response.status_code == 404
    assert response.headers["X-User-API-Service-Version"] == __version__
    assert response.get_json()["parameters"] == {"import_name": "x"}
    assert response.get_json()["error"]


class TestSubmit:
    @pytest.mark.parametrize(
        ("name", "text", "meant"),
        [
            ("dev", "True", True), ("dev", "true", True), ("dev", "1", True),
            ("dev", "False", False), ("dev", "fAlSe", False),
            ("origin", "None", None), ("origin", "", None),
        ],
    )  # fmt: skip
    def test_v1_booleans_and_absent_values_are_read_in_any_spelling(
        self, name: str, text: str, meant: bool | None
    ) -> None:
        loaded = AdviceQuerySchema().load({"recommendation_type": "latest", name: text})
        assert loaded[name] is meant

    def test_accepted_v1_request_is_pending_at_once(self, client: FlaskClient) -> None:
        response = submit(client, dev="True")
        accepted = response.get_json()
        assert response.status_code == 202
        assert accepted.keys() == {"analysis_id", "cached", "authenticated", "parameters"}
        assert accepted["parameters"]["dev"] is True
        kind, *parts = accepted["analysis_id"].split("-")
        assert (kind, len(parts)) == ("adviser", 2)
        waiting = client.get(f"{ADVISE}/{accepted['analysis_id']}")
        assert waiting.status_code == 202
        document = waiting.get_json()
        assert document["status"]["state"] == "pending"
        assert document["error"]
        assert document["parameters"] == {"analysis_id": accepted["analysis_id"]}
        assert client.get(f"{ADVISE}/{accepted['analysis_id']}/log").status_code == 404
        status = client.get(f"{ADVISE}/{accepted['analysis_id']}/status").get_json()["status"]
        assert (status["started_at"], status["finished_at"]) == (None, None)

    @pytest.mark.parametrize(
        ("asked", "query", "named"),
        [
            (None, {"recommendation_type": "fastest"}, "query.recommendation_type"),
            (None, {"dev": "maybe"}, "query.dev"),
            ([], {}, "json"),
            ({}, {}, "json.application_stack"),
            (body(""), {}, "requirements"),
            (body("[packages\n"), {}, "Pipfile"),
            (body(lock="{"), {}, "Pipfile.lock"),
            (body(constraints="???"), {}, "constraints.txt"),
            (body(labels={"a": 1}), {}, "json.labels"),
            (body(library_usage={"report": 5}), {}, "json.library_usage"),
            (body(library_usage={"report": {"a": 5}}), {}, "json.library_usage"),
            (body(library_usage={"report": {"a": [5]}}), {}, "json.library_usage"),
            (body(stack_info=[{"message": 1}]), {}, "stack_info[0]"),
            (body(runtime_environment={"python_version": 3.11}), {}, "python_version"),
            (body(runtime_environment={"python_version": "x"}), {}, "runtime_environment: Python"),
            (body(runtime_environment={"platform": 5}), {}, "platform"),
            (body(callback_info={"url": "https://other.example"}), {}, "callback_info"),
            (body(constraints="#" * 3 * 1024**2), {}, "larger than"),
        ],
        ids=range(18),
    )
    def test_invalid_v1_request_is_a_400_that_names_the_field(
        self, refused: FlaskClient, asked: Any, query: dict[str, str], named: str
    ) -> None:
        response = submit(refused, asked, **query)
        assert response.status_code == 400
        document = response.get_json()
        assert named in document["error"]
        assert document["status"] == 400
        assert document["parameters"]["source_type"] == "cli"

    def test_unknown_members_of_a_v1_request_are_accepted(self, client: FlaskClient) -> None:
        environment = {
            "name": "prod", "python_version": "3.11", "platform": list("linux-x86_64"),
            "dev": False, "labels": None, "hardware": None, "operating_system": None, "mine": [1],
        }  # fmt: skip
        asked = body(runtime_environment=environment, labels=None, library_usage=None, more=1)
        assert submit(client, asked, github_event_type="push").status_code == 202


def test_equal_v1_requests_share_an_analysis_for_three_hours(
    client: FlaskClient, known: Stores
) -> None:
    first = identifier(client, body(library_usage=USAGE))
    usage = {"version": "0.2.2", "report": {"web": ["web.a", "web.b"]}}
    other = {"origin": "https://x.example", "source_type": ""}
    again = submit(client, body(library_usage=usage), **other).get_json()
    assert (again["cached"], again["analysis_id"]) == (True, first)
    forced = submit(client, body(library_usage=usage), force="True").get_json()
    assert forced["cached"] is False
    assert forced["analysis_id"] != first
    assert identifier(client, body(library_usage=USAGE)) == forced["analysis_id"]
    with known.engine.begin() as connection:
        moved = AnalysisRow.accepted_at - timedelta(hours=3)
        connection.execute(update(AnalysisRow).values(accepted_at=moved))
    assert identifier(client, body(library_usage=USAGE)) not in (first, forced["analysis_id"])


def test_v1_parameter_that_changes_the_answer_starts_a_new_analysis(client: FlaskClient) -> None:
    changes = ({}, {"dev": "True"}, {"debug": "True"}, {"recommendation_type": "stable"})
    analyses = {identifier(client, **it) for it in changes}
    assert len({*analyses, identifier(client, body(labels={"a": "b"}))}) == 5


class TestTokens:
    def test_origin_of_a_request_is_stored_only_with_a_token(self, known: Stores) -> None:
        kept = {}
        for scopes in ((), (Scope.ADVISE,)):
            with client_of(known.settings, *scopes) as client:
                name = identifier(client, force="True", origin="https://git.example/x")
                with known.engine.connect() as connection:
                    analysis = analysis_of(connection, name)
                    assert analysis is not None
                    kept[scopes] = json.loads(request_of(connection, known.settings, analysis))
            assert analysis.parameters.keys() == {"recommendation_type", "dev", "debug", "force"}
        assert not {"origin", "source_type"} & kept[()].keys()
        assert kept[(Scope.ADVISE,)]["origin"] == "https://git.example/x"
        assert kept[(Scope.ADVISE,)]["source_type"] == "cli"

    @pytest.mark.parametrize("path", [ADVISE, PROVENANCE])
    def test_v1_fields_of_integrations_need_a_token(
        self, client: FlaskClient, known: Stores, path: str
    ) -> None:
        asked = body(lock=LOCK, kebechet_metadata={})
        assert client.post(path, query_string=QUERY, json=asked).status_code == 401
        with client_of(known.settings, Scope.ADVISE) as other:
            assert other.post(path, query_string=QUERY, json=asked).status_code == 202


class TestResult:
    def test_v1_result_parses_as_the_client_expects(
        self, client: FlaskClient, known: Stores
    ) -> None:
        note = {"type": "WARNING", "message": "mine", "link": "https://x.example", "tag": None}
        asked = body(stack_info=[note], justification=[note], labels={"team": "blue"})
        document = advised(client, known, asked, debug="True")
        result = document["result"]
        assert (result["error"], result["error_msg"]) == (False, None)
        assert result["parameters"]["dev"] is False
        assert result["parameters"]["labels"] == {"team": "blue"}
        report = result["report"]
        (product,) = report["products"]
        for notes in (report["stack_info"], product["justification"]):
            assert notes[0] == {name: it for name, it in note.items() if it is not None}
            for it in notes:
                assert it["type"] in {"INFO", "WARNING", "ERROR"}
                assert isinstance(it["link"], str)
                assert isinstance(it["message"], str)
        assert [it["name"] for it in report["pipeline"]["strides"]] == ["search"]
        project = product["project"]
        assert project["runtime_environment"] == {"name": "prod", "python_version": "3.11"}
        (source,) = project["requirements_locked"]["_meta"]["sources"]
        assert source == {"name": "pypi", "url": INDEX, "verify_ssl": False}
        assert project["requirements"]["source"] == [source]
        assert "origin" not in json.dumps(document)

    @pytest.mark.parametrize(
        ("pipfile", "status"), [('web = "<1"', "infeasible"), ('nobody-knows = "*"', "unknown")]
    )
    def test_v1_request_without_a_stack_has_a_result_document(
        self, client: FlaskClient, known: Stores, pipfile: str, status: str
    ) -> None:
        document = advised(client, known, body(f"[packages]\n{pipfile}\n"))
        result = document["result"]
        assert result["error"] is True
        assert result["report"]["products"] == []
        assert result["report"]["ERROR"] == result["error_msg"]
        assert result["report"]["stack_info"]
        found = document["metadata"]["document_id"]
        analysis = client.get(f"{ADVISE}/{found}/status").get_json()["status"]
        assert (analysis["state"], analysis["reason"]) == ("succeeded", None)
        lines = client.get(f"{ADVISE}/{found}/log").get_json()["log"].splitlines()
        told = [json.loads(it) for it in lines]
        assert all(it.keys() == {"asctime", "name", "levelname", "message"} for it in told)
        assert f"{status}: {result['error_msg']}" in {it["message"] for it in told}

    def test_failed_v1_analysis_is_a_400_with_its_status(
        self, client: FlaskClient, known: Stores
    ) -> None:
        found = identifier(client)
        with known.engine.begin() as connection:
            connection.execute(update(AnalysisRow).values(state="error", reason="no luck"))
        response = client.get(f"{ADVISE}/{found}")
        assert response.status_code == 400
        assert response.get_json()["status"]["state"] == "error"
        assert "no luck" in response.get_json()["error"]
        # It is not what others are given.
        assert identifier(client) != found

    @pytest.mark.parametrize("part", ["", "/status", "/log"])
    def test_v1_refuses_unknown_identifiers_and_those_of_another_kind(
        self, refused: FlaskClient, part: str
    ) -> None:
        for path, kind in ((ADVISE, "adviser"), (PROVENANCE, "provenance-checker")):
            name = f"{kind}-240611083015-5f0c9d2be417a863"
            missing = refused.get(f"{path}/{name}{part}")
            assert missing.status_code == 404
            assert missing.get_json()["parameters"] == {"analysis_id": name}
            other = refused.get(f"{path}/package-extract-240611083015-5f0c9d2be417a863{part}")
            assert other.status_code == 400
            assert kind in other.get_json()["error"]
        image = refused.get(f"/api/v1/analyze/package-extract-240601000000-00aa{part}")
        assert image.status_code == 404
        assert "thoth analyze image" in image.get_json()["error"]


LOCK = json.dumps({
    "_meta": {"hash": {"sha256": "0" * 64}, "pipfile-spec": 6, "requires": {}, "sources": []},
    "default": {"web": {"version": "==2.0", "hashes": ["sha256:" + "0" * 64 + "     "]}},
    "develop": {},
})  # fmt: skip


def test_v1_provenance_needs_a_lock(refused: FlaskClient) -> None:
    response = refused.post(PROVENANCE, json=body())
    assert response.status_code == 400
    assert "requirements_lock" in response.get_json()["error"]


def test_v1_provenance_is_checked_again_for_other_indexes(known: Stores) -> None:
    checks = set()
    for name in ("one", "two"):
        indexes = (("pypi", INDEX), (name, f"{INDEX}/{name}"))
        with client_of(replace(known.settings, package_indexes=indexes)) as client:
            accepted = client.post(PROVENANCE, json=body(lock=LOCK))
            checks.add(accepted.get_json()["analysis_id"])
    assert len(checks) == 2


class TestListings:
    def test_only_the_default_index_is_shown_to_anonymous_clients(self, known: Stores) -> None:
        indexes = (("pypi", INDEX), ("own", "https://internal.example/simple"))
        settings = replace(known.settings, package_indexes=indexes)
        foreign = PIPFILE + "[[source]]\nname = 'x'\nurl = 'https://x.example/simple'\n"
        for scopes, shown in (((), False), ((Scope.READ, Scope.ADVISE), True)):
            with client_of(settings, *scopes) as client:
                listed = client.get("/api/v1/python-package-index").text
                refused = submit(client, body(foreign)).text
                assert ("internal.example" in listed, "internal.example" in refused) == (
                    shown, shown,
                )  # fmt: skip

    def test_index_says_whether_its_certificate_is_verified(self, client: FlaskClient) -> None:
        listed = client.get("/api/v1/python-package-index").get_json()["indexes"]
        assert {
            "url": INDEX, "verify_ssl": False, "only_if_package_seen": True,
            "warehouse_api_url": None,
        } in listed  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "release"), [("nothing.*", "NAME==VERSION"), ("Web", "web==2.0")]
    )
    def test_unknown_import_name_is_answered_with_the_command_to_analyse_it(
        self, client: FlaskClient, name: str, release: str
    ) -> None:
        response = client.get(f"/api/v1/python/imports?import_name={name}")
        assert response.status_code == 404
        assert response.get_json()["parameters"] == {"import_name": name}
        assert f"`thoth analyze wheel {release} --ingest`" in response.get_json()["error"]
        assert client.get("/api/v1/python/imports").status_code == 400


def test_import_name_leads_to_releases_that_provide_it(client: FlaskClient, known: Stores) -> None:
    read: dict[str, Any] = {"imports_source": "central-directory"}
    some = {"imports_source": "central-directory-end"}
    deliver(
        known,
        [
            release("one", "1.9", imports=["space", "space.one"], **read),
            release("one", "1.10", imports=["space", "space.one"], **read),
            release("two", "1.0", imports=["space", "space.two"], **read),
            release("many", "1.0", imports=["space"], **some),
            release("none", "1.0", imports=[], **read),
        ],
    )
    inner = client.get("/api/v1/python/imports?import_name=space.one.deep").get_json()
    assert [
        (it["package_name"], it["package_version"], it["package_import"])
        for it in inner["package_names"]
    ] == [("one", "1.9", "space.one"), ("one", "1.10", "space.one")]

    unknown = client.get("/api/v2/packages/web/versions/2.0").get_json()
    empty = client.get("/api/v2/packages/none/versions/1.0").get_json()
    assert (unknown["imports"], empty["imports"]) == (None, [])


def test_unknown_import_name_is_fetched_for_clients_that_may_ingest(
    known: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_submission, "LONGEST_WAIT_S", 0.1)  # no worker runs meanwhile
    with package_index(protected=False, json=True) as index:
        index.add_wheel("app", "1.0")
        settings = replace(known.settings, package_indexes=(("pypi", index.url),))
        address = "/api/v1/python/imports?import_name=app.part"
        with client_of(settings, Scope.READ) as client:
            assert client.get(address).status_code == 404
            run_jobs(settings)
        assert index.seen == []
        with client_of(settings, Scope.READ, Scope.INGEST) as client:
            assert client.get(address).status_code == 404
            run_jobs(settings)
            (provider,) = client.get(address).get_json()["package_names"]
    assert (provider["package_name"], provider["package_version"]) == ("app", "1.0")


def test_environment_of_the_service_is_listed_before_any_measurement(stores: Stores) -> None:
    with client_of(stores.settings) as client:
        (system,) = client.get("/api/v1/python/environment").get_json()["environment"]
    assert system["python_version"] == ".".join(map(str, sys.version_info[:2]))
    assert system["os_name"]
