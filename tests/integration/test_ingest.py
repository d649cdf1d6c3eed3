"""Documents into the record, by the commands that people run, on real stores."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from cli.ingest import ingest
from common.settings import Settings
from graph.engine import Stores
from graph.record.documents import INLINE_LIMIT_BYTES, body_of
from graph.record.measurements import measured_observations
from graph.tables import Document, InspectionRow
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from model.errors import Reason
from model.measurements.inspection import Outcome
from tests.factories.archives import zip_of
from tests.factories.documents import (
    GENERATIONS,
    directory_files,
    document_2020_02,
    document_with_job_logs,
    encoded,
    lock,
    result_document,
    stdout,
)
from tests.services.commands import Ended, row_counts, run_here
from tests.services.projection import verified

INSPECTIONS, JOBS, OBSERVATIONS = 20, 92, 94


def command(settings: Settings, *arguments: str) -> Ended:
    """``thoth ingest …`` in this process."""
    return run_here(ingest, settings, *arguments)


def deliver(settings: Settings, *sources: Path | str, code: int = 0) -> dict[str, Any]:
    """``thoth ingest inspections --json``: what became of the documents."""
    result = command(settings, "inspections", *map(str, sources), "--json")
    assert result.exit_code == code, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def quarantined(settings: Settings) -> list[dict[str, Any]]:
    result = command(settings, "quarantine", "--json")
    assert result.exit_code == 0, result.stderr
    entries: list[dict[str, Any]] = json.loads(result.stdout)
    return entries


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def result_number(number: int) -> dict[str, Any]:
    return result_document(hostname=f"inspection-matmul-0a1b2c3d-{number}")


def test_samples_are_ingested_and_projected_completely(stores: Stores) -> None:
    report = deliver(stores.settings, GENERATIONS)
    assert report["inspection"]["new"] == report["inspection"]["read"] == INSPECTIONS
    assert report["inspection"]["stacks_unknown"] == 1
    assert report["inspection"]["observations"] == {"measured": OBSERVATIONS - 2, "crashed": 2}
    assert report["graph"] == {"lag": 0, "error": None}
    counts = row_counts(stores.engine)
    assert (counts["documents"], counts["inspections"]) == (INSPECTIONS, INSPECTIONS)
    assert (counts["observations"], counts["quarantine"]) == (OBSERVATIONS, 0)
    with stores.engine.connect() as connection:
        assert connection.scalar(select(func.sum(InspectionRow.job_count))) == JOBS
    assert verified(stores).equal


def test_repeated_delivery_of_inspections_changes_nothing(stores: Stores) -> None:
    def take_in() -> None:
        ingest_inspections(stores.settings, stores.engine, [str(GENERATIONS)], SourceLimits())

    take_in()  # without a projector, so that the outbox shows what was written to it
    before = row_counts(stores.engine)
    assert before["outbox"] > INSPECTIONS
    take_in()
    assert row_counts(stores.engine) == before
    report = deliver(stores.settings, GENERATIONS)["inspection"]
    assert (report["new"], report["known"], report["observations"]) == (0, INSPECTIONS, {})
    assert report["observations_known"] == OBSERVATIONS
    assert row_counts(stores.engine) == {**before, "outbox": 0}


def test_ingest_counts_and_lists_skipped_files(stores: Stores, tmp_path: Path) -> None:
    write(tmp_path, {
        "run/mlperf_log_summary.txt": b"MLPerf Results Summary\nScenario : Offline\n",
        "notes.txt": b"?",
        "one.json": encoded(document_2020_02()),
    })  # fmt: skip
    counted = command(stores.settings, "inspections", str(tmp_path), "--dry-run")
    assert counted.exit_code == 0
    assert "skipped       2 files that are not inspections" in counted.stdout
    assert "result of MLPerf Inference: 1\n" in counted.stdout
    assert "--list-skipped" in counted.stdout
    listed = command(stores.settings, "inspections", str(tmp_path), "--dry-run", "--list-skipped")
    assert f"{tmp_path}/run/mlperf_log_summary.txt: result of MLPerf Inference\n" in listed.stdout
    assert f"{tmp_path}/notes.txt: not an inspection\n" in listed.stdout
    result = command(stores.settings, "inspections", str(tmp_path), "--list-skipped", "--json")
    report = json.loads(result.stdout)
    assert report["inspection"]["skipped"] == 2
    assert report["skipped_files"] == [
        {"source": str(tmp_path), "place": "notes.txt", "reason": "not an inspection"},
        {"source": str(tmp_path), "place": "run/mlperf_log_summary.txt",
         "reason": "result of MLPerf Inference"},
    ]  # fmt: skip
    assert quarantined(stores.settings) == []


@pytest.mark.parametrize("sizes", [(20, 10), (10, 20, 10)])
def test_growing_inspection_folder_counts_no_job_twice(
    stores: Stores, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    for turn, size in enumerate(sizes):
        files = directory_files(*map(result_number, range(size)))
        deliver(stores.settings, write(tmp_path / str(turn) / "inspection-x", files))
    with stores.engine.connect() as connection:
        seen = list(measured_observations(connection))
    assert len({it.reading.job_id for it in seen}) == len(seen) == 20
    assert verified(stores).equal


def changed(rate: object) -> bytes:
    """A document whose rate, in GFLOPS, is ``rate`` as it is spelled."""
    text = encoded(document_2020_02(stdout=stdout(rate=214.5)))
    return text.replace(b'"rate": 214.5', b'"rate": %b' % str(rate).encode(), 1)


GOOD = encoded(document_2020_02())
RATE = "$.stdout['@result'].rate"

#: Name, content, reason code and field of everything that one bad file can be.
BAD_FILES = [
    ("truncated", GOOD[: len(GOOD) // 2], Reason.TRUNCATED_JSON, "$"),
    ("nul", encoded(document_2020_02(stderr="a\0b")), Reason.NUL_CHARACTER, "$.stderr"),
    ("raw-nul", GOOD[:-1] + b"\0}", Reason.NUL_CHARACTER, "$"),
    ("surrogate", encoded(document_2020_02(stderr="\ud800")), Reason.LONE_SURROGATE, "$.stderr"),
    ("nan", changed("NaN"), Reason.NOT_A_NUMBER, "$"),
    ("infinite", changed("Infinity"), Reason.INFINITE, "$"),
    ("overflow", changed("1e309"), Reason.INFINITE, "$"),
    ("negative", changed(-3.5), Reason.RATE_NEGATIVE, RATE),
    ("zero", changed(0), Reason.RATE_ZERO, RATE),
    ("huge", changed("1e308"), Reason.RATE_OVERFLOW, RATE),
    ("too-fast", changed("10000001"), Reason.RATE_IMPLAUSIBLE, RATE),
    ("text-rate", changed('"fast"'), Reason.WRONG_TYPE, RATE),
    ("unit", encoded(document_2020_02(stdout=stdout(unit="furlongs/s"))),
     Reason.UNKNOWN_UNIT, "$.stdout['@result'].unit"),
    ("no-rate", changed("null"), Reason.MISSING_FIELD, RATE),
    ("text-exit", encoded(document_2020_02(exit_code="0")), Reason.WRONG_TYPE, "$.exit_code"),
    ("future", encoded(document_2020_02(datetime="2999-01-01T00:00:00")),
     Reason.FUTURE_TIMESTAMP, "$.datetime"),
    ("nested", b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", Reason.NESTED_TOO_DEEP, "$"),
    ("repeated", GOOD[:-1] + b', "exit_code": 0}', Reason.DUPLICATE_KEY, "$.exit_code"),
    ("version", encoded(document_2020_02(requirements_locked=[lock(numpy="not a version")])),
     Reason.INVALID_VERSION, "$.requirements_locked.default.numpy.version"),
    ("two-locks", encoded(document_2020_02(requirements_locked=[lock(), lock()])),
     Reason.CONFLICTING_FIELDS, "$.requirements_locked"),
    ("far", encoded(document_2020_02(stdout=stdout(elapsed=1e300))),
     Reason.OUT_OF_RANGE, "$.stdout['@result'].elapsed"),
    ("latin1", GOOD[:-1] + b', "a": "caf\xe9"}', Reason.NOT_UTF8, "$"),
    ("broken", b"{'a': 1}", Reason.INVALID_JSON, "$"),
    ("empty", b" \n", Reason.EMPTY_FILE, "$"),
    ("foreign", b'{"some": "thing"}', Reason.UNKNOWN_SCHEMA, "$"),
]  # fmt: skip

#: Reasons that only documents of other kinds have: results of solvers, and libraries.
OF_OTHERS = {
    Reason.INVALID_REQUIREMENT,
    Reason.UNRESOLVED,
    Reason.ELF_BROKEN,
    Reason.INVALID_TOML,
    Reason.INVALID_YAML,
    Reason.INCLUDE_MISSING,
    Reason.INCLUDE_CYCLE,
    Reason.TAMPERED,
}


def test_each_bad_document_is_quarantined_and_others_are_ingested(
    stores: Stores, tmp_path: Path
) -> None:
    write(tmp_path, {f"{name}.json": data for name, data, _, _ in BAD_FILES})
    write(tmp_path, {"good.json": GOOD})
    report = deliver(stores.settings, tmp_path, code=1)
    assert report["inspection"]["new"] == 1
    assert report["inspection"]["quarantined"] == len(BAD_FILES)
    assert report["graph"]["lag"] == 0
    found = {it["place"]: (it["reason"], it["field"]) for it in quarantined(stores.settings)}
    assert found == {f"{name}.json": (reason, field) for name, _, reason, field in BAD_FILES}
    assert {it["source"] for it in quarantined(stores.settings)} == {str(tmp_path)}


def test_each_bad_file_folder_and_archive_is_quarantined(stores: Stores, tmp_path: Path) -> None:
    tree, empty, closed = tmp_path / "tree", tmp_path / "empty", tmp_path / "closed"
    write(tree, {"good.json": GOOD, "cut.zip": b"PK\x03\x04 and no more"})
    with (tree / "large.json").open("wb") as large:
        large.truncate(200 * 2**20)  # of holes: it takes no room
    (tree / "gone.json").symlink_to(tree / "nowhere.json")
    (tree / "bomb.zip").write_bytes(zip_of({"zeros.json": bytes(32 * 2**20)}))
    (tree / "leaving.zip").write_bytes(zip_of({"../../evil.json": GOOD, "inside.json": GOOD}))
    write(empty, {"notes.txt": b"?"})
    write(tree.with_name("foreign"), {"summary.txt": b"MLPerf Results Summary\n"})
    write(closed, {"secret.json": GOOD})
    (closed / "secret.json").chmod(0)
    sources = [tree, empty, tmp_path / "foreign" / "summary.txt"]
    if os.geteuid() != 0:  # root may read everything
        sources.append(closed)
    report = deliver(stores.settings, *sources, code=1)
    assert report["inspection"]["new"] == 1  # good.json; the archive has it once more
    found = {
        (Path(it["source"]).name, it["place"]): it["reason"] for it in quarantined(stores.settings)
    }
    expected = {
        ("tree", "large.json"): Reason.FILE_TOO_LARGE,
        ("tree", "gone.json"): Reason.UNREADABLE,
        ("tree", "cut.zip"): Reason.ARCHIVE_BROKEN,
        ("tree", "bomb.zip"): Reason.ARCHIVE_BOMB,
        ("tree", "leaving.zip/../../evil.json"): Reason.ARCHIVE_PATH,
        ("empty", ""): Reason.EMPTY_FOLDER,
        ("summary.txt", ""): Reason.FOREIGN_BENCHMARK,
    }
    if os.geteuid() != 0:
        expected["closed", "secret.json"] = Reason.UNREADABLE
    assert found == expected
    met = set(expected.values()) | {reason for _, _, reason, _ in BAD_FILES}
    assert met | OF_OTHERS == set(Reason)


def test_repaired_document_leaves_the_quarantine(stores: Stores, tmp_path: Path) -> None:
    write(tmp_path, {"a.json": changed(0), "b.json": changed(-1)})
    deliver(stores.settings, tmp_path, code=1)
    write(tmp_path, {"a.json": GOOD})
    again = command(stores.settings, "quarantine", "--retry")
    assert again.exit_code == 1
    assert "1 resolved" in again.stdout
    (left,) = quarantined(stores.settings)
    assert (left["place"], left["attempts"]) == ("b.json", 2)
    write(tmp_path, {"b.json": changed(99.5)})
    assert command(stores.settings, "quarantine", "--retry").exit_code == 0
    assert quarantined(stores.settings) == []
    assert "empty" in command(stores.settings, "quarantine").stdout
    assert row_counts(stores.engine)["inspections"] == 2


def test_quarantine_of_a_file_ends_when_it_is_delivered_repaired(
    stores: Stores, tmp_path: Path
) -> None:
    for data, code, listed in ((changed(0), 1, 1), (GOOD, 0, 0), (changed(0), 1, 1)):
        write(tmp_path, {"a.json": data})
        deliver(stores.settings, tmp_path, code=code)
        assert len(quarantined(stores.settings)) == listed


@pytest.mark.parametrize("dry_run", [False, True])
def test_jobs_shared_by_several_documents_are_counted_once(
    stores: Stores, tmp_path: Path, dry_run: bool
) -> None:
    documents = [document_with_job_logs(10) | {"created": f"2020-02-0{day}"} for day in (1, 2, 3)]
    write(tmp_path, {f"{number}.json": encoded(it) for number, it in enumerate(documents)})
    report = deliver(stores.settings, tmp_path, *(["--dry-run"] if dry_run else []))["inspection"]
    assert (report["new"], report["known"]) == (3, 0)
    assert (report["observations"], report["observations_known"]) == ({"measured": 10}, 20)
    if not dry_run:
        assert row_counts(stores.engine)["observations"] == 10


def test_quarantine_entries_are_removed_by_number(stores: Stores, tmp_path: Path) -> None:
    write(tmp_path, {"a.json": b"{", "b.json": b"{"})
    deliver(stores.settings, tmp_path, code=1)
    first, second = (it["id"] for it in quarantined(stores.settings))
    unknown = command(stores.settings, "quarantine", "--forget", str(first + 9))
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert f"error: not on the list: {first + 9}\n" in unknown.stderr
    assert command(stores.settings, "quarantine", "--forget", str(first)).exit_code == 0
    assert [it["id"] for it in quarantined(stores.settings)] == [second]


def test_each_bad_inspection_of_a_file_has_a_quarantine_entry(
    stores: Stores, tmp_path: Path
) -> None:
    bad, worse = document_2020_02(stdout=stdout(rate=0)), document_2020_02(exit_code="0")
    inspections = {"one": [bad], "two": [worse], "three": [document_2020_02()]}
    write(tmp_path, {"all.json": encoded(inspections)})
    report = deliver(stores.settings, tmp_path, code=1)["inspection"]
    assert (report["new"], report["quarantined"]) == (1, 2)
    assert {(it["place"], it["field"], it["reason"]) for it in quarantined(stores.settings)} == {
        ("all.json", "$.one[0].stdout['@result'].rate", Reason.RATE_ZERO),
        ("all.json", "$.two[0].exit_code", Reason.WRONG_TYPE),
    }
    inspections["one"] = [document_2020_02(stderr="mended")]
    write(tmp_path, {"all.json": encoded(inspections)})
    assert command(stores.settings, "quarantine", "--retry").exit_code == 1
    assert [it["field"] for it in quarantined(stores.settings)] == ["$.two[0].exit_code"]


def test_ingest_accepts_file_names_that_are_not_utf8(stores: Stores, tmp_path: Path) -> None:
    for name, data in ((b"caf\xe9.json", GOOD), (b"th\xe9.json", b"{")):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(data)
    assert deliver(stores.settings, tmp_path, code=1)["inspection"]["new"] == 1
    source = Path(os.fsdecode(os.fsencode(tmp_path) + b"/th\xe9.json"))
    deliver(stores.settings, source, code=1)
    assert [it["place"] for it in quarantined(stores.settings)] == ["th\\udce9.json", ""]
    assert command(stores.settings, "quarantine").exit_code == 0
    source.write_bytes(changed(77.5))
    assert command(stores.settings, "quarantine", "--retry").exit_code == 0
    assert quarantined(stores.settings) == []


def test_ingest_dry_run_writes_nothing_and_starts_no_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings.from_env({"THOTH_HOME": str(home)})
    write(tmp_path / "bad", {"a.json": changed(0)})
    good = command(settings, "inspections", str(GENERATIONS), "--dry-run")
    assert good.exit_code == 0
    assert f"{INSPECTIONS} can be ingested" in good.stdout
    bad = command(settings, "inspections", str(tmp_path / "bad"), "--dry-run", "--json")
    assert bad.exit_code == 1
    report = json.loads(bad.stdout)
    assert report["dry_run"] is True
    assert report["inspection"]["reasons"] == {"rate_zero": 1}
    assert report["graph"] == {"lag": None, "error": None}
    assert not home.exists()


def test_json_report_of_ingest_has_the_documented_keys(stores: Stores, tmp_path: Path) -> None:
    write(tmp_path, {"a.json": GOOD, "b.json": b"{", "notes.txt": b"?"})
    report = deliver(stores.settings, tmp_path, code=1)
    assert report == {
        "dry_run": False,
        "inspection": {
            "read": 2, "new": 1, "known": 0, "quarantined": 1, "mended": 0, "skipped": 1,
            "skipped_reasons": {"not an inspection": 1}, "stacks_unknown": 0,
            "observations": {Outcome.MEASURED: 1},
            "observations_known": 0, "reasons": {Reason.TRUNCATED_JSON: 1},
        },
        "graph": {"lag": 0, "error": None},
    }  # fmt: skip
    (entry,) = quarantined(stores.settings)
    assert entry.keys() == {
        "id", "kind", "source", "place", "reason", "field", "message", "attempts",
        "first_seen_at", "last_seen_at",
    }  # fmt: skip


def test_ingest_prints_one_line_for_each_kind_of_document(stores: Stores, tmp_path: Path) -> None:
    write(tmp_path, {"a.json": GOOD, "b.json": b"{"})
    shown = command(stores.settings, "inspections", str(tmp_path)).stdout.splitlines()
    assert [line.split()[0] for line in shown] == [
        "inspections", "observations", "refused", "graph",
    ]  # fmt: skip
    assert shown[1].endswith("1 new: 1 measured; 0 already known")
    assert shown[0].endswith("2 read: 1 new, 0 already known, 1 quarantined")


def test_large_document_is_kept_in_the_document_store(stores: Stores, tmp_path: Path) -> None:
    settings = replace(stores.settings, document_store_url=(tmp_path / "store").as_uri())
    log = random.Random(1).randbytes(600_000).hex()
    write(tmp_path / "in", directory_files(log=log.encode()))
    write(tmp_path / "in", {"small.json": GOOD})
    assert deliver(settings, tmp_path / "in")["inspection"]["new"] == 2
    with stores.engine.connect() as connection:
        ((key, size),) = connection.execute(
            select(Document.document_id, Document.size_bytes).where(Document.location.is_not(None))
        )
        body = body_of(connection, settings, key)
        assert body_of(connection, settings, "sha256:none") is None
    assert body is not None
    assert len(body) == size > INLINE_LIMIT_BYTES
    assert json.loads(body)["build_log"] == log
    (stored,) = (tmp_path / "store").rglob("*.zst")
    assert stored.name == f"{key.removeprefix('sha256:')}.json.zst"
