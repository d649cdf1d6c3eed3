"""New advice over an index in the service: latencies of requests that all differ, at a fixed rate.

Two server processes and one worker a queue read a recorded index on loopback. One advice for
``apache-airflow`` fills the store; then requests for it and for a version of another package
arrive, so that no answer is served from the cache. The reference is a bare Flask view of the size
of a report, behind the same server.

Run as ``python -m benchmarks.index_service --seconds 60``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from benchmarks.homes import fresh_home
from benchmarks.load import Client, Visit, load_at_rate, print_load
from benchmarks.recorded_index import recorded_index
from benchmarks.service_requests import expect, read_path, steps_of
from benchmarks.services import bare_service, thoth_service, token_of
from benchmarks.timing import verdict
from common.logs import set_up_logs

GOAL_P99_MS, RATE = 500, 2.0
SECONDS, WARM_UP_S = 60.0, 5.0
_ADVICE = "/api/v2/advice"
#: ``Retry-After`` of the service, which clients keep to if it does not let them wait.
_PAUSE_S, _PATIENCE_S = 1.0, 300.0


def main(arguments: Sequence[str] = ("--seconds", "30")) -> None:
    """Measure and print; takes a minute, and twice ``--seconds``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_service")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each load")
    parser.add_argument(
        "--recording", type=Path, default=user_cache_path("thoth-benchmarks") / "index",
        help="folder of the recorded index",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    with (
        recorded_index(options.recording) as index,
        fresh_home() as home,
        tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder,
    ):
        token = token_of(home, "advise", "ingest")
        environ = {
            "PACKAGE_INDEXES": f"pypi={index.url}",
            "INDEX_CACHE": f"{folder}/cache",
            "FETCH_MISSING": "1",
        }
        with thoth_service(home, environ=environ) as service:
            began = time.perf_counter()
            first = new_report(service.client(token), "apache-airflow\n")
            first_s = time.perf_counter() - began
            (product,) = first["result"]["report"]["products"]
            print(
                f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors; first advice"
                f" for {len(product['packages'])} packages: {first_s:.1f} s"
            )
            load_at_rate(
                lambda: service.client(token), request_advice_on_new_projects(), RATE, WARM_UP_S
            )
            before = service.cpu_s() | home.store_cpu_s()
            load = load_at_rate(
                lambda: service.client(token),
                request_advice_on_new_projects(),
                RATE,
                options.seconds,
            )
            after = service.cpu_s() | home.store_cpu_s()
            steps = steps_of(new_report(service.client(token), "apache-airflow\nflask\n"))
            memory_mib = service.memory_mib()
        size = len(json.dumps(first))
        with bare_service(Path(folder), size) as bare:
            reference = load_at_rate(bare.client, read_path("/large"), RATE, options.seconds)
    print_load(f"bare Flask view of {size:,} bytes", reference)
    print_load("new advice, each for another project", load)
    p99_ms = load.quantile_ms(0.99)
    met = verdict(p99_ms, GOAL_P99_MS)
    print(f"  goal p99 ≤ {GOAL_P99_MS} ms: {met}; load average {os.getloadavg()[0]:.1f}")
    print(f"  steps of one advice: {steps}")
    answers = max(1, len(load.latencies_ms))
    cpu_ms = {role: (after[role] - before[role]) / answers * 1000 for role in after}
    of_roles = ", ".join(f"{role} {used:.0f}" for role, used in cpu_ms.items())
    print(f"  processor time for each advice: {sum(cpu_ms.values()):.0f} ms ({of_roles})")
    print(f"  memory (PSS) of server and workers: {memory_mib:.0f} MiB")


def request_advice_on_new_projects() -> Visit:
    """A visit that requests advice for a project without an earlier one, and reads its report."""
    start = time.time_ns() // 1000

    def visit(client: Client, number: int) -> None:
        report = new_report(client, f"apache-airflow\nflask>=0.{start + number}.dev0,<4\n")
        assert not report["result"]["error"], report["result"]["error_msg"]

    return visit


def new_report(client: Client, requirements: str) -> Any:
    """The report of an advice for a project with these requirements."""
    body = {"files": {"requirements.in": requirements}, "environment": {"python": "3.11"}}
    status, accepted = client.post(_ADVICE, body, {"force": "true"})
    expect(status, 202)
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        status, report = client.get(f"/api/v2/requests/{accepted['analysis_id']}/result?wait=10")
        if status != 202:
            expect(status, 200)
            return json.loads(report)
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"no result within {_PATIENCE_S:.0f} s")


if __name__ == "__main__":
    import sys

    set_up_logs()
    main(sys.argv[1:])
