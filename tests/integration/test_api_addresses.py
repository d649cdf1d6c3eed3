"""Addresses that requests bring: a listener on this machine hears of none of them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from common.settings import Settings
from graph.engine import Stores
from graph.repositories.tokens import Scope
from tests.services.jobs import client_of, jobs_in, run_jobs

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
    "http://127.0.0.1:{port}/redirect?to=https://index.example/simple",
    "http://rebinding.localhost:{port}/simple",
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


@dataclass
class Listener:
    """Counts who comes, on both families, and sends everybody away.

    :param heard: addresses that connected
    """

    port: int
    heard: list[Any] = field(default_factory=list)


@contextmanager
def listener() -> Iterator[Listener]:
    """A port of this machine at which nobody should ever ask."""
    sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_INET6)]
    sockets[0].bind(("0.0.0.0", 0))
    made = Listener(sockets[0].getsockname()[1])
    sockets[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sockets[1].bind(("::", made.port))

    def accept(at: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, peer = at.accept()
                made.heard.append(peer)
                connection.close()

    for it in sockets:
        it.listen()
    threads = [threading.Thread(target=accept, args=(it,), daemon=True) for it in sockets]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        for it in sockets:
            with suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
            it.close()
        for thread in threads:
            thread.join(5)


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


def test_no_index_of_a_request_is_asked(client: FlaskClient, stores: Stores) -> None:
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
        with socket.create_connection(("127.0.0.1", ear.port), 5):
            pass
        with socket.create_connection(("::1", ear.port), 5):
            pass
        deadline = threading.Event()
        while len(ear.heard) < 2:
            deadline.wait(0.01)
        assert len(ear.heard) == 2


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


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": "--index-url {url}\nnobody-knows\n"},
        {"requirements.txt": "--extra-index-url {url}\nnobody-knows\n"},
        {"requirements.txt": "--find-links {url}\nnobody-knows\n"},
        {"requirements.txt": "nobody-knows @ {url}/nobody_knows-1-py3-none-any.whl\n"},
        {"requirements.txt": "-e git+{url}#egg=nobody-knows\n"},
        {"requirements.txt": "-r {url}\n"},
        {"requirements.txt": "-c {url}\nnobody-knows\n"},
        {"requirements.txt": "nobody-knows\n", "constraints.txt": "--index-url {url}\n"},
        {"Pipfile": "[packages]\nnobody-knows = {{git = '{url}'}}\n"},
        {"Pipfile": "[packages]\nnobody-knows = {{file = '{url}/x.whl'}}\n"},
        {
            "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\n"
            "dependencies = ['nobody-knows @ {url}/x.whl']\n"
        },
        {
            "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\n"
            "dependencies = ['nobody-knows']\n[[tool.uv.index]]\nname = 'theirs'\nurl = '{url}'\n"
        },
    ],
)
def test_no_address_in_a_project_is_fetched(client: FlaskClient, files: dict[str, str]) -> None:
    settings = client.application.extensions["thoth"].settings
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        texts = {name: text.format(url=url) for name, text in files.items()}
        response = client.post("/api/v2/advice", json={"files": texts})
        assert response.status_code in {202, 400, 422}
        run_jobs(settings)
        assert ear.heard == []


@pytest.mark.parametrize(
    "specification",
    [
        {"script": "{url}/script.py"},
        {"script": "print('{{}}')", "python": {"pylock_toml": "x = '{url}'"}},
        {"script": "print('{{}}')", "python": {"requirements_txt": "--index-url {url}\na==1\n"}},
        {
            "script": "print('{{}}')",
            "python": {"requirements_txt": "a @ {url}/a-1-py3-none-any.whl"},
        },
        {"script": {"file": "/etc/passwd"}},
    ],
)
def test_no_address_in_a_specification_is_fetched(
    client: FlaskClient, specification: dict[str, Any]
) -> None:
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        text = json.dumps(specification).replace("{url}", url).replace("{{}}", "{}")
        response = client.post("/amun/api/v1/inspect", json=json.loads(text))
        assert response.status_code == 400, response.text
        assert response.headers["X-Amun-Version"]
        assert ear.heard == []


def test_packages_are_asked_for_by_name_alone(client: FlaskClient) -> None:
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


def test_the_listener_hears_what_is_configured(stores: Stores) -> None:
    """That nothing was heard elsewhere is no fault of the listener."""
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        settings = replace(stores.settings, package_indexes=(("pypi", url),))
        with client_of(settings, Scope.ADVISE, Scope.INGEST) as client:
            assert _advise(client, url).status_code == 202
            run_jobs(settings)
        assert ear.heard
