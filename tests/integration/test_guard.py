"""``thoth guard`` as a pipeline runs it: three outcomes, and what is missing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from subprocess import CompletedProcess
from typing import Any
from wsgiref.types import WSGIApplication

import pytest
from sqlalchemy import Engine, event, make_url, select, text
from werkzeug.serving import make_server
from werkzeug.utils import redirect
from werkzeug.wrappers import Response

from adviser.answering.lock_comparison import knowledge_of_locks
from api.app import create_app
from api.store_access import EXTENSION
from graph.engine import Stores
from graph.projection import sync
from graph.record.releases import ReleaseDelivery, add_releases
from graph.tables import HardwareRow
from ingest.advisories.sync import sync_source
from model.packages.environments import environment
from tests.factories.advisories import affected, osv, write_archive
from tests.factories.releases import release
from tests.services.commands import thoth
from tests.services.index import package_index
from tests.services.projection import measure
from tests.services.web import serve

WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = [200.0 * (1 + 0.002 * (-1) ** block) for block in range(10)]
FAST = [1.25 * rate for rate in SLOW]


@pytest.fixture
def measured(stores: Stores, tmp_path: Path) -> Stores:
    """NumPy 2.1.0 is faster than 2.0.0; nobody has read the metadata of any version."""
    stacks = (SLOW, {"numpy": "2.0.0"}), (FAST, {"numpy": "2.1.0"})
    measure(stores, tmp_path / "inspections", *stacks)
    return stores


@pytest.fixture
def locks(tmp_path: Path) -> tuple[str, str]:
    """Locks with the slower and with the faster version."""
    slow, fast = tmp_path / "slow.txt", tmp_path / "fast.txt"
    slow.write_text("numpy==2.0.0\n", encoding="utf-8")
    fast.write_text("numpy==2.1.0\n", encoding="utf-8")
    return str(slow), str(fast)


def guard(stores: Stores, *arguments: str, **more: str) -> CompletedProcess[str]:
    with stores.engine.connect() as connection:
        hardware = connection.scalars(select(HardwareRow.digest)).one()
    at = (*WHERE, "--hardware", hardware)
    return thoth(stores.settings, "guard", *arguments, *at, **more)


def kinds(done: CompletedProcess[str]) -> list[str]:
    document: dict[str, Any] = json.loads(done.stdout)
    return [it["kind"] for it in document["missing"]]


def read_metadata(stores: Stores, *affecting: dict[str, Any], archive: Path) -> None:
    """Both versions are read, and so are advisories."""
    with stores.engine.begin() as connection:
        releases = [release("numpy", version) for version in ("2.0.0", "2.1.0")]
        deliveries = [ReleaseDelivery(it, "test", NOW) for it in releases]
        add_releases(connection, stores.settings, deliveries)
    sync_source(stores.settings, stores.engine, str(write_archive(archive, list(affecting))))
    sync(stores.engine, stores.driver, database=stores.database)


def test_guard_result_is_unknown_without_metadata_and_advisories(
    measured: Stores, locks: tuple[str, str]
) -> None:
    done = guard(measured, *locks)
    assert done.returncode == 4, done.stderr
    assert "equivalent or faster:\n  numpy 2.1.0 is " in done.stdout
    lines = [it for it in done.stdout.splitlines() if it.startswith("missing: ")]
    assert lines == [
        "missing: numpy 2.1.0: its metadata was not read "
        "(`thoth packages add 'numpy==2.1.0'` or --fetch)",
        "missing: the store has no advisories, so vulnerabilities are unknown; "
        "set ADVISORIES to OSV's archive and read it (`thoth advisories sync --osv`)",
    ]
    allowed = guard(measured, *locks, "--allow-unknown", "--json")
    assert allowed.returncode == 0
    assert json.loads(allowed.stdout)["outcome"] == "unknown"
    assert kinds(allowed) == ["metadata", "advisories"]


def test_guard_result_is_no_harm_with_metadata_and_advisories(
    measured: Stores, locks: tuple[str, str], tmp_path: Path
) -> None:
    archive = tmp_path / "all.zip"
    read_metadata(measured, osv("GHSA-1", affected("other")), archive=archive)
    done = guard(measured, *locks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "result: no harm"
    slow, fast = locks
    assert guard(measured, fast, slow, "--allow-unknown").returncode == 1


def test_guard_reads_only_the_changed_versions(measured: Stores, locks: tuple[str, str]) -> None:
    with package_index(protected=False, json=True, ranges=True, validators=True) as index:
        for version in ("2.0.0", "2.1.0", "2.2.0"):
            index.add_wheel("numpy", version)
        where = {"PACKAGE_INDEXES": f"pypi={index.url}"}
        done = guard(measured, *locks, "--json", **where)
        seen = list(index.paths)
        again = guard(measured, *locks, "--fetch", "--json", **where)
        assert index.paths == seen
    assert done.returncode == 4, done.stderr
    assert "read 2 of 3 listed releases of 1 package, in 3 requests" in done.stderr
    assert kinds(done) == kinds(again) == ["advisories"]


def test_guard_reports_versions_missing_from_every_index(measured: Stores, tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("numpy==2.0.0\n", encoding="utf-8")
    new.write_text("numpy==2.9.9\nmisspelt==1\n", encoding="utf-8")
    with package_index(protected=False, json=True) as index:
        index.add_wheel("numpy", "2.0.0")
        done = guard(measured, str(old), str(new), PACKAGE_INDEXES=f"pypi={index.url}")
    assert done.returncode == 4
    assert "missing: misspelt: pypi does not have it\n" in done.stdout
    assert "missing: numpy: pypi has no version that is numpy==2.9.9\n" in done.stdout
    assert "packages add" not in done.stdout


def test_guard_offline_requests_no_index(measured: Stores, locks: tuple[str, str]) -> None:
    with package_index(protected=False, json=True) as index:
        index.add_wheel("numpy", "2.1.0")
        where = {"PACKAGE_INDEXES": f"pypi={index.url}"}
        done = guard(measured, *locks, "--offline", "--json", **where)
    assert kinds(done) == ["metadata", "advisories"]
    assert index.paths == []


def test_equal_locks_do_no_harm(measured: Stores, locks: tuple[str, str]) -> None:
    empty = Path(locks[0]).with_name("empty.txt")
    empty.write_text("# a tool failed\n", encoding="utf-8")
    for lock in (locks[0], str(empty)):
        done = guard(measured, lock, lock)
        assert (done.returncode, done.stdout) == (0, "the locks are the same\n")


@contextmanager
def over_http(app: WSGIApplication) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    with serve(server):
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def service_url(measured: Stores) -> Iterator[str]:
    """The service on the same stores, over HTTP."""
    app = create_app(replace(measured.settings, anonymous_scopes=(), rate_limit=None))
    with over_http(app) as url:
        yield url
    app.extensions[EXTENSION].close()


def new_token(stores: Stores, *scopes: str) -> str:
    options = [it for scope in scopes for it in ("--scope", scope)]
    made = thoth(stores.settings, "token", "create", "ci", *options, "--json")
    return str(json.loads(made.stdout)["secret"])


def test_guard_gives_identical_output_with_a_service_and_with_its_stores(
    measured: Stores, locks: tuple[str, str], service_url: str, tmp_path: Path
) -> None:
    secret = new_token(measured, "read")
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "GRAPH_URL": "bolt://127.0.0.1:1"}
    affecting = osv("GHSA-9", affected("numpy", versions=["2.0.0"]))
    for step in ("unread", "read"):
        if step == "read":
            read_metadata(measured, affecting, archive=tmp_path / "all.zip")
        for pair in (locks, locks[::-1]):
            written: list[list[bytes]] = []
            for source in (("--offline",), ("--service", service_url)):
                files = tmp_path / "comment.md", tmp_path / "guard.sarif"
                options = ("--comment", str(files[0]), "--sarif", str(files[1]))
                environment = {"THOTH_TOKEN": secret}
                if source[0] == "--service":
                    environment |= nowhere
                done = guard(measured, *pair, *source, *options, **environment)
                assert done.returncode in (0, 1, 4), done.stderr
                code = str(done.returncode).encode()
                written.append([done.stdout.encode(), code, *(it.read_bytes() for it in files)])
            assert written[0] == written[1]
    assert b"GHSA-9" in written[0][0]


def test_guard_works_with_a_read_only_database_user(
    measured: Stores, locks: tuple[str, str], tmp_path: Path, postgresql: Engine
) -> None:
    read_metadata(measured, osv("GHSA-9", affected("numpy", versions=["2.0.0"])),
                  archive=tmp_path / "all.zip")  # fmt: skip
    role = f"reader_{token_hex(4)}"
    url = make_url(measured.settings.database_url or "").set(username=role, password="secret")
    aim = {"DATABASE_URL": url.render_as_string(hide_password=False)}
    with postgresql.connect() as owner:
        owner.execute(text(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'"))
        owner.execute(text(f"GRANT pg_read_all_data TO {role}"))
    try:
        expected = guard(measured, *locks, "--offline", "--json")
        done = guard(measured, *locks, "--offline", "--json", **aim)
        assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, expected.stderr)
        with measured.engine.begin() as connection:
            more = [ReleaseDelivery(release("numpy", "2.2.0"), "test", NOW)]
            add_releases(connection, measured.settings, more)
        behind = guard(measured, *locks, "--offline", "--json", **aim)
        assert (behind.returncode, behind.stdout) == (0, expected.stdout), behind.stderr
        assert "warning: the graph is still" in behind.stderr
        unread = tmp_path / "unread.txt"
        unread.write_text("numpy==2.9.0\n", encoding="utf-8")
        read = guard(measured, locks[0], str(unread), "--fetch", **aim)
        assert read.returncode == 2, read.stderr
        assert "DATABASE_URL: PostgreSQL refuses its user: permission denied" in read.stderr
    finally:
        with postgresql.connect() as owner:
            owner.execute(text(f"DROP ROLE {role}"))


def test_guard_reports_a_refusing_or_unreachable_service_with_a_remedy(
    measured: Stores, locks: tuple[str, str], service_url: str
) -> None:
    other = new_token(measured, "advise")
    for url, secret, code, message in (
        (service_url, "", 2, "THOTH_TOKEN: the service refused it (401)"),
        (service_url, "thoth_wrong", 2, "THOTH_TOKEN: the service refused it (401)"),
        (service_url, other, 2, "THOTH_TOKEN: the service refused it (403)"),
        (service_url, "two\nlines", 2, "THOTH_TOKEN: not a token"),
        ("http://thoth.example", "thoth_x", 2, "https is needed, since a token is sent"),
        ("thoth.example", "thoth_x", 2, "write an address such as https://thoth.example"),
        ("http://127.0.0.1:1", "", 3, "the service is unavailable: Connection refused\n"),
    ):
        done = guard(measured, *locks, "--service", url, THOTH_TOKEN=secret)
        assert (done.returncode, message in done.stderr) == (code, True), done.stderr
        assert secret == "" or secret not in done.stdout + done.stderr
    with over_http(redirect(service_url)) as url:
        led_on = guard(measured, *locks, "--service", url, THOTH_TOKEN=other)
    assert (led_on.returncode, "--service: the address redirects" in led_on.stderr) == (2, True)
    with over_http(Response("<h1>Not allowed</h1>", 405)) as url:
        elsewhere = guard(measured, *locks, "--service", url)
    message = f"--service: {url} does not answer as a Thoth service (405)"
    assert (elsewhere.returncode, message in elsewhere.stderr) == (2, True), elsewhere.stderr
    both = guard(measured, *locks, "--service", service_url, "--fetch")
    assert both.returncode == 2
    assert "--service and --fetch" in both.stderr


def test_guard_query_count_does_not_grow_with_the_lock(stores: Stores, tmp_path: Path) -> None:
    """No version was read, so advisories decide alone."""
    affecting = osv("GHSA-9", affected("package-0", versions=["2"]))
    sync_source(stores.settings, stores.engine, str(write_archive(tmp_path / "a.zip", [affecting])))
    sync(stores.engine, stores.driver, database=stores.database)
    counts, known = [], []
    for size in (1, 1_000):
        statements: list[str] = []

        def count(*it: Any, seen: list[str] = statements) -> None:
            seen.append(it[2])

        old, new = ({f"package-{it}": version for it in range(size)} for version in ("1", "2"))
        event.listen(stores.engine, "before_cursor_execute", count)
        knowledge = knowledge_of_locks(stores, old, new, environment("3.11", WHERE[3], None), [])
        event.remove(stores.engine, "before_cursor_execute", count)
        counts.append(len(statements))
        known.append(
            {key: [it.id for it in them] for key, them in knowledge.vulnerabilities.items()}
        )
    assert counts[0] == counts[1]
    assert known[0] == {("package-0", "1"): [], ("package-0", "2"): ["GHSA-9"]}
    assert len(known[1]) == 2_000
    assert {key for key, them in known[1].items() if them} == {("package-0", "2")}
