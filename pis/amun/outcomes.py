"""What became of an inspection, read back from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from common.packages import distributions_of
from pis.amun.documents import finished_jobs, read_job
from pis.amun.launchers import BuildFailed, Inspection


@dataclass(frozen=True, slots=True)
class Outcome:
    """One inspection after an invocation.

    :param state: ``measured`` if every job was, ``failed`` if one was not,
        ``build_failed`` if there was nothing to run them in
    :param rates: of the jobs that were measured, for each of their measurements in order
    :param unit: of the rates
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

    @property
    def median_rate(self) -> float | None:
        """Over the measured jobs."""
        return median(self.rates) if self.rates else None


def outcome_of(inspection: Inspection, out: Path, failure: BuildFailed | None) -> Outcome:
    """What the folder of an inspection says of it."""
    folder = out / inspection.inspection_id
    numbers = finished_jobs(folder) & set(range(inspection.specification.batch_size))
    results = [read_job(folder, number) for number in sorted(numbers)]
    said = [it["stdout"] for it in results if is_measured(it)]
    measurements = [part for stdout in said for part in _measurements(stdout)]
    units = {str(part.get("unit", "GFLOPS")) for part in measurements}
    component = next((str(it["component"]) for it in said if "component" in it), None)
    failed = len(results) - len(said)
    state = "build_failed" if failure else "failed" if failed else "measured"
    locked = inspection.specification.lock.version_of(*distributions_of(_historic(component)))
    return Outcome(
        inspection_id=inspection.inspection_id,
        folder=folder,
        state=state,
        component=component,
        component_version=locked,
        measured=len(said),
        failed=failed,
        rates=tuple(float(part["rate"]) for part in measurements) if len(units) == 1 else (),
        unit=units.pop() if len(units) == 1 else None,
        failure=failure,
    )


def is_measured(result: Mapping[str, Any]) -> bool:
    """Whether a job ended well and printed rates."""
    stdout = result.get("stdout")
    return result.get("exit_code") == 0 and bool(_measurements(stdout))


def _measurements(stdout: Any) -> list[Mapping[str, Any]]:
    if not isinstance(stdout, Mapping):
        return []
    several = stdout.get("@results")
    parts = several if isinstance(several, list) else [stdout]
    results = [part.get("@result") for part in parts if isinstance(part, Mapping)]
    return [
        it for it in results if isinstance(it, Mapping) and type(it.get("rate")) in (int, float)
    ]


def _historic(component: str | None) -> str | None:
    """The name under which the packages of a component are known."""
    return "pytorch" if component == "torch" else component
