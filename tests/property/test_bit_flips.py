"""A changed bit in what is stored or exported is a message, and never a traceback."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from adviser.advise import advise
from adviser.answering.recorded_advice import (
    check_stored,
    read_report,
    replay_stored,
    unrepeated,
    why_it_may_differ,
)
from adviser.locks.formats import LockFormat
from adviser.reports.checking import check_offline
from adviser.reports.documents import (
    SCHEMA_VERSION,
    lock_of,
    report_bytes,
    report_document,
    result_document,
)
from adviser.reports.record_links import head_of
from adviser.reports.serialization import dataclass_to_json
from adviser.scoring.criteria import RecommendationType
from cli.project_files import read_lock_file
from common.settings import Settings
from graph.record.documents import INLINE_LIMIT_BYTES, store_body, unpacked_body
from model.advice import StoredAdvice
from model.errors import DamagedDocument, ProjectError
from model.json_documents import canonical_json, digest_bytes
from model.measurements.evidence import Evidence
from model.packages.snapshot import Snapshot
from tests.factories.documents import document_2020_02
from tests.factories.evidence import Bench, jobs
from tests.factories.requests import INDEX, known_for, request_for, snapshot_for

METADATA = {
    "document_id": "adviser-260101000000-00000000000000aa", "timings": {},
    "datetime": "2026-01-01T00:00:00.000000+00:00",
}  # fmt: skip
#: Flips of one part of an advice, and of one lock.
FLIPS = 150


def flips(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """``data`` with one bit changed, at places drawn with ``seed``."""
    draw = random.Random(seed)
    for _ in range(count):
        yield flipped(data, draw.randrange(len(data) * 8))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_bit_flip_of_a_stored_body_is_detected(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    body = canonical_json(document_2020_02())
    document_id = digest_bytes(body)
    packed_body = store_body(settings, document_id, body).body
    assert packed_body is not None

    def read(stored: bytes) -> bytes:
        return unpacked_body(settings, row(document_id, len(body), stored))

    assert read(packed_body) == body
    for bit in range(len(packed_body) * 8):
        assert unchanged_or_damaged(lambda: read(flipped(packed_body, bit)), body)  # noqa: B023
    for length in range(len(packed_body)):
        with pytest.raises(DamagedDocument):
            read(packed_body[:length])


def test_every_bit_flip_in_the_document_store_is_detected(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    body = random.Random(1).randbytes(INLINE_LIMIT_BYTES).hex().encode()
    document_id = digest_bytes(body)
    location = store_body(settings, document_id, body).location
    (path,) = (it for it in tmp_path.rglob("*.zst"))
    whole = path.read_bytes()
    for changed in flips(whole, FLIPS, 2):
        path.write_bytes(changed)
        stored = row(document_id, len(body), None, location)
        assert unchanged_or_damaged(lambda: unpacked_body(settings, stored), body)  # noqa: B023


def row(document_id: str, size: int, body: bytes | None, location: str | None = None) -> Any:
    return SimpleNamespace(
        document_id=document_id, kind="inspection", size_bytes=size, body=body, location=location
    )


def unchanged_or_damaged(read: Callable[[], bytes], body: bytes) -> bool:
    try:
        return read() == body
    except DamagedDocument as error:
        return "is damaged" in str(error)


@pytest.fixture(scope="module")
def stored() -> StoredAdvice:
    """An advice with claims, as the record keeps it."""
    bench = Bench()
    for version, level in (("1.0", 0.0), ("1.1", 0.3), ("2.0", 0.1)):
        bench.measure(bench.stack(f"core=={version}", "tool==1.0", "web==2.0"), jobs(level))
    request = request_for("web\ntool\n", RecommendationType.PERFORMANCE, count=2)
    advice = advise(request, snapshot_for(request, INDEX), bench.evidence())
    known = known_for(advice)
    report = report_document(result_document(advice, known), METADATA)
    return StoredAdvice(
        head_of(report), SCHEMA_VERSION, dataclass_to_json(request), advice.snapshot.to_json(),
        advice.evidence.to_json(), dataclass_to_json(known), report_bytes(report),
    )  # fmt: skip


def refused(work: Callable[[], object]) -> bool:
    """Whether ``work`` says what is wrong; anything else than a message fails the test."""
    try:
        work()
    except ProjectError as error:
        return bool(str(error))
    return False


def test_changed_report_is_refused_or_differs_from_the_record(
    stored: StoredAdvice, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    snapshot, evidence = Snapshot.from_json(stored.snapshot), Evidence.from_json(stored.evidence)
    whole = orjson.loads(stored.report)
    for changed in flips(stored.report, FLIPS, 3):
        path.write_bytes(changed)
        problems: list[str] = []

        def check() -> None:
            report = read_report(path)
            problems.extend(check_stored(stored, report).problems)  # noqa: B023
            check_offline(report)
            check_offline(report, snapshot)
            check_offline(report, snapshot, evidence)

        assert refused(check) or problems
    path.write_bytes(stored.report)
    assert read_report(path) == whole
    assert check_stored(stored, whole).problems == ()


def replay(stored: StoredAdvice) -> None:
    advice, _ = replay_stored(stored)
    why_it_may_differ(stored, advice)


@pytest.mark.parametrize("part", ["request", "snapshot", "evidence", "files", "report"])
def test_changed_record_of_advice_is_refused_or_gives_the_recorded_report(
    stored: StoredAdvice, part: str
) -> None:
    report = orjson.loads(stored.report)
    for changed in flips(getattr(stored, part), FLIPS, 4):
        other = replace(stored, **{part: changed})
        refused(partial(replay, other))
        refused(partial(check_stored, other, report))


@pytest.mark.parametrize(("part", "kind"), [("snapshot", Snapshot), ("evidence", Evidence)])
def test_changed_snapshot_or_evidence_file_is_checked_or_refused(
    stored: StoredAdvice, tmp_path: Path, part: str, kind: type[Snapshot] | type[Evidence]
) -> None:
    path = tmp_path / f"{part}.json"
    report = orjson.loads(stored.report)
    for changed in flips(getattr(stored, part), FLIPS, 5):
        path.write_bytes(changed)

        def check() -> None:
            known = {part: kind.from_json(unrepeated(path))}
            check_offline(report, cast("Snapshot", known.get("snapshot")), known.get("evidence"))

        refused(check)


@pytest.mark.parametrize("form", LockFormat)
def test_a_changed_lock_is_read_or_refused(tmp_path: Path, form: LockFormat) -> None:
    request = request_for("web\ntool\n")
    advice = advise(request, snapshot_for(request, INDEX), Bench().evidence())
    known = known_for(advice)
    urls = {
        it.filename: f"https://files.example/{it.filename}"
        for files in known.files.values()
        for it in files
    }
    assert advice.best is not None
    lock = lock_of(advice, advice.best, replace(known, urls=urls), form)
    path = tmp_path / lock.name
    for changed in flips(lock.data, 2 * FLIPS, 6):
        path.write_bytes(changed)
        refused(lambda: read_lock_file(path).packages(request.environment.markers))
