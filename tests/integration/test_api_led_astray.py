"""An index that is configured leads the service elsewhere: redirects, files, names that change."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from tests.requirements import needs
from tests.services.index import Index, package_index, status
from tests.services.jobs import client_of, run_jobs
from tests.services.listener import listener

#: Where pages and files are said to be; ``{port}`` is that of the listener.
TARGETS = [
    "http://127.0.0.1:{port}/x",
    "//127.0.0.1:{port}/x",
    "http://localhost:{port}/x",
    "http://LOCALHOST.:{port}/x",
    "http://127.1:{port}/x",
    "http://0.0.0.0:{port}/x",
    "http://2130706433:{port}/x",
    "http://0177.0.0.1:{port}/x",
    "http://0x7f.1:{port}/x",
    "http://[::1]:{port}/x",
    "http://[::ffff:127.0.0.1]:{port}/x",
    "http://user:word@127.0.0.1:{port}/x",
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/x",
    "file://{folder}/x",
    "gopher://127.0.0.1:{port}/_GET%20/",
    "ftp://127.0.0.1:{port}/x",
]
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


def test_redirects_and_files_of_an_index_lead_to_no_private_address(
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
        assert {codes[it] for it in ("page0", "file0", "page9", "twice")} == {"address_refused"}
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
