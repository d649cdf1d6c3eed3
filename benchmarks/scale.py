"""What a document, a version and an advice cost, and whether the cost grows with the size.

Costs are processor time, so that they hold on a busy machine, too. The share of the first and of
the last tenth is a ratio of the same run. Run as ``python -m benchmarks.scale --documents 100000``.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import run_command
from benchmarks.documents import write_documents
from benchmarks.dumps import write_dump
from benchmarks.fresh_stores import THOTH, FreshHome, fresh_home, time_command
from benchmarks.load import load_at_rate, load_of_users, print_load
from benchmarks.service_requests import FLASK, import_data, request_new_advice
from benchmarks.services import Running, thoth_service
from common.logs import set_up_logs
from graph.engine import open_stores

TENTHS = 10
#: Clients that ask for new advice at once, and the rate beside a running ingest.
CLIENTS, BESIDE_INGEST = 20, 2.0
#: Documents for each second of that load, so that the run lasts nearly as long.
NIGHT_RATE = 650
GOAL_FLAT, GOAL_BESIDE = 0.8, 2.0
#: Small enough for ``make bench``.
_SHORT = ("--documents", "5000", "--versions", "5000", "--duplicates", "10000", "--minutes", "0.5")

_DUPLICATES = """
INSERT INTO outbox (kind, key)
SELECT kind, key FROM (
    SELECT 'stack' AS kind, digest AS key FROM stacks
    UNION ALL SELECT 'inspection', document_id FROM inspections
) known, generate_series(1, (SELECT 1 + %(count)s / (
    SELECT count(*) FROM stacks) / 2)::int) LIMIT %(count)s
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of an import by process, s, and bytes that it added to each store."""

    units: int
    command_s: float
    record_s: float
    graph_s: float
    record_bytes: int
    graph_bytes: int

    @property
    def total_s(self) -> float:
        """Processor time of all processes."""
        return self.command_s + self.record_s + self.graph_s

    def __str__(self) -> str:
        times = (self.total_s, self.command_s, self.record_s, self.graph_s)
        total, command, record, graph = (it / self.units * 1e6 for it in times)
        sizes = (self.record_bytes / self.units / 1000, self.graph_bytes / self.units / 1000)
        return (
            f"{total:7.0f} µs (command {command:.0f}, PostgreSQL {record:.0f}, graph {graph:.0f}),"
            f" {sizes[0]:.1f} kB in PostgreSQL, {sizes[1]:.1f} kB in the graph"
        )


def main(arguments: Sequence[str] = _SHORT) -> None:
    """Measure and print; takes some four minutes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--documents", type=int, default=100_000, help="inspections to ingest")
    parser.add_argument("--versions", type=int, default=50_000, help="package versions to import")
    parser.add_argument("--duplicates", type=int, default=100_000, help="entries of the outbox")
    parser.add_argument("--minutes", type=float, default=5.0, help="of load on the service")
    options = parser.parse_args(arguments)
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder, fresh_home() as home:
        _documents(home, Path(folder), options.documents)
        _versions(home, Path(folder), options.versions)
        _duplicates(home, options.duplicates)
        import_data(home)
        _service(home, Path(folder), options.minutes * 60)
        home.thoth("graph", "sync")
        report = home.thoth("graph", "verify")
        print(f"record and graph agree at the end: {report['equal']}")
    if not report["equal"]:
        raise SystemExit(1)


def _documents(home: FreshHome, folder: Path, count: int) -> None:
    """Tenth after tenth into the same stores; a first portion warms them."""
    write_documents(folder / "warm", 500, seed=99)
    time_command(home, "ingest", "inspections", str(folder / "warm"))
    costs = []
    for tenth in range(TENTHS):
        part = folder / f"documents-{tenth}"
        write_documents(part, count // TENTHS, seed=tenth)
        costs.append(_cost(home, count // TENTHS, "ingest", "inspections", str(part)))
        shutil.rmtree(part)  # a million documents take ten gigabytes
    print(f"{count} documents, one observation each")
    print(f"  a document of the first tenth    {costs[0]}")
    print(f"  a document of the last tenth     {costs[-1]}")
    flat = costs[0].total_s / costs[-1].total_s
    print(f"  rate of the last / of the first  {flat:7.2f}   (goal ≥ {GOAL_FLAT})")


def _versions(home: FreshHome, folder: Path, count: int) -> None:
    dump = folder / "versions.jsonl.gz"
    versions, requirements = write_dump(dump, count)
    cost = _cost(home, versions, "packages", "import", str(dump))
    print(f"{versions} versions with {requirements} requirements")
    print(f"  a version                        {cost}")


def _duplicates(home: FreshHome, count: int) -> None:
    """Entries of the outbox that were delivered before change nothing."""
    with open_stores(home.settings) as stores, stores.engine.begin() as connection:
        added = connection.exec_driver_sql(_DUPLICATES, {"count": count}).rowcount
    cost = _cost(home, added, "graph", "sync")
    report = home.thoth("graph", "verify")
    print(f"{added} duplicates in the outbox: record and graph agree: {report['equal']}")
    print(f"  a duplicate                      {cost}")


def _service(home: FreshHome, folder: Path, seconds: float) -> None:
    documents = round(NIGHT_RATE * seconds)
    with thoth_service(home) as service:
        load_at_rate(service.client, request_new_advice(FLASK), BESIDE_INGEST, 5)
        before = _used(home, service)
        load = load_of_users(service.client, request_new_advice(FLASK), CLIENTS, seconds)
        used = [after - first for after, first in zip(_used(home, service), before, strict=True)]
        done = max(1, len(load.latencies_ms))
        print(f"{CLIENTS} clients that always ask for a new advice")
        print(
            f"  an advice                        {sum(used) / done * 1000:7.0f} ms"
            f" (service {used[0] / done * 1000:.0f}, stores {used[1] / done * 1000:.0f})"
        )
        print_load("latency of an advice", load)
        memory = service.memory_mib()
        alone = load_at_rate(service.client, request_new_advice(FLASK), BESIDE_INGEST, seconds)
        print_load(f"alone, {BESIDE_INGEST:g}/s", alone)
        write_documents(folder / "night", documents, seed=77)
        with ThreadPoolExecutor(1) as pool:
            night = pool.submit(_nightly_run, home, folder / "night")
            beside = load_at_rate(service.client, request_new_advice(FLASK), BESIDE_INGEST, seconds)
            night_s = night.result()
        name = f"beside a nightly run, {documents} documents"
        print_load(name, beside, f"; the run took {night_s:.0f} s")
        ratio = beside.quantile_ms(0.95) / alone.quantile_ms(0.95)
        print(f"  p95 beside / alone               {ratio:7.2f}   (goal ≤ {GOAL_BESIDE:g})")
        print(f"  memory of the service (PSS)      {memory:7.0f} MiB,"
              f" then {service.memory_mib():.0f} MiB")  # fmt: skip


def _nightly_run(home: FreshHome, sources: Path) -> float:
    """Run it as the guide starts it; return its duration, s."""
    environ = {**home.environ, "INGEST_SOURCES": str(sources), "NIGHTLY_VERIFY_S": "5"}
    done = run_command(("nice", THOTH, "ingest", "nightly"), environ)
    if done.status != 0:
        raise RuntimeError(f"thoth ingest nightly: {done.status} {done.stderr}")
    return done.wall_s


def _used(home: FreshHome, service: Running) -> tuple[float, float]:
    return sum(service.cpu_s().values()), sum(home.store_cpu_s().values())


def _cost(home: FreshHome, units: int, *command: str) -> Cost:
    used, sizes = home.store_cpu_s(), _sizes(home)
    timed = time_command(home, *command)
    after, grown = home.store_cpu_s(), _sizes(home)
    record_s, graph_s = (after[name] - used[name] for name in ("postgresql", "graph"))
    record_bytes, graph_bytes = (now - was for now, was in zip(grown, sizes, strict=True))
    return Cost(units, timed.cpu_s, record_s, graph_s, record_bytes, graph_bytes)


def _sizes(home: FreshHome) -> tuple[int, int]:
    """Bytes of PostgreSQL's database, and of the graph's folder."""
    with open_stores(home.settings, graph=False) as stores, stores.engine.connect() as connection:
        query = "SELECT pg_database_size(current_database())"
        record: int = connection.exec_driver_sql(query).scalar_one()
    files = (it for it in (home.path / "graph").rglob("*") if it.is_file())
    return record, sum(it.stat().st_blocks * 512 for it in files)


if __name__ == "__main__":
    import sys

    set_up_logs()
    main(sys.argv[1:])
