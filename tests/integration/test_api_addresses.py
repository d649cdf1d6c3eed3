"""Addresses in requests and on indexes: a listener on this machine hears of none of them."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from tests.requirements import needs
from tests.services.index import Index, package_index, status
from tests.services.jobs import client_of, jobs_in, run_jobs
from tests.services.listener import listener
from tests.services.waiting import wait_until

#: What stands for the one index that the service is configured with.
KNOWN = "https://index.example/simple"

#: Ways to write addresses of this machine.
OWN = (
    "127.0.0.1", "localhost", "LOCALHOST.", "127.1", "0.0.0.0", "2130706433", "0177.0.0.1",
    "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "user:word@127.0.0.1",
)  # fmt: skip
#: Hosts that are private, or that only look like the configured one.
OTHERS = (
    "017700000001", "0x7f000001", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "10.0.0.1", "172.16.0.1",
    "192.168.0.1", "[fe80::1]", "[fd00::1]", "theirs.localhost", "index.example@127.0.0.1",
    "index.example:443@127.0.0.1", "index.example\\@127.0.0.1",
    "index.example.127.0.0.1.nip.example",
)  # fmt: skip
#: ``{port}`` is that of the listener.
TABLE = [
    *(f"http://{host}:{{port}}/simple" for host in (*OWN, *OTHERS)),
    "https://127.0.0.1:{port}/simple", "http://169.254.169.254/latest/meta-data",
    "https://index.example/simple/../../@127.0.0.1:{port}", "https://index.example:8443/simple",
    "http://index.example/simple", "file:///etc/passwd", "file://localhost/etc",
    "gopher://127.0.0.1:{port}/_GET%20/",
    *(f"{scheme}://127.0.0.1:{{port}}/simple" for scheme in ("ftp", "dict", "ssh")),
]  # fmt: skip


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


def test_service_fetches_no_url_found_in_a_project(client: FlaskClient) -> None:
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


def test_service_fetches_no_url_found_in_a_specification(client: FlaskClient) -> None:
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        for specification in SPECIFICATIONS:
            text = json.dumps(specification).replace("URL", url)
            response = client.post("/amun/api/v1/inspect", json=json.loads(text))
            assert response.status_code == 400, response.text
            assert response.headers["X-Amun-Version"]
        assert ear.heard == []


def test_package_requests_accept_names_and_no_urls(client: FlaskClient) -> None:
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


def test_configured_index_is_contacted(stores: Stores) -> None:
    """That nothing was heard elsewhere is no fault of the listener."""
    with listener() as ear:
        url = f"http://127.0.0.1:{ear.port}/simple"
        settings = replace(stores.settings, package_indexes=(("pypi", url),))
        with client_of(settings, Scope.ADVISE, Scope.INGEST) as client:
            assert _advise(client, url).status_code == 202
            run_jobs(settings)
        assert ear.heard


#: Where pages and files are said to be; ``{port}`` is that of the listener.
TARGETS = [
    *(f"http://{host}:{{port}}/x" for host in OWN), "//127.0.0.1:{port}/x",
    "http://169.254.169.254/latest/meta-data", "http://10.0.0.1/x", "file://{folder}/x",
    "gopher://127.0.0.1:{port}/_GET%20/", "ftp://127.0.0.1:{port}/x",
]  # fmt: skip
#: By what a machine makes of such a host or scheme.
REFUSALS = {"address_refused", "redirect_refused", "malformed", "unreachable"}
#: Public by its form, and given out to nobody (RFC 3701): nothing answers there.
PUBLIC = "3ffe::1"
WHEEL = "py3-none-any.whl"
#: What installers of this machine would listen to.
VARIABLES = [
    "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "HTTP_PROXY", "http_proxy",
    "HTTPS_PROXY", "ALL_PROXY",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What would be read if addresses of files were."""
    (tmp_path / "x").write_text(f'<a href="page14-1.0-{WHEEL}">it</a>', "utf-8")
    return tmp_path


def fetched(settings: Settings, names: list[str]) -> dict[str, Any]:
    """The report on packages that a person asked for."""
    with client_of(settings, Scope.INGEST) as client:
        asked = client.post("/api/v2/packages", json={"requirements": names})
        assert asked.status_code == 202, asked.text
        run_jobs(settings)
        done = client.get(asked.headers["Location"]).get_json()
        assert done["state"] == "succeeded", done
        (report,) = client.get(done["result"]).get_json()["indexes"]
    return dict(report)


def test_index_redirects_and_files_at_private_addresses_are_refused(
    stores: Stores, folder: Path
) -> None:
    with package_index(protected=False, json=True) as index, listener() as ear:
        index.add_wheel("fine", "1.0")
        names = ["twice"]
        send(index, "twice", f"http://127.0.0.1:{index.port}/simple/page0/")
        for number, row in enumerate(TARGETS):
            target = row.format(port=ear.port, folder=folder)
            send(index, f"page{number}", target)
            file(index, f"file{number}", f"{target}/f.whl")
            names += [f"page{number}", f"file{number}"]
        report = fetched(settings_of(stores, index), ["fine", *names])
        assert ear.heard == []
        codes = {it["name"]: it["code"] for it in report["failed"]}
        assert codes.keys() == set(names)
        assert set(codes.values()) <= REFUSALS
        assert {codes[it] for it in ("page0", "file0", "page8", "twice")} == {"address_refused"}
        assert report["new"] == 1
        asked = {path.split("/")[2] for path in index.paths}
        assert asked == {"fine", *names}

        send(index, "control", f"http://127.0.0.1:{ear.port}/x")
        fetched(settings_of(stores, index, "127.0.0.1"), ["fine", "control"])
        assert ear.heard


@pytest.mark.slow
def test_later_dns_answer_does_not_change_a_checked_address(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    with package_index(protected=False, json=True) as index, listener() as ear:
        own = f"own.example:{index.port}"
        index.add_wheel("fine", "1.0")
        names = ["page", "file", "same"]
        send(index, "page", f"http://page.example:{ear.port}/x")
        file(index, "file", f"http://file.example:{ear.port}/f.whl")
        file(index, "same", f"http://own.example:{ear.port}/f.whl")
        file(index, "control", f"http://control.example:{ear.port}/f.whl")
        hosts = [*(f"{it}.example" for it in ("page", "file", "control")), "own.example"]
        asked = resolve(monkeypatch, {
            ("own.example", index.port): ["127.0.0.1"],
            **{(it, ear.port): [PUBLIC, "127.0.0.1"] for it in hosts},
            ("control.example", ear.port): ["127.0.0.1"],
        })  # fmt: skip
        found = settings_of(stores, index)
        settings = replace(found, package_indexes=(("pypi", f"http://{own}/simple"),))
        report = fetched(settings, ["fine", *names])
        assert ear.heard == []
        assert {it["name"] for it in report["failed"]} == set(names)
        for host in ("page.example", "file.example", "own.example"):
            # What was looked up and judged is what is connected to: nobody asks a second time.
            assert asked.count((host, ear.port)) == 1

        named = replace(settings, package_file_hosts=("control.example",))
        fetched(named, ["fine", "control"])
        assert ear.heard


def resolve(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[tuple[str, int], list[str]]
) -> list[tuple[str, int]]:
    """Have names mean what ``answers`` say, one after the other and the last one for good.

    :returns: the questions for these names
    """
    asked: list[tuple[str, int]] = []
    real: Callable[..., Any] = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **how: Any) -> Any:
        question = (host.decode() if isinstance(host, bytes) else host, port)
        if question not in answers:
            return real(host, port, *args, **how)
        turn = min(asked.count(question), len(answers[question]) - 1)
        asked.append(question)
        return real(answers[question][turn], port, *args, **how)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def settings_of(stores: Stores, index: Index, *hosts: str) -> Settings:
    return replace(
        stores.settings, package_indexes=(("pypi", index.url),), package_file_hosts=hosts
    )


def send(index: Index, name: str, target: str) -> None:
    """Have the page of a project elsewhere."""
    index.answers[f"/simple/{name}/"] = status(302, Location=target)


def file(index: Index, name: str, target: str) -> None:
    """Have the only file of a project elsewhere."""
    index.add_wheel(name, "1.0")
    index.facts[f"{name}-1.0-{WHEEL}"]["url"] = target


@needs("bwrap")
def test_variables_and_locks_cannot_send_an_installer_to_another_index(stores: Stores) -> None:
    with package_index(protected=False, json=True) as index, listener() as ear:
        digest = index.add_wheel("parrot", "1.0").removeprefix("sha256:")
        name, url = f"parrot-1.0-{WHEEL}", f"http://127.0.0.1:{ear.port}/simple"
        lock = (
            "lock-version = '1.0'\ncreated-by = 'a test'\n[[packages]]\nname = 'parrot'\n"
            f"version = '1.0'\nindex = '{index.url}'\n"
            f"wheels = [{{url = '{url}/{name}', hashes = {{sha256 = '{digest}'}}}}]\n"
        )
        specification = {
            "script": "import parrot; print('{}')",
            "timeout_s": 60,
            "python": {"pylock_toml": lock},
            "environment": [{"name": it, "value": url} for it in VARIABLES],
        }
        settings = replace(stores.settings, package_indexes=(("own", index.url),))
        with client_of(settings, Scope.INSPECT) as client:
            asked = client.post("/amun/api/v1/inspect", json=specification)
            assert asked.status_code == 202, asked.text
            run_jobs(settings)
            where = f"/amun/api/v1/inspect/{asked.get_json()['inspection_id']}"
            status = client.get(f"{where}/status").get_json()["status"]
        assert status["build"]["state"] == "succeeded", status
        assert f"/files/parrot/{name}" in index.paths
        assert ear.heard == []
