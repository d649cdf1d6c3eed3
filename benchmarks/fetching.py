"""Reading a package index: pages and metadata of the closure of apache-airflow, beside uv.

Every repetition starts with an empty cache, and uv runs with ``--no-cache`` in turn with it. uv
also resolves in that time, but reading is the larger part.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.commands import FinishedCommand, run_command
from benchmarks.requirement_sets import LINUX, compile_command, pins_of
from common.index.client import IndexClient
from common.index.configuration import index_of
from common.index.release_metadata import read_release
from common.settings import Settings
from model.errors import IndexProblem, ProjectError

ROOT_PACKAGE = "apache-airflow"
REPETITIONS = 3


@dataclass(frozen=True, slots=True)
class IndexReading:
    """Seconds on the clock and of processor time, requests and bytes of one reading."""

    wall_s: float
    cpu_s: float
    requests: int
    bytes_received: int


def main() -> None:
    """Measure and print; takes half a minute."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        project = Path(folder, "project.in")
        project.write_text(f"{ROOT_PACKAGE}\n")
        first = _compile(project)
        if first.status:
            print(f"uv ended with {first.status}: {first.stderr.strip()}")
            return
        versions = pins_of(first.stdout)
        cold, warm, compiled = [], [], []
        for number in range(REPETITIONS):
            settings = Settings.from_env({"INDEX_CACHE": f"{folder}/cache-{number}"})
            compiled.append(_compile(project).wall_s)
            cold.append(asyncio.run(_read(settings, versions)))
            warm.append(asyncio.run(_read(settings, versions)))
    print(f"{len(versions)} packages of {ROOT_PACKAGE}, median of {REPETITIONS}:")
    for name, readings in (("empty cache", cold), ("full cache", warm)):
        print(
            f"  {name}: {median(it.wall_s for it in readings):.2f} s,"
            f" {median(it.cpu_s for it in readings):.2f} s of processor time,"
            f" {readings[0].requests} requests, {readings[0].bytes_received / 1e6:.1f} MB"
        )
    ratio = median(it.wall_s for it in cold) / median(compiled)
    print(f"  uv pip compile --no-cache: {median(compiled):.2f} s; ratio {ratio:.2f}")


def _compile(project: Path) -> FinishedCommand:
    return run_command(compile_command(project, LINUX, "--no-cache"))


async def _read(settings: Settings, versions: dict[str, str]) -> IndexReading:
    """Read the page and the metadata of every package."""
    began, cpu = time.perf_counter(), time.process_time()
    async with IndexClient(settings, index_of(settings)) as client:

        async def package(name: str, version: str) -> None:
            try:
                page = await client.project(name)
                files = page.files_of(version)
                await read_release(client.metadata, page.name, version, files)
            except ProjectError as error:
                if not isinstance(error, IndexProblem):
                    raise
                print(f"  {name}: {error}")

        await asyncio.gather(*(package(*it) for it in versions.items()))
        traffic = client.traffic
    return IndexReading(
        time.perf_counter() - began,
        time.process_time() - cpu,
        traffic.requests,
        traffic.bytes_received,
    )
