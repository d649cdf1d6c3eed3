"""Specifications, locks and stand-ins for what runs them, with sensible defaults."""

from collections.abc import Mapping
from typing import Any

from pis.amun.launchers import Inspection, Job, JobResult, PreparedInspection

HASH = f"sha256:{'0123456789abcdef' * 4}"
SCRIPT = "print('{}')\n"


def locked(version: str = "==2.2.6", **fields: Any) -> dict[str, Any]:
    """One entry of a Pipfile.lock."""
    return {"version": version, "hashes": [HASH], **fields}


def pipfile_lock(packages: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The content of a Pipfile.lock."""
    default = {"numpy": locked()} if packages is None else dict(packages)
    return {"_meta": {"requires": {"python_version": "3.11"}}, "default": default, "develop": {}}


def specification(**fields: Any) -> dict[str, Any]:
    """A specification of ``matmul`` on a locked NumPy."""
    python = {"requirements": {"packages": {}}, "requirements_locked": pipfile_lock()}
    return {"script": "matmul", "python": python, **fields}


def measured(inspection_id: str = "inspection-matmul-1f2e3d4c", rate: float = 100.0) -> Any:
    """As much of a result as says that a job was measured."""
    stdout = {"name": "PiMatmul", "component": "numpy", "@result": {"rate": rate, "elapsed": 1.0}}
    return {
        "inspection_id": inspection_id,
        "exit_code": 0,
        "ended": "exited",
        "stdout": stdout,
        "stderr": "",
        "hwinfo": {},
    }


class Quiet:
    """Watches no inspection."""

    def build_started(self, inspection: object) -> None: ...
    def build_finished(self, inspection: object, failure: object) -> None: ...
    def jobs_started(self, jobs: int) -> None: ...
    def job_finished(self, job: object, result: object) -> None: ...


class ScriptedLauncher:
    """Runs nothing: every job gives what ``results`` say, in the order of the jobs."""

    name = "local"

    def __init__(self, results: list[Any] | None = None, slots: int = 1) -> None:
        self.results = results
        self.prepared: list[str] = []
        self.jobs: list[Job] = []
        self._slots = slots

    def slots(self) -> int:
        return self._slots

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        self.prepared.append(inspection.inspection_id)
        return PreparedInspection(inspection, f"sha256:{'0' * 64}", "python", "built\n", "3.11.7")

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        self.jobs.append(job)
        result = measured(job.inspection_id) if self.results is None else self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        schedule = {"run": job.run, "block": job.block, "turn": job.turn}
        return JobResult({**result, "schedule": schedule}, "")

    def close(self) -> None:
        pass
