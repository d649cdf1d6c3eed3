"""What a cron line runs: every source, once at a time, whatever became of the last run."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from common.settings import Settings
from graph.engine import Stores
from graph.record.document_store import identify_store
from graph.record.freshness import NEVER, source_successes
from ingest.runs import run_nightly
from model.errors import AlreadyRunning
from tests.factories.documents import GENERATIONS
from tests.services.commands import ROOT, row_counts, thoth, thoth_json, variables
from tests.services.projection import verified
from tests.services.waiting import wait_until

SOURCES = tuple(str(GENERATIONS / name) for name in ("2019", "2020-02", "directories"))

#: A nightly run that stays at its first document until it is killed.
STUCK = """
import sys, time
from common.settings import Settings
from ingest.runs import run_nightly

def stay():
    print("at work", flush=True)
    time.sleep(600)

settings = Settings.from_env()
run_nightly(settings, settings.ingest_sources, stay)
"""


@pytest.fixture
def nightly(stores: Stores) -> Settings:
    """Settings that name the samples' three folders as sources."""
    return replace(stores.settings, ingest_sources=SOURCES)


def test_nightly_run_reads_and_projects_every_source(stores: Stores, nightly: Settings) -> None:
    report = thoth_json(nightly, "ingest", "nightly")
    assert report["inspection"]["new"] == report["inspection"]["read"] == 20
    assert report["graph"] == {"lag": 0, "error": None}
    assert verified(stores).equal
    dump = str(ROOT / "samples/packages.jsonl.gz")
    assert thoth(nightly, "packages", "import", dump).returncode == 0
    again = thoth_json(nightly, "ingest", "nightly")
    # Only indexes have news, and none was asked: the run says of how many packages it read nothing.
    assert again["packages"] is None
    assert again["unfollowed_packages"] > report["unfollowed_packages"]
    assert (again["inspection"]["new"], again["inspection"]["known"]) == (0, 20)


def test_nightly_run_deletes_old_bodies_without_a_document(
    stores: Stores, nightly: Settings, tmp_path: Path
) -> None:
    settings = replace(nightly, document_store_url=tmp_path.as_uri())
    with stores.engine.begin() as connection:
        identify_store(connection, settings)
    old, young = (tmp_path / (digit * 2) / f"{digit * 64}.json.zst" for digit in "ab")
    for path in (old, young):
        path.parent.mkdir()
        path.touch()
    os.utime(old, (0, 0))
    assert not run_nightly(settings, SOURCES[:1], lambda: None).report.skipped
    assert (old.exists(), young.exists()) == (False, True)


def test_nightly_run_with_refused_documents_has_its_own_exit_code(
    stores: Stores, nightly: Settings, tmp_path: Path
) -> None:
    (tmp_path / "broken.json").write_text('{"schema_version": "')
    missing = str(tmp_path / "missing")
    done = thoth(replace(nightly, ingest_sources=(str(tmp_path), SOURCES[0])), "ingest", "nightly")
    assert done.returncode == 6, done.stdout
    assert set(successes(stores)) == {
        ("inspections", str(tmp_path)), ("inspections", SOURCES[0]), ("record", "record")
    }  # fmt: skip
    before = successes(stores)[("inspections", SOURCES[0])]
    done = thoth(replace(nightly, ingest_sources=(missing, SOURCES[0])), "ingest", "nightly")
    assert (done.returncode, "1 unreadable" in done.stdout) == (1, True)
    assert row_counts(stores.engine)["quarantine"] == 2
    after = successes(stores)
    assert set(after) == {
        ("inspections", missing), ("inspections", SOURCES[0]), ("record", "record")
    }  # fmt: skip
    assert after[("inspections", missing)] == NEVER
    assert after[("inspections", SOURCES[0])] > before


def test_time_of_the_last_successful_graph_verification_is_kept(
    stores: Stores, nightly: Settings
) -> None:
    assert thoth(nightly, "graph", "verify").returncode == 0
    equal = successes(stores)[("graph", "graph")]
    assert equal > NEVER
    stores.driver.execute_query("CREATE (:Package {name: 'phantom'})", database_=stores.database)
    assert thoth(nightly, "graph", "verify").returncode == 1
    assert successes(stores)[("graph", "graph")] == equal


def successes(stores: Stores) -> dict[tuple[str, str], datetime]:
    with stores.engine.connect() as connection:
        return {(it.kind, it.source): it.succeeded_at for it in source_successes(connection)}


def test_nightly_run_without_sources_names_the_setting(settings: Settings) -> None:
    done = thoth(settings, "ingest", "nightly")
    assert done.returncode == 2
    assert "INGEST_SOURCES" in done.stderr


def test_second_nightly_run_ends_at_once_unless_the_first_was_killed(
    stores: Stores, nightly: Settings
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK],
        env={**os.environ, **variables(nightly)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at work\n"
        done = thoth(nightly, "ingest", "nightly")
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr.splitlines()[-1] == "error: another nightly run is in progress"
        # A person may deliver by hand meanwhile.
        assert thoth_json(nightly, "ingest", "inspections", SOURCES[0])["inspection"]["new"] == 1
        process.send_signal(signal.SIGKILL)
    assert run_when_free(nightly) == 19
    assert row_counts(stores.engine)["inspections"] == 20
    assert verified(stores).equal


def run_when_free(nightly: Settings) -> int:
    """New documents of a run; PostgreSQL needs a moment to miss the one that was killed."""

    def new_documents() -> int | None:
        with suppress(AlreadyRunning):
            return run_nightly(nightly, SOURCES, lambda: None).report.inspections.new
        return None

    return wait_until(new_documents, "no other nightly run is in progress")
