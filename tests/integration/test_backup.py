"""Backups of a record that is in use, and what of them can be restored."""

import hashlib
import io
import json
import os
import stat
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import neo4j
import pytest
import sqlalchemy
from alembic import command
from sqlalchemy import text

from api.jobs.upkeep import prune, return_stalled
from cli.record import backup, restore
from common.settings import Settings
from graph.backup import create_backup, public_settings
from graph.backup_archive import CHUNK_BYTES, LEFT_OUT, MANIFEST, stored_tables
from graph.engine import Stores, graph_database, relational_engine
from graph.engine import graph_driver as connect
from graph.migrate import alembic_config
from graph.record.documents import (
    INLINE_LIMIT_BYTES,
    UPLOAD,
    DeliveredDocument,
    add_documents,
    body_of,
)
from graph.record.freshness import BACKUP, set_sources, source_successes
from graph.record.postgresql_helpers import AdvisoryLock, session_lock
from model.errors import InvalidArgument
from model.json_documents import digest, digest_bytes
from tests.factories.archives import tar_of
from tests.factories.inspections import inspection_files, specification_document, stack_jobs
from tests.services.commands import row_counts, run_here, thoth
from tests.services.databases import new_database
from tests.services.disks import fill, mounted_disk
from tests.services.filled import unprotected
from tests.services.fixtures import embedded_only, empty
from tests.services.jobs import run_jobs, upkeep
from tests.services.object_store import object_store
from tests.services.served import Served, serving
from tests.services.waiting import wait_until

#: Changed by the end of a backup, and by the verification that ends a restore.
_CHANGED = {"record_checks", "source_successes"}


@pytest.fixture
def target(
    postgresql: sqlalchemy.Engine,
    graph_settings: Settings,
    graph_driver: neo4j.Driver,
    tmp_path: Path,
) -> Iterator[Settings]:
    """Empty stores: a database that was never migrated, and each graph product in turn."""
    with new_database(postgresql, graph_settings, template="template0") as settings:
        yield replace(settings, document_store_url=(tmp_path / "restored").as_uri())


@pytest.fixture(scope="module")
def saved(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a filled record, which forgets it, because others read that record, too."""
    path = tmp_path_factory.mktemp("saved") / "saved.tar"
    writable = unprotected(filled)
    done = run_here(backup, writable, str(path))
    assert done.exit_code == 0, done.stderr
    with record_of(writable) as connection:
        set_sources(connection, BACKUP, [])
    return path


@contextmanager
def record_of(settings: Settings) -> Iterator[sqlalchemy.Connection]:
    """A connection to PostgreSQL, which commits at the end of the block."""
    engine = relational_engine(settings)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def contents(settings: Settings) -> dict[str, str]:
    """A digest of the rows of each table that a backup has."""
    query = "SELECT md5(coalesce(string_agg(row::text, '' ORDER BY row::text), '')) FROM"
    with record_of(settings) as connection:
        names = stored_tables(connection).keys() - LEFT_OUT - _CHANGED
        return {
            name: connection.exec_driver_sql(f"{query} {name} AS row").scalar_one()
            for name in sorted(names)
        }


def bodies(settings: Settings) -> dict[str, bytes]:
    """The document store's files by their names."""
    root = Path(settings.document_store_url.removeprefix("file://"))
    return {str(it.relative_to(root)): it.read_bytes() for it in root.rglob("*.zst")}


def restored(target: Settings, path: Path | str) -> dict[str, Any]:
    done = run_here(restore, target, str(path), "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def changed(path: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> Path:
    """A copy of an archive with other members; ``None`` leaves one out."""
    copy = path.with_name(f"changed-{path.name}")
    with tarfile.open(path) as old, tarfile.open(copy, "w") as new:
        for member in old:
            content = old.extractfile(member)
            assert content is not None
            if (kept := change(member.name, content.read())) is not None:
                member.name, data = kept
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
    return copy


def with_manifest(path: Path, **changes: Any) -> Path:
    def change(name: str, data: bytes) -> tuple[str, bytes]:
        if name != MANIFEST:
            return name, data
        return name, json.dumps({**json.loads(data), **changes}).encode()

    return changed(path, change)


@pytest.mark.slow
def test_restored_backup_equals_its_source(filled: Settings, saved: Path, target: Settings) -> None:
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    report = restored(target, saved)
    assert report["record"]["equal"]
    assert report["record"]["complete"]
    assert report["graph"]["equal"]
    assert sum(kind["graph_count"] for kind in report["graph"]["kinds"]) > 500
    assert contents(target) == contents(filled)
    # Identifiers go on where they ended.
    with record_of(target) as connection:
        added = text("INSERT INTO audit_log (request_id, address, method, route, status)"
                     " VALUES ('r', 'a', 'POST', '/', 201)")  # fmt: skip
        connection.execute(added)
        connection.execute(text("INSERT INTO outbox (kind, key) VALUES ('stack', 'x')"))
        connection.rollback()
    again = run_here(restore, target, str(saved))
    assert again.exit_code == 2
    assert "is not empty: there are" in again.stderr


def upload(number: int) -> bytes:
    """An archive with an inspection; every other one is too large for PostgreSQL."""
    name = f"inspection-matmul-{number:08x}"
    jobs = stack_jobs([200.0 + number], name)
    specification = specification_document({"numpy": f"2.{number}.0"})
    files = inspection_files(jobs, specification)
    if number % 2:
        files["build/log"] = os.urandom(INLINE_LIMIT_BYTES).hex().encode() * 2
    return tar_of({f"{name}/{path}": data for path, data in files.items()})


def accept(client: httpx.Client, number: int) -> str:
    """The identifier of an accepted upload."""
    response = client.post(
        "/api/v2/inspections", content=upload(number), headers={"Content-Type": "application/gzip"}
    )
    assert response.status_code == 202, response.text
    return str(response.json()["analysis_id"])


@pytest.mark.faults
def test_backup_during_uploads_contains_each_accepted_upload_completely(
    target: Settings, tmp_path: Path
) -> None:
    path, over = tmp_path / "busy.tar", Event()
    (tmp_path / "source").mkdir()
    with serving(tmp_path / "source") as source, source.client(source.token("ingest")) as client:
        before = [accept(client, number) for number in range(6)]

        def keep_uploading(first: int) -> list[str]:
            accepted = []
            for number in range(first, first + 1000):
                if over.is_set():
                    break
                accepted.append(accept(client, number))
            return accepted

        with ThreadPoolExecutor(3) as pool:
            running = [pool.submit(keep_uploading, 1000 * turn) for turn in (1, 2, 3)]
            try:
                wait_until(lambda: _uploads(source) > 10, "uploads come in")
                done = source.thoth("backup", str(path), "--json")
                assert done.returncode == 0, done.stderr
            finally:
                over.set()
            during = {it for each in running for it in each.result()}
        assert "settings" in json.loads(_member(path, MANIFEST))
        report = restored(target, path)
    assert report["record"]["equal"]
    assert report["graph"]["equal"]
    with record_of(target) as connection:
        requests = set(connection.scalars(text("SELECT analysis_id FROM analyses")))
        kept = connection.scalar(text("SELECT count(*) FROM documents WHERE kind = 'upload'"))
    assert set(before) <= requests <= {*before, *during}
    assert kept == len(requests)
    # Those that waited or ran are ingested here, from the bodies in the backup.
    working = replace(target, home=tmp_path / "target")
    ended = text("SELECT state, count(*) FROM analyses GROUP BY state")

    def all_ended() -> bool:
        upkeep(working, return_stalled)
        run_jobs(working)
        with record_of(target) as connection:
            states = {row[0]: row[1] for row in connection.execute(ended)}
        return states == {"succeeded": len(requests)}

    wait_until(all_ended, "every accepted upload is ingested")
    with record_of(target) as connection:
        assert connection.scalar(text("SELECT count(*) FROM inspections")) == len(requests)
    verified = thoth(working, "record", "verify")
    assert verified.returncode == 0, verified.stdout


def _uploads(source: Served) -> int:
    return len(bodies(source.settings))


def _member(path: Path, name: str) -> bytes:
    with tarfile.open(path) as archive:
        content = archive.extractfile(name)
        assert content is not None
        return content.read()


def damage(name: str, data: bytes) -> tuple[str, bytes]:
    return name, data[:-1] + bytes([data[-1] ^ 1]) if name.startswith("record/stacks/") else data


def without_documents(name: str, data: bytes) -> tuple[str, bytes] | None:
    return None if name.startswith("record/documents/") else (name, data)


def without_manifest(name: str, data: bytes) -> tuple[str, bytes] | None:
    return None if name == MANIFEST else (name, data)


def with_escape(name: str, data: bytes) -> tuple[str, bytes]:
    return name.replace("record/stacks/", "../stacks/"), data


@embedded_only
def test_broken_backup_is_refused_before_anything_is_written(saved: Path, target: Settings) -> None:
    differs = "damaged, the SHA-256 differs from the manifest"
    assert f"stacks: {differs}" in refusal(target, changed(saved, damage))
    assert f"documents: {differs}" in refusal(target, changed(saved, without_documents))
    assert "ends before its manifest" in refusal(target, changed(saved, without_manifest))
    assert "unknown member '../stacks/" in refusal(target, changed(saved, with_escape))
    assert "format 99: this code reads 1" in refusal(target, with_manifest(saved, format=99))
    for wrong in ({"tables": []}, {"sequences": [1]}, {"documents": 1}, {"more": 1}):
        assert "manifest cannot be read" in refusal(target, with_manifest(saved, **wrong))
    half = saved.with_name("half.tar")
    half.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    assert "half.tar: it" in refusal(target, half)
    half.write_bytes(b"no archive")
    assert "half.tar: it is damaged" in refusal(target, half)
    newer = run_here(restore, target, str(with_manifest(saved, schema="9999")))
    assert (newer.exit_code, "is newer than this code" in newer.stderr) == (4, True)
    with record_of(target) as connection:
        assert not stored_tables(connection)
    assert not bodies(target)


def refusal(target: Settings, path: Path) -> str:
    done = run_here(restore, target, str(path))
    assert done.exit_code == 2, done.stderr
    return done.stderr


@embedded_only
def test_failed_restore_leaves_the_record_empty(saved: Path, target: Settings) -> None:
    tables = json.loads(_member(saved, MANIFEST))["tables"]
    empty_part = {"rows": 0, "size_bytes": 0, "sha256": hashlib.sha256().hexdigest()}
    without_rows = {**tables, "documents": {**tables["documents"], **empty_part}}
    broken = with_manifest(changed(saved, without_documents), tables=without_rows)
    assert "violates foreign key constraint" in refusal(target, broken)
    rows = b"no rows"
    part = {"rows": 1, "size_bytes": len(rows), "sha256": hashlib.sha256(rows).hexdigest()}
    garbage = with_manifest(
        changed(saved, lambda name, data: (name, rows if "/stacks/" in name else data)),
        tables={**tables, "stacks": {**tables["stacks"], **part}},
    )
    assert "record/stacks/000001.copy.zst: cannot be decompressed" in refusal(target, garbage)
    unknown = {**tables, "tokens": {**tables["tokens"], "columns": ["secret"]}}
    message = "tokens: not a table of this schema"
    assert message in refusal(target, with_manifest(saved, tables=unknown))
    with record_of(target) as connection:
        assert not stored_tables(connection)
    assert restored(target, saved)["record"]["equal"]


@pytest.mark.slow
@embedded_only
def test_backup_of_an_earlier_schema_is_migrated(
    filled: Settings, saved: Path, postgresql: sqlalchemy.Engine, target: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "earlier.tar"
    with new_database(postgresql, filled, template="template0") as earlier:
        restored(replace(target, database_url=earlier.database_url), saved)
        engine = relational_engine(earlier)
        with engine.begin() as connection:
            command.downgrade(alembic_config(connection), "0028")
            # The parsers of that time.
            connection.exec_driver_sql("UPDATE documents SET parser_version = 2")
        manifest = create_backup(earlier, engine, str(path))
        engine.dispose()
    assert manifest.schema == "0028"
    with connect(target) as driver:
        empty(driver, graph_database(target))
    assert restored(target, path)["graph"]["equal"]
    assert contents(target).keys() == contents(filled).keys()
    with record_of(target) as connection:
        command.check(alembic_config(connection))


@embedded_only
def test_restore_into_stores_that_are_not_empty_is_refused(
    saved: Path, target: Settings, filled: Settings, graph_driver: neo4j.Driver
) -> None:
    done = run_here(restore, replace(filled, graph_url=None), str(saved))
    assert done.exit_code == 2
    assert "PostgreSQL is not empty: there are rows of advice" in done.stderr
    with graph_driver.session(database=graph_database(target)) as session:
        session.run("CREATE (:Stack {digest: 'a'})").consume()
    done = run_here(restore, target, str(saved))
    assert done.exit_code == 2
    assert "the graph is not empty: there are nodes of Stack" in done.stderr
    assert done.stderr.endswith("hint: set THOTH_HOME to a new folder\n")
    used = replace(target, database_url=filled.database_url)
    done = run_here(restore, used, str(saved))
    assert done.exit_code == 2
    assert "PostgreSQL is not empty" in done.stderr
    assert "; the graph is not empty: there are nodes of Stack" in done.stderr
    both = "hint: set DATABASE_URL to an empty database and THOTH_HOME to a new folder\n"
    assert done.stderr.endswith(both)


def test_backup_contains_no_secrets(settings: Settings, tmp_path: Path) -> None:
    secret = replace(
        settings,
        graph_password="s3cret",
        rate_limit_storage="redis://:s3cret@cache.example/0",
        package_indexes=(("own", "https://me:s3cret@index.example/simple?token=s3cret"),),
        webhooks=(("chat", "https://chat.example/s3cret"),),
    )
    path = tmp_path / "backup.tar"
    assert run_here(backup, secret, str(path)).exit_code == 0
    with record_of(settings) as connection:
        assert [it.kind for it in source_successes(connection)] == ["backup"]
    assert b"s3cret" not in path.read_bytes()
    shown = public_settings(secret)
    assert shown["PACKAGE_INDEXES"] == [["own", "https://index.example/simple"]]
    assert shown["RATE_LIMIT"] == settings.rate_limit


def test_backup_never_replaces_an_existing_file(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    path.write_text("precious", encoding="utf-8")
    done = run_here(backup, settings, str(path))
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, f"error: {path}: exists")
    assert path.read_text(encoding="utf-8") == "precious"
    done = run_here(backup, settings, str(tmp_path / "missing" / "backup.tar"))
    assert (done.exit_code, "No such file" in done.stderr) == (2, True)
    assert [it.name for it in tmp_path.iterdir()] == ["backup.tar"]


@pytest.mark.parametrize("is_link", [False, True])
def test_file_that_appears_during_a_backup_is_not_replaced(
    stores: Stores, tmp_path: Path, is_link: bool
) -> None:
    path, other = tmp_path / "backup.tar", tmp_path / "other.tar"

    def make(*_: object) -> None:
        if is_link and not path.is_symlink():
            path.symlink_to(other)
        elif not is_link:
            path.write_text("precious", encoding="utf-8")

    with pytest.raises(InvalidArgument, match="exists"):
        create_backup(stores.settings, stores.engine, str(path), make)
    assert is_link or path.read_text(encoding="utf-8") == "precious"
    assert [it.name for it in tmp_path.iterdir()] == ["backup.tar"]


def test_backup_error_names_the_file_only_if_at_fault(stores: Stores, tmp_path: Path) -> None:
    def lose_the_terminal(*_: object) -> None:
        raise BrokenPipeError

    path = tmp_path / "backup.tar"
    with pytest.raises(BrokenPipeError):
        create_backup(stores.settings, stores.engine, str(path), lose_the_terminal)
    with pytest.raises(InvalidArgument) as caught:
        create_backup(stores.settings, stores.engine, str(tmp_path / "missing" / "backup.tar"))
    assert caught.value.hint == "name a file in a folder that you may write to"
    with mounted_disk(tmp_path / "disk", 1) as disk:
        fill(disk)
        done = run_here(backup, stores.settings, str(disk / "backup.tar"))
        assert done.exit_code == 1
        assert "cannot be written: No space left" in done.stderr
        assert "hint: name a file on a disk with free space" in done.stderr
        assert [it.name for it in disk.iterdir()] == ["filler"]


def with_large_document(stores: Stores, folder: Path) -> Settings:
    """Settings with a document store that has the body of a document."""
    settings = replace(stores.settings, document_store_url=folder.as_uri())
    body = os.urandom(INLINE_LIMIT_BYTES * 2)
    document = DeliveredDocument(digest_bytes(body), UPLOAD, "upload-1", "a test", body)
    with stores.engine.begin() as connection:
        add_documents(connection, settings, [document])
    return settings


def test_backup_runs_alone_and_delays_the_deletion_of_documents(
    stores: Stores, tmp_path: Path
) -> None:
    settings = with_large_document(stores, tmp_path / "bodies")
    with stores.engine.begin() as connection:
        connection.execute(text("UPDATE documents SET ingested_at = now() - interval '1 year'"))
    with session_lock(stores.engine, AdvisoryLock.BACKUP):
        done = run_here(backup, settings, str(tmp_path / "second.tar"))
        assert done.exit_code == 5
        upkeep(settings, prune)
        assert row_counts(stores.engine)["documents"] == 0
        assert len([*tmp_path.rglob("*.zst")]) == 1
    upkeep(settings, prune)
    assert [*tmp_path.rglob("*.zst")] == []
    assert [*tmp_path.iterdir()] == [tmp_path / "bodies"]


def test_lost_document_body_does_not_prevent_a_backup(stores: Stores, tmp_path: Path) -> None:
    settings = with_large_document(stores, tmp_path / "bodies")
    for path in (tmp_path / "bodies").rglob("*.zst"):
        path.unlink()
    done = run_here(backup, settings, str(tmp_path / "backup.tar"))
    assert done.exit_code == 6
    assert "1 document missing: `thoth record verify` names them" in done.stderr
    with stores.engine.connect() as connection:
        assert source_successes(connection) == []


@pytest.mark.parametrize("graph_settings", ["arcadedb"], indirect=True)
def test_backup_and_documents_may_be_in_object_stores(
    stores: Stores, target: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "s3://knowledge/backups/thoth.tar"
    large, small = os.urandom(INLINE_LIMIT_BYTES * 2), b"small"
    with object_store(monkeypatch) as bucket:
        source = replace(stores.settings, document_store_url="s3://knowledge/documents")
        target = replace(target, document_store_url="s3://knowledge/restored")
        documents = [
            DeliveredDocument(digest(["upload", name]), UPLOAD, "upload-1", name, body)
            for name, body in (("one", large), ("two", small))
        ]
        with stores.engine.begin() as connection:
            add_documents(connection, source, documents)
        done = run_here(backup, source, url, "--json")
        assert done.exit_code == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["file"], report["documents"]) == (url, 1)
        assert report["size_bytes"] == bucket.size("knowledge/backups/thoth.tar") > len(large)
        again = run_here(backup, source, url)
        assert (again.exit_code, f"{url}: exists" in again.stderr) == (2, True)
        whole = bucket.cat("knowledge/backups/thoth.tar")
        bucket.pipe_file("knowledge/backups/cut.tar", whole[: len(whole) // 2])
        for name, message in (("cut.tar", "it is damaged"), ("no.tar", "no such file")):
            refused = run_here(restore, target, f"s3://knowledge/backups/{name}")
            assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr
        assert restored(target, url)["record"]["equal"]
        assert contents(target) == contents(source)
        with record_of(target) as connection:
            for it in documents:
                assert body_of(connection, target, it.document_id) == it.body
        assert bucket.find("knowledge/restored/") != []


def test_interrupted_backup_leaves_no_object(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(part: str, done: int, total: int | None) -> None:
        if part == "stacks":
            raise Interrupted

    with object_store(monkeypatch) as bucket:
        with pytest.raises(Interrupted):
            create_backup(stores.settings, stores.engine, "s3://knowledge/x.tar", interrupt)
        assert bucket.find("knowledge") == []
        assert bucket.call_s3("list_multipart_uploads", Bucket="knowledge").get("Uploads", []) == []
        for url in ("s3://no-such-bucket/x.tar", "s3://me:secret@host.example/x.tar"):
            refused = run_here(backup, stores.settings, url)
            assert (refused.exit_code, "secret" in refused.stderr) == (2, False), refused.stderr
            assert "folder" not in refused.stderr


def test_backup_of_many_rows_takes_little_memory(stores: Stores, tmp_path: Path) -> None:
    with stores.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO audit_log (request_id, address, method, route, status, subject)"
                " SELECT 'r' || number, '127.0.0.1', 'POST', '/', 201,"
                " (SELECT string_agg(md5(number || '-' || part), '')"
                " FROM generate_series(1, 30) AS part)"
                " FROM generate_series(1, 60000) AS number"
            )
        )
    tracemalloc.start()
    create_backup(stores.settings, stores.engine, str(tmp_path / "backup.tar"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "backup.tar").stat().st_size > CHUNK_BYTES
    assert peak < 6 * CHUNK_BYTES
