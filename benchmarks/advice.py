"""Advice over an index: whole commands for real sets of requirements, beside ``uv pip compile``.

For each set, an empty store that runs and an empty cache; uv runs with ``--no-cache``. Then both
again, warm. The index is the one that is configured, and a recording of it on loopback, which
answers both programs with the same latency. Sets run one after the other, and both programs in
turn, so that they see the same machine; the load of the machine stands beside each set.

Run as ``python -m benchmarks.advice --set airflow --index recorded`` for a part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from packaging.version import Version
from platformdirs import user_cache_path

from benchmarks.commands import FinishedCommand, run_command
from benchmarks.fresh_stores import THOTH, fresh_home
from benchmarks.recorded_index import LATENCY_S, ServedIndex, ServedTraffic, recorded_index
from benchmarks.requirement_sets import (
    LINUX,
    RequirementSet,
    compile_command,
    pins_of,
    requirement_sets,
)
from benchmarks.timing import verdict
from common.logs import set_up_logs

GOAL_COLD, GOAL_BACKTRACKING = 1.5, 1.0
#: Seconds of a warm command, by the number of packages up to which it counts.
GOALS_WARM_S = {20: 1.0, 130: 1.6}
GOAL_MIB = 300
WARM_REPETITIONS = 3
CONFIGURED, RECORDED = "configured", "recorded"
_READ = re.compile(
    r"read ([\d,]+) of ([\d,]+) listed releases of ([\d,]+) packages?,"
    r" in ([\d,]+) rounds? and ([\d,]+) requests?(?: \(([\d.]+) MB\))?"
)


@dataclass(frozen=True, slots=True)
class Reads:
    """What one advice read, as its command says."""

    read: int
    listed: int
    packages: int
    rounds: int
    requests: int
    megabytes: float

    @classmethod
    def of_command(cls, stderr: str) -> Reads | None:
        """The counters that the command printed, if it printed them."""
        match = _READ.search(stderr)
        if match is None:
            return None
        texts = [it.replace(",", "") for it in match.groups("0")]
        read, listed, packages, rounds, requests = map(int, texts[:5])
        return cls(read, listed, packages, rounds, requests, float(texts[5]))


@dataclass(frozen=True, slots=True)
class SetResult:
    """Both programs on one set of requirements.

    :param cold_s: of ``thoth advise`` on an empty store
    :param cold_cpu_s: of a first advice in a process of its own
    :param warm_cpu_s: the same for a repeated advice
    :param peak_mib: of these two
    :param older: direct requirements that are older than uv's, with both versions
    :param reads: of the first advice; ``None`` if the command did not say it
    :param traffic: of the first advice and of uv; only with a recorded index
    :param load: of the machine before, over a minute
    """

    name: str
    index: str
    packages: int
    cold_s: float
    cold_cpu_s: float
    warm_s: float
    warm_cpu_s: float
    peak_mib: float
    uv_cold_s: float
    uv_cold_cpu_s: float
    uv_warm_s: float
    uv_peak_mib: float
    older: Mapping[str, tuple[str, str]]
    reads: Reads | None
    traffic: tuple[ServedTraffic, ServedTraffic] | None
    load: float

    @property
    def ratio(self) -> float:
        """Seconds of the first advice for each of uv's."""
        return self.cold_s / self.uv_cold_s


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; takes about ten minutes, and records an index on the first run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advice")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME", help="only this set; repeatable",
        choices=[it.name for it in requirement_sets()],
    )  # fmt: skip
    parser.add_argument("--index", choices=(CONFIGURED, RECORDED), help="only this index")
    parser.add_argument("--output", type=Path, help="JSON file for all results")
    parser.add_argument(
        "--recording", type=Path, default=user_cache_path("thoth-benchmarks") / "index",
        help="folder of the recorded index",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    sets = [it for it in requirement_sets(options.set) if it.timed or options.set]
    results: list[SetResult] = []
    _compile_modules()
    for index in (options.index,) if options.index else (RECORDED, CONFIGURED):
        if index == CONFIGURED:
            print("the configured index:")
            measured = [_measured(it, None) for it in sets]
        else:
            options.recording.mkdir(parents=True, exist_ok=True)
            print(f"recorded index on loopback, {LATENCY_S * 1000:.0f} ms an answer:")
            with recorded_index(options.recording) as served:
                measured = [_measured(it, served) for it in sets]
        compared = [it for it in measured if it is not None]
        _summarise(compared, sets)
        results += compared
    if options.output is not None:
        text = json.dumps([asdict(it) for it in results], indent=1)
        options.output.write_text(text + "\n", encoding="utf-8")


def _compile_modules() -> None:
    """Have Python keep compiled modules, as after an installation."""
    with fresh_home() as home, tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        path = requirement_sets(["numpy-1"])[0].write(Path(folder))
        environ = home.environ | {"INDEX_CACHE": f"{folder}/cache"}
        run_command((THOTH, "advise", str(path), *LINUX.of_thoth), environ)


def _measured(chosen: RequirementSet, served: ServedIndex | None) -> SetResult | None:
    """Measure a set and print a line; with a recorded index, record first what it lacks."""
    for _ in range(4):
        measured = _measure(chosen, served)
        if measured is None or measured.traffic is None:
            break
        if not any(it.from_upstream for it in measured.traffic):
            break
    if measured is not None:
        _print(measured)
    return measured


def _measure(chosen: RequirementSet, served: ServedIndex | None) -> SetResult | None:
    load = os.getloadavg()[0]
    with fresh_home() as home, tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        path = chosen.write(Path(folder))
        index = ("--default-index", served.url) if served else ()
        environ = home.environ | {"INDEX_CACHE": f"{folder}/cache"}
        if served is not None:
            environ["PACKAGE_INDEXES"] = f"pypi={served.url}"
        advise = (THOTH, "advise", str(path), *LINUX.of_thoth, "--json")
        compile_cold = compile_command(path, LINUX, "--no-cache", *index)
        compile_warm = compile_command(path, LINUX, "--cache-dir", f"{folder}/uv", *index)
        _traffic(served)
        compiled, of_uv = run_command(compile_cold), _traffic(served)
        first, of_thoth = run_command(advise, environ), _traffic(served)
        # The system does not count what the preloaded program uses as the command's.
        alone = environ | {"PRELOAD": "0"}
        first_alone = run_command(advise, alone | {"INDEX_CACHE": f"{folder}/cache-alone"})
        again_alone = run_command(advise, alone)
        run_command(compile_warm)
        again, compiled_again = [], []
        for _ in range(WARM_REPETITIONS):
            compiled_again.append(run_command(compile_warm))
            again.append(run_command(advise, environ))
        _traffic(served)
    if compiled.status or first.status or any(it.status for it in again):
        _print_failures(chosen, {"uv": compiled, "first advice": first, "again": again[0]})
        return None
    ours = _versions(first)
    return SetResult(
        chosen.name,
        RECORDED if served else CONFIGURED,
        packages=len(ours),
        cold_s=first.wall_s,
        cold_cpu_s=first_alone.cpu_s,
        warm_s=median(it.wall_s for it in again),
        warm_cpu_s=again_alone.cpu_s,
        peak_mib=max(it.peak_bytes for it in (first_alone, again_alone)) / 2**20,
        uv_cold_s=compiled.wall_s,
        uv_cold_cpu_s=compiled.cpu_s,
        uv_warm_s=median(it.wall_s for it in compiled_again),
        uv_peak_mib=compiled.peak_bytes / 2**20,
        older=older(chosen.direct, ours, pins_of(compiled.stdout)),
        reads=Reads.of_command(first.stderr),
        traffic=(of_thoth, of_uv) if of_thoth and of_uv else None,
        load=load,
    )


def older(
    direct: Sequence[str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Both versions of the direct requirements for which ours is the older one."""
    return {
        name: (ours[name], theirs[name])
        for name in direct
        if name in ours and name in theirs and Version(ours[name]) < Version(theirs[name])
    }


def _versions(done: FinishedCommand) -> dict[str, str]:
    report = json.loads(done.stdout)["result"]["report"]
    return {it["name"]: it["version"] for it in report["products"][0]["packages"]}


def _traffic(served: ServedIndex | None) -> ServedTraffic | None:
    return None if served is None else served.traffic()


def _print(result: SetResult) -> None:
    reads, traffic = result.reads, result.traffic
    print(
        f"  {result.name:<18}{result.packages:4} packages, first {result.cold_s:5.2f} s"
        f" (cpu {result.cold_cpu_s:5.2f}), uv {result.uv_cold_s:5.2f} s"
        f" (cpu {result.uv_cold_cpu_s:.2f}), ratio {result.ratio:5.2f}; warm {result.warm_s:.2f} s"
        f" (cpu {result.warm_cpu_s:.2f}), uv {result.uv_warm_s:.2f} s;"
        f" {result.peak_mib:.0f} MiB, uv {result.uv_peak_mib:.0f}; load {result.load:.1f}"
    )
    if reads is not None:
        sent = f", {reads.megabytes:.1f} MB" if reads.megabytes else ""
        print(
            f"{'':22}{reads.rounds} rounds, {reads.read} read of {reads.listed} listed,"
            f" {reads.requests} requests{sent}"
        )
    if traffic is not None:
        for name, served in zip(("thoth", "uv"), traffic, strict=True):
            late = f", {served.from_upstream} not recorded" if served.from_upstream else ""
            sent = f"{served.requests} requests, {served.bytes_sent / 1e6:.1f} MB"
            print(f"{'':22}index to {name}: {sent}{late}")
    for name, (ours, theirs) in result.older.items():
        print(f"{'':22}{name} {ours} is older than uv's {theirs}")


def _print_failures(chosen: RequirementSet, commands: Mapping[str, FinishedCommand]) -> None:
    for name, done in commands.items():
        if done.status:
            reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
            print(f"  {chosen.name:<18}{name} ended with {done.status}: {' '.join(reason)[:200]}")


def _summarise(results: Sequence[SetResult], sets: Sequence[RequirementSet]) -> None:
    """Medians over all sets, with the goals."""
    if not results:
        return
    ratio = median(it.ratio for it in results)
    print(
        f"  median over {len(results)} of {len(sets)} sets: first"
        f" {median(it.cold_s for it in results):.2f} s, uv"
        f" {median(it.uv_cold_s for it in results):.2f} s; ratio {ratio:.2f}"
        f"   {_goal(ratio, GOAL_COLD)}"
    )
    backtracking = {it.name for it in sets if it.backtracks}
    for result in results:
        if result.name in backtracking:
            met = _goal(result.ratio, GOAL_BACKTRACKING)
            print(f"  {result.name}: ratio {result.ratio:.2f}   {met}")
    for packages, goal in GOALS_WARM_S.items():
        of_size = [it for it in results if it.packages <= packages]
        if of_size:
            worst = max(of_size, key=lambda it: it.warm_s)
            print(
                f"  warm, up to {packages} packages: at most {worst.warm_s:.2f} s ({worst.name})"
                f"   {_goal(worst.warm_s, goal)}"
            )
    largest = max(results, key=lambda it: it.peak_mib)
    print(
        f"  memory: at most {largest.peak_mib:.0f} MiB ({largest.name})"
        f"   {_goal(largest.peak_mib, GOAL_MIB)}"
    )


def _goal(value: float, goal: float) -> str:
    return f"goal ≤ {goal:g}: {verdict(value, goal)}"


if __name__ == "__main__":
    import sys

    set_up_logs()
    main(sys.argv[1:])
