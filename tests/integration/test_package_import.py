"""Metadata dumps and solvers' results into the record, by the command, on real stores."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

from cli.ingest import ingest
from cli.packages import import_command
from common.settings import Settings
from graph.engine import Stores
from graph.record.quarantine import open_refusals
from graph.tables import PackageVersionRow, RequirementRow
from ingest.releases import pipeline as importing
from ingest.releases.pipeline import ReleaseSourceOptions, import_releases
from tests.factories.releases import (
    failed,
    many_releases,
    release_document,
    solved,
    solver_document,
    write_dump,
)
from tests.services.commands import Ended, run_here
from tests.services.projection import verified
from tests.services.waiting import wait_until


def command(settings: Settings, *arguments: Path | str) -> Ended:
    """``thoth packages import …`` in this process."""
    return run_here(import_command, settings, *map(str, arguments))


def deliver(settings: Settings, *arguments: Path | str, code: int = 0) -> dict[str, Any]:
    """The same with ``--json``: what became of the releases."""
    result = command(settings, *arguments, "--json")
    assert result.exit_code == code, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def count(stores: Stores, column: Any) -> int:
    with stores.engine.connect() as connection:
        return connection.execute(select(func.count(column))).scalar_one()


def versions(stores: Stores) -> dict[str, PackageVersionRow]:
    with stores.engine.connect() as connection:
        rows = connection.execute(select(PackageVersionRow.__table__)).all()
    return {row.purl: row for row in rows}  # type: ignore[misc]


DUMP = [
    release_document("a", "1.0", ["b>=1", 'c; extra == "x"'], provides_extra=["x"]),
    release_document("b", "1.5"),
    release_document("c", "2.0", None),
    release_document("d", "2004b-final"),
]


def test_dump_of_releases_is_imported_and_projected(stores: Stores, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump.jsonl.gz", DUMP)
    report = deliver(stores.settings, dump)
    release = report["release"]
    assert (release["read"], release["new"], release["quarantined"]) == (4, 4, 0)
    assert release["states"] == {"solved": 2, "unsolvable": 1, "unparsable": 1}
    assert release["problems"] == {"not_recorded": 1, "invalid_version": 1}
    assert report["graph"] == {"lag": 0, "error": None}
    assert verified(stores).equal
    with stores.driver.session(database=stores.database) as session:
        found = session.run(
            "MATCH (:PackageVersion {purl: 'pkg:pypi/a@1.0'})-[edge:REQUIRES]->(package:Package)"
            " RETURN package.name AS name, edge.extra AS extra ORDER BY name"
        )
        assert [(it["name"], it["extra"]) for it in found] == [("b", None), ("c", ["x"])]


def test_undated_dump_has_the_time_of_its_newest_upload(stores: Stores, tmp_path: Path) -> None:
    undated = {**DUMP[0], "name": "b", "upload_time": None, "files": []}
    deliver(stores.settings, write_dump(tmp_path / "dump.jsonl", [DUMP[0], undated]))
    found = {row.name: row.as_of for row in versions(stores).values()}
    assert found["a"] is not None
    assert found["a"].isoformat() == "2024-05-01T10:00:00+00:00"
    assert found["b"] is None


def test_copied_dump_does_not_replace_newer_crawled_data(stores: Stores, tmp_path: Path) -> None:
    older = release_document("a", "1.0", ["old"])
    newer = release_document("a", "1.0", ["new"], yanked=True)
    crawled = write_dump(tmp_path / "crawled.jsonl", [newer])
    deliver(stores.settings, crawled, "--as-of", "2025-01-01")
    report = deliver(stores.settings, write_dump(tmp_path / "copied.jsonl", [older]))["release"]
    assert (report["changed"], report["known"]) == (0, 1)
    (row,) = versions(stores).values()
    assert row.yanked
    with stores.engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM package_events")) == 0


def test_bad_lines_of_a_dump_are_quarantined_by_number(stores: Stores, tmp_path: Path) -> None:
    lines: list[dict[str, Any] | str] = [
        DUMP[0],
        '{"name": "b"',
        {"name": "b"},
        DUMP[1] | {"yanked": 3},
        "",
        DUMP[2],
    ]
    dump = write_dump(tmp_path / "dump.jsonl", lines)
    report = deliver(stores.settings, dump, code=1)
    assert (report["release"]["new"], report["release"]["quarantined"]) == (2, 3)
    with stores.engine.connect() as connection:
        entries = open_refusals(connection)
    assert [(it.kind, it.source, it.place, it.reason, it.field) for it in entries] == [
        ("release", str(dump), "line 2", "truncated_json", "$"),
        ("release", str(dump), "line 3", "unknown_schema", "$"),
        ("release", str(dump), "line 4", "wrong_type", "$.yanked"),
    ]
    write_dump(dump, DUMP)
    report = deliver(stores.settings, dump)
    assert (report["release"]["new"], report["release"]["mended"]) == (2, 3)
    with stores.engine.connect() as connection:
        assert open_refusals(connection) == []


def test_solver_result_is_imported_with_its_own_date(stores: Stores, tmp_path: Path) -> None:
    document = solver_document(
        [solved("Flask", "1.0.2", {"click": ">=5.1"}), solved("click", "7.0", {})],
        [failed("pygments", "1.0", "setup.py failed"), failed("click", "7.0", "a second time")],
        unparsed=[{"requirement": "x y", "details": "…"}],
        unresolved=[{"package_name": "protobuf", "version_spec": "==39.1.0"}],
    )
    source = tmp_path / "solver.json"
    source.write_text(json.dumps(document))
    report = deliver(stores.settings, source, code=1)["release"]
    assert (report["read"], report["new"]) == (5, 3)
    assert report["reasons"] == {"invalid_requirement": 1, "unresolved": 1}
    found = versions(stores)
    assert {row.state for row in found.values()} == {"solved", "unsolvable"}
    assert {str(row.as_of) for row in found.values()} == {"2019-03-04 14:38:05.816406+00:00"}
    assert found["pkg:pypi/pygments@1.0"].problem_message == "setup.py failed"


def test_import_dry_run_counts_and_writes_nothing(settings: Settings, tmp_path: Path) -> None:
    nowhere = replace(settings, database_url="postgresql://nobody@127.0.0.1:9/none")
    dump = write_dump(tmp_path / "dump.jsonl", [*DUMP, DUMP[0], "{"])
    report = deliver(nowhere, dump, "--dry-run", code=1)
    release = report["release"]
    assert (release["read"], release["new"], release["known"]) == (6, 4, 1)
    assert report["dry_run"]
    assert command(nowhere, write_dump(tmp_path / "b.jsonl", DUMP)).exit_code == 3
    assert "4 can be ingested" in command(nowhere, dump, "--dry-run").stdout


def test_import_of_a_file_of_another_kind_ends_early(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MAX_REFUSED_LINES", 20)
    dump = write_dump(tmp_path / "dump.jsonl", [{"some": "thing"}] * 100)
    report = deliver(stores.settings, dump, code=1)["release"]
    assert (report["read"], report["reasons"]["unreadable"]) == (21, 1)
    # One release among the first is enough to go on.
    dump = write_dump(tmp_path / "mixed.jsonl", [DUMP[0], *[{"some": "thing"}] * 100])
    assert deliver(stores.settings, dump, code=1)["release"]["read"] == 101


_RUN = """
import sys
from dataclasses import replace
from common.settings import Settings
from graph.engine import relational_engine
from ingest.releases import pipeline
from ingest.releases.pipeline import ReleaseSourceOptions, import_releases

pipeline.BATCH_RELEASES = 50
settings = Settings.from_env()
print("began", flush=True)
import_releases(
    settings, relational_engine(settings), [sys.argv[1]], ReleaseSourceOptions(),
    on_commit=lambda: print("committed", flush=True),
)
"""


def test_killed_and_repeated_import_neither_loses_nor_duplicates_rows(
    stores: Stores, tmp_path: Path
) -> None:
    dump = write_dump(tmp_path / "dump.jsonl.gz", many_releases(3_000, 5))
    environ = {
        **os.environ,
        "THOTH_HOME": str(stores.settings.home),
        "DATABASE_URL": stores.settings.database_url or "",
    }
    run = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(dump)], env=environ, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    for line in run.stdout:
        if line == "committed\n":
            break
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    before = wait_until(lambda: count(stores, PackageVersionRow.purl), "releases are stored")
    assert before < 3_000
    report = import_releases(stores.settings, stores.engine, [str(dump)], ReleaseSourceOptions())
    assert report.new + report.known == 3_000
    assert 0 < report.new <= 3_000 - before
    assert count(stores, PackageVersionRow.purl) == 3_000
    assert count(stores, RequirementRow.purl) == 15_000


def test_ingest_of_another_kind_does_not_close_quarantine_entries(
    stores: Stores, tmp_path: Path
) -> None:
    write_dump(tmp_path / "dump.jsonl", [DUMP[0], "{"])
    deliver(stores.settings, tmp_path, code=1)
    run_here(ingest, stores.settings, "inspections", str(tmp_path))
    result = run_here(ingest, stores.settings, "quarantine", "--retry")
    with stores.engine.connect() as connection:
        entries = {(it.kind, it.place) for it in open_refusals(connection)}
    assert entries == {("release", "dump.jsonl line 2"), ("inspection", "")}
    assert result.exit_code == 1
    write_dump(tmp_path / "dump.jsonl", [DUMP[0]])
    assert deliver(stores.settings, tmp_path)["release"]["mended"] == 1
