"""The resolver: milliseconds to a proven optimum beside installers, on the same real closures.

And a large universe of generated packages, and how time grows with the number of versions.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.listed_versions import resolve_listed
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from adviser.resolver.worker import ResolverWorker
from benchmarks.commands import run_command
from benchmarks.fresh_stores import UV
from benchmarks.local_index import serve_index, write_index
from benchmarks.sample_data import LARGE_PROJECT, REAL_DUMP
from benchmarks.timing import seconds_of
from model.packages.candidates import Candidate
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot
from tests.factories.installers import resolved
from tests.factories.universes import (
    drawn_scores,
    dump_index,
    newest_scores,
    snapshot_of,
    synthetic_index,
)

CLOSURES = {
    "a": ("flask",),
    "b": ("tensorflow-cpu",),
    "c": ("torch", "transformers"),
    "d": LARGE_PROJECT,
}
ROUNDS = 21
GOAL_WARM_MS, GOAL_COLD_MS, GOAL_MIB = 40, 1000, 300

#: A new process reads a snapshot from a file and resolves it, as a command would.
COLD = """
import sys
from pathlib import Path
from adviser.resolver.admission import universe_of
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.resolve import resolve
from model.packages.snapshot import Snapshot
snapshot = Snapshot.from_json(Path(sys.argv[1]).read_bytes())
scores = {it.purl: (-1000 * place,) for candidates in snapshot.packages.values()
          for place, it in enumerate(candidates)}
assert resolve(universe_of(snapshot, ResolverRequest(), scores)).settled
"""


def main() -> None:
    """Measure and print; takes some three minutes."""
    if REAL_DUMP.exists():
        _real()
    else:
        print(f"no dump at {REAL_DUMP}: only generated universes")
    _large()
    _growth()
    _listed()


def _real() -> None:
    index = dump_index(REAL_DUMP)
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as name, ResolverWorker() as worker:
        folder = Path(name)
        write_index(folder / "index", index)
        with serve_index(folder / "index") as url:
            for label, roots in CLOSURES.items():
                _closure(label, roots, index, folder, (worker, url))


def _closure(
    label: str,
    roots: tuple[str, ...],
    index: Mapping[str, Mapping[str, Any]],
    folder: Path,
    others: tuple[ResolverWorker, str],
) -> None:
    worker, url = others
    snapshot = snapshot_of(index, roots)
    scores = newest_scores(snapshot)
    universe = universe_of(snapshot, ResolverRequest(), scores)
    answer = resolve(universe)
    assert answer.settled, answer.status
    assert check_resolution(universe, answer) == []
    sizes = answer.sizes
    assert sizes is not None
    print(
        f"({label}) {' + '.join(roots)}: {len(answer.stacks[0].choices)} packages of "
        f"{sizes.packages}, {sizes.kept} of {sizes.versions} versions kept, score "
        f"{answer.objective} = bound {answer.bound}, {answer.solver}"
    )
    warm = _median_ms(lambda: resolve(universe_of(snapshot, ResolverRequest(), scores)))
    solver = Budget(steps=0)
    alone = _median_ms(lambda: resolve(universe_of(snapshot, ResolverRequest(), scores), solver))
    child = _median_ms(
        lambda: worker.resolve(universe_of(snapshot, ResolverRequest(), scores), solver)
    )
    cold, memory = _cold(folder, snapshot)
    _line("snapshot warm", warm, f"goal {GOAL_WARM_MS}")
    _line("by the solver, without branch and bound", alone, "")
    _line("by the solver in a warm child process", child, "")
    _line("snapshot cold, with the start of Python", cold, f"goal {GOAL_COLD_MS}")
    print(f"  {'peak memory':42}{memory:8.0f} MiB  goal {GOAL_MIB}")
    compiled = _uv(folder, url, roots)
    _line("uv pip compile --offline, cache warm", compiled, f"{compiled / warm:.1f} times ours")
    pip = _pip(folder, url, roots)
    _line("pip install --dry-run, metadata cached", pip, f"{pip / warm:.0f} times ours")
    _line("resolvelib, on the same universe", *_resolvelib(universe, warm))


def _line(what: str, milliseconds: float, note: str) -> None:
    print(f"  {what:42}{milliseconds:8.1f} ms   {note}")


def _median_ms(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    work()
    return 1000 * median(seconds_of(work) for _ in range(rounds))


def _cold(folder: Path, snapshot: Snapshot) -> tuple[float, float]:
    """Median milliseconds of a process, and its peak memory in MiB."""
    path = folder / "snapshot.json"
    path.write_bytes(snapshot.to_json())
    runs = [run_command((sys.executable, "-c", COLD, str(path))) for _ in range(6)]
    if any(it.status for it in runs):
        raise RuntimeError(runs[-1].stderr)
    return 1000 * median(it.wall_s for it in runs[1:]), max(it.peak_bytes for it in runs) / 2**20


def _environ(folder: Path) -> dict[str, str]:
    """Without what would send an installer to another index."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))}
    return kept | {"UV_CACHE_DIR": str(folder / "uv"), "PIP_CONFIG_FILE": os.devnull}


def _uv(folder: Path, url: str, roots: tuple[str, ...]) -> float:
    wanted = folder / "requirements.in"
    wanted.write_text("\n".join(roots))
    command = [UV, "pip", "compile", "--quiet", "--no-config", "--python", sys.executable]
    command += ["--index-url", url, "--only-binary", ":all:", str(wanted)]

    def run(*options: str) -> None:
        subprocess.run(
            [*command, *options], check=True, env=_environ(folder), stdout=subprocess.DEVNULL
        )

    run()
    return _median_ms(lambda: run("--offline"))


def _pip(folder: Path, url: str, roots: tuple[str, ...]) -> float:
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--quiet"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--disable-pip-version-check"]
    command += ["--cache-dir", str(folder / "pip"), "--index-url", url, *roots]

    def run() -> None:
        subprocess.run(command, check=True, env=_environ(folder), stdout=subprocess.DEVNULL)

    return _median_ms(run, 3)


def _resolvelib(universe: Universe, warm: float) -> tuple[float, str]:
    """The first stack that resolvelib finds; it does not prove that it is the newest."""
    stacks: list[dict[str, str] | None] = []
    took = _median_ms(lambda: stacks.append(resolved(universe)), 3)
    newest = resolve(universe).stacks[0].versions()
    same = "the same stack" if stacks[0] == newest else "another stack"
    return took, f"{took / warm:.1f} times ours, {same if stacks[0] else 'no stack'}"


def _large() -> None:
    print("150 packages × 60 versions, generated, two criteria, 10 s")
    for era, seed in ((6, 1), (6, 2), (6, 3), (1, 1)):
        universe = _generated(150, 60, era=era, seed=seed)
        answer = resolve(universe, Budget(time_s=10))
        assert check_resolution(universe, answer) == []
        label = f"requirements change every {era} versions, draw {seed}"
        _line(label, answer.wall_s * 1000, _outcome(answer))


def _generated(packages: int, versions: int, *, era: int, seed: int) -> Universe:
    snapshot = snapshot_of(*synthetic_index(packages, versions, era=era, seed=seed))
    return universe_of(snapshot, ResolverRequest(), drawn_scores(snapshot, seed))


def _outcome(answer: Resolution) -> str:
    if answer.objective is None or answer.bound is None:
        return f"{answer.status}, {answer.solver}"
    gap = sum(answer.gap or ()) / max(1, -sum(answer.objective))
    return f"{answer.status}, {answer.solver}, gap {gap:.2%}" + (
        "" if answer.settled else ", ties not settled"
    )


def _growth() -> None:
    print("150 packages, growth with the number of versions")
    for versions in (5, 10, 20, 40, 60):
        universe = _generated(150, versions, era=6, seed=1)
        took = _median_ms(partial(resolve, universe), 3)
        count = sum(map(len, universe.packages.values()))
        _line(f"{count} versions", took, f"{took / count * 1000:.0f} µs a version")


def _listed() -> None:
    """Rounds over listed versions: what is read, and the time of a round without any I/O."""
    print("130 packages × 108 versions, listed and read on demand, by newness")
    index, roots = synthetic_index(130, 108, era=6, seed=1)
    truth = snapshot_of(index, roots)
    scores, times = newest_scores(truth), list[float]()
    read, listed = set[Purl](), {it.name for it in truth.roots}

    def known() -> Snapshot:
        packages = {
            name: tuple(
                it if it.purl in read else replace(it, requires=(), extras=(), read=False)
                for it in candidates
            )
            for name, candidates in truth.packages.items()
            if name in listed
        }
        return replace(truth, packages=packages)

    def universe(snapshot: Snapshot) -> tuple[Universe, Mapping[str, Sequence[Candidate]]]:
        request = ResolverRequest(inferred_bounds=True)
        began = time.perf_counter()
        made = universe_of(snapshot, request, scores, newness={0})
        times.append(time.perf_counter() - began)
        return made, snapshot.packages

    def resolver(universe: Universe, *, count: int = 1) -> Resolution:
        began = time.perf_counter()
        resolution = resolve(universe, count=count)
        times[-1] += time.perf_counter() - began
        return resolution

    rounds = resolve_listed(known(), universe, resolver)
    try:
        reads = next(rounds)
        while True:
            read.update(it.purl for it in reads.versions)
            listed.update(reads.packages)
            reads = rounds.send(known())
    except StopIteration as end:
        _, last, resolution = end.value
    assert check_resolution(last, resolution) == []
    count = sum(map(len, last.packages.values()))
    label = f"{len(listed)} packages, {count} versions, {len(read)} read, {len(times)} rounds"
    _line(
        label, median(times) * 1000, f"slowest {max(times) * 1000:.0f} ms, {_outcome(resolution)}"
    )


if __name__ == "__main__":
    main()
