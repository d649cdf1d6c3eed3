"""Peculiarities of published entries of DAWNBench and MLPerf Training, in hand-written files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import Validity
from tests.factories.benchmark_files import DAWNBENCH_ENTRY, read_files, training_log


@pytest.mark.parametrize(
    ("table", "hours", "remark"),
    [
        ("epoch\thours\ttop1\ttop5\n1\t0.1\t\t50\t\t92.9\n2\t0.2\t\t60\t\t93.1\n", 0.2, None),
        (
            "hours\tepoch\ttop5Accuracy\n1\t0.25\t80\n2\t0.5\t93.01\n3\t0.75\t93.2\n",
            0.5,
            "the titles of hours and epochs are swapped",
        ),
        (
            "Iterations   epoch   hours   top1Accuracy    top5Accuracy\n"
            "640\t1\t0.13\t8\t21\n1280\t2\t0.08\t70\t93.5\n",
            0.21,
            "the hours of single epochs were summed",
        ),
        ("epoch\thours\ttop1Accuracy\ttop5Accuracy\n1\t0.1\t40\t\n2\t0.3\t75\t93\n", 0.3, None),
        ("epoch\thours\ttop5Accuracy\n1\t0.1\t0.92\n2\t0.4\t0.931\n", 0.4, None),
    ],
)
def test_tables_of_epochs_have_many_forms(
    table: str, hours: float, remark: str | None, tmp_path: Path
) -> None:
    recognised = system_of(table.encode())
    assert recognised is not None
    assert recognised.key == "dawnbench"
    (result,), refusals = read_files(tmp_path, "dawnbench", {"ImageNet/train/a.tsv": table})
    assert refusals == []
    assert result.value == pytest.approx(hours)
    assert result.reason == remark
    assert result.validity is (Validity.UNKNOWN if remark else Validity.VALID)


@pytest.mark.parametrize(
    ("table", "hours", "remark"),
    [
        ("1\t0.1\t80\n2\t0.2\tnan\n3\t0.3\t93\n", 0.3, "line 3: 'nan' is no number"),
        ("1\t0.1\t80\n2\t93\n3\t0.3\t93\n", 0.3, "line 3: 2 of 3 cells"),
        ("1\t0.1\t80\n2\t0.2\t93\n3\tnan\tnan\n", 0.2, None),
        ("1\t0,1\t80,5\n2\t0,2\t93,1\n", None,
         "no epoch reaches top5Accuracy 93; line 2: '80,5' is no number; "
         "line 3: '93,1' is no number"),
        ("1\t0.1\t80\n2\t\t93\n3\t0.3\t94\n", None,
         "the hours of the first epoch at the target are not known: line 3"),
        ("1\t0.5\t80\n2\tnan\t85\n3\t0.4\t93\n", None,
         "the hours of the first epoch at the target are not known: line 4"),
        ("1\t0.5\t80\n2\tnan\t85\n3\t0.5\t93\n", None,
         "the hours of the first epoch at the target are not known: line 4"),
    ],
    ids=["accuracy", "short row", "behind the target", "commas", "hours", "sum", "equal hours"],
)  # fmt: skip
def test_a_cell_without_a_number_is_left_out(
    table: str, hours: float | None, remark: str | None, tmp_path: Path
) -> None:
    text = f"epoch\thours\ttop5Accuracy\n{table}"
    (result,), refusals = read_files(tmp_path, "dawnbench", {"ImageNet/train/a.tsv": text})
    assert refusals == []
    assert (result.value, result.reason) == (hours, remark)
    assert result.validity is (
        Validity.FAILED if hours is None else Validity.UNKNOWN if remark else Validity.VALID
    )


def test_an_entry_without_the_address_of_its_code_describes_its_table(tmp_path: Path) -> None:
    entry = (
        '{"authorEmail": "jo@mail.example", "framework": "TensorFlow v1.12.0", "model": "R",'
        ' "hardware": "2 nodes with InfiniBand (8*V100 for each node)", "costPerHour": "N/A"}'
    )
    recognised = system_of(entry.encode())
    assert recognised is not None
    files = {"SQuAD/a.json": entry, "SQuAD/a.tsv": "epoch\thours\tf1Score\n1\t2.5\t0.74\n"}
    (result,), _ = read_files(tmp_path, recognised.key, files)
    assert (result.value, result.accelerators) == (2.5, 16)
    assert result.software == {"tensorflow": "1.12.0"}
    assert result.hardware["accelerator"] == "V100 for each node"
    assert "jo@" not in repr(result)


#: How a log of v0.6 states the machine: a dictionary of texts, some of which are dictionaries.
_MACHINE = (
    "{'hardware': 'DGX', 'framework': 'PyTorch Release 19.05', 'os': 'Ubuntu 18.04 LTS', "
    "'libraries': \\\"{'cuda_version': '10.1.163', 'cuda_driver_version': '418.67'}\\\", "
    "'nodes': \\\"{'num_nodes': '3', 'cpu': 'Xeon', 'accelerator': 'Tesla V100', "
    "'num_accelerators': '8'}\\\"}"
)


@pytest.mark.parametrize("described", ["log", "lines"])
def test_a_machine_may_be_described_by_lines_of_a_log(described: str, tmp_path: Path) -> None:
    log = training_log(1_560_000_000, 1_560_000_600)
    files = {"O/results/dgx/resnet/result_0.txt": log}
    if described == "log":
        stated = f':::MLL 1560000000.0 submission_entry: {{"value": "{_MACHINE}"}}\n'
        files = {place: stated + text for place, text in files.items()}
    else:
        files["O/systems/dgx.json"] = (
            'division: {"value": "closed", "metadata": {"lineno": 1}}\n'
            f'entry: {{"value": "{_MACHINE}", "metadata": {{"lineno": 2}}}}\n'
            'poc_name: {"value": "Jo Doe", "metadata": {"lineno": 3}}\n'
        )
    results, refusals = read_files(tmp_path, "mlperf-training", files)
    assert refusals == []
    assert {it.accelerators for it in results} == {24}
    hours = {it.metric.name: it.value for it in results}
    assert hours["accelerator_hours"] == pytest.approx(24 * 10 / 60, abs=0.01)
    assert results[0].hardware == {"cpu": "Xeon", "accelerator": "Tesla V100", "description": "DGX"}
    assert results[0].software["cuda"] == "10.1.163"
    assert results[0].software["torch"] is None
    assert results[0].parameters.get("division") == ("closed" if described == "lines" else None)
    assert "Jo Doe" not in repr(results)


def test_logs_with_other_names_are_an_entry_for_each_benchmark(tmp_path: Path) -> None:
    first = training_log(1_560_000_000, 1_560_000_600)
    files = {
        "logs/run-a.log": first,
        "logs/run-b.log": first.replace("1560000600", "1560001200"),
        "logs/other.log": first.replace('"resnet"', '"ssd"'),
        "logs/notes.txt": "nothing\n",
    }
    results, refusals = read_files(tmp_path, "mlperf-training", files)
    assert refusals == []
    assert [(it.source, it.benchmark, it.value) for it in results] == [
        ("logs/other.log", "ssd", pytest.approx(10.0, abs=0.1)),
        ("logs", "resnet", pytest.approx(15.0, abs=0.1)),
    ]


def test_lines_of_a_run_may_begin_with_the_name_of_a_process() -> None:
    lines = training_log(1_560_000_000, 1_560_000_600).splitlines()
    recognised = system_of("\n".join(f"worker-0: {it}" for it in lines).encode())
    assert recognised is not None
    assert recognised.key == "mlperf-training"


@pytest.mark.parametrize(
    ("accuracy", "validity"),
    [(93.1, Validity.VALID), (0.93, Validity.VALID), (90.2, Validity.INVALID)],
)
def test_a_latency_counts_at_the_target_accuracy_only(
    accuracy: float, validity: Validity, tmp_path: Path
) -> None:
    entry = DAWNBENCH_ENTRY.replace("{", f'{{"latency": 9.5, "top5Accuracy": {accuracy},', 1)
    (latency,), _ = read_files(tmp_path, "dawnbench", {"ImageNet/inference/a.json": entry})
    assert (latency.value, latency.validity) == (9.5, validity)


def test_processes_may_write_into_one_line(tmp_path: Path) -> None:
    log = (
        ':::MLL 0.0 submission_benchmark: {"value": "ssd"}\n'
        ':::MLL 1558660000.0 run_start: {"value": null}:::MLL 1558660600.0 run_stop: '
        '{"value": null, "metadata": {"status": "success"}}\n'
    )
    (result,), _ = read_files(tmp_path, "mlperf-training", {"s/ssd/result_0.txt": log})
    assert (result.value, result.validity) == (10.0, Validity.VALID)


@pytest.mark.parametrize(
    ("accuracy", "reason"),
    [(90.2, "top5Accuracy 90.2 misses the target of 93"),
     (0.902, "top5Accuracy 0.902 misses the target of 0.93")],
)  # fmt: skip
def test_a_missed_target_is_named_in_the_unit_of_the_accuracy(
    accuracy: float, reason: str, tmp_path: Path
) -> None:
    entry = DAWNBENCH_ENTRY.replace("{", f'{{"latency": 9.5, "top5Accuracy": {accuracy},', 1)
    (latency,), _ = read_files(tmp_path, "dawnbench", {"ImageNet/inference/a.json": entry})
    assert latency.reason == reason
