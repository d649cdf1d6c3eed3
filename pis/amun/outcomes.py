"""The outcome of an inspection, read from its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from model.measurements.job_stability import noise_warnings, robust_variation
from model.packages.identity import distributions_of
from pis.amun.inspection_folder import finished_jobs, is_host_result, read_job
from pis.amun.job_output import Readings, readings_of
from pis.amun.launchers import BuildFailed, Inspection


@dataclass(frozen=True, slots=True)
class Noise:
    """How much one measurement varied between the jobs of an inspection.

    :param jobs: number of jobs with this measurement
    :param left_out: how many of them comparisons exclude, by reason
    :param variation: coefficient of variation of the other rates, from the median absolute
        deviation; ``None`` for fewer than two
    """

    jobs: int
    left_out: Mapping[str, int]
    variation: float | None


@dataclass(frozen=True, slots=True)
class InspectionOutcome:
    """One inspection after a run.

    :param state: ``measured`` if all jobs were measured, ``failed`` if a job failed,
        ``build_failed`` if the environment could not be built, ``host_problem`` if only the host
        prevented the build or a job, ``stopped`` if jobs did not run because a job of the same
        script broke the result protocol
    :param failed: number of jobs without a measurement, including those that the host ended
    :param host_problems: number of jobs that the host ended; they run again
    :param not_run: number of jobs that did not run, though the environment was built
    :param rates: all measurements of all measured jobs, in order; empty if units differ
    :param fault: what is wrong with the output of the first job that ended normally without result
    :param noise: for each measurement, in the order of the jobs' output
    """

    inspection_id: str
    folder: Path
    state: str
    component: str | None
    component_version: str | None
    measured: int
    failed: int
    rates: tuple[float, ...]
    unit: str | None
    failure: BuildFailed | None = None
    fault: str | None = None
    noise: tuple[Noise, ...] = ()
    host_problems: int = 0
    not_run: int = 0

    @property
    def label(self) -> str:
        """Name and version of the measured component; ``unknown`` if no job named it."""
        return " ".join(filter(None, [self.component, self.component_version])) or "unknown"

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about noise, for a person, without duplicates."""
        texts = (
            warning
            for noise in self.noise
            for warning in noise_warnings(self.label, noise.jobs, noise.left_out, noise.variation)
        )
        return iter(dict.fromkeys(texts))

    @property
    def median_rate(self) -> float | None:
        """Median rate of the measured jobs."""
        return median(self.rates) if self.rates else None


def outcome_of(inspection: Inspection, out: Path, failure: BuildFailed | None) -> InspectionOutcome:
    """Read the outcome of ``inspection`` from its folder below ``out``."""
    folder = out / inspection.inspection_id
    numbers = finished_jobs(folder) & set(range(inspection.specification.batch_size))
    results = [read_job(folder, number) for number in sorted(numbers)]
    readings = [readings_of(result) for result in results]
    outputs = [result["stdout"] for result, job in zip(results, readings, strict=True) if job.rates]
    units = {unit for job in readings for unit in job.units}
    component = next(
        (str(output["component"]) for output in outputs if output.get("component")), None
    )
    failed = len(results) - len(outputs)
    host_problems = sum(map(is_host_result, results))
    not_run = 0 if failure else inspection.specification.batch_size - len(numbers)
    locked = inspection.specification.lock.version_of(*distributions_of(_library(component)))
    return InspectionOutcome(
        inspection_id=inspection.inspection_id,
        folder=folder,
        state=_state(failure, failed, host_problems, not_run),
        component=component,
        component_version=locked,
        measured=len(outputs),
        failed=failed,
        rates=tuple(rate for job in readings for rate in job.rates) if len(units) == 1 else (),
        unit=units.pop() if len(units) == 1 else None,
        failure=failure,
        fault=next((job.fault for job in readings if job.fault), None),
        noise=tuple(_noise(readings)),
        host_problems=host_problems,
        not_run=not_run,
    )


def _noise(readings: Sequence[Readings]) -> Iterator[Noise]:
    for n in range(max((len(job.rates) for job in readings), default=0)):
        jobs = [job for job in readings if n < len(job.rates)]
        reasons = Counter(str(job.unstable[n]) for job in jobs if job.unstable[n])
        rates = [job.rates[n] for job in jobs if not job.unstable[n]]
        variation = robust_variation(rates) if len(rates) > 1 else None
        yield Noise(len(jobs), dict(sorted(reasons.items())), variation)


def _state(failure: BuildFailed | None, failed: int, host_problems: int, not_run: int) -> str:
    if failure is not None:
        return "host_problem" if failure.host_problem else "build_failed"
    if failed > host_problems:
        return "failed"
    if host_problems:
        return "host_problem"
    return "stopped" if not_run else "measured"


def _library(component: str | None) -> str | None:
    """Return the name of a component that :func:`distributions_of` uses."""
    return "pytorch" if component == "torch" else component
