"""Result files of other benchmarks are recognised by what is in them."""

import codecs
import json
import random
from itertools import cycle
from pathlib import Path

import pytest

from ingest.benchmarks.pipeline import known_system
from ingest.sources import content_detection
from ingest.sources.content_detection import HEAD_BYTES, SYSTEMS, system_of
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RefusedDocument, SkippedFile
from model.errors import Reason
from tests.factories.archives import zip_of
from tests.factories.benchmark_files import SAMPLES as FILES
from tests.factories.benchmark_files import sample
from tests.factories.documents import document_2020_02, encoded, specification

DATA = Path(__file__).parents[3] / "data"


def workbook(texts: bytes) -> bytes:
    return zip_of({"xl/workbook.xml": "<workbook/>", "xl/sharedStrings.xml": texts})


#: A few lines of each system's files, by the key of the system.
SAMPLES = {
    key: [it.encode() for it in texts]
    for key, texts in json.loads((DATA / "benchmark_marks.json").read_text("utf-8")).items()
}
SAMPLES["aiconfigurator"] = [sample("aiconfigurator/legacy")["gemm_perf.parquet"]]
SAMPLES["deepbench"].append(workbook(b"<t>Dense Matrix Multiplication</t>"))


def test_every_benchmark_system_has_detection_samples() -> None:
    assert SAMPLES.keys() == {system.key for system in SYSTEMS}
    assert len({system.title for system in SYSTEMS}) == len(SYSTEMS)


@pytest.mark.parametrize("seed", range(4))
def test_benchmark_system_is_recognised_in_any_order_of_registration(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = random.Random(seed).sample(SYSTEMS, len(SYSTEMS))
    monkeypatch.setattr(content_detection, "SYSTEMS", sorted(order, key=lambda it: not it.outer))
    for key, samples in SAMPLES.items():
        assert {getattr(system_of(it), "key", None) for it in samples} == {key}
    for name in FILES:
        for data in sample(name).values():
            system = system_of(data)
            assert system is None or system.key == name.partition("/")[0]


@pytest.mark.parametrize(
    ("key", "data", "name"),
    [
        (key, data, name)
        for key, samples in SAMPLES.items()
        for data, name in zip(samples, cycle(("1", "result_0.txt", "summary.json")), strict=False)
    ],
)
def test_foreign_benchmark_result_is_refused_as_source_and_skipped_in_folders(
    tmp_path: Path, name: str, key: str, data: bytes
) -> None:
    title = next(system.title for system in SYSTEMS if system.key == key)
    (tmp_path / name).write_bytes(data)
    skipped: list[SkippedFile] = []
    (refusal,) = documents_of(str(tmp_path / name), on_skipped=skipped.append)
    assert isinstance(refusal, RefusedDocument)
    assert (refusal.error.reason, skipped) == (Reason.FOREIGN_BENCHMARK, [])
    assert title in refusal.error.message
    (refusal,) = documents_of(str(tmp_path), on_skipped=skipped.append)
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.EMPTY_FOLDER
    assert [(it.place, it.reason) for it in skipped] == [(name, f"result of {title}")]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# Results\n\nThe images are in another folder.",
        encoded(document_2020_02()),
        encoded(specification()),
        b"\x7fELF\x02\x01",
        b"PK\x03\x04 no archive",
        workbook(b"<t>Expenses</t>"),
    ],
)
def test_unrelated_files_are_not_recognised_as_benchmark_results(data: bytes) -> None:
    assert system_of(data) is None


def test_only_the_start_of_an_oversized_workbook_is_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(content_detection, "_SEARCHED_PIECES", 4)
    data = workbook(b" " * 5 * HEAD_BYTES + b"Dense Matrix Multiplication")
    assert len(data) < HEAD_BYTES
    assert system_of(data) is None


def test_large_benchmark_workbook_is_recognised() -> None:
    data = workbook(random.Random(1).randbytes(2 * HEAD_BYTES) + b"Dense Matrix Multiplication")
    assert len(data) > HEAD_BYTES
    assert system_of(data) == known_system("deepbench")


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (key, data)
        for key, samples in SAMPLES.items()
        for data in samples[:1]
        if not data.startswith((b"PK", codecs.BOM_UTF8))
    ],
)
@pytest.mark.parametrize("size", [0.99, 1.0, 3.5])
def test_system_is_recognised_by_text_anywhere(key: str, data: bytes, size: float) -> None:
    line = b"node-7:1234:1240 [2] NCCL INFO Channel 02/0 : 2[2] -> 3[3] via P2P/IPC/read\n"
    chatter = line * (int(size * HEAD_BYTES) // len(line))
    system = system_of(chatter + data)
    assert system.key == key


@pytest.mark.parametrize("shift", range(0, 4000, 97))
def test_benchmark_system_is_recognised_across_two_read_windows(shift: int) -> None:
    mark = b"\nModel Name: ResNet50 \r\n\r\n" + b"\n" * 1000 + b"FPS:12.5\n"
    chatter = b"x" * (HEAD_BYTES - shift)
    assert system_of(chatter + mark) == known_system("jetson")
    wide = (chatter + mark).decode().encode("utf-16")
    assert system_of(wide) == known_system("jetson")


def test_benchmark_system_is_recognised_by_lines_far_apart() -> None:
    text = b"machine_info:\n  cpu: 1\n" + b"  value: 1\n" * (HEAD_BYTES // 4) + b"timing:\n"
    assert system_of(text) == known_system("pytorch-benchmark")
    assert system_of(text.removesuffix(b"timing:\n")) is None
