"""Servers and workers of several machines on the same stores, without a shared disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import neo4j
import pytest

from common.settings import Settings
from graph.embedded import arcadedb
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import graph_url
from tests.services.commands import ROOT
from tests.services.object_store import object_store
from tests.services.served import Served, end, serving
from tests.services.waiting import wait_until

pytestmark = pytest.mark.slow

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


@pytest.fixture
def machines(shared: Mapping[str, str]) -> Iterator[tuple[Served, Served]]:
    """Two machines: advice is made on the first, uploads are ingested on the second."""
    with ExitStack() as stack:
        running = []
        for queue in ("people", "bulk"):
            home = Path(tempfile.mkdtemp(prefix=f"thoth-{queue}-"))
            stack.callback(shutil.rmtree, home)
            running.append(stack.enter_context(serving(home, shared, queues=[queue])))
        yield running[0], running[1]


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


def test_each_machine_answers_for_requests_that_another_accepted(
    machines: tuple[Served, Served],
) -> None:
    first, second = machines
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
    for machine in machines:
        assert not (machine.settings.home / "documents").exists()
        assert machine.thoth("graph", "verify").returncode == 0
    checked = second.thoth("record", "verify")
    assert checked.returncode == 0, checked.stdout
