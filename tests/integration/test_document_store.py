"""Servers and workers with different document stores, and a PostgreSQL whose disk is full."""

import gzip
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from alembic import command
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, text, update

from api.health import checks as health
from api.jobs.upkeep import prune
from cli.service import ensure_stores
from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.engine import relational_engine, relational_url
from graph.migrate import alembic_config, migrate_relational
from graph.record import document_store, documents
from graph.record.access import Scope
from graph.record.document_store import (
    RECORDS,
    file_system_of,
    object_url,
    objects_in,
    write_object,
)
from graph.record.documents import (
    INLINE_LIMIT_BYTES,
    UPLOAD,
    DeliveredDocument,
    add_documents,
    body_of,
    delete_unreferenced_bodies,
    find_unreferenced_bodies,
    forget_documents,
)
from graph.tables import DocumentStoreRow
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from model.errors import DocumentStoreMismatch, SchemaMismatch
from model.json_documents import digest_bytes
from tests.factories.documents import directory_files
from tests.services.commands import row_counts, thoth
from tests.services.databases import new_database
from tests.services.disks import fill, mounted_disk
from tests.services.jobs import client_of, run_jobs, upkeep
from tests.services.object_store import object_store
from tests.services.waiting import wait_until

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def forgotten_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every use of a store and every probe looks again, as it does after some seconds."""
    monkeypatch.setattr(document_store, "_KEPT_S", -1e9)
    monkeypatch.setattr(health, "_WRITES_KEPT_S", -1e9)


def with_documents(settings: Settings, folder: Path) -> Settings:
    return replace(settings, document_store_url=folder.as_uri())


def upload(client: FlaskClient) -> tuple[int, str]:
    """Send what a worker ingests, and is too large for PostgreSQL."""
    archive = random.Random(1).randbytes(600_000)
    answer = client.post(
        "/api/v2/inspections", data=gzip.compress(archive), content_type="application/gzip"
    )
    return answer.status_code, answer.headers.get("Location", "")


def test_worker_with_another_document_store_loses_no_upload(
    settings: Settings, relational: Engine, tmp_path: Path
) -> None:
    ours, theirs = (with_documents(settings, tmp_path / name) for name in ("server", "worker"))
    ensure_stores(ours)
    with client_of(ours, Scope.INGEST, Scope.READ) as client:
        status, where = upload(client)
        assert status == 202
        with pytest.raises(DocumentStoreMismatch):
            ensure_stores(theirs)
        run_jobs(theirs)
        # It waits for a worker that can read it.
        assert client.get(where).get_json()["state"] == "pending"
        refused = thoth(theirs, "worker", DOCUMENT_STORE_URL=theirs.document_store_url)
        assert refused.returncode == 3
        assert "hint: set DOCUMENT_STORE_URL of all servers and workers" in refused.stderr

        def has_ended() -> bool:
            run_jobs(ours)
            return client.get(where).get_json()["state"] not in ("pending", "running")

        wait_until(has_ended, "the upload is ingested")


def test_server_on_an_older_schema_checks_its_document_store(
    settings: Settings, postgresql: Engine, tmp_path: Path
) -> None:
    with new_database(postgresql, settings) as own:
        ours, theirs = (with_documents(own, tmp_path / name) for name in ("ours", "theirs"))
        ensure_stores(ours)
        engine = relational_engine(own)
        with engine.begin() as connection:
            command.downgrade(alembic_config(connection), "0028")
        with pytest.raises(SchemaMismatch) as caught:
            ensure_stores(ours)
        assert caught.value.older
        with pytest.raises(DocumentStoreMismatch):
            ensure_stores(theirs)
        engine.dispose()


def test_server_with_an_unmounted_document_store_is_not_ready(
    settings: Settings, relational: Engine, tmp_path: Path
) -> None:
    folder = tmp_path / "documents"
    with client_of(with_documents(settings, folder), Scope.INGEST) as client:
        assert client.get("/readyz").get_json()["checks"]["documents"] == {"status": "up"}
        folder.rename(tmp_path / "elsewhere")
        folder.mkdir()
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "DOCUMENT_STORE_URL" in answer.get_json()["checks"]["documents"]["problem"]
        assert upload(client)[0] == 503
        folder.rmdir()
        (tmp_path / "elsewhere").rename(folder)
        assert client.get("/readyz").status_code == 200
        assert upload(client)[0] == 202


def test_document_store_without_its_documents_is_refused_after_an_upgrade(
    settings: Settings, relational: Engine, tmp_path: Path
) -> None:
    full, empty = (with_documents(settings, tmp_path / name) for name in ("full", "empty"))
    log = random.Random(2).randbytes(600_000).hex().encode()
    for name, data in directory_files(log=log).items():
        path = tmp_path / "inspection-large" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    report = ingest_inspections(
        full, relational, [str(tmp_path / "inspection-large")], SourceLimits()
    )
    assert report.new == 1
    with relational.begin() as connection:  # as an earlier version left it
        connection.execute(update(DocumentStoreRow).values(store_id=None))
    with pytest.raises(DocumentStoreMismatch), relational.begin() as connection:
        document_store.identify_store(connection, empty)
    with relational.begin() as connection:
        document_store.identify_store(connection, full)
    (large,) = (it for it in (tmp_path / "full").rglob("*.zst"))
    with relational.connect() as connection:
        document_id = f"sha256:{large.name.partition('.')[0]}"
        assert body_of(connection, full, document_id)
        # A comparison with another store would find every large document damaged.
        with pytest.raises(DocumentStoreMismatch):
            body_of(connection, empty, document_id)


def test_failing_disk_probe_is_not_reported_as_a_full_disk(
    settings: Settings, relational: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def broken(_service: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(health, "PROBE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(health, "_space_problem", lambda _service: ended.wait() and None)
    monkeypatch.setattr(health, "_documents_problem", broken)
    try:
        with client_of(settings) as client:
            answer = client.get("/readyz")
            assert answer.status_code == 200
            checks = answer.get_json()["checks"]
            assert (checks["postgresql"]["status"], checks["documents"]["status"]) == ("up", "down")
    finally:
        ended.set()


@pytest.fixture
def small_postgresql(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """URL of a migrated PostgreSQL on a small disk, and the disk."""
    with mounted_disk(tmp_path / "disk", 160) as disk:
        settings = Settings.from_env({"THOTH_HOME": str(disk)})
        stores = EmbeddedStores(settings)
        try:
            stores.start(graph=False)
            engine = relational_engine(settings)
            migrate_relational(engine)
            engine.dispose()
            url = relational_url(settings).set(drivername="postgresql")
            yield url.render_as_string(hide_password=False), disk
        finally:
            stores.stop()


def test_postgresql_without_space_is_not_ready_with_the_reason(
    small_postgresql: tuple[str, Path], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    url, disk = small_postgresql
    with client_of(replace(settings, database_url=url)) as client:
        assert client.get("/readyz").status_code == 200
        filler = fill(disk)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        record = answer.get_json()["checks"]["postgresql"]
        assert (record["status"], record["problem"]) == ("full", "its disk is full")
        assert "record_disk_full" in caplog.messages
        filler.unlink()
        healed = client.get("/readyz")
        assert healed.status_code == 200, healed.get_json()


@pytest.fixture(params=["folder", "bucket"])
def documents_url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A document store of its own, of each kind."""
    if request.param == "folder":
        yield (tmp_path / "documents").as_uri()
        return
    with object_store(monkeypatch):
        yield "s3://knowledge/documents"


def large_upload(seed: int = 1) -> DeliveredDocument:
    body = random.Random(seed).randbytes(INLINE_LIMIT_BYTES * 2)
    return DeliveredDocument(digest_bytes(body), UPLOAD, "upload-1", "a test", body)


def bodies_in(url: str) -> list[str]:
    filesystem, path = file_system_of(url)
    filesystem.invalidate_cache()
    return [it for it in filesystem.find(path) if it.endswith(".zst")]


def store_upload(connection: Connection, settings: Settings) -> None:
    assert add_documents(connection, settings, [large_upload()]) == {large_upload().document_id}


def delete_uploads(engine: Engine) -> int:
    with engine.begin() as connection:
        return forget_documents(connection, UPLOAD, timedelta(), 10)


def test_document_bodies_are_deleted_later_if_the_deletion_is_killed(
    settings: Settings, relational: Engine, documents_url: str
) -> None:
    settings = replace(settings, document_store_url=documents_url)
    with relational.begin() as connection:
        store_upload(connection, settings)
    with relational.connect() as rolled_back:
        assert forget_documents(rolled_back, UPLOAD, timedelta(), 10)
    upkeep(settings, prune)
    assert len(bodies_in(documents_url)) == 1

    assert delete_uploads(relational) == 1
    upkeep(replace(settings, document_store_url=f"{documents_url}-of-another-record"), prune)
    assert len(bodies_in(documents_url)) == row_counts(relational)["unreferenced_bodies"] == 1
    upkeep(settings, prune)
    assert bodies_in(documents_url) == []
    assert row_counts(relational)["unreferenced_bodies"] == 0


def test_old_document_bodies_of_interrupted_transactions_are_deleted(
    settings: Settings, relational: Engine, documents_url: str
) -> None:
    settings = replace(settings, document_store_url=documents_url)
    with relational.begin() as connection:
        store_upload(connection, settings)
    with relational.connect() as interrupted:
        add_documents(interrupted, settings, [large_upload(2)])
    assert len(bodies_in(documents_url)) == 2
    assert find_unreferenced_bodies(settings, relational) == 0, "its transaction may go on"
    assert find_unreferenced_bodies(settings, relational, timedelta()) == 1
    assert find_unreferenced_bodies(settings, relational, timedelta()) == 0, "it is listed"
    delete_unreferenced_bodies(settings, relational)
    assert len(bodies_in(documents_url)) == 1
    with relational.connect() as connection:
        assert body_of(connection, settings, large_upload().document_id) == large_upload().body


def test_partial_files_of_killed_writers_are_deleted_after_a_day(
    settings: Settings, relational: Engine, documents_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(settings, document_store_url=documents_url)
    with relational.begin() as connection:
        store_upload(connection, settings)
    (record,) = objects_in(settings, RECORDS)
    filesystem, path = file_system_of(documents_url)

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(type(filesystem), "mv", interrupt)
        for location in (record, f"ab/{'0' * 64}.json.zst"):
            with pytest.raises(KeyboardInterrupt):
                write_object(object_url(settings, location), b"half")
    assert len(parts := filesystem.glob(f"{path}/**/*.part")) == 2
    find_unreferenced_bodies(settings, relational, timedelta())
    filesystem.invalidate_cache()
    assert filesystem.glob(f"{path}/**/*.part") == parts, "their writers may go on"
    find_unreferenced_bodies(settings, relational, timedelta(), timedelta())
    filesystem.invalidate_cache()
    assert filesystem.glob(f"{path}/**/*.part") == []
    assert len(bodies_in(documents_url)) == 1
    assert objects_in(settings, RECORDS) == [record]


def test_shared_document_store_keeps_the_bodies_of_other_records(
    settings: Settings, relational: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = with_documents(settings, tmp_path)
    with relational.connect() as interrupted:
        add_documents(interrupted, settings, [large_upload()])
    caplog.set_level("INFO")
    assert find_unreferenced_bodies(settings, relational, timedelta()) == 0, "of no record"
    assert "document_store_shared" not in caplog.messages
    with relational.begin() as connection:
        add_documents(connection, settings, [large_upload(2)])
    for path in list((tmp_path / "records").iterdir()):
        path.with_name("f" * 32).touch()
    assert find_unreferenced_bodies(settings, relational, timedelta()) == 0
    assert "document_store_shared" in caplog.messages
    assert len(bodies_in(settings.document_store_url)) == 2


def test_undeletable_document_body_does_not_stop_other_deletions(
    settings: Settings, relational: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = with_documents(settings, tmp_path)
    with relational.begin() as connection:
        add_documents(connection, settings, [large_upload(seed) for seed in range(3)])
    delete_uploads(relational)
    with relational.connect() as connection:
        first = connection.scalars(text("SELECT document_id FROM unreferenced_bodies")).first()
    assert first is not None
    (path,) = tmp_path.rglob(f"{first.removeprefix('sha256:')}.json.zst")
    path.unlink()
    path.mkdir()
    delete_unreferenced_bodies(settings, relational)
    assert bodies_in(settings.document_store_url) == []
    assert row_counts(relational)["unreferenced_bodies"] == 1
    named, total = (it.__dict__ for it in caplog.records if it.levelname == "WARNING")
    assert (named["document_id"], total["bodies"], total["of"]) == (first, 1, 3)
    path.rmdir()
    delete_unreferenced_bodies(settings, relational)
    assert row_counts(relational)["unreferenced_bodies"] == 0


def test_deletion_of_document_bodies_stops_after_several_failures(
    settings: Settings,
    relational: Engine,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = with_documents(settings, tmp_path)
    monkeypatch.setattr(documents, "_MOST_FAILURES", 2)
    with relational.begin() as connection:
        add_documents(connection, settings, [large_upload(seed) for seed in range(4)])
    delete_uploads(relational)
    for path in list(tmp_path.rglob("*.zst")):
        path.unlink()
        path.mkdir()
    delete_unreferenced_bodies(settings, relational)
    assert [it.message for it in caplog.records] == [*["deletion_failed"] * 2, "bodies_left"]
    assert caplog.records[-1].__dict__["bodies"] == 4


def test_document_body_is_kept_if_the_document_is_stored_again(
    settings: Settings, relational: Engine, tmp_path: Path
) -> None:
    settings = with_documents(settings, tmp_path)
    with relational.begin() as connection:
        store_upload(connection, settings)
    assert delete_uploads(relational) == 1
    deletion = threading.Thread(target=delete_unreferenced_bodies, args=(settings, relational))
    with relational.begin() as writing:
        store_upload(writing, settings)
        deletion.start()
        wait_until(lambda: waiting_transactions(relational) == 1, "the deletion waits")
    deletion.join()
    with relational.connect() as connection:
        identifier = large_upload().document_id
        assert body_of(connection, settings, identifier) == large_upload().body
    assert row_counts(relational)["unreferenced_bodies"] == 0


def waiting_transactions(engine: Engine) -> int:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with engine.connect() as connection:
        return connection.scalar(text(f"{waits} AND datname = current_database()")) or 0
