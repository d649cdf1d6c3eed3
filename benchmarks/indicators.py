"""The rates of an indicator beside other tools, and the time that the executor adds to a job."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.timing import seconds_of
from common.settings import Settings
from pis.amun.environments import BuiltEnvironment, build_environment
from pis.amun.jobs import run_job
from pis.amun.pinned_specifications import pinned_specification
from pis.amun.processes import JobLimits
from pis.amun.specification import load_specification

ROOT = Path(__file__).parents[1]
SIZES = (64, 128, 256, 512, 1024, 2048)
STACKS = {"numpy": "numpy==2.3.5", "torch": "torch==2.15.0"}
REFERENCES = {"numpy": "timeit", "torch": "torch.utils.benchmark"}
ROUNDS = 25


def main() -> None:
    """Measure and print; the first run installs what it measures."""
    settings = Settings.from_env()
    for framework, requirement in STACKS.items():
        _print_rates(framework, requirement, _environment(requirement, settings))
    _print_overhead()


def _environment(requirement: str, settings: Settings) -> BuiltEnvironment:
    specification = load_specification(pinned_specification("matmul", [requirement]))
    return build_environment(specification.lock, settings, None)


def _print_rates(framework: str, requirement: str, environment: BuiltEnvironment) -> None:
    reference = REFERENCES[framework]
    print(f"matmul float32, {requirement}, by turns in one process; reference: {reference}")
    done = subprocess.run(
        [
            str(environment.python),
            "-m",
            "benchmarks.matmul_comparison",
            framework,
            *map(str, SIZES),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        rates = json.loads(line)
        print(
            f"  {rates['size']:5} × {rates['size']:<5} {rates['ours']:9.2f} GFLOPS"
            f"  reference {rates['reference']:9.2f}  ratio {rates['ratio']:.3f}"
        )


def _print_overhead() -> None:
    """The time of an empty job, beside the same process without the executor."""
    command = [sys.executable, "-I", "-c", "pass"]
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        workdir = Path(folder)

        def executed() -> object:
            return run_job(command, environment={}, limits=JobLimits(), workdir=workdir)

        def bare() -> object:
            return subprocess.run(command, env={}, cwd=workdir, capture_output=True, check=True)

        ours: list[float] = []
        reference: list[float] = []
        for number in range(ROUNDS):
            turns = [(ours, executed), (reference, bare)]
            for seconds, run in turns if number % 2 else reversed(turns):
                seconds.append(seconds_of(run))
    a, b = 1e3 * median(ours), 1e3 * median(reference)
    print(f"an empty job, median of {ROUNDS}, by turns; reference: subprocess.run")
    print(f"  executor {a:.1f} ms  reference {b:.1f} ms  overhead {a - b:.1f} ms a job")
