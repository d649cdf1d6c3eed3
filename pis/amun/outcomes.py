"""What became of an inspection, read back from its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from common.job_stability import noise_warnings, robust_variation
from common.packages import distributions_of
from pis.amun.inspection_folder import (
    finished_jobs,
    is_host_result,
    read_job,
)
from pis.amun.job_output import Readings, readings_of
from pis.amun.launchers import BuildFailed, Inspection


@dataclass(frozen=True, slots=True)
class Noise:
    """How steady the jobs of an inspection were in one of the measurements that each made.

    :param jobs: that made it
    :param left_out: how many of them no comparison will use, by reason
    :param variation: coefficient of variation between the rates of the others, from the median
        absolute deviation; ``None`` below two jobs
    """

    jobs: int
    left_out: Mapping[str, int]
    variation: float | None


@dataclass(frozen=True, slots=True)
class InspectionOutcome:
    """One inspection after an invocation.

    :param state: ``measured`` if every job was, ``failed`` if one was not,
        ``build_failed`` if there was nothing to run them in, ``host_problem`` if the host kept
        the build or a job from coming to an end, and nothing else went wrong
    :param failed: jobs that were not measured, those that the host ended included
    :param host_problems: jobs that the host ended; they run again
    :param rates: of the jobs that were measured, for each of their measurements in order
    :param unit: of the rates
    :param noise: of each measurement that its jobs made, in the order in which they print them
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
    #: What is wrong with the output of the first job that ended well and has no result.
    fault: str | None = None
    noise: tuple[Noise, ...] = ()
    host_problems: int = 0

    @property
    def label(self) -> str:
        """The measured component for a person; ``unknown`` if no job named it."""
        return " ".join(filter(None, [self.component, self.component_version])) or "unknown"

    @property
    def warnings(self) -> Iterator[str]:
        """What a person should know at once about the noise of its jobs, no text twice."""
        texts = (
            warning
            for it in self.noise
            for warning in noise_warnings(self.label, it.jobs, it.left_out, it.variation)
        )
        return iter(dict.fromkeys(texts))

    @property
    def median_rate(self) -> float | None:
        """Over the measured jobs."""
        return median(self.rates) if self.rates else None


def outcome_of(inspection: Inspection, out: Path, failure: BuildFailed | None) -> InspectionOutcome:
    """What the folder of an inspection says of it."""
    folder = out / inspection.inspection_id
    numbers = finished_jobs(folder) & set(range(inspection.specification.batch_size))
    results = [read_job(folder, number) for number in sorted(numbers)]
    read = [readings_of(it) for it in results]
    said = [it["stdout"] for it, readings in zip(results, read, strict=True) if readings.rates]
    units = {unit for readings in read for unit in readings.units}
    component = next((str(it["component"]) for it in said if it.get("component")), None)
    failed = len(results) - len(said)
    host_problems = sum(map(is_host_result, results))
    locked = inspection.specification.lock.version_of(*distributions_of(_historic(component)))
    return InspectionOutcome(
        inspection_id=inspection.inspection_id,
        folder=folder,
        state=_state(failure, failed, host_problems),
        component=component,
        component_version=locked,
        measured=len(said),
        failed=failed,
        rates=tuple(rate for it in read for rate in it.rates) if len(units) == 1 else (),
        unit=units.pop() if len(units) == 1 else None,
        failure=failure,
        fault=next((it.fault for it in read if it.fault), None),
        noise=tuple(_noise(read)),
        host_problems=host_problems,
    )


def _noise(read: Sequence[Readings]) -> Iterator[Noise]:
    for place in range(max((len(it.rates) for it in read), default=0)):
        made = [it for it in read if place < len(it.rates)]
        reasons = Counter(str(it.unstable[place]) for it in made if it.unstable[place])
        rates = [it.rates[place] for it in made if not it.unstable[place]]
        variation = robust_variation(rates) if len(rates) > 1 else None
        yield Noise(len(made), dict(sorted(reasons.items())), variation)


def _state(failure: BuildFailed | None, failed: int, host_problems: int) -> str:
    if failure is not None:
        return "host_problem" if failure.host_problem else "build_failed"
    if failed > host_problems:
        return "failed"
    return "host_problem" if host_problems else "measured"


def _historic(component: str | None) -> str | None:
    """The name under which the packages of a component are known."""
    return "pytorch" if component == "torch" else component
