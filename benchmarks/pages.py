"""Time of the server for every page, on the samples and with many measurements and results.

The record is filled without the graph, which no page of the list reads. Run as ``python -m
benchmarks.pages --inspections 20000 --results 1000000`` for the goals; ``make bench`` takes fewer.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from flask.testing import FlaskClient
from sqlalchemy import Engine, text

from api.app import create_app
from benchmarks.benchmark_results import write_results
from benchmarks.documents import write_documents
from benchmarks.fresh_stores import FreshHome, fresh_home, time_command
from benchmarks.sample_data import SAMPLE_INSPECTIONS, SAMPLE_PACKAGES, SAMPLES
from benchmarks.services import token_of
from graph.engine import relational_engine
from ingest.benchmarks.pipeline import ingest_benchmarks
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits

GOAL_SAMPLES_MS, GOAL_MANY_MS = 150, 400
MANY_INSPECTIONS, MANY_RESULTS = 20_000, 1_000_000
#: Enough to see what grows, and few enough for every run.
_FEW_INSPECTIONS, _FEW_RESULTS = 2_000, 40_000
_TIMES = 20
#: Further results are copies, which takes a tenth of the time.
_INGESTED = 100_000
#: Tables that are copied, those before what refers to them, with the values that must differ.
_COPY_ID = {"entry_id": "source.entry_id || '-' || copy"}
_COPIED = {
    "benchmark_entries": {**_COPY_ID, "source": "copy || '/' || source.source"},
    "benchmark_entry_software": _COPY_ID,
    "benchmark_entry_parts": _COPY_ID,
    "benchmark_results": _COPY_ID,
}
_LISTS = (
    "/", "/ask", "/packages", "/packages/numpy", "/stacks", "/reports", "/compare",
    "/inspections", "/inspections?indicator=PiConv2D", "/benchmarks", "/benchmarks?hardware=T4",
    "/benchmarks?system=deepbench&benchmark=gemm", "/changes", "/bisects", "/questions",
    "/questions/2", "/loop", "/trust", "/operator", "/sign-in",
)  # fmt: skip


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; takes some minutes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages")
    parser.add_argument("--inspections", type=int, default=_FEW_INSPECTIONS)
    parser.add_argument("--results", type=int, default=_FEW_RESULTS)
    options = parser.parse_args(arguments)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs; {_TIMES} calls of each page")
    print("processor: of the service; all: with the waiting for PostgreSQL and other processes")
    with fresh_home() as home:
        fill_with_samples(home)
        print("the samples")
        time_pages(home, GOAL_SAMPLES_MS)
        fill(home, options.inspections, options.results)
        print(f"{options.inspections} inspections and {options.results} results more")
        time_pages(home, GOAL_MANY_MS)
    if (options.inspections, options.results) < (MANY_INSPECTIONS, MANY_RESULTS):
        print(
            "  the goals are for: python -m benchmarks.pages"
            f" --inspections {MANY_INSPECTIONS} --results {MANY_RESULTS}"
        )


def fill_with_samples(home: FreshHome) -> None:
    """Ingest the bundled samples, and make an advice."""
    where = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64", "--hardware", "fa9f8e70")
    for command in (
        ("ingest", "inspections", str(SAMPLE_INSPECTIONS)),
        ("packages", "import", str(SAMPLE_PACKAGES)),
        ("advise", str(SAMPLES / "project"), "--type", "performance", *where),
    ):
        time_command(home, *command)


def fill(home: FreshHome, inspections: int, results: int) -> None:
    """Store inspections and results of other systems in the record, as if they were projected."""
    engine = relational_engine(home.settings)
    try:
        with tempfile.TemporaryDirectory(prefix="thoth-bench-") as name:
            write_documents(Path(name, "inspections"), inspections)
            write_results(Path(name, "results"), min(results, _INGESTED), seed=1)
            ingest_inspections(
                home.settings, engine, [str(Path(name, "inspections"))], SourceLimits()
            )
            ingest_benchmarks(home.settings, engine, [str(Path(name, "results"))], SourceLimits())
        copy_results(engine, results)
        _settle(engine)
    finally:
        engine.dispose()


def copy_results(engine: Engine, wanted: int) -> None:
    """Copy the entries with their results until there are ``wanted`` results."""
    with engine.begin() as connection:
        there = connection.scalar(text("SELECT count(*) FROM benchmark_results")) or 0
        copies = {"copies": max(0, wanted // max(there, 1) - 1)}
        for table, changed in _COPIED.items():
            query = (
                f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"
            )
            names = list(connection.scalars(text(query)))
            values = ", ".join(changed.get(name, f"source.{name}") for name in names)
            connection.execute(
                text(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} source"
                    " CROSS JOIN generate_series(1, :copies) AS copy"
                ),
                copies,
            )


def _settle(engine: Engine) -> None:
    """Forget what waits for the graph, and gather statistics as PostgreSQL does in time."""
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE outbox"))
        connection.execute(text("ANALYZE"))


def time_pages(home: FreshHome, goal_ms: float) -> None:
    """Print the time of each page, and the slowest."""
    client = create_app(replace(home.settings, rate_limit=None)).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token_of(home, 'admin')}"
    slowest = 0.0
    for address in (*_LISTS, *_objects(client)):
        first, cpu, wall, size = _time(client, address)
        slowest = max(slowest, _p95(cpu))
        print(
            f"  {address[:56]:56} processor {median(cpu):5.0f} ms, p95 {_p95(cpu):5.0f};"
            f" all {median(wall):5.0f} ms, p95 {_p95(wall):5.0f}, first {first:5.0f};"
            f" {size / 1000:4.0f} kB"
        )
    print(f"  slowest p95 of processor time {slowest:5.0f} ms (goal: {goal_ms:g})")


def _time(client: FlaskClient, address: str) -> tuple[float, list[float], list[float], int]:
    """Processor time and time of each call, ms, after the time of the first one, and the size.

    The first call compiles the template, and may compute comparisons that are kept afterwards.
    """
    cpu, wall, size = [], [], 0
    began = time.perf_counter()
    client.get(address)
    first = 1000 * (time.perf_counter() - began)
    for _ in range(_TIMES):
        began, began_cpu = time.perf_counter(), time.process_time()
        with client.get(address) as response:
            size = len(response.data)
        cpu.append(1000 * (time.process_time() - began_cpu))
        wall.append(1000 * (time.perf_counter() - began))
        if response.status_code != 200:
            raise RuntimeError(f"{address}: {response.status_code}")
    return first, cpu, wall, size


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]


def _objects(client: FlaskClient) -> Iterator[str]:
    """A page of each kind that shows one object of the record."""
    (job,) = client.get("/api/v2/observations?limit=1&outcome=measured").get_json()["items"]
    groups = client.get("/api/v2/comparison-groups").get_json()["items"]
    group = max(groups, key=lambda it: len(it["stacks"]))
    stacks = [it["stack_digest"] for it in group["stacks"] if it["comparison"]]
    (advice,) = client.get("/api/v2/advice?limit=1").get_json()["items"]
    baseline = group["baseline"]["stack_digest"]
    yield from (
        f"/jobs/{job['observation_id']}", f"/inspections/{job['document_id']}",
        f"/hardware/{job['hardware_digest']}", f"/hardware/{group['hardware']['digest']}",
        f"/series/{group['comparison_key']}",
        f"/reports/{group['comparison_key']}", f"/stacks/{stacks[0]}", f"/stacks/{stacks[0]}/path",
        f"/compare?baseline={baseline}&candidate={stacks[0]}", f"/advice/{advice['advice_id']}",
        f"/advice/{advice['advice_id']}/path",
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
