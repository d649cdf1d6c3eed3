"""Console output of the OSU Micro-Benchmarks in the forms of several releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import Direction, Validity
from tests.factories.benchmark_files import DEEPBENCH_MPI_ALL_REDUCE, read_files

SYSTEM = "osu-micro-benchmarks"


@pytest.mark.parametrize(
    ("text", "benchmark", "values"),
    [
        (
            "# OSU MPI Latency Test v5.7\n# Size          Latency (us)\n"
            "0                       1.10\n1                       5.47\n",
            "MPI Latency", {("latency", "us", 0): 1.1, ("latency", "us", 1): 5.47},
        ),
        (
            "\n# OSU MPI-CUDA Latency Test v7.5\n# Datatype: MPI_CHAR.\n"
            "# Size       Avg Latency(us)\n"
            "1                       2.37\n",
            "MPI Latency", {("latency", "us", 1): 2.37},
        ),
        (
            "# OSU MPI Allreduce Latency Test v7.0\n"
            "# Size Avg Latency(us) Min Latency(us) Max Latency(us) Iterations\n"
            "4                     136.08             99.29            164.85        1000\n",
            "MPI Allreduce Latency",
            {("latency", "us", 4): 136.08, ("latency_min", "us", 4): 99.29,
             ("latency_max", "us", 4): 164.85},
        ),
        (
            "# OSU MPI Bi-Directional Bandwidth Test v5.6.2\n# Size      Bandwidth (MB/s)\n"
            "1                       9.60\n2                       0.00\n",
            "MPI Bi-Directional Bandwidth",
            {("bandwidth", "MB/s", 1): 9.6, ("bandwidth", "MB/s", 2): None},
        ),
        (
            "# OSU MPI Multiple Bandwidth / Message Rate Test v5.6.3\n"
            "# [ pairs: 15 ] [ window size: 64 ]\n# Size                  MB/s        Messages/s\n"
            "1                       4.24        4235302.84\n",
            "MPI Multiple Bandwidth / Message Rate",
            {("bandwidth", "MB/s", 1): 4.24, ("message_rate", "messages/s", 1): 4235302.84},
        ),
        (
            "# OSU MPI Non-blocking All-to-All Latency Test v5.6.3\n"
            "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n"
            "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n"
            "8                       9.10              4.76              3.97              0.00\n",
            "MPI Non-blocking All-to-All Latency",
            {("overall_time", "us", 8): 9.1, ("communication_time", "us", 8): 3.97,
             ("overlap", "%", 8): 0},
        ),
        (
            "# OSU MPI Barrier Latency Test v5.8\n# Avg Latency(us)\n             8.63\n\n"
            "real\t0m7.832s\n",
            "MPI Barrier Latency", {("latency", "us", None): 8.63},
        ),
        (
            "# OSU MPI Latency Test v7.3\n"
            "# Size  Latency (us)  P50 Tail Lat(us)  P99 Tail Lat(us)\n"
            "8   1.50   1.40   3.20\n",
            "MPI Latency",
            {("latency", "us", 8): 1.5, ("latency_p50", "us", 8): 1.4,
             ("latency_p99", "us", 8): 3.2},
        ),
    ],
)  # fmt: skip
def test_columns_are_values_with_their_units(
    text: str, benchmark: str, values: dict[tuple[str, str, int | None], float], tmp_path: Path
) -> None:
    recognised = system_of(text.encode())
    assert recognised is not None
    assert recognised.key == SYSTEM
    results, refusals = read_files(tmp_path, SYSTEM, {"log": text})
    assert refusals == []
    assert {
        (it.metric.name, it.metric.unit, it.parameters.get("size_bytes")): it.value
        for it in results
    } == values
    assert {it.benchmark for it in results} == {benchmark}
    for result in results:
        lower = result.metric.unit == "us"
        assert result.metric.direction is (Direction.LOWER if lower else Direction.HIGHER)


def test_lines_about_a_run_are_parameters(tmp_path: Path) -> None:
    text = (
        "# OSU MPI-ROCM Multiple Bandwidth / Message Rate Test v7.5\n"
        "# [ pairs: 4 ] [ window size: 64 ]\n# Datatype: MPI_CHAR.\n"
        "# Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n"
        "# Size   MB/s   Messages/s\n1   8.36   8361985.11\n"
    )
    results, _ = read_files(tmp_path, SYSTEM, {"log": text})
    assert results[0].parameters == {
        "device": "ROCM", "pairs": 4, "window_size": 64, "datatype": "MPI_CHAR",
        "send_buffer": "DEVICE", "receive_buffer": "HOST", "size_bytes": 1,
    }  # fmt: skip
    assert results[0].software == {SYSTEM: "7.5"}


def test_a_failed_validation_is_invalid(tmp_path: Path) -> None:
    text = (
        "# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)        Validation\n"
        "1                       0.90              Pass\n"
        "2                       1.82              Fail\n"
    )
    results, _ = read_files(tmp_path, SYSTEM, {"log": text})
    assert [it.validity for it in results] == [Validity.VALID, Validity.INVALID]
    assert results[1].reason == "validation: fail"
    cut, _ = read_files(tmp_path, SYSTEM, {"log": text.replace("Fail\n", "Pa")})
    assert [it.validity for it in cut] == [Validity.VALID]


def test_runs_on_one_console_are_told_apart_and_a_crash_loses_no_other(tmp_path: Path) -> None:
    text = (
        "# OSU MPI Latency Test v7.4\n# Size   Avg Latency(us)\n1   1.54\n"
        "# OSU MPI Bandwidth Test v7.4\n# Size   Bandwidth (MB/s)\nSegmentation fault\n"
        "# OSU MPI Latency Test v7.4\n# Size   Avg Latency(us)\n1   2.5"
    )
    results, (refusal,) = read_files(tmp_path, SYSTEM, {"log": text + "4\n"})
    assert [(it.source, it.value) for it in results] == [("log#0", 1.54), ("log#2", 2.54)]
    assert refusal.message == "the run printed no row"
    cut, _ = read_files(tmp_path, SYSTEM, {"log": text})
    assert [it.value for it in cut] == [1.54]


def test_an_unknown_column_refuses_a_run(tmp_path: Path) -> None:
    text = "# OSU MPI Latency Test v9\n# Size   Avg Latency(us)  Jitter(us)\n1   1.54  0.10\n"
    results, (refusal,) = read_files(tmp_path, SYSTEM, {"log": text})
    assert (results, refusal.message) == ([], "an unknown column: Jitter(us)")


def test_the_all_reduce_of_deepbench_is_another_system() -> None:
    recognised = system_of(DEEPBENCH_MPI_ALL_REDUCE.encode())
    assert recognised is not None
    assert recognised.key == "deepbench"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("Synchronization: MPI_Win_post/start/complete/wait", "synchronization",
         "MPI_Win_post/start/complete/wait"),
        ("Window creation: MPI_Win_allocate/shared ", "window_creation", "MPI_Win_allocate/shared"),
        ("Datatype: MPI_CHAR.", "datatype", "MPI_CHAR"),
    ],
)  # fmt: skip
def test_values_of_header_lines_are_whole(line: str, name: str, value: str, tmp_path: Path) -> None:
    text = f"# OSU MPI_Put Latency Test v7.4\n# {line}\n# Size   Latency (us)\n1   2.5\n"
    (result,), refusals = read_files(tmp_path, "osu-micro-benchmarks", {"a": text})
    assert refusals == []
    assert result.parameters[name] == value
