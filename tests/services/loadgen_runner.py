"""Runs LoadGen of MLPerf around a function that does nothing, in an environment that has LoadGen.

Usage: ``loadgen_runner.py FOLDER``. Each folder below FOLDER gets the logs of one run.
"""

import sys
from pathlib import Path

import mlperf_loadgen as loadgen

_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
_QUERIES = 1000


def run(
    folder: Path, scenario: str, mode: str = "PerformanceOnly", min_duration_ms: int = 0
) -> None:
    """Run a scenario; LoadGen writes its logs to ``folder``."""
    folder.mkdir(parents=True)
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, scenario)
    settings.mode = getattr(loadgen.TestMode, mode)
    settings.min_duration_ms = min_duration_ms
    settings.min_query_count = _QUERIES
    settings.server_target_qps = 2 * _QUERIES
    settings.server_target_latency_ns = 10**9
    settings.offline_expected_qps = _QUERIES
    output = loadgen.LogOutputSettings()
    output.outdir = str(folder)
    logs = loadgen.LogSettings()
    logs.log_output = output
    logs.enable_trace = False
    system = loadgen.ConstructSUT(_answer, lambda: None)
    samples = loadgen.ConstructQSL(16, 16, lambda _: None, lambda _: None)
    loadgen.StartTestWithLogSettings(system, samples, settings, logs)
    loadgen.DestroyQSL(samples)
    loadgen.DestroySUT(system)


def _answer(queries: list[loadgen.QuerySample]) -> None:
    loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(it.id, 0, 0) for it in queries])


if __name__ == "__main__":
    for name in _SCENARIOS:
        run(Path(sys.argv[1], name), name)
    run(Path(sys.argv[1], "short"), "Offline", min_duration_ms=600_000)
    run(Path(sys.argv[1], "precise"), "Offline", mode="AccuracyOnly")
