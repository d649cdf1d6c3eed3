"""Our load scenarios beside LoadGen: both say the same of one recorded run."""

import json
import subprocess
import time

import pytest

from pis.bundle import script_of
from pis.indicators.load_scenarios import multi_stream, offline, serve, server, single_stream
from tests.services.environments import pinned_environment

#: Runs after the functions of the indicator, in an environment with LoadGen.
DRIVER = '''
import queue
import tempfile
import threading
from pathlib import Path

import mlperf_loadgen

clock = time


class Answers:
    """Answers LoadGen's queries one after the other, and records when.

    :param issued: when the query of each call came
    :param ended: readings before and after LoadGen is told of an answer; its own lies between them
    """

    def __init__(self):
        self.durations, self.queries = random.Random(0), queue.Queue()
        self.issued, self.ended = [], []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def issue(self, samples):
        self.queries.put((clock.perf_counter(), list(samples)))

    def run(self):
        while (query := self.queries.get()) is not None:
            self.issued.append(query[0])
            for sample in query[1]:
                clock.sleep(self.durations.uniform(2e-3, 6e-3))
                response = mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0)
                before = clock.perf_counter()
                mlperf_loadgen.QuerySamplesComplete([response])
                self.ended.append((before, clock.perf_counter()))


def measured(scenario, queries, **settings):
    """LoadGen's summary, when queries were due, when they were answered, and samples."""
    test = mlperf_loadgen.TestSettings()
    test.scenario = getattr(mlperf_loadgen.TestScenario, scenario)
    test.mode = mlperf_loadgen.TestMode.PerformanceOnly
    test.min_query_count = test.max_query_count = queries
    test.min_duration_ms = 0
    for name, value in settings.items():
        setattr(test, name, value)
    answers = Answers()
    with tempfile.TemporaryDirectory() as folder:
        logs = mlperf_loadgen.LogSettings()
        logs.log_output.outdir = folder
        logs.enable_trace = True
        library = mlperf_loadgen.ConstructQSL(64, 64, lambda _: None, lambda _: None)
        system = mlperf_loadgen.ConstructSUT(answers.issue, lambda: None)
        mlperf_loadgen.StartTestWithLogSettings(system, library, test, logs, "")
        mlperf_loadgen.DestroySUT(system)
        mlperf_loadgen.DestroyQSL(library)
        answers.queries.put(None)
        answers.thread.join()
        text = (Path(folder) / "mlperf_log_summary.txt").read_text()
        trace = (Path(folder) / "mlperf_log_trace.json").read_text().splitlines()
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    # The trace as a whole is no JSON: LoadGen leaves brackets of other events open.
    begun = '{"name":"Sample","cat":"default","ph":"b"'
    samples = [json.loads(line.rstrip(",")) for line in trace if line.startswith(begun)]
    samples.sort(key=lambda it: it["args"]["sample_seq"])
    last = {it["args"]["query_seq"]: number for number, it in enumerate(samples)}
    due = {it["args"]["query_seq"]: it["ts"] * 1e-6 for it in samples}
    late = {it["args"]["query_seq"]: it["args"]["issue_start_ns"] * 1e-9 for it in samples}
    # Both clocks run alike; the fastest call shows what lies between their beginnings.
    between = min(at - due[n] - late[n] for n, at in enumerate(answers.issued))
    return (
        {key.strip(): value.strip() for key, value in lines.items()},
        [due[n] + between for n in sorted(due)],
        [answers.ended[last[n]] for n in sorted(due)],
        len(samples),
    )


class Replay:
    """A clock that repeats a recorded run."""

    def __init__(self, now, ends):
        self.now, self.ends = now, iter(ends)

    def perf_counter(self):
        self.now += 2e-6
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def answer(self):
        self.now = next(self.ends)


class Readings:
    """A clock with these readings."""

    def __init__(self, readings):
        self.readings = iter(readings)

    def perf_counter(self):
        return next(self.readings)


def ours(scenario, due, ends, samples):
    """What our scenario says of a recorded run."""
    global time
    nothing = lambda: None
    pairs = [reading for pair in zip(due, ends) for reading in pair]
    if scenario == "Server":
        time = Replay(due[0], ends)
        served = serve(time.answer, [it - due[0] for it in due])
        tail = percentile(served.latencies_s, SERVER_PER_CENT)
        return tail, len(due) / served.duration_s
    time = Readings(pairs)
    if scenario == "SingleStream":
        return (single_stream(nothing, len(due)),)
    if scenario == "MultiStream":
        return (multi_stream(nothing, len(due)),)
    return (offline(nothing, samples),)


def main_of_test():
    scenarios = (
        ("SingleStream", 100, {}, ("90.00 percentile latency (ns)",)),
        ("MultiStream", 20, {}, ("99.00 percentile latency (ns)",)),
        ("Offline", 100, {"offline_expected_qps": 100}, ("Samples per second",)),
        ("Server", 200, {"server_target_qps": 100, "server_target_latency_ns": 10**9},
         ("99.00 percentile latency (ns)", "Completed samples per second")),
    )
    compared = {}
    for scenario, queries, settings, names in scenarios:
        lines, due, ended, samples = measured(scenario, queries, **settings)
        bounds = [ours(scenario, due, ends, samples) for ends in zip(*ended)]
        for number, name in enumerate(names):
            theirs = float(lines[name]) * (1e-9 if "(ns)" in name else 1)
            compared[f"{scenario}: {name}"] = (sorted(it[number] for it in bounds), theirs)
    print(json.dumps(compared))


main_of_test()
'''


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_load_test_scenarios_report_the_metrics_of_loadgen() -> None:
    functions = script_of("loadgen").partition("if __name__ ==")[0]
    python = pinned_environment("mlcommons-loadgen") / "bin" / "python"
    done = subprocess.run(
        [str(python), "-I", "-c", functions + DRIVER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout.splitlines()[-1])
    assert len(compared) == 5
    for name, ((low, high), theirs) in compared.items():
        assert low * 0.97 <= theirs <= high * 1.03, name


def wait() -> None:
    time.sleep(2e-3)


def test_load_test_queries_wait_for_earlier_queries() -> None:
    served = serve(wait, [0.0, 0.0, 0.0])
    for number, latency in enumerate(served.latencies_s, start=1):
        assert latency >= number * 2e-3


def test_load_test_query_is_answered_after_its_arrival() -> None:
    served = serve(wait, [0.02])
    assert served.duration_s >= 0.022
    assert served.latencies_s[0] <= served.duration_s - 0.02 + 1e-9


def test_load_test_latencies_and_rates_follow_from_answer_durations() -> None:
    assert single_stream(wait, 5) >= 2e-3
    assert multi_stream(wait, 2, streams=4) >= 8e-3
    assert offline(wait, 5) <= 1 / 2e-3


def test_latency_bound_below_a_single_answer_admits_no_load_test_rate() -> None:
    assert server(wait, 10, bound_s=1e-3, seed=0) == 0.0
    assert 0 < server(wait, 10, bound_s=60.0, seed=0) <= 1 / 2e-3
