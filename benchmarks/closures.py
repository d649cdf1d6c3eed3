"""Snapshots: milliseconds to read those of a real request, cold and warm, on both graphs.

One more request is read in a small graph and in one of 25 times its size; both have the same
packages for it.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.dumps import VERSIONS, name_of, write_dump
from benchmarks.homes import THOTH, FreshHome, fresh_home
from benchmarks.inputs import LARGE_PROJECT, REAL_DUMP
from benchmarks.packages import LARGE, SMALL, second_product
from graph.engine import Stores, open_stores
from graph.projection import rebuild
from graph.snapshot_reader import is_current, load_snapshot
from model.packages.environments import environment
from model.packages.snapshot import Snapshot

#: Among the packages that the small dump has, too.
DRAWN = tuple(name_of(SMALL // VERSIONS - place) for place in (1, 5, 9, 13))
GOAL_MS = 160
REPETITIONS = 20


def main() -> None:
    """Measure and print; takes some three minutes."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        if REAL_DUMP.exists():
            _measure(REAL_DUMP, LARGE_PROJECT, "a real dump")
        else:
            print(f"no dump at {REAL_DUMP}: only generated ones")
        for versions in (SMALL, LARGE):
            dump = Path(folder, f"{versions}.jsonl.gz")
            write_dump(dump, versions)
            _measure(dump, DRAWN, f"{versions} generated versions")


def _measure(dump: Path, roots: tuple[str, ...], description: str) -> None:
    print(f"{' + '.join(roots)} in {description}")
    with fresh_home() as home:
        home.thoth("packages", "import", str(dump))
        _restart(home)
        with open_stores(home.settings) as stores:
            _print("ArcadeDB", stores, roots)
            with second_product(stores) as other:
                if other is not None:
                    rebuild(other.engine, other.driver, database=other.database)
                    _print("Neo4j", other, roots)


def _restart(home: FreshHome) -> None:
    """Restart the stores, so that the first snapshot finds nothing in memory."""
    for command in ("down", "up"):
        subprocess.run([THOTH, command], env=home.environ, capture_output=True, check=True)


def _print(product: str, stores: Stores, roots: tuple[str, ...]) -> None:
    cold, snapshot = _load_ms(stores, roots)
    warm = sorted(_load_ms(stores, roots)[0] for _ in range(REPETITIONS))
    began = time.perf_counter()
    if not snapshot.packages:
        raise RuntimeError(f"the graph has no {' + '.join(roots)}")
    if not is_current(stores.driver, snapshot, database=stores.database):
        raise RuntimeError("a snapshot that was just read is not current")
    current = (time.perf_counter() - began) * 1000
    edges = sum(len(it.requires) for them in snapshot.packages.values() for it in them)
    print(
        f"  {product:<9} first {cold:6.0f} ms, then median {median(warm):5.0f} ms "
        f"({warm[0]:.0f} to {warm[-1]:.0f}; goal ≤ {GOAL_MS}), check for changes {current:.1f} ms; "
        f"{len(snapshot.packages)} packages, {snapshot.candidate_count} candidates, "
        f"{edges} requirements, {len(snapshot.layers)} layers",
        flush=True,
    )


def _load_ms(stores: Stores, roots: tuple[str, ...]) -> tuple[float, Snapshot]:
    there = environment("3.11", "manylinux_2_28_x86_64")
    began = time.perf_counter()
    snapshot = load_snapshot(stores.driver, roots, there, database=stores.database)
    return (time.perf_counter() - began) * 1000, snapshot
