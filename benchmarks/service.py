"""The service under load: requests a second, latencies and memory, beside a bare Flask view.

Two server processes and one worker a queue, without TLS, on this machine, which also makes the
load. Run as ``python -m benchmarks.service --minutes 10`` for a longer look at memory.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.documents import write_documents
from benchmarks.homes import Home, fresh_home
from benchmarks.load import Client, Load, Visit, offered, saturated
from benchmarks.services import Running, bare_service, thoth_service, token_of
from common.logs import set_up_logs

SAMPLES = Path(__file__).parents[1] / "samples"
DUMP = Path(__file__).parents[2] / "shared" / "data" / "pypi-closure" / "pypi-closure.jsonl.gz"
FLASK = ("flask",)
FOUR = ("tensorflow-cpu", "flask", "pandas", "scikit-learn")
GOAL_CACHED_MS, GOAL_FLASK_MS, GOAL_GROWTH_MIB = 25, 250, 20
SECONDS, WARM_UP_S = 20.0, 3.0
#: Connections of clients that ask again at once.
USERS = 16
#: Pauses between two looks for a result, and how long it is waited for.
_PAUSE_S, _PATIENCE_S = 0.01, 60.0

ADVISE = "/api/v1/advise/python"
_QUERY = {"recommendation_type": "latest", "dev": "False", "debug": "False"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is asked how often.

    :param goal_ms: for the 99th percentile, if there is one
    """

    name: str
    visit: Visit
    rate: float
    goal_ms: float | None = None


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; takes some four minutes and the minutes that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service")
    parser.add_argument("--minutes", type=float, default=1.0, help="of load while memory is seen")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each other load")
    given = parser.parse_args(arguments)
    with fresh_home() as home:
        _fill(home)
        with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
            _measure(home, Path(folder), given.seconds, given.minutes)


def _fill(home: Home) -> None:
    home.thoth("packages", "import", str(DUMP if DUMP.exists() else SAMPLES / "packages.jsonl.gz"))
    home.thoth("ingest", "inspections", str(SAMPLES / "inspections.tar.gz"))
    if not DUMP.exists():
        print(f"no dump at {DUMP}: only flask")


def _measure(home: Home, folder: Path, seconds: float, minutes: float) -> None:
    token = token_of(home, "ingest")
    with thoth_service(home) as service:
        cached = _answered(service.client(), FLASK)
        _, report = service.client().get(f"{ADVISE}/{cached}")
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
        with bare_service(folder, len(report)) as bare:
            print(f"bare Flask view, and one of the size of a report ({len(report)} bytes)")
            _saturate("small", bare.client, _getting("/small"), seconds)
            _saturate("large", bare.client, _getting("/large"), seconds)
            _offer(Scenario("small", _getting("/small"), 100), bare.client, seconds)
            _offer(Scenario("large", _getting("/large"), 100), bare.client, seconds)
        print("the service")
        _saturate("/livez", service.client, _getting("/livez"), seconds)
        result = _getting(f"{ADVISE}/{cached}")
        _saturate("a cached advice, its result", service.client, result, seconds)
        uploads = _uploads(folder, round(5 * (seconds + WARM_UP_S)) + 10)
        for scenario in _scenarios(result, uploads):
            _offer(scenario, lambda: service.client(token), seconds)
        _, after = service.client().get(f"{ADVISE}/{_answered(service.client(), FLASK)}")
        steps = json.loads(after)["metadata"]["timings"]
        words = ", ".join(f"{name} {taken * 1000:.1f} ms" for name, taken in steps.items())
        print(f"  steps of one advice: {words}")
        _memory(service, result, minutes)


def _scenarios(result: Visit, uploads: Visit) -> list[Scenario]:
    found = [
        Scenario("/livez", _getting("/livez"), 100),
        Scenario("a cached advice, its result", result, 100, GOAL_CACHED_MS),
        Scenario("a cached advice, asked for", _asking_again, 100, GOAL_CACHED_MS),
        Scenario("a new advice for flask", _advising(FLASK), 10, GOAL_FLASK_MS),
    ]
    if DUMP.exists():
        found.append(Scenario(f"a new advice for {' + '.join(FOUR)}", _advising(FOUR), 2))
    return [*found, Scenario("an inspection sent in", uploads, 5)]


def _getting(path: str) -> Visit:
    def visit(client: Client, _: int) -> None:
        status, _body = client.get(path)
        _expect(status, 200)

    return visit


def _asking_again(client: Client, _: int) -> None:
    status, accepted = client.post(ADVISE, _request(FLASK), _QUERY)
    _expect(status, 202)
    assert accepted["cached"], "the advice is not cached"


def _advising(roots: Sequence[str]) -> Visit:
    def visit(client: Client, _: int) -> None:
        _answered(client, roots)

    return visit


def _answered(client: Client, roots: Sequence[str]) -> str:
    """Have a new advice made and read its result; its identifier."""
    status, accepted = client.post(ADVISE, _request(roots), {**_QUERY, "force": "True"})
    _expect(status, 202)
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        status, body = client.get(f"{ADVISE}/{accepted['analysis_id']}")
        if status != 202:
            _expect(status, 200)
            assert not json.loads(body)["result"]["error"], "there is no stack"
            return str(accepted["analysis_id"])
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"no result within {_PATIENCE_S:.0f} s")


def _request(roots: Sequence[str]) -> object:
    pipfile = "[packages]\n" + "".join(f'{name} = "*"\n' for name in roots)
    where = {
        "python_version": "3.11",
        "operating_system": {"name": "ubi", "version": "9"},
    }
    stack = {"requirements": pipfile, "requirements_lock": ""}
    return {"application_stack": stack, "runtime_environment": where}


def _uploads(folder: Path, count: int) -> Visit:
    """Each document is new to the service."""
    write_documents(folder / "documents", count, seed=7)
    bodies = [it.read_bytes() for it in sorted((folder / "documents").rglob("*.json"))]
    numbers = iter(range(count))
    lock = threading.Lock()

    def visit(client: Client, _: int) -> None:
        with lock:
            body = bodies[next(numbers)]
        status, _answer = client.post("/api/v2/inspections", body)
        _expect(status, 201)

    return visit


def _saturate(name: str, client: Callable[[], Client], visit: Visit, seconds: float) -> None:
    saturated(client, visit, USERS, WARM_UP_S)
    _print(f"{name}, {USERS} at once", saturated(client, visit, USERS, seconds), None)


def _offer(scenario: Scenario, client: Callable[[], Client], seconds: float) -> None:
    offered(client, scenario.visit, scenario.rate, WARM_UP_S)
    load = offered(client, scenario.visit, scenario.rate, seconds)
    _print(f"{scenario.name}, {scenario.rate:g}/s", load, scenario.goal_ms)


def _print(name: str, load: Load, goal_ms: float | None) -> None:
    goal = "" if goal_ms is None else f"   goal p99 ≤ {goal_ms:g} ms"
    print(
        f"  {name:62} {load.rate:7.1f}/s  p50 {load.quantile_ms(0.5):7.1f}"
        f"  p99 {load.quantile_ms(0.99):7.1f} ms{goal}",
        flush=True,
    )
    for words, count in Counter(load.failures).most_common(3):
        print(f"    {count} failed: {words}")


def _memory(service: Running, result: Visit, minutes: float) -> None:
    """Before and after a mixture of everything that was asked."""
    mixture = [
        Scenario("", result, 50),
        Scenario("", _asking_again, 20),
        Scenario("", _advising(FLASK), 2),
    ]
    if DUMP.exists():
        mixture.append(Scenario("", _advising(FOUR), 0.5))
    _mix(service, mixture, 20.0)
    before = service.memory_mib()
    failures = _mix(service, mixture, minutes * 60)
    after = service.memory_mib()
    print(
        f"  memory (PSS) before {before:.0f} MiB, after {minutes:g} minutes of a mixture at "
        f"{sum(it.rate for it in mixture):g}/s {after:.0f} MiB: {after - before:+.1f} MiB   "
        f"goal ≤ {GOAL_GROWTH_MIB}; {failures} failed"
    )


def _mix(service: Running, mixture: Sequence[Scenario], seconds: float) -> int:
    """All at a time for so long; how many requests failed."""
    failed: list[int] = []

    def run(scenario: Scenario) -> None:
        load = offered(service.client, scenario.visit, scenario.rate, seconds)
        failed.append(len(load.failures))

    threads = [threading.Thread(target=run, args=(it,)) for it in mixture]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(failed)


def _expect(status: int, wanted: int) -> None:
    if status != wanted:
        raise AssertionError(f"{status}, not {wanted}")


if __name__ == "__main__":
    import sys

    set_up_logs()
    main(sys.argv[1:])
