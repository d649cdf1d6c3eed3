"""Readers agree with the programs that write the logs, and with those that score them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Direction, Validity
from tests.factories.benchmark_files import read_files
from tests.services.environments import pinned_environment
from tests.services.waiting import DEADLINE_S

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[3].parent / "shared" / "data"
)
SERVICES = Path(__file__).parents[2] / "services"


def run(environment: str, script: str, *arguments: str) -> str:
    python = pinned_environment(environment) / "bin" / "python"
    done = subprocess.run(
        [str(python), str(SERVICES / script), *arguments],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loadgen_logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Logs of LoadGen by path, as it writes them today."""
    folder = tmp_path_factory.mktemp("loadgen")
    run("mlcommons-loadgen", "loadgen_runner.py", str(folder))
    return {it.relative_to(folder).as_posix(): it.read_bytes() for it in folder.rglob("*.txt")}


def read(folder: Path, logs: dict[str, bytes]) -> dict[tuple[str, str], BenchmarkResult]:
    results, refusals = read_files(folder, "mlperf-inference", logs)
    assert refusals == []
    return {(it.source.partition("/")[0], it.metric.name): it for it in results}


HEADLINES = {
    "SingleStream": ("90th percentile latency (ns)", Aggregate.P90, Direction.LOWER),
    "MultiStream": ("99th percentile latency (ns)", Aggregate.P99, Direction.LOWER),
    "Server": ("Completed samples per second", Aggregate.TOTAL, Direction.HIGHER),
    "Offline": ("Samples per second", Aggregate.TOTAL, Direction.HIGHER),
}


def test_loadgen_logs_are_recognised(loadgen_logs: dict[str, bytes]) -> None:
    systems = {place: system_of(log) for place, log in loadgen_logs.items()}
    assert len(systems) == 12
    assert {it.key if it else None for it in systems.values()} == {"mlperf-inference"}


@pytest.mark.parametrize("scenario", HEADLINES)
def test_main_metric_of_each_loadgen_scenario_is_read(
    scenario: str, loadgen_logs: dict[str, bytes], tmp_path: Path
) -> None:
    name, aggregate, direction = HEADLINES[scenario]
    result = read(tmp_path, loadgen_logs)[scenario, name]
    (stated,) = (
        line.rpartition(":")[2]
        for line in loadgen_logs[f"{scenario}/mlperf_log_summary.txt"].decode().splitlines()
        if line.replace(".0th", "th").startswith(name)
    )
    assert result.value == float(stated)
    assert (result.aggregate, result.metric.direction) == (aggregate, direction)
    assert (result.validity, result.reason) == (Validity.VALID, None)
    assert result.system == "mlperf-inference"
    assert result.software["mlcommons-loadgen"] == "6.0.17"
    assert result.measured_at is not None
    assert [it.place.rpartition("_")[2] for it in result.files] == ["detail.txt", "summary.txt"]


@pytest.mark.parametrize(("scenario", "share"), [("SingleStream", 90), ("MultiStream", 99)])
def test_loadgen_estimate_equals_the_value_of_the_submission_checker(
    scenario: str, share: int, loadgen_logs: dict[str, bytes], tmp_path: Path
) -> None:
    key = {"SingleStream": "early_stopping_latency_ss", "MultiStream": "early_stopping_latency_ms"}
    entries = [
        json.loads(line.removeprefix(b":::MLLOG "))
        for line in loadgen_logs[f"{scenario}/mlperf_log_detail.txt"].splitlines()
    ]
    (scored,) = (it["value"] for it in entries if it["key"] == key[scenario])
    name = f"Early stopping {share}th percentile estimate"
    result = read(tmp_path, loadgen_logs)[scenario, name]
    assert (result.value, result.metric.unit, result.validity) == (scored, "ns", Validity.VALID)


def test_loadgen_run_that_ends_too_early_is_invalid(
    loadgen_logs: dict[str, bytes], tmp_path: Path
) -> None:
    result = read(tmp_path, loadgen_logs)["short", "Samples per second"]
    assert (result.validity, result.reason) == (Validity.INVALID, "LoadGen: min duration")


def test_accuracy_run_gives_no_performance(loadgen_logs: dict[str, bytes], tmp_path: Path) -> None:
    assert not [scenario for scenario, _ in read(tmp_path, loadgen_logs) if scenario == "precise"]


@pytest.mark.skipif(
    not (DATA / "mlperf-training-v0.6").is_dir(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)
def test_training_minutes_equal_those_of_the_mlperf_parser(tmp_path: Path) -> None:
    folder = DATA / "mlperf-training-v0.6"
    scored = json.loads(run("mlperf-logging", "training_scores.py", str(folder)))
    logs = {it.relative_to(folder).as_posix(): it.read_bytes() for it in folder.rglob("result_*")}
    results, _ = read_files(tmp_path, "mlperf-training", logs)
    ours = {it.source: it for it in results if it.metric.name == "time_to_train_olympic_mean"}
    assert ours.keys() == scored.keys()
    assert len(ours) == 6
    for place, entry in scored.items():
        assert ours[place].value == pytest.approx(entry["score"], rel=1e-9), place
        assert sorted(ours[place].samples) == pytest.approx(sorted(entry["minutes"]), rel=1e-9)
        # The rules of today's checker refuse every published run, for example for a cache_clear
        # without a value, so that the status at the end of the logs judges a run.
        assert entry["compliant"] == 0
    judged = {place: (str(it.validity), it.reason) for place, it in ours.items()}
    aborted = ("unknown", "1 of 5 runs did not reach the target")
    assert judged.pop("Google/results/tpu-v3-1024/resnet") == aborted
    assert set(judged.values()) == {("valid", None)}
