"""Start-up: seconds of whole commands on warm stores, beside ``uv pip compile --offline``."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.closures import DUMP
from benchmarks.homes import THOTH, Home, fresh_home

REQUIREMENTS = "flask\npandas\nscikit-learn\n"
REPETITIONS = 7
GOALS_S = {"thoth advise": 1.0, "thoth status": 0.3}


def main() -> None:
    """Measure and print; takes a minute."""
    if not DUMP.exists():
        print(f"no dump at {DUMP}")
        return
    uv = str(Path(THOTH).with_name("uv"))
    with fresh_home() as home, tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        home.thoth("packages", "import", str(DUMP))
        project = Path(folder, "requirements.in")
        project.write_text(REQUIREMENTS, encoding="utf-8")
        commands = {
            "thoth --help": [THOTH, "--help"],
            "thoth status": [THOTH, "status"],
            "thoth advise": [THOTH, "advise", folder],
            "uv pip compile --offline": [
                uv,
                "pip",
                "compile",
                "--quiet",
                "--offline",
                str(project),
            ],
        }
        for name, command in commands.items():
            goal = f", goal {GOALS_S[name]:.1f} s" if name in GOALS_S else ""
            print(f"{name}: {_seconds(home, command):.2f} s{goal}")


def _seconds(home: Home, command: list[str]) -> float:
    """Median time of a command, after one run that warms the stores and caches."""
    times = []
    for _ in range(REPETITIONS + 1):
        began = time.perf_counter()
        done = subprocess.run(command, env=home.environ, capture_output=True, check=False)
        times.append(time.perf_counter() - began)
        if done.returncode:
            # uv has nothing in its cache on a machine that never installed these packages.
            print(f"  {command[0]} ended with {done.returncode}: {done.stderr.decode()[-200:]}")
            break
    return median(times[1:] or times)
