"""``thoth packages`` as a person runs it, on a local index, into both stores."""

import hashlib
import os
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from common.settings import Settings
from graph.engine import Stores
from graph.record.indexes import with_suggestions
from tests.factories.archives import zip_of
from tests.services.commands import ROOT, THOTH, row_counts, thoth, thoth_json, variables
from tests.services.index import Index, package_index
from tests.services.ports import closed_port
from tests.services.projection import verified
from tests.services.waiting import DEADLINE_S, wait_until


@pytest.fixture
def index() -> Iterator[Index]:
    """An index with a small closure."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        for version in ("1.0", "1.1"):
            made.add_wheel("app", version, metadata="Requires-Dist: lib>=1\n")
        for version in ("1.0", "2.0"):
            made.add_wheel("lib", version)
        made.add_source("lib", "3.0")
        yield made


def at(index: Index) -> dict[str, str]:
    """The variables that name the index."""
    return {"PACKAGE_INDEXES": f"local={index.url}"}


def test_packages_add_records_and_projects_a_package(stores: Stores, index: Index) -> None:
    settings = stores.settings
    report = thoth_json(settings, "packages", "add", "app", "--index", "local", **at(index))
    (crawled,) = report["indexes"]
    assert crawled["read"] == {"solved": 4, "unsolvable": 1}
    assert (crawled["packages"], crawled["new"], crawled["missing"]) == (2, 5, [])
    assert report["graph"] == {"lag": 0, "error": None}
    assert verified(stores).equal
    with stores.driver.session(database=stores.database) as session:
        found = session.run(
            "MATCH (:PackageVersion {name: 'app'})-[edge:REQUIRES]->(:Package {name: 'lib'})"
            " RETURN edge.specifier AS specifier"
        ).value()
    assert found == [">=1", ">=1"]

    (status,) = thoth_json(settings, "packages", "status")["indexes"]
    assert status["releases"] == {"solved": 4, "unsolvable": 1}
    assert status["problems"] == {"dynamic_metadata": 1}
    assert (status["projects"], status["watched"], status["queue"]) == ({"known": 2}, 1, {})
    assert status["oldest"] <= status["newest"]
    assert "dynamic metadata" in thoth(settings, "packages", "status").stdout

    shown = thoth_json(settings, "packages", "show", "lib")
    assert [(it["version"], it["state"]) for it in shown["releases"]] == [
        ("3.0", "unsolvable"), ("2.0", "solved"), ("1.0", "solved"),
    ]  # fmt: skip
    one = thoth(settings, "packages", "show", "app==1.1").stdout
    wheel = index.files["app"]["app-1.1-py3-none-any.whl"]
    assert f"sha256:{hashlib.sha256(wheel).hexdigest()}" in one
    assert "lib>=1" in one
    assert "1.0" not in one.partition("\n")[2].replace("lib>=1", "")


def test_project_status_is_updated_from_the_index_page(stores: Stores, index: Index) -> None:
    settings, there = stores.settings, at(index)
    index.states["lib"] = {"status": "archived", "reason": "write to jo@mail.example"}
    thoth_json(settings, "packages", "add", "app", "--index", "local", **there)

    def shown() -> tuple[Any, ...]:
        (answer,) = thoth_json(settings, "packages", "show", "lib")["indexes"]
        assert verified(stores).equal
        with stores.driver.session(database=stores.database) as session:
            edges = session.run(
                "MATCH (p:Package {name: 'lib'})-[s:HAS_STATUS]->(i:PackageIndex)"
                " RETURN i.name, s.status, s.reason"
            ).values()
            (revision,) = session.run("MATCH (p:Package {name: 'lib'}) RETURN p.revision").single(
                strict=True
            )
        return answer["status"], answer["status_reason"], edges, revision

    state, reason, edges, archived = shown()
    assert (state, reason) == ("archived", "write to [e-mail removed]")
    assert edges == [["local", "archived", reason]]
    assert "archived: write to" in thoth(settings, "packages", "show", "lib").stdout

    del index.states["lib"]
    shutil.rmtree(settings.index_cache)
    thoth_json(settings, "packages", "refresh", **there)
    state, _, edges, active = shown()
    assert (state, edges) == ("active", [])
    assert active != archived


def test_releases_are_found_by_import_names(stores: Stores, index: Index) -> None:
    settings, there = stores.settings, at(index)
    index.add_file(
        "shared", "shared-1.0-py3-none-any.whl", wheel("shared", "space/one/__init__.py")
    )
    index.add_file("other", "other-1.0-py3-none-any.whl", wheel("other", "space/two.py"))
    index.add_wheel("apart", "1.0")
    index.offer_metadata("apart-1.0-py3-none-any.whl", b"Name: apart\nVersion: 1.0\n")
    names = ("app", "shared", "other", "apart")
    thoth_json(settings, "packages", "add", *names, "--index", "local", **there)
    assert verified(stores).equal

    (found,) = thoth_json(settings, "packages", "whatprovides", "space.one.deep")["providers"]
    assert (found["name"], found["module"], found["source"]) == (
        "shared", "space.one", "central-directory",
    )  # fmt: skip
    both = thoth_json(settings, "packages", "whatprovides", "space")["providers"]
    assert [it["name"] for it in both] == ["other", "shared"]
    table = thoth(settings, "packages", "whatprovides", "app").stdout
    assert "central-directory" in table
    shown = thoth(settings, "packages", "show", "other==1.0").stdout
    assert "space, space.two (central-directory)" in shown
    # Metadata in a file of its own says nothing of the wheel's files.
    (apart,) = thoth_json(settings, "packages", "show", "apart==1.0")["releases"]
    assert (apart["imports"], apart["imports_source"]) == (None, None)
    index.add_file("late", "late-1.0-py3-none-any.whl", wheel("late", "late/__init__.py"))
    assert thoth(settings, "packages", "whatprovides", "late").returncode == 1
    asked = thoth(settings, "packages", "whatprovides", "late", PACKAGE_INDEXES=f"pypi={index.url}")
    assert (asked.returncode, "the index was asked for late" in asked.stderr) == (0, True)
    done = thoth(settings, "packages", "whatprovides", "apart")
    assert done.returncode == 1
    assert "the modules of 1 apart release are unknown" in done.stderr
    with stores.driver.session(database=stores.database) as session:
        query = "MATCH (v:PackageVersion {name: 'other'}) RETURN v.imports, v.imports_source"
        assert session.run(query).single(strict=True).values() == [
            ["space", "space.two"], "central-directory",
        ]  # fmt: skip


def wheel(name: str, *modules: str) -> bytes:
    """A wheel with these modules."""
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    members = {**dict.fromkeys(modules, ""), f"{name}-1.0.dist-info/METADATA": head}
    return zip_of(members, zipfile.ZIP_STORED)


def test_packages_commands_report_an_unknown_package(settings: Settings) -> None:
    assert thoth_json(settings, "packages", "status") == {"days": 7, "indexes": []}
    done = thoth(settings, "packages", "show", "app")
    assert (done.returncode, "the store has no package app" in done.stderr) == (1, True)
    assert thoth_json(settings, "packages", "refresh")["indexes"] == []


def test_missing_package_is_named_and_not_watched(settings: Settings, index: Index) -> None:
    done = thoth(settings, "packages", "add", "app", "nowhere", "--index", "local", **at(index))
    assert done.returncode == 1
    assert "nowhere, which was requested" in done.stderr
    assert "not watched   nowhere" in done.stderr
    watched = thoth_json(settings, "packages", "watch", "list")
    assert [it["name"] for it in watched] == ["app"]
    removed = thoth(settings, "packages", "watch", "remove", "App", "--index", "local")
    assert (removed.returncode, removed.stdout) == (0, "app\n")
    again = thoth(settings, "packages", "watch", "remove", "app", "--index", "local")
    assert (again.returncode, "not watched: app" in again.stderr) == (1, True)


def test_requirement_that_no_release_meets_exits_with_1(stores: Stores, index: Index) -> None:
    settings, there = stores.settings, at(index)
    done = thoth(settings, "packages", "add", "app==9", "gone", "--index", "local", **there)
    assert (done.returncode, "meets app==9" in done.stderr) == (1, True)


def test_misspelt_package_is_reported_with_a_similar_name(
    stores: Stores, index: Index, tmp_path: Path
) -> None:
    settings, there = stores.settings, at(index)
    thoth(settings, "packages", "add", "app", "--index", "local", **there)
    (tmp_path / "requirements.in").write_text("appp\n", encoding="utf-8")
    done = thoth(settings, "advise", str(tmp_path), "--index", "local", **there)
    message = "appp: local does not have it (did you mean app?)"
    assert (done.returncode, f"still missing: {message}\n" in done.stderr) == (1, True)
    with stores.engine.connect() as connection:
        reasons = {"app": "again does not have it", "appp": "again does not have it"}
        suggested = with_suggestions(connection, reasons, {"app", "appp"})
    assert suggested == {**reasons, "appp": f"{reasons['appp']} (did you mean app?)"}


def test_command_with_an_unreachable_index_exits_with_3(settings: Settings) -> None:
    named = {"PACKAGE_INDEXES": f"local=http://127.0.0.1:{closed_port()}/simple"}
    done = thoth(settings, "packages", "add", "app", "--index", "local", **named)
    assert done.returncode == 3, done.stderr
    assert "unreachable" in done.stderr


@contextmanager
def at_work(settings: Settings, index: Index) -> Iterator[subprocess.Popen[bytes]]:
    """A crawl that waits for a file of the last package, which never comes."""

    def hang(handler: BaseHTTPRequestHandler) -> None:
        index.closing.wait()
        handler.close_connection = True

    index.answers["/files/lib/lib-2.0-py3-none-any.whl"] = hang
    process = subprocess.Popen(
        [THOTH, "packages", "add", "app", "--index", "local"],
        env={**os.environ, **variables(settings, **at(index))}, cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()
            index.answers.clear()


def wait_for(engine: Engine, query: str, wanted: Any) -> None:
    def holds() -> bool:
        with engine.connect() as connection:
            return bool(connection.scalar(text(query)) == wanted)

    wait_until(holds, f"{query}: {wanted}")


_STORED = "SELECT count(*) FROM package_versions WHERE name = 'app'"
_QUEUED = "SELECT count(*) FROM release_queue WHERE name = 'lib'"


def test_killed_crawl_is_resumed_without_reading_files_twice(stores: Stores, index: Index) -> None:
    with at_work(stores.settings, index) as process:
        wait_for(stores.engine, _STORED, 2)
        wait_for(stores.engine, _QUEUED, 3)
        process.send_signal(signal.SIGKILL)
    index.seen.clear()
    report = thoth_json(stores.settings, "packages", "add", "app", "--index", "local", **at(index))
    assert report["indexes"][0]["known"] >= 2
    assert not any("/app/" in path for path in index.paths if path.startswith("/files/"))
    assert row_counts(stores.engine)["package_versions"] == 5
    assert row_counts(stores.engine)["release_queue"] == 0
    assert verified(stores).equal


def test_interrupted_crawl_exits_with_130_and_keeps_its_queue(stores: Stores, index: Index) -> None:
    with at_work(stores.settings, index) as process:
        wait_for(stores.engine, _QUEUED, 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
    wait_for(stores.engine, _QUEUED, 3)


def test_nightly_run_refreshes_recorded_packages(stores: Stores, index: Index) -> None:
    settings = stores.settings
    thoth_json(settings, "packages", "add", "app", "--index", "local", **at(index))
    index.add_wheel("app", "2.0", metadata="Requires-Dist: leaf\n")
    index.add_wheel("leaf", "1.0")
    report = thoth_json(settings, "ingest", "nightly", **at(index))
    (crawled,) = report["packages"]
    assert (crawled["read"], crawled["events"]) == ({"solved": 2}, {"new_release": 1})
    assert report["graph"] == {"lag": 0, "error": None}
    done = thoth(settings, "ingest", "nightly", **at(index))
    assert (done.returncode, "3 requested from local" in done.stdout) == (0, True)
    assert verified(stores).equal


def test_running_refresh_does_not_stop_other_steps_of_the_nightly_run(
    stores: Stores, index: Index
) -> None:
    settings = stores.settings
    thoth_json(settings, "packages", "add", "app", "--index", "local", **at(index))
    with stores.engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(7401312)"))
        assert thoth(settings, "packages", "refresh", **at(index)).returncode == 5
        done = thoth(settings, "ingest", "nightly", **at(index))
    assert done.returncode == 1
    assert "another refresh is in progress" in done.stderr
    assert "graph         up to date" in done.stdout
