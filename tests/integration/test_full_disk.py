"""A full disk: a first start names the remedy, a service says why and heals, uploads wait."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api.app import create_app
from api.store_access import EXTENSION
from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import Stores
from graph.record.access import Scope
from model.errors import ServiceFailed
from tests.factories.archives import zip_of
from tests.factories.inspections import inspection_files
from tests.services.commands import ROOT, thoth
from tests.services.disks import fill, mounted, mounted_disk
from tests.services.jobs import client_of, run_jobs
from tests.services.waiting import wait_until

pytestmark = pytest.mark.faults


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB, which PostgreSQL fills while it creates its database."""
    with mounted_disk(tmp_path / "disk", 40) as folder:
        yield folder
        EmbeddedStores(settings_in(folder)).stop()


def settings_in(home: Path) -> Settings:
    return Settings.from_env({"THOTH_HOME": str(home), "GRAPH_MEMORY_MB": "256"})


def test_first_start_on_a_small_disk_fails_with_a_remedy(small_disk: Path) -> None:
    settings = settings_in(small_disk)
    result = thoth(settings, "up")
    assert result.returncode == 3, result.stderr
    assert "Traceback" not in result.stderr
    assert "their first start needs 100 MB" in result.stderr
    assert "hint: free space on the disk, then run the command again" in result.stderr
    assert not any(
        EmbeddedStores(settings).record_of(kind) for kind in EmbeddedStores(settings).kinds
    )


def test_database_that_cannot_be_created_is_an_error_with_a_remedy(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up after the check: here because the check is too lenient."""
    settings = settings_in(small_disk)
    stores = EmbeddedStores(settings)
    for kind in stores.kinds:
        monkeypatch.setattr(kind, "new_bytes", 1)
    with pytest.raises(ServiceFailed) as caught:
        stores.start(graph=False)
    assert caught.value.hint == "free space on the disk, then run the command again"
    status = thoth(settings, "status")
    assert status.returncode == 3
    assert "hint: free space on the disk" in status.stdout


def test_stores_start_once_the_disk_has_space(small_disk: Path) -> None:
    settings = settings_in(small_disk)
    assert thoth(settings, "stacks").returncode == 3
    assert mounted(small_disk, "-o", "remount,size=200m")
    assert thoth(settings, "stacks").returncode == 0


UPLOADS = "/api/v2/inspections"
#: Counts requests of more and more routes; between them, waits for a line.
COUNTING = """
import os, sys
from api.server.supervisor import files, metrics_folder
from pathlib import Path
with metrics_folder(Path(sys.argv[1]), "serve"):
    from api.health import monitoring
    monitoring.RETRY_S = 0.0
    for step in range(3):
        for number in range(3000):
            monitoring.REQUESTS.labels(f"/{step}/{number}", "GET", "200").inc()
        samples = [s for m in monitoring._AllProcesses().collect() for s in m.samples]
        print(sum(s.value for s in samples if s.name == "thoth_http_requests_total"), flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted_disk(tmp_path / "disk", 20) as folder:
        yield folder


def test_metrics_keep_counting_after_a_full_disk(disk: Path) -> None:
    command = [sys.executable, "-c", COUNTING, str(disk / "metrics")]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        counts = [float(process.stdout.readline())]
        filler = fill(disk)
        process.stdin.write("\n")
        process.stdin.flush()
        counts.append(float(process.stdout.readline() or "nan"))
        filler.unlink()
        process.stdin.write("\n")
        process.stdin.flush()
        counts.append(float(process.stdout.readline() or "nan"))
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait() == 0
    assert (counts[0], counts[2]) == (3000.0, 9000.0)


def test_accepted_upload_waits_for_disk_space(disk: Path, stores: Stores) -> None:
    full = replace(stores.settings, home=disk)
    archive = zip_of({f"inspection-a/{it}": data for it, data in inspection_files().items()})
    with client_of(full, Scope.INGEST) as client:
        accepted = client.post(UPLOADS, data=archive, content_type="application/zip")
        assert accepted.status_code == 202
        filler = fill(disk)
        run_jobs(full)
        waiting = client.get(accepted.headers["Location"]).get_json()
        assert waiting["state"] == "pending"
        assert waiting["reason"] == "the disk is unavailable; trying again"
        filler.unlink()

        def succeeded() -> bool:
            run_jobs(full)
            return bool(client.get(accepted.headers["Location"]).get_json()["state"] == "succeeded")

        wait_until(succeeded, "the upload is ingested")


def test_service_without_disk_space_is_not_ready_with_the_reason(
    disk: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    full = replace(settings, home=disk)
    app = create_app(full)
    try:
        client = app.test_client()
        assert client.get("/readyz").get_json()["checks"]["disk"] == {"status": "up"}
        filler = fill(disk)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.get_json()["checks"]["disk"]["problem"] == "the disk of THOTH_HOME is full"
        assert "disk_full" in caplog.messages
        assert client.get("/livez").status_code == 200
        filler.unlink()
        assert client.get("/readyz").get_json()["checks"]["disk"] == {"status": "up"}
    finally:
        app.extensions[EXTENSION].close()
