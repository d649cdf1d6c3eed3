"""Start-up: seconds of whole commands on warm stores, beside ``uv pip compile --offline``.

The commands run in turn, so that all of them see the same machine. Processor time depends less on
what else the machine does.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from benchmarks.closures import DUMP
from benchmarks.commands import FinishedCommand, run_command
from benchmarks.homes import THOTH, fresh_home

REPETITIONS = 7
#: The environment that the releases of the dump were read for, in the words of each program.
WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")
UV_WHERE = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28")
FEW = ("flask", "pandas", "scikit-learn")
ADVISE_FEW, ADVISE_MANY = "thoth advise, 17 packages", "thoth advise, 137 packages"
COMPILE_FEW, COMPILE_MANY = "uv pip compile, 17 packages", "uv pip compile, 137 packages"
GOALS_S = {"thoth status": 0.3, ADVISE_FEW: 1.0, ADVISE_MANY: 1.6}


def main() -> None:
    """Measure and print; takes two minutes."""
    if not DUMP.exists():
        print(f"no dump at {DUMP}")
        return
    uv = str(Path(THOTH).with_name("uv"))
    with fresh_home() as home, tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        home.thoth("packages", "import", str(DUMP))
        few, many = _project(folder, "few", FEW), _project(folder, "many", _installable())
        compile_it = (uv, "pip", "compile", "--quiet", *UV_WHERE)
        # uv's cache is filled first; without an index there is nothing to compare with.
        for project in (few, many):
            subprocess.run([*compile_it, str(project)], capture_output=True, check=False)
        commands = {
            "thoth --help": (THOTH, "--help"),
            "thoth status": (THOTH, "status"),
            ADVISE_FEW: (THOTH, "advise", str(few), *WHERE),
            COMPILE_FEW: (*compile_it, "--offline", str(few)),
            ADVISE_MANY: (THOTH, "advise", str(many), *WHERE),
            COMPILE_MANY: (*compile_it, "--offline", str(many)),
        }
        _print(_measured(commands, home.environ))


def _measured(
    commands: Mapping[str, tuple[str, ...]], environ: Mapping[str, str]
) -> dict[str, list[FinishedCommand]]:
    """The runs of each command, in turn; the first round warms the stores and is dropped."""
    runs: dict[str, list[FinishedCommand]] = {name: [] for name in commands}
    for _ in range(REPETITIONS + 1):
        for name, command in commands.items():
            runs[name].append(run_command(command, environ))
    return {name: rounds[1:] for name, rounds in runs.items()}


def _print(runs: Mapping[str, list[FinishedCommand]]) -> None:
    for name, rounds in runs.items():
        statuses = {it.status for it in rounds}
        if statuses != {0}:
            print(f"  {name:<28} ended with {sorted(statuses)}")
            continue
        walls = sorted(it.wall_s for it in rounds)
        goal = f", goal ≤ {GOALS_S[name]:.1f}" if name in GOALS_S else ""
        print(
            f"  {name:<28} median {median(walls):.2f} s ({walls[0]:.2f} to {walls[-1]:.2f}{goal}),"
            f" processor {median(it.cpu_s for it in rounds):.2f} s"
        )
    for ours, theirs in ((ADVISE_FEW, COMPILE_FEW), (ADVISE_MANY, COMPILE_MANY)):
        if {it.status for it in runs[theirs]} == {0}:
            pairs = zip(runs[ours], runs[theirs], strict=True)
            ratio = median(one.wall_s / other.wall_s for one, other in pairs)
            print(f"  {ours} / {theirs}: {ratio:.1f}")


def _project(folder: str, name: str, requirements: Iterator[str] | tuple[str, ...]) -> Path:
    """A project with these requirements; uv takes the file as well."""
    path = Path(folder, name, "requirements.in")
    path.parent.mkdir()
    path.write_text("".join(f"{it}\n" for it in requirements), encoding="utf-8")
    return path


def _installable() -> Iterator[str]:
    """Names of the packages in the dump that have a wheel for :data:`WHERE`."""
    names: dict[str, None] = {}
    with gzip.open(DUMP, "rt", encoding="utf-8") as lines:
        for release in map(json.loads, lines):
            if release["wheel_cp311_linux_x86_64"] and release["requires_dist"] is not None:
                names[release["name"]] = None
    return iter(names)


if __name__ == "__main__":
    main()
