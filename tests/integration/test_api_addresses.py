"""Addresses that requests bring: a listener on this machine hears of none of them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from tests.services.jobs import client_of, jobs_in, run_jobs
from tests.services.listener import listener
from tests.services.waiting import wait_until

#: What stands for the one index that the service is configured with.
KNOWN = "https://index.example/simple"

#: ``{port}`` is that of the listener.
TABLE = [
    "http://127.0.0.1:{port}/simple",
    "https://127.0.0.1:{port}/simple",
    "http://localhost:{port}/simple",
    "http://LOCALHOST.:{port}/simple",
    "http://127.1:{port}/simple",
    "http://0.0.0.0:{port}/simple",
    "http://2130706433:{port}/simple",
    "http://0177.0.0.1:{port}/simple",
    "http://017700000001:{port}/simple",
    "http://0x7f000001:{port}/simple",
    "http://0x7f.1:{port}/simple",
    "http://[::1]:{port}/simple",
    "http://[::ffff:127.0.0.1]:{port}/simple",
    "http://[::ffff:7f00:1]:{port}/simple",
    "http://[64:ff9b::7f00:1]:{port}/simple",
    "http://10.0.0.1:{port}/simple",
    "http://172.16.0.1:{port}/simple",
    "http://192.168.0.1:{port}/simple",
    "http://169.254.169.254/latest/meta-data",
    "http://[fe80::1]:{port}/simple",
    "http://[fd00::1]:{port}/simple",
    "http://theirs.localhost:{port}/simple",
    "https://index.example@127.0.0.1:{port}/simple",
    "https://user:word@127.0.0.1:{port}/simple",
    "https://index.example:443@127.0.0.1:{port}/simple",
    "https://index.example\\@127.0.0.1:{port}/simple",
    "https://index.example/simple/../../@127.0.0.1:{port}",
    "https://index.example.127.0.0.1.nip.example:{port}/simple",
    "https://index.example:8443/simple",
    "http://index.example/simple",
    "file:///etc/passwd",
    "file://localhost/etc",
    "gopher://127.0.0.1:{port}/_GET%20/",
    "ftp://127.0.0.1:{port}/simple",
    "dict://127.0.0.1:{port}/info",
    "ssh://127.0.0.1:{port}/simple",
]


@pytest.fixture
def configured(stores: Stores) -> Settings:
    """Settings with one index, which nobody serves."""
    return replace(stores.settings, package_indexes=(("pypi", KNOWN),))


@pytest.fixture
def client(configured: Settings) -> Iterator[FlaskClient]:
    """Who may ask for advice, inspections and packages."""
    scopes = (Scope.ADVISE, Scope.INGEST, Scope.INSPECT)
    with client_of(replace(configured, fetch_missing=False, rate_limit=None), *scopes) as made:
        yield made


def pipfile(url: str) -> str:
    source = f"[[source]]\nname = 'theirs'\nurl = {json.dumps(url)}\nverify_ssl = true\n"
    return f"{source}\n[packages]\nnobody-knows = {{version = '*', index = 'theirs'}}\n"


def test_indexes_named_in_a_request_are_never_contacted(
    client: FlaskClient, stores: Stores
) -> None:
    settings = client.application.extensions["thoth"].settings
    with listener() as ear:
        for row in TABLE:
            url = row.format(port=ear.port)
            for response in (_advise(client, url), _provenance(client, url), _files(client, url)):
                assert response.status_code == 400, (url, response.text)
                document = response.get_json()
                assert document["type"] == "/problems/index-not-allowed", (url, document)
                assert KNOWN in document["detail"]
        assert jobs_in(stores.engine) == []
        run_jobs(settings)
        assert ear.heard == []
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, ear.port), 5):
                pass
        wait_until(lambda: len(ear.heard) == 2, "both connections are heard")


def _advise(client: FlaskClient, url: str) -> Any:
    stack = {"requirements": pipfile(url), "requirements_lock": ""}
    return client.post(
        "/api/v1/advise/python?recommendation_type=latest", json={"application_stack": stack}
    )


def _provenance(client: FlaskClient, url: str) -> Any:
    lock = {
        "_meta": {"sources": [{"name": "theirs", "url": url, "verify_ssl": True}]},
        "default": {"nobody-knows": {"version": "==1", "index": "theirs"}},
        "develop": {},
    }
    stack = {"requirements": pipfile(url), "requirements_lock": json.dumps(lock)}
    return client.post("/api/v1/provenance/python", json={"application_stack": stack})


def _files(client: FlaskClient, url: str) -> Any:
    return client.post("/api/v2/advice", json={"files": {"Pipfile": pipfile(url)}})


PYLOCK = "lock-version = '1.0'\ncreated-by = 'a test'\n[[packages]]\nname = 'nobody-knows'\n"
PROJECT = "[project]\nname = 'x'\nversion = '1'\ndependencies = ['nobody-knows']\n"
ASKED = {"Pipfile": "[packages]\nnobody-knows = '*'\n"}

#: Projects that say where packages or indexes are, each otherwise than by a Pipfile's source.
FOREIGN: list[dict[str, str]] = [
    {"requirements.txt": "--index-url {url}\nnobody-knows\n"},
    {"requirements.txt": "--extra-index-url {url}\nnobody-knows\n"},
    {"requirements.txt": "--find-links {url}\nnobody-knows\n"},
    {"requirements.txt": "-f {url}\nnobody-knows\n"},
    {"requirements.txt": "-r base.txt\n", "base.txt": "--find-links {url}\nnobody-knows\n"},
    {"requirements.txt": "nobody-knows\n", "constraints.txt": "--find-links {url}\n"},
    {"requirements.txt": "nobody-knows\n", "constraints.txt": "--index-url {url}\n"},
    {"requirements.txt": "nobody-knows\n", "requirements-dev.txt": "--index-url {url}\nx\n"},
    {"pyproject.toml": PROJECT + "[[tool.uv.index]]\nname = 'theirs'\nurl = '{url}'\n"},
    {"pyproject.toml": PROJECT + "[tool.uv]\nindex-url = '{url}'\n"},
    {"pylock.toml": PYLOCK + "version = '1'\nindex = '{url}'\n"
     "wheels = [{url = '{url}/nobody_knows-1-py3-none-any.whl', hashes = {sha256 = '00'}}]\n"},
    {**ASKED, "Pipfile.lock": '{"_meta": {"sources": [{"name": "pypi", "url": "{url}",'
     ' "verify_ssl": true}]}, "default": {"nobody-knows": {"version": "==1"}}, "develop": {}}'},
]  # fmt: skip
#: Files and repositories by address: they are told, and no index is asked for them.
ELSEWHERE: list[dict[str, str]] = [
    {"requirements.txt": "nobody-knows @ {url}/nobody_knows-1-py3-none-any.whl\n"},
    {"requirements.txt": "{url}/nobody_knows-1-py3-none-any.whl\n"},
    {"requirements.txt": "nobody-knows @ git+{url}/r.git@main\n"},
    {"requirements.txt": "nobody-knows @ hg+{url}/r\n"},
    {"requirements.txt": "-e git+{url}#egg=nobody-knows\n"},
    {"requirements.txt": "--find-links file:///etc\nnobody-knows\n"},
    {"Pipfile": "[packages]\nnobody-knows = {git = '{url}'}\n"},
    {"Pipfile": "[packages]\nnobody-knows = {file = '{url}/x.whl'}\n"},
    {**ASKED, "Pipfile.lock": '{"_meta": {"sources": []}, "default":'
     ' {"nobody-knows": {"file": "{url}/x.whl"}, "n": {"git": "{url}", "ref": "1"}},'
     ' "develop": {}}'},
    {
        "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\n"
        "dependencies = ['nobody-knows @ {url}/x.whl']\n"
    },
    {"pyproject.toml": PROJECT + "[tool.uv.sources]\nnobody-knows = {url = '{url}/x.whl'}\n"},
    {"pyproject.toml": PROJECT + "[tool.uv.sources]\nnobody-knows = {git = '{url}'}\n"},
    *({"pylock.toml": PYLOCK + it} for it in (
        "version = '1'\nwheels = [{url = '{url}/nobody_knows-1-py3-none-any.whl',"
        " hashes = {sha256 = '00'}}]\n",
        "version = '1'\nwheels = [{url = 'file:///etc/nobody_knows-1-py3-none-any.whl',"
        " hashes = {sha256 = '00'}}]\n",
        "version = '1'\nsdist = {url = '{url}/nobody-knows-1.tar.gz', hashes = {sha256 = '00'}}\n",
        "archive = {url = '{url}/nobody-knows-1.tar.gz', hashes = {sha256 = '00'}}\n",
        "vcs = {type = 'git', url = '{url}/r.git', commit-id = 'abc'}\n",
        "directory = {path = '/etc'}\n",
    )),
]  # fmt: skip
#: Only files that came with the request are read.
INCLUDES: list[dict[str, str]] = [
    {"requirements.txt": "-r {url}\n"},
    {"requirements.txt": "-c {url}\nnobody-knows\n"},
    {"requirements.txt": "-r /etc/passwd\n"},
]


def test_no_address_in_a_project_is_fetched(client: FlaskClient) -> None:
    settings = client.application.extensions["thoth"].settings
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        for table, status in ((FOREIGN, 400), (ELSEWHERE, 202), (INCLUDES, 422)):
            for files in table:
                texts = {name: text.replace("{url}", url) for name, text in files.items()}
                response = client.post("/api/v2/advice", json={"files": texts})
                assert response.status_code == status, (texts, response.text)
                if status == 400:
                    document = response.get_json()
                    assert document["type"] == "/problems/index-not-allowed", document
                    assert KNOWN in document["detail"]
        run_jobs(settings)
        assert ear.heard == []


SPECIFICATIONS: list[dict[str, Any]] = [
    {"script": "URL/script.py"},
    *({"script": "print('{}')", "python": it} for it in (
        {"pylock_toml": "x = 'URL'"}, {"requirements_txt": "--index-url URL\na==1\n"},
        {"requirements_txt": "a @ URL/a-1-py3-none-any.whl"},
    )),
    {"script": {"file": "/etc/passwd"}},
]  # fmt: skip


def test_no_address_in_a_specification_is_fetched(client: FlaskClient) -> None:
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        for specification in SPECIFICATIONS:
            text = json.dumps(specification).replace("URL", url)
            response = client.post("/amun/api/v1/inspect", json=json.loads(text))
            assert response.status_code == 400, response.text
            assert response.headers["X-Amun-Version"]
        assert ear.heard == []


def test_packages_are_requested_by_name_only(client: FlaskClient) -> None:
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        for body in (
            {"requirements": [f"a @ {url}"]},
            {"requirements": ["a"], "index": url},
            {"requirements": ["a"], "index": "theirs"},
            {"requirements": [url]},
        ):
            assert client.post("/api/v2/packages", json=body).status_code == 400, body
        assert ear.heard == []


def test_the_configured_index_is_requested(stores: Stores) -> None:
    """That nothing was heard elsewhere is no fault of the listener."""
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        settings = replace(stores.settings, package_indexes=(("pypi", url),))
        with client_of(settings, Scope.ADVISE, Scope.INGEST) as client:
            assert _advise(client, url).status_code == 202
            run_jobs(settings)
        assert ear.heard
