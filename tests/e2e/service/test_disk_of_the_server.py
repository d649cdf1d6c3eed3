"""The processes of a server whose disk fills up while it answers."""

from __future__ import annotations

from pathlib import Path

import httpx
import neo4j
import psutil
import pytest

from common.settings import Settings
from graph.engine import graph_url
from tests.services.disks import fill, mounted_disk
from tests.services.served import serving
from tests.services.waiting import wait_until

pytestmark = pytest.mark.faults

#: Each makes series of its own, in files that processes map into memory.
ROUTES = (
    "benchmarks", "bisects", "changes", "comparison-groups", "coverage", "hardware",
    "inspections", "loop", "packages", "reports", "stacks", "status", "vulnerabilities",
)  # fmt: skip


@pytest.mark.slow
def test_full_disk_kills_no_process_and_reads_are_answered(
    settings: Settings, graph: neo4j.Driver, tmp_path: Path
) -> None:
    """Writes to mapped files without space would end a process with SIGBUS."""
    stores = {"DATABASE_URL": settings.database_url or "", "GRAPH_URL": graph_url(settings)}
    with mounted_disk(tmp_path / "disk", 60) as disk, serving(disk, stores) as service:
        children = psutil.Process(service.server.pid).children()
        assert len(children) == 2

        def status_of_new_connection(path: str) -> int:
            with service.client() as client:
                return client.get(path).status_code

        filler = fill(disk)
        paths = [f"/api/v2/{it}{end}" for it in ROUTES for end in ("", "/unknown", "/unknown/x")]
        answers = {path: status_of_new_connection(path) for path in paths * 2}
        assert {it for path, it in answers.items() if path.count("/") == 3} == {200}, answers
        assert max(answers.values()) < 500, answers
        with service.client() as client:
            unready: httpx.Response = client.get("/readyz")
            assert unready.status_code == 503
            problem = unready.json()["checks"]["disk"]["problem"]
            assert problem == "the disk of THOTH_HOME is full"
            assert client.get("/livez").status_code == 200
            filler.unlink()
            wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready again")
        assert psutil.Process(service.server.pid).children() == children
