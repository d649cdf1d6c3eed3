"""Measures the releases that ``evidence/plan.toml`` lists, on one occasion.

All stacks of a library alternate. Releases are compared with their neighbours, so none is the
reference and runs more often. Stacks are locked once, and their environments are built anew for
each occasion. After an interruption, the same command continues.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from cli.inspect import Lines, print_outcomes
from cli.measuring_options import machine_of_this_command, print_wait
from common.settings import Settings
from model.errors import ProjectError
from pis.amun.conditions import wait_until_quiet
from pis.amun.environments import build_environment
from pis.amun.inspect import InspectOptions, inspect, inspections_of
from pis.amun.inspection_folder import measured_jobs
from pis.amun.launchers import Job
from pis.amun.launchers.local import LocalLauncher
from pis.amun.pinned_specifications import pinned_specification
from pis.amun.processes import interrupted_by_signals
from pis.amun.specification import Specification, load_specification, read_specification

_JOB_S = 4.0  # before one was measured


def main(arguments: Sequence[str] = ()) -> None:
    """Measure; the exit code is 1 if something could not be locked, built or measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence")
    parser.add_argument("--plan", type=Path, default=Path("evidence/plan.toml"))
    parser.add_argument("--folder", type=Path, required=True, help="of all occasions")
    parser.add_argument("--occasion", type=int, required=True, metavar="N", help="such as 1")
    parser.add_argument("--only", action="append", metavar="LIBRARY", help="may be repeated")
    parser.add_argument("--jobs", type=int, help="of each stack, instead of the plan's")
    parser.add_argument("--dry-run", action="store_true", help="lock, build and count")
    chosen = parser.parse_args(arguments)
    plan = tomllib.loads(chosen.plan.read_text(encoding="utf-8"))
    folder, name = chosen.folder.absolute(), f"occasion-{chosen.occasion}"
    settings = replace(Settings.from_env(), home=folder / f"environments-{chosen.occasion}")
    # The submission makes two occasions two inspections, though their specifications are equal.
    options = InspectOptions(
        folder / name, chosen.jobs or plan["jobs"], submission=name, reference_jobs=1
    )
    problems: list[str] = []
    stacks = {
        library["name"]: list(_specifications(plan, library, folder / "specifications", problems))
        for library in plan["library"]
        if not chosen.only or library["name"] in chosen.only
    }
    left = {library: _jobs_left(each, options) for library, each in stacks.items() if each}
    for library, jobs in left.items():
        print(f"{library}: {len(stacks[library])} stacks, {jobs} jobs to run", flush=True)
    progress = _Progress(sum(left.values()))
    on_wait = partial(print_wait, wait_s=settings.loop_wait_s)
    progress.before_jobs = partial(
        wait_until_quiet, settings.loop_wait_s, settings.loop_busy_share, on_wait
    )
    with (
        interrupted_by_signals(),
        machine_of_this_command(settings.loop_wait_s, chosen.dry_run, warns=False),
    ):
        for library in (it for it, jobs in left.items() if jobs):
            print(f"== {library}", flush=True)
            if chosen.dry_run:
                problems += _build_problems(stacks[library], settings)
            else:
                problems += _measure(stacks[library], settings, options, progress)
    if problems:
        raise SystemExit("\n".join(["not measured:", *problems]))


def _specifications(
    plan: Mapping[str, Any], library: Mapping[str, Any], folder: Path, problems: list[str]
) -> Iterator[Specification]:
    """Yield a specification for each release with each Python; lock the ones that are new."""
    folder.mkdir(parents=True, exist_ok=True)
    name, common = library["name"], plan["parameters"]
    for python in library.get("python", ("3.11",)):
        for release in library["releases"]:
            path = folder / f"{name}-{release}-python{python}.json"
            indicator = library.get("indicator", name)
            try:
                if not path.exists():
                    requirements = [f"{name}=={release}", *library.get("pins", ())]
                    document = pinned_specification(indicator, requirements, python, common)
                    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
                yield load_specification(read_specification(str(path)))
            except ProjectError as error:
                problems.append(f"{path.stem}: {error}")


def _jobs_left(specifications: Sequence[Specification], options: InspectOptions) -> int:
    """The number of jobs that have no measurement yet."""
    inspections = inspections_of(specifications, "local", options)
    done = (len(measured_jobs(options.out / it.inspection_id)) for it in inspections)
    return sum(it.specification.batch_size for it in inspections) - sum(done)


def _build_problems(specifications: Sequence[Specification], settings: Settings) -> Iterator[str]:
    for each in specifications:
        try:
            build_environment(each.lock, settings, each.python_version)
        except ProjectError as error:
            yield f"{each.script}, Python {each.python_version}: {error}"


def _measure(
    specifications: Sequence[Specification],
    settings: Settings,
    options: InspectOptions,
    progress: Lines,
) -> Iterator[str]:
    """Run the missing jobs of one library, and yield what could not be measured."""
    try:
        with closing(LocalLauncher(settings)) as launcher:
            outcomes = inspect(specifications, launcher, options, progress)
    except ProjectError as error:
        yield f"{specifications[0].script}: {error}"
        return
    print_outcomes(outcomes, options.out, as_json=False, ingested=False)
    for outcome in outcomes:
        if outcome.state != "measured":
            reason = outcome.failure or outcome.fault or f"{outcome.failed} jobs failed"
            yield f"{outcome.inspection_id}, {outcome.label}: {outcome.state}: {reason}"


class _Progress(Lines):
    """Says after each job how long all the rest takes."""

    def __init__(self, jobs: int) -> None:
        super().__init__(partial(print, flush=True))
        self._jobs, self._done, self._began = jobs, 0, monotonic()
        print(f"{jobs} jobs, about {jobs * _JOB_S / 60:.0f} min and the builds", flush=True)

    def job_finished(self, job: Job, result: Mapping[str, Any]) -> None:
        super().job_finished(job, result)
        self._done += 1
        left, job_s = self._jobs - self._done, (monotonic() - self._began) / self._done
        print(f"  {left} jobs left in all, about {left * job_s / 60:.0f} min", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
