"""The service under load: requests a second, latencies and memory, beside a bare Flask view.

Two server processes and one worker a queue, without TLS, on this machine, which also makes the
load. Run as ``python -m benchmarks.service --minutes 10``; ``make bench`` looks at memory for a
minute only.
"""

import argparse
import json
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fresh_stores import FreshHome, fresh_home
from benchmarks.load import Client, Visit, load_at_rate, load_of_users, print_load
from benchmarks.sample_data import LARGE_PROJECT, REAL_DUMP, SAMPLE_PACKAGES
from benchmarks.service_requests import (
    ADVISE,
    FLASK,
    import_data,
    new_advice,
    read_path,
    request_cached_advice,
    request_new_advice,
    steps_of,
    upload_documents,
)
from benchmarks.services import Running, bare_service, thoth_service, token_of
from benchmarks.timing import verdict
from common.logs import set_up_logs

GOAL_CACHED_MS, GOAL_FLASK_MS, GOAL_GROWTH_MIB = 25, 250, 20
SECONDS, WARM_UP_S = 20.0, 3.0
#: Minutes of load while memory is seen, and what fills pools and caches before the first look.
MINUTES, MEMORY_WARM_UP_S = 10.0, 60.0
#: Short enough to be one measurement of many.
_SHORT = ("--minutes", "1")
#: Connections of clients that ask again at once.
USERS = 16


@dataclass(frozen=True, slots=True)
class Scenario:
    """A visit and its rate, in visits per second.

    :param goal_ms: for the 99th percentile, if there is one
    """

    name: str
    visit: Visit
    rate: float
    goal_ms: float | None = None


def main(arguments: Sequence[str] = _SHORT) -> None:
    """Measure and print; takes some five minutes, and ``--minutes``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of load on memory")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each other load")
    options = parser.parse_args(arguments)
    with fresh_home() as home:
        import_data(home, REAL_DUMP if REAL_DUMP.exists() else SAMPLE_PACKAGES)
        if not REAL_DUMP.exists():
            print(f"no dump at {REAL_DUMP}: only flask")
        with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
            _measure(home, Path(folder), options.seconds, options.minutes)
    if options.minutes < MINUTES:
        print(f"  memory for longer: python -m benchmarks.service --minutes {MINUTES:g}")


def _measure(home: FreshHome, folder: Path, seconds: float, minutes: float) -> None:
    token = token_of(home, "ingest")
    with thoth_service(home) as service:
        cached = new_advice(service.client(), FLASK)
        _, report = service.client().get(f"{ADVISE}/{cached}")
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
        with bare_service(folder, len(report)) as bare:
            print(f"bare Flask view, and one of the size of a report ({len(report)} bytes)")
            _saturate("small", bare.client, read_path("/small"), seconds)
            _saturate("large", bare.client, read_path("/large"), seconds)
            _offer(Scenario("small", read_path("/small"), 100), bare.client, seconds)
            _offer(Scenario("large", read_path("/large"), 100), bare.client, seconds)
        print("the service")
        _saturate("/livez", service.client, read_path("/livez"), seconds)
        result = read_path(f"{ADVISE}/{cached}")
        _saturate("a cached advice, its result", service.client, result, seconds)
        uploads = upload_documents(folder / "documents", round(5 * (seconds + WARM_UP_S)) + 10)
        for scenario in _scenarios(result, uploads):
            _offer(scenario, lambda: service.client(token), seconds)
        _, after = service.client().get(f"{ADVISE}/{new_advice(service.client(), FLASK)}")
        print(f"  steps of one advice: {steps_of(json.loads(after))}")
        _memory(service, result, minutes)


def _scenarios(result: Visit, uploads: Visit) -> list[Scenario]:
    scenarios = [
        Scenario("/livez", read_path("/livez"), 100),
        Scenario("a cached advice, its result", result, 100, GOAL_CACHED_MS),
        Scenario("a cached advice, asked for", request_cached_advice, 100, GOAL_CACHED_MS),
        Scenario("a new advice for flask", request_new_advice(FLASK), 10, GOAL_FLASK_MS),
    ]
    if REAL_DUMP.exists():
        scenarios.append(
            Scenario(
                f"a new advice for {' + '.join(LARGE_PROJECT)}",
                request_new_advice(LARGE_PROJECT),
                2,
            )
        )
    return [*scenarios, Scenario("an inspection sent in", uploads, 5)]


def _saturate(name: str, client: Callable[[], Client], visit: Visit, seconds: float) -> None:
    load_of_users(client, visit, USERS, WARM_UP_S)
    print_load(f"{name}, {USERS} at once", load_of_users(client, visit, USERS, seconds))


def _offer(scenario: Scenario, client: Callable[[], Client], seconds: float) -> None:
    load_at_rate(client, scenario.visit, scenario.rate, WARM_UP_S)
    load = load_at_rate(client, scenario.visit, scenario.rate, seconds)
    goal = ""
    if scenario.goal_ms is not None:
        met = verdict(load.quantile_ms(0.99), scenario.goal_ms)
        goal = f"   goal p99 ≤ {scenario.goal_ms:g} ms: {met}"
    print_load(f"{scenario.name}, {scenario.rate:g}/s", load, goal)


def _memory(service: Running, result: Visit, minutes: float) -> None:
    """Memory before and after a mixture of all visits."""
    mixture = [
        Scenario("", result, 50),
        Scenario("", request_cached_advice, 20),
        Scenario("", request_new_advice(FLASK), 2),
    ]
    if REAL_DUMP.exists():
        mixture.append(Scenario("", request_new_advice(LARGE_PROJECT), 0.5))
    rate = sum(it.rate for it in mixture)
    print(f"  memory: {MEMORY_WARM_UP_S:g} s of a mixture at {rate:g}/s fill pools and caches")
    _mix(service, mixture, MEMORY_WARM_UP_S)
    before = service.memory_mib()
    failures = _mix(service, mixture, minutes * 60)
    after = service.memory_mib()
    growth = after - before
    print(
        f"  memory (PSS) then {before:.0f} MiB, after {minutes:g} minutes more {after:.0f} MiB: "
        f"{growth:+.1f} MiB   goal ≤ {GOAL_GROWTH_MIB}: {verdict(growth, GOAL_GROWTH_MIB)}"
        f"; {failures} failed"
    )


def _mix(service: Running, mixture: Sequence[Scenario], seconds: float) -> int:
    """All at a time for so long; how many requests failed."""
    failed: list[int] = []

    def run(scenario: Scenario) -> None:
        load = load_at_rate(service.client, scenario.visit, scenario.rate, seconds)
        failed.append(len(load.failures))

    threads = [threading.Thread(target=run, args=(it,)) for it in mixture]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(failed)


if __name__ == "__main__":
    import sys

    set_up_logs()
    main(sys.argv[1:])
