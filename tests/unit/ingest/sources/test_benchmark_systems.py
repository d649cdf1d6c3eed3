"""Result files of other benchmarks are recognised by what is in them."""

from __future__ import annotations

import codecs
import io
import random
import zipfile
from pathlib import Path

import pytest

from ingest.benchmarks.pipeline import known_system
from ingest.sources.content_detection import (
    HEAD_BYTES,
    SYSTEMS,
    system_of,
)
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RefusedDocument, SkippedFile
from model.reasons import Reason
from tests.factories.documents import document_2020_02, encoded, specification

NVPROF = b"==635== NVPROF is profiling process 635, command: python "


def workbook(texts: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/sharedStrings.xml", texts)
    return packed.getvalue()


#: A few lines of each system's files, by the key of the system.
SAMPLES = {
    "osu-micro-benchmarks": [
        b"$ mpirun osu_bw\n# OSU MPI-CUDA Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n",
        b"    # OSU MPI_Put Latency Test v5.7\n    # Size          Latency (us)\n",
    ],
    "mlperf-training": [
        b":::MLL 1560400998.76 run_start: {}",
        b':::MLLOG {"namespace": "", "time_ms": 1, "key": "submission_benchmark", "value": "ssd"}',
        b'0: :::MLLOG {"namespace": "", "time_ms": 1, "key": "cache_clear", "value": true}',
        b"clearing caches\n:::MLPv0.5.0 ssd 1544237576.8 (ssd.py:3) run_start",
        b"MLPerf: resnet [06/13/19 00:30:56], run_start",
        b'{"interconnect": "x", "os": "y", "libraries": "z", "compilers": "gcc"}',
    ],
    "mlperf-inference": [
        b':::MLLOG {"key": "loadgen_version", "namespace": "mlperf::logging", "metadata": {}}',
        b"====\r\nMLPerf Results Summary\r\n====",
        b"\nNo warnings encountered during test.\n\nNo errors encountered during test.",
        b"TestScenario.Offline qps=44.11, mean=2.3486",
        b"DONEaccuracy=76.034%, good=38017, total=50000",
        b"*.SingleStream.target_latency = 10",
        b'{"system_name": "x", "host_processor_model_name": "y"}',
    ],
    "tf_cnn_benchmarks": [
        b"Step\tImg/sec\ttotal_loss\n1\timages/sec: 208.7 +/- 0.0 (jitter = 0.0)\t7.9",
        b'{"global_step": 1, "name": "current_examples_per_sec", "value": 102.0}',
    ],
    "perfzero": [b'{\n "ml_framework_info": {  # Summary'],
    "pytorch-benchmark": [b"device: cpu\nmachine_info:\n  cpu: 1\ntiming:\n  batch_size_1:"],
    "pytest-benchmark": [
        b'{\n  "machine_info": {"node": "x"},\n  "commit_info": {"id": "0"},\n  "benchmarks": []}'
    ],
    "deepbench": [
        workbook(b"<t>Dense Matrix Multiplication</t>"),
        b"    m       n      k      a_t     b_t      precision  time (usec)",
    ],
    "dawnbench": [
        b'{"codeURL": "https://code.example", "costPerHour": 1}',
        b"\xef\xbb\xbfhours\tepoch\ttop1Accuracy\r\n0.1\t1\t29.5",
    ],
    "hpe-dlcookbook": [b'Running\n__exp.framework__= "tensorflow"', b"__results.time__=[1, 2]"],
    "aiot-bench": [b"device fingerprint:x\nvips:50"],
    "edge-aibench": [b"lane,detection,light,sign\n0.1,0.2,0.3,0.4", NVPROF + b"label_image.py x"],
    "aibench": [b"timeStamp,elapsed,label,responseCode,x", NVPROF + b"train.py"],
    "aiia-dnn": ["processor_name：x\ntest_name：y".encode()],
    "jetson": [b"Model Name: ResNet50 \nFPS:0.00", b"| **Model Name** | **FPS** |"],
    "aiperf": [b"Final Score : 56.1 GFLOPS"],
    "pytorch-v3": [
        b'[{"benchmark": {"name": "x"}, "metric": {"name": "y", "benchmark_values": [1]}}]'
    ],
    "ianvs": [
        b"rank,algorithm,f1_score,paradigm,basemodel",
        b"| rank | algorithm | accuracy | BWT | paradigm | basemodel |",
    ],
}


def test_every_system_has_samples() -> None:
    assert SAMPLES.keys() == {system.key for system in SYSTEMS}
    assert len({system.title for system in SYSTEMS}) == len(SYSTEMS)


@pytest.mark.parametrize(
    ("key", "data"), [(key, data) for key, samples in SAMPLES.items() for data in samples]
)
def test_a_result_is_recognised_by_its_content(key: str, data: bytes) -> None:
    system = system_of(data)
    assert system is not None
    assert system.key == key


@pytest.mark.parametrize(
    ("key", "data"), [(key, data) for key, samples in SAMPLES.items() for data in samples]
)
@pytest.mark.parametrize("name", ["1", "result_0.txt", "summary.json"])
def test_a_result_is_refused_as_a_source_and_skipped_in_a_folder(
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
def test_other_files_are_of_no_system(data: bytes) -> None:
    assert system_of(data) is None


def test_a_workbook_that_unpacks_to_too_much_is_searched_in_part() -> None:
    data = workbook(b" " * 300 * HEAD_BYTES + b"Dense Matrix Multiplication")
    assert len(data) < HEAD_BYTES
    assert system_of(data) is None


def test_a_large_workbook_is_recognised() -> None:
    data = workbook(random.Random(1).randbytes(2 * HEAD_BYTES) + b"Dense Matrix Multiplication")
    assert len(data) > HEAD_BYTES
    assert system_of(data) == known_system("deepbench")


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (key, data)
        for key, samples in SAMPLES.items()
        for data in samples[:2]
        if not data.startswith((b"PK", codecs.BOM_UTF8))
    ],
)
@pytest.mark.parametrize("size", [0.99, 1.0, 3.5])
def test_the_mark_of_a_system_may_stand_anywhere(key: str, data: bytes, size: float) -> None:
    line = b"node-7:1234:1240 [2] NCCL INFO Channel 02/0 : 2[2] -> 3[3] via P2P/IPC/read\n"
    chatter = line * (int(size * HEAD_BYTES) // len(line))
    system = system_of(chatter + data)
    assert system is not None
    assert system.key == key


@pytest.mark.parametrize("shift", range(0, 4000, 97))
def test_a_mark_may_cross_windows(shift: int) -> None:
    mark = b"\nModel Name: ResNet50 \r\n\r\n" + b"\n" * 1000 + b"FPS:12.5\n"
    chatter = b"x" * (HEAD_BYTES - shift)
    assert system_of(chatter + mark) == known_system("jetson")
    wide = (chatter + mark).decode().encode("utf-16")
    assert system_of(wide) == known_system("jetson")


def test_the_parts_of_a_mark_may_be_far_apart() -> None:
    text = b"machine_info:\n  cpu: 1\n" + b"  value: 1\n" * HEAD_BYTES + b"timing:\n"
    assert system_of(text) == known_system("pytorch-benchmark")
    assert system_of(text.removesuffix(b"timing:\n")) is None
