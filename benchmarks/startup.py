"""Start-up: seconds of whole commands on warm stores, beside ``uv pip compile --offline``.

The commands run in turn, so that all of them see the same machine. Processor time depends less on
what else the machine does. It is that of one more run without the preloaded program, whose time the
system does not count as the command's.
"""

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from benchmarks.commands import FinishedCommand, run_command
from benchmarks.fresh_stores import THOTH, fresh_home
from benchmarks.requirement_sets import LINUX, compile_command
from benchmarks.sample_data import REAL_DUMP

REPETITIONS = 7
FEW = ("flask", "pandas", "scikit-learn")
ADVISE_FEW, ADVISE_MANY = "thoth advise, 17 packages", "thoth advise, 137 packages"
COMPILE_FEW, COMPILE_MANY = "uv pip compile, 17 packages", "uv pip compile, 137 packages"
GOALS_S = {"thoth status": 0.3, ADVISE_FEW: 1.0, ADVISE_MANY: 1.6}


def main() -> None:
    """Measure and print; takes two minutes."""
    if not REAL_DUMP.exists():
        print(f"no dump at {REAL_DUMP}")
        return
    with fresh_home() as home, tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        home.thoth("packages", "import", str(REAL_DUMP))
        few, many = _project(folder, "few", FEW), _project(folder, "many", _installable())
        # uv's cache is filled first; without an index there is nothing to compare with.
        for project in (few, many):
            run_command(compile_command(project, LINUX))
        commands = {
            "thoth --help": (THOTH, "--help"),
            "thoth status": (THOTH, "status"),
            ADVISE_FEW: (THOTH, "advise", str(few), *LINUX.of_thoth),
            COMPILE_FEW: compile_command(few, LINUX, "--offline"),
            ADVISE_MANY: (THOTH, "advise", str(many), *LINUX.of_thoth),
            COMPILE_MANY: compile_command(many, LINUX, "--offline"),
        }
        _print(_measured(commands, home.environ))


def _measured(
    commands: Mapping[str, tuple[str, ...]], environ: Mapping[str, str]
) -> dict[str, list[FinishedCommand]]:
    """The runs of each command, in turn, and last one without the preloaded program.

    A first round warms the stores and is dropped.
    """
    runs: dict[str, list[FinishedCommand]] = {name: [] for name in commands}
    for _ in range(REPETITIONS + 1):
        for name, command in commands.items():
            runs[name].append(run_command(command, environ))
    alone = {**environ, "PRELOAD": "0"}
    return {
        name: [*rounds[1:], run_command(commands[name], alone)] for name, rounds in runs.items()
    }


def _print(runs: Mapping[str, list[FinishedCommand]]) -> None:
    for name, (*rounds, alone) in runs.items():
        statuses = {it.status for it in (*rounds, alone)}
        if statuses != {0}:
            print(f"  {name:<28} ended with {sorted(statuses)}")
            continue
        walls = sorted(it.wall_s for it in rounds)
        goal = f", goal ≤ {GOALS_S[name]:.1f}" if name in GOALS_S else ""
        print(
            f"  {name:<28} median {median(walls):.2f} s ({walls[0]:.2f} to {walls[-1]:.2f}{goal}),"
            f" processor {alone.cpu_s:.2f} s"
        )
    for ours, theirs in ((ADVISE_FEW, COMPILE_FEW), (ADVISE_MANY, COMPILE_MANY)):
        if {it.status for it in runs[theirs]} == {0}:
            pairs = zip(runs[ours][:-1], runs[theirs][:-1], strict=True)
            ratio = median(one.wall_s / other.wall_s for one, other in pairs)
            print(f"  {ours} / {theirs}: {ratio:.1f}")


def _project(folder: str, name: str, requirements: Iterator[str] | tuple[str, ...]) -> Path:
    """Write a project with these requirements, in a file that uv reads, too."""
    path = Path(folder, name, "requirements.in")
    path.parent.mkdir()
    path.write_text("".join(f"{it}\n" for it in requirements), encoding="utf-8")
    return path


def _installable() -> Iterator[str]:
    """Names of the packages in the dump that have a wheel for CPython 3.11 on Linux."""
    names: dict[str, None] = {}
    with gzip.open(REAL_DUMP, "rt", encoding="utf-8") as lines:
        for release in map(json.loads, lines):
            if release["wheel_cp311_linux_x86_64"] and release["requires_dist"] is not None:
                names[release["name"]] = None
    return iter(names)


if __name__ == "__main__":
    main()
