"""An archive that is parsed on a Ray cluster gives the record and the graph of an ordinary run."""

from __future__ import annotations

import json
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.documents import write_documents
from benchmarks.homes import FreshHome, fresh_home
from benchmarks.interruptions import state_of
from common.ray_cluster import RayUnavailable
from graph.engine import open_stores
from ingest.inspections import cluster_parsing
from ingest.inspections.cluster_parsing import (
    CHUNK_DOCUMENTS,
    ClusterParser,
    _parse_chunk,
    cluster_parser,
)
from ingest.inspections.pipeline import IngestReport, ingest_inspections
from ingest.sources.source_items import SourceLimits
from tests.services.ports import closed_port
from tests.services.ray_cluster import RayCluster, ray_cluster
from tests.services.waiting import wait_until

pytest.importorskip("ray", reason="the extra `ray` is not installed")

# A cluster starts within half a minute.
pytestmark = pytest.mark.slow

DOCUMENTS = 8 * CHUNK_DOCUMENTS


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that are accepted, known, refused and skipped."""
    folder = tmp_path_factory.mktemp("archive")
    documents = folder / "documents"
    write_documents(documents, DOCUMENTS, seed=3)
    first = min(documents.rglob("*.json"))
    (documents / "002.json").write_bytes(first.read_bytes())
    (documents / "003.json").write_bytes(first.read_bytes()[:-20])
    (documents / "004.json").write_text(json.dumps({"job_logs": 1, "exit_code": "no"}))
    (documents / "notes.txt").write_text("nothing of interest")
    path = folder / "documents.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as packed:
        packed.add(documents, "documents")
    return path


def waiting_task(flag: Path) -> Callable[..., Any]:
    """The task, whose first worker writes its process identifier and waits to be killed."""

    def parse(*arguments: Any) -> Any:
        with suppress(FileExistsError):
            flag.touch(exist_ok=False)
            flag.write_text(str(os.getpid()))
            while True:
                signal.pause()
        return _parse_chunk(*arguments)

    return parse


def kill_first(flag: Path) -> None:
    """Kill the worker that waits."""
    pid = wait_until(lambda: flag.is_file() and flag.read_text(), "a worker parses")
    os.kill(int(pid), signal.SIGKILL)


def test_a_killed_worker_changes_no_digest_of_record_and_graph(
    archive: Path, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    flag = tmp_path / "worker"
    monkeypatch.setattr(cluster_parsing, "_parse_chunk", waiting_task(flag))
    with fresh_home() as home:
        ordinary = home.thoth("ingest", "inspections", str(archive))
        home.thoth("graph", "sync")
        expected = state_of(home)
    with fresh_home() as home, cluster_parser() as parser:
        with ThreadPoolExecutor(1) as pool:
            killed = pool.submit(kill_first, flag)
            report = ingested(home, archive, parser)
            killed.result()
        home.thoth("graph", "sync")
        assert state_of(home) == expected
    assert report.as_json() == ordinary["inspection"] | {"mended": 0}
    assert report.quarantined == 2
    assert report.known == 1
    assert report.skipped.total() == 1


def ingested(home: FreshHome, archive: Path, parser: ClusterParser) -> IngestReport:
    with open_stores(home.settings, graph=False) as stores:
        limits = SourceLimits()
        return ingest_inspections(
            home.settings, stores.engine, [str(archive)], limits, parser=parser
        )


def test_the_option_of_the_command(
    archive: Path, cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    home = FreshHome(tmp_path)
    arguments = ("ingest", "inspections", str(archive), "--dry-run")
    assert home.thoth(*arguments, "--ray") == home.thoth(*arguments)


def test_without_a_cluster_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed_port()}")
    with pytest.raises(RayUnavailable, match="no Ray cluster answers"), cluster_parser():
        pass
