"""Output of several processes in one file: no result has values of two of them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from ingest.benchmarks.result_texts import without_captures
from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import BenchmarkResult
from tests.factories.benchmark_files import read_files, sample_text, training_log

_NUMBER = re.compile(r"(?<![\w.])\d\.\d+(?![\w.])")
#: A log of each system, with a number in it that differs between two processes.
LOGS = {
    "tf_cnn_benchmarks": sample_text("tf_cnn_benchmarks/plain"),
    "deepbench": sample_text("deepbench/plain").replace(" 38\n", " 3.8\n"),
    "perfzero": sample_text("perfzero/plain").replace("90.5", "9.5"),
    "pytorch-benchmark": sample_text("pytorch-benchmark/plain"),
    "hpe-dlcookbook": sample_text("hpe-dlcookbook/plain").replace("96.3", "9.3"),
    "aiot-bench": sample_text("aiot-bench/plain"),
    "aiperf": sample_text("aiperf/plain").replace("560.5", "5.5"),
    "pytorch-v3": sample_text("pytorch-v3/lines"),
    "jetson": sample_text("jetson/summary"),
    "edge-aibench": sample_text("edge-aibench/faces"),
    "aiia-dnn": sample_text("aiia-dnn/block").replace("12.5", "2.5"),
}


def interleaved(first: str, second: str, marks: Sequence[str]) -> str:
    """Lines of two processes in turns, each behind the mark of its process."""
    return "".join(
        f"{mark}{line}\n"
        for lines in zip_longest(second.splitlines(), first.splitlines())
        for mark, line in zip((marks[1], marks[0]), lines, strict=True)
        if line is not None
    )


def values_of(results: Sequence[BenchmarkResult]) -> list[tuple[str, str, float | None]]:
    return sorted(
        ((it.benchmark, it.metric.name, it.value) for it in results),
        key=lambda it: (it[0], it[1], it[2] or 0),
    )


@pytest.mark.parametrize(
    "marks",
    [
        ("0: ", "1: "), (" 9: ", "10: "), ("[0] ", "[1] "), ("[1,0]<stdout>:", "[1,1]<stdout>:"),
        ("[prterun-node-17@1,0]<stdout>: ", "[prterun-node-17@1,1]<stdout>: "),
        ("[pod/worker-0/main] ", "[pod/worker-1/main] "), ("bench-1  | ", "bench-2  | "),
        ("[default0]:", "[default1]:"), ("2023-01-01T00:00:00Z 0: ", "2023-01-01T00:00:01Z 1: "),
        ("node1: ", "node2: "), ("[default0]:[rank0]: ", "[default1]:[rank1]: "),
        ("bench-1  | [1,0]<stdout>:", "bench-2  | [1,0]<stdout>:"),
        ("b.1.x@n1    | 0: 2023-01-01 00:00:01 ", "b.1.x@n1    | 1: 2023-01-01 00:00:01 "),
        ("2023-01-01T00:00:00.5Z stdout F n1: [0] ", "2023-01-01T00:00:01.5Z stdout F n1: [1] "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("system", LOGS)
def test_interleaved_log_lines_are_assigned_to_their_process(
    system: str, marks: Sequence[str], tmp_path: Path
) -> None:
    # Every other mark and every other system comes with output of the launcher.
    chatter = "pulling the image\n" * 200 * ((len(system) + len(marks[0])) % 2)
    first = LOGS[system]
    second = _NUMBER.sub(lambda it: f"{float(it[0]) / 2:.5f}", first)
    log = chatter + interleaved(first, second, marks)
    recognised = system_of(log.encode())
    assert recognised.key == system
    alone = [
        read_files(tmp_path / name, system, {"log": it})[0]
        for name, it in (("first", first), ("second", second))
    ]
    assert values_of(alone[0]) != values_of(alone[1])
    together, refusals = read_files(tmp_path / "both", system, {"log": log})
    assert refusals == []
    assert values_of(together) == values_of([*alone[0], *alone[1]])


def test_truncated_last_line_of_any_process_is_dropped(tmp_path: Path) -> None:
    console = sample_text("deepbench/plain").replace("          0\n", "          4567\n")
    for marks in (("0: ", "1: "), ("1: ", "0: ")):
        log = interleaved(console, console, marks)
        results, refusals = read_files(tmp_path, "deepbench", {"log": log[: -len("67\n")]})
        assert refusals == []
        times = sorted(it.value or 0 for it in results if it.metric.name == "time")
        assert times == [0.038, 0.038, 4.567]


def test_log_lines_repeated_by_several_processes_count_as_one_run(tmp_path: Path) -> None:
    """Two runs in a log, each of two processes, whose lines say the same."""
    lines = training_log(1e9, 1e9 + 600) + training_log(1e9 + 1000, 1e9 + 2200)
    log = interleaved(lines, lines, ("0: ", "1: "))
    results, refusals = read_files(tmp_path, "mlperf-training", {"s/resnet/result_0.txt": log})
    assert refusals == []
    assert [it.samples for it in results] == [(10.0, 20.0)]


@pytest.mark.parametrize(
    "lines",
    [
        "0: a\n0: b\nsrun: done\n",
        "model-1 | 5\nmodel-2 | 6\nmodel-3 | 7\n",
        "1 | a\n2 | b\n",
        "model | rate\n--- | ---:\nresnet | 5\nvgg | 6\nresnet | 7\nvgg | 8\nresnet | 9\n",
    ],
)
def test_log_lines_without_process_prefixes_keep_their_order(lines: str) -> None:
    assert without_captures(lines).replace("0: ", "") == lines.replace("0: ", "")


@pytest.mark.parametrize(
    "line",
    [
        "{}  ", "\x1b[32m{}\x1b[0m", "[1,0]<stdout>:{}", "2023-01-01T00:00:00.123Z {}",
        "[pod/worker-0/main] {}", "worker_1  | {}", "0: {}", " 3: {}", "[0] {}",
        "[2023-01-01 00:00:00] {}", "2023-01-01 00:00:00,123 {}", "Jan  1 00:00:00 {}",
        "Jan 01 00:00:00 build-17 run[12]: {}", "01-01 00:00:00.123  1234  1250 I bench: {}",
        "I/bench ( 1234): {}", "0: 2023-01-01T00:00:00Z {}", "INFO:tensorflow:{}",
        "2023-01-01 00:00:00,123 WARNING __main__: {}", "[2023-01-01 00:00:00,1][a.b][INFO] - {}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["tf_cnn_benchmarks/plain", "deepbench/plain", "aiot-bench/plain"])
def test_line_prefixes_of_launchers_and_terminals_are_ignored(
    name: str, line: str, tmp_path: Path
) -> None:
    system, plain = name.partition("/")[0], sample_text(name)
    log = "".join(line.format(it) + "\n" for it in plain.splitlines())
    recognised = system_of(log.encode())
    assert recognised.key == system
    alone, captured = (
        read_files(tmp_path / folder, system, {"log": it})
        for folder, it in (("alone", plain), ("captured", log))
    )
    assert captured[1] == []
    assert [replace(it, files=()) for it in captured[0]] == [
        replace(it, files=()) for it in alone[0]
    ]
