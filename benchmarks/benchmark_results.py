"""The rate at which results of other systems are ingested, and the time of queries over many.

Half of the results are rows of DeepBench's console, the other half are records v3 with hardware and
software. Run as ``python -m benchmarks.benchmark_results --results 1000000`` for the goals;
``make bench`` takes fewer.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from api.app import create_app
from benchmarks.fresh_stores import FreshHome, fresh_home, time_command
from benchmarks.services import token_of

GOAL_RATE, GOAL_LIST_S, GOAL_PAGE_S, MANY = 3_000, 1.0, 0.1, 1_000_000
#: Enough for a rate, and few enough for every run.
_FEW = 40_000
_IN_FILE = 2_000
_ACCELERATORS = ("NVIDIA V100", "Tesla V100-SXM2-16GB", "A100-PCIE-40GB", "NVIDIA Tesla T4")
_VERSIONS = ("1.13.1", "2.0.0", "2.1.0", "2.4.0")
_QUERIES = (
    ("--hardware", "v100", "--metric", "throughput"),
    ("--system", "deepbench", "--benchmark", "gemm", "--metric", "rate"),
    ("--software", "torch", "--hardware", "T4"),
    ("--benchmark", "model-7", "--validity", "unknown"),
)
_PAGES = 30


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; takes some two minutes with the default number."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.benchmark_results")
    parser.add_argument("--results", type=int, default=_FEW)
    count: int = parser.parse_args(arguments).results
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as name, fresh_home() as home:
        folder = Path(name)
        write_results(folder / "warm", _IN_FILE * 2, seed=1)
        write_results(folder / "few", count // 4, seed=2)
        write_results(folder / "many", count, seed=3)
        time_command(home, "ingest", "benchmarks", str(folder / "warm"))
        few = time_command(home, "ingest", "benchmarks", str(folder / "few"))
        before = home.store_cpu_s()
        many = time_command(home, "ingest", "benchmarks", str(folder / "many"))
        rate = count / many.wall_s
        print(f"into both stores, {count}      {rate:8.0f} results/s (goal: {GOAL_RATE})")
        used = {"command": many.cpu_s}
        used |= {name: it - before[name] for name, it in home.store_cpu_s().items()}
        for process, cpu_s in used.items():
            print(f"  processor time of {process:12}   {cpu_s / count * 1e6:8.0f} µs a result")
        print(f"peak memory at {count // 4:9}      {few.peak_bytes / 2**20:8.0f} MiB")
        print(f"peak memory at {count:9}      {many.peak_bytes / 2**20:8.0f} MiB (goal: the same)")
        _time_queries(home)
    if count < MANY:
        print(f"  the goals are for: python -m benchmarks.benchmark_results --results {MANY}")


def _time_queries(home: FreshHome) -> None:
    print(f"whole commands (goal: {GOAL_LIST_S:g} s)")
    for options in ((), *_QUERIES):
        command = ("benchmarks", *options)
        taken = sorted(time_command(home, *command).wall_s for _ in range(5))
        print(f"  thoth {' '.join(command):56} {taken[2]:6.2f} s")
    print(f"pages of the API (goal: {GOAL_PAGE_S * 1000:g} ms)")
    client = create_app(home.settings).test_client()
    token = token_of(home, "read")
    headers = {"Authorization": f"Bearer {token}"}
    for options in ((), *_QUERIES):
        named = zip(options[::2], options[1::2], strict=True)
        query = "&".join(f"{name.removeprefix('--')}={value}" for name, value in named)
        url = f"/api/v2/benchmarks?{query}"
        times = []
        for _ in range(_PAGES):
            began = time.perf_counter()
            response = client.get(url, headers=headers)
            times.append(time.perf_counter() - began)
            if response.status_code != 200:
                raise RuntimeError(response.get_data(as_text=True))
            url = response.get_json()["next"] or url
        print(f"  {query:62} {median(times) * 1000:6.1f} ms, slowest {max(times) * 1000:.0f} ms")


def write_results(folder: Path, count: int, seed: int) -> None:
    """Write files with ``count`` results into a new folder; the same seed gives the same files."""
    folder.mkdir()
    draw = random.Random(seed)
    for number in range(count // (2 * _IN_FILE)):
        rows = [
            f"{draw.randint(1, 8192):7}{draw.randint(1, 8192):7}{draw.randint(1, 8192):7}"
            f"      n      t          {draw.randint(1, 10**6)}"
            for _ in range(_IN_FILE // 2)  # a row has a time and a rate
        ]
        head = "    m       n      k      a_t     b_t      time (usec) "
        (folder / f"gemm-{number}.txt").write_text("\n".join([head, *rows, ""]))
        records = [_record(draw, number) for _ in range(_IN_FILE)]
        (folder / f"records-{number}.json").write_text(json.dumps(records))


def _record(draw: random.Random, number: int) -> dict[str, object]:
    return {
        "benchmark": {
            "name": "kernels",
            "extra_info": {"args": {"batch_size": draw.randint(1, 64)}},
        },
        "model": {"name": f"model-{draw.randint(0, 19)}"},
        "metric": {"name": "throughput", "benchmark_values": [draw.uniform(1, 1000)]},
        "runners": [{"name": "linux", "gpu_info": _ACCELERATORS[number % 4]}],
        "dependencies": {"torch": {"version": _VERSIONS[number // 4 % 4]}},
    }


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
