"""An archive that is parsed on a Ray cluster gives the record and the graph of an ordinary run."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.documents import write_documents
from benchmarks.homes import Home, fresh_home
from benchmarks.interruptions import state_of
from common.ray_cluster import RayUnavailable
from graph.engine import open_stores
from ingest.inspections.cluster_parsing import CHUNK_DOCUMENTS, ClusterParser, cluster_parser
from ingest.inspections.pipeline import IngestReport, ingest_inspections
from ingest.sources.source_items import SourceLimits
from tests.services.ray_cluster import RayCluster, free_port, ray_cluster

pytest.importorskip("ray", reason="the extra `ray` is not installed")

# A cluster starts within half a minute.
pytestmark = pytest.mark.slow

DOCUMENTS = 8 * CHUNK_DOCUMENTS
#: Name of a worker that runs the task.
TASK = "ray::_parse_chunk"


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


class Killer(threading.Thread):
    """Ends the first worker of a cluster that is seen parsing."""

    def __init__(self, cluster: RayCluster) -> None:
        super().__init__()
        self._nodes = [psutil.Process(node.pid) for node in cluster.nodes]
        self._ended = threading.Event()
        self.killed = False

    def run(self) -> None:
        while not (self.killed or self._ended.is_set()):
            for node in self._nodes:
                for process in node.children(recursive=True):
                    with suppress(psutil.Error):
                        if not self.killed and process.cmdline()[0].startswith(TASK):
                            process.kill()
                            self.killed = True

    def stop(self) -> None:
        self._ended.set()
        self.join()


def test_a_killed_worker_changes_no_digest_of_record_and_graph(
    archive: Path, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with fresh_home() as home:
        ordinary = home.thoth("ingest", "inspections", str(archive))
        home.thoth("graph", "sync")
        expected = state_of(home)
    with fresh_home() as home, cluster_parser() as parser:
        killer = Killer(cluster)
        killer.start()
        report = ingested(home, archive, parser)
        killer.stop()
        home.thoth("graph", "sync")
        assert state_of(home) == expected
    assert killer.killed
    assert report.as_json() == ordinary["inspection"] | {"mended": 0}
    assert report.quarantined == 2
    assert report.known == 1
    assert report.skipped.total() == 1


def ingested(home: Home, archive: Path, parser: ClusterParser) -> IngestReport:
    with open_stores(home.settings, graph=False) as stores:
        limits = SourceLimits()
        return ingest_inspections(
            home.settings, stores.engine, [str(archive)], limits, parser=parser
        )


def test_the_option_of_the_command(
    archive: Path, cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    home = Home(tmp_path)
    arguments = ("ingest", "inspections", str(archive), "--dry-run")
    assert home.thoth(*arguments, "--ray") == home.thoth(*arguments)


def test_without_a_cluster_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    with pytest.raises(RayUnavailable, match="no Ray cluster answers"), cluster_parser():
        pass
