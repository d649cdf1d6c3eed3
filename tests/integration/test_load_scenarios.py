"""Our load scenarios beside LoadGen, which drives the same answers in the same run."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from pis.bundle import script_of
from pis.indicators.load_scenarios import multi_stream, offline, serve, server, single_stream
from tests.services.stacks import measures, stack_environment

#: Runs after the functions of the indicator, in an environment with LoadGen.
DRIVER = '''
import queue
import tempfile
import threading
from pathlib import Path

import mlperf_loadgen


class Lockstep:
    """Lets LoadGen issue queries, while one of our scenarios answers them in a thread of its own.

    Both time the same answers in the same run, so that a busy machine disturbs both alike.
    """

    def __init__(self, ours):
        self.times, self.ours = random.Random(0), ours
        self.issued, self.samples, self.result = queue.Queue(), [], None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def issue(self, samples):
        self.issued.put((time.perf_counter(), list(samples)))

    def run(self):
        self.first = self.issued.get()
        self.result = self.ours(self)

    def next_query(self):
        at, samples = self.first or self.issued.get()
        self.first = None
        self.samples.extend(samples)
        return at

    def answer(self):
        """Work for 2 to 6 ms."""
        if not self.samples:
            self.next_query()
        end = time.perf_counter() + self.times.uniform(2e-3, 6e-3)
        while time.perf_counter() < end:
            time.sleep(2e-4)
        response = mlperf_loadgen.QuerySampleResponse(self.samples.pop(0).id, 0, 0)
        mlperf_loadgen.QuerySamplesComplete([response])

    def arrivals(self, queries):
        """Times at which LoadGen issues queries, since the start of this scenario."""
        began = time.perf_counter()
        for _ in range(queries):
            yield self.next_query() - began


def both(scenario, queries, ours, **settings):
    """Lines of LoadGen's summary, and the result of our scenario."""
    test = mlperf_loadgen.TestSettings()
    test.scenario = getattr(mlperf_loadgen.TestScenario, scenario)
    test.mode = mlperf_loadgen.TestMode.PerformanceOnly
    test.min_query_count = test.max_query_count = queries
    test.min_duration_ms = 0
    for name, value in settings.items():
        setattr(test, name, value)
    lockstep = Lockstep(ours)
    with tempfile.TemporaryDirectory() as folder:
        logs = mlperf_loadgen.LogSettings()
        logs.log_output.outdir = folder
        library = mlperf_loadgen.ConstructQSL(64, 64, lambda _: None, lambda _: None)
        system = mlperf_loadgen.ConstructSUT(lockstep.issue, lambda: None)
        mlperf_loadgen.StartTestWithLogSettings(system, library, test, logs, "")
        mlperf_loadgen.DestroySUT(system)
        mlperf_loadgen.DestroyQSL(library)
        lockstep.thread.join()
        text = (Path(folder) / "mlperf_log_summary.txt").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in lines.items()}, lockstep.result


def latency_s(lines, per_cent):
    return float(lines[f"{per_cent}.00 percentile latency (ns)"]) * 1e-9


def main_of_test():
    pairs = {}
    lines, ours = both("SingleStream", 300, lambda step: single_stream(step.answer, 300))
    pairs["single-stream"] = (ours, latency_s(lines, 90))
    lines, ours = both("MultiStream", 60, lambda step: multi_stream(step.answer, 60))
    pairs["multi-stream"] = (ours, latency_s(lines, 99))

    def all_at_once(step):
        step.next_query()
        samples = len(step.samples)
        return offline(step.answer, samples)

    lines, ours = both("Offline", 1, all_at_once, offline_expected_qps=400)
    pairs["offline"] = (ours, float(lines["Samples per second"]))
    lines, ours = both(
        "Server", 400, lambda step: serve(step.answer, step.arrivals(400)),
        server_target_qps=100, server_target_latency_ns=10**9,
    )
    pairs["server"] = (400 / ours.duration_s, float(lines["Completed samples per second"]))
    print(json.dumps(pairs))


main_of_test()
'''


@pytest.mark.slow
@measures("loadgen")
@pytest.mark.timeout(600)
def test_each_scenario_reports_what_loadgen_reports() -> None:
    functions = script_of("loadgen").partition("if __name__ ==")[0]
    python = stack_environment("loadgen").python
    done = subprocess.run(
        [str(python), "-I", "-c", functions + DRIVER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout.splitlines()[-1])
    assert pairs.keys() == {"single-stream", "multi-stream", "offline", "server"}
    for scenario, (ours, theirs) in pairs.items():
        assert ours == pytest.approx(theirs, rel=0.03), scenario


def wait() -> None:
    time.sleep(2e-3)


def test_a_query_of_the_server_waits_for_those_before() -> None:
    served = serve(wait, [0.0, 0.0, 0.0])
    for number, latency in enumerate(served.latencies_s, start=1):
        assert latency >= number * 2e-3


def test_a_query_is_answered_after_its_arrival() -> None:
    served = serve(wait, [0.02])
    assert served.duration_s >= 0.022
    assert served.latencies_s[0] <= served.duration_s - 0.02


def test_latencies_and_rates_are_those_of_the_answers() -> None:
    assert single_stream(wait, 5) >= 2e-3
    assert multi_stream(wait, 2, streams=4) >= 8e-3
    assert offline(wait, 5) <= 1 / 2e-3


def test_no_rate_keeps_a_bound_that_is_shorter_than_an_answer() -> None:
    assert server(wait, 10, bound_s=1e-3, seed=0) == 0.0
    assert 0 < server(wait, 10, bound_s=60.0, seed=0) <= 1 / 2e-3
