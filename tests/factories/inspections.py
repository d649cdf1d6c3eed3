"""Builders of inspection folders as the executor of this project writes them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.sources.source_items import RawDocument

Record = dict[str, Any]

RUN = "5f0c2f6e-6f0b-4f6e-9a53-0d8e5b1f7c11"
HOST = "sha256:" + "0a" * 32
OTHER_HOST = "sha256:" + "0b" * 32
BEGAN = datetime(2024, 5, 1, 10, tzinfo=UTC)
MATMUL = {
    "batch": 1,
    "device": "cpu",
    "dtype": "float32",
    "matrix_size": 512,
    "seed": 0,
    "threads": 2,
}
_INDICATORS = {"matmul": "PiMatmul", "gemm": "PiGemm", "train": "PiTrain", "memory": "PiMemory"}


def measured(
    rate: float, unit: str = "GFLOPS", spread: float = 0.005, parameters: Record | None = None
) -> Record:
    """``@parameters`` and ``@result`` of a rate; nine repetitions of 1 ms within ``spread``."""
    repetitions = [1.0 + spread * (step - 4) / 4 for step in range(9)]
    return {
        "@parameters": MATMUL if parameters is None else parameters,
        "@result": {
            "calls_per_repetition": 8, "elapsed": 1.0, "rate": rate, "unit": unit,
            "repetitions": repetitions, "jitter": 0.5, "mean": rate, "standard_error": 0.1,
            "warm_up": {"repetitions": 10, "seconds": 0.1, "settled": True},
        },
    }  # fmt: skip


def printed(*results: Record, script: str = "matmul", component: str = "numpy") -> Record:
    """Standard output of a bundled indicator, of one result or of several."""
    shared = {
        "schema_version": "indicator-result-1",
        "name": _INDICATORS[script],
        "component": component,
        "component_version": "0.0.1",
        "python": "3.11.7",
    }
    return {**shared, **results[0]} if len(results) == 1 else {**shared, "@results": list(results)}


def job_document(number: int = 0, stdout: Any = None, **changes: Any) -> Record:
    """The result of the ``number``-th job, which ran in the block of that number."""
    started = BEGAN + timedelta(minutes=number)
    document = {
        "document_version": 1,
        "inspection_id": "inspection-matmul-1f2e3d4c",
        "script": {"name": "matmul", "bundled": True},
        "script_sha256": hashlib.sha256(b"matmul").hexdigest(),
        "exit_code": 0,
        "ended": "exited",
        "stdout": printed(measured(200.0)) if stdout is None else stdout,
        "stderr": "",
        "truncated": {"stdout": False, "stderr": False},
        "usage": {"ru_maxrss": 120_000, "ru_nswap": 0, "ru_stime": 0.25, "ru_utime": 2.5},
        "hwinfo": hwinfo(),
        "os_release": {"id": "fedora", "version_id": "40"},
        "runtime_environment": {
            "cuda_version": None,
            "hardware": {"cpu_family": 6, "cpu_model": 106},
            "operating_system": {"name": "fedora", "version": "40"},
            "python_version": "3.11",
        },
        "hostname": "bench-1",
        "host": HOST,
        "launcher": "local",
        "confined": False,
        "limits": {
            "cpus": 2, "cpu_quota": None, "memory_bytes": None,
            "threads": dict.fromkeys(_THREADS, "2"),
        },
        "conditions": {
            "before": {"load": [0.1, 0.2, 0.1], "steal_ticks": 10},
            "after": {"load": [1.1, 0.4, 0.2], "steal_ticks": 11},
            "steal_share": 0.001, "throttled": False, "swapped": False,
        },
        "schedule": {"run": RUN, "block": number, "turn": number % 2, "interleaved": True},
        "start_datetime": started.isoformat(timespec="microseconds"),
        "end_datetime": (started + timedelta(seconds=3)).isoformat(timespec="microseconds"),
    }  # fmt: skip
    return {**document, **changes}


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def hwinfo(**cpu: Any) -> Record:
    """What the executor reads of a machine with four CPUs."""
    return {
        "cpu_features": {"flags": ["avx2", "fma", "fpu", "sse2"]},
        "cpu_info": {
            "arch": "X86_64", "arch_string_raw": "x86_64", "bits": 64, "brand_raw": "Example CPU",
            "count": 4, "cores": 4, "family": 6, "model": 106, "sockets": 1, "stepping": 6,
            "threads": 1, "vendor_id_raw": "GenuineIntel", **cpu,
        },
        "cpu_type": {"ncpus": 4},
        "platform": {"machine": "x86_64", "node": "bench-1"},
        "gpu": [],
    }  # fmt: skip


def specification_document(
    packages: Mapping[str, str], script: str = "matmul", **changes: Any
) -> Record:
    """A specification with its lock, as the executor normalises it."""
    default = {
        name: {"version": f"=={version}", "hashes": ["sha256:" + "1d" * 32]}
        for name, version in packages.items()
    }
    return {
        "base": "local",
        "identifier": script,
        "batch_size": 10,
        "script": script,
        "parameters": {"matrix_size": 512},
        "python": {
            "requirements": {"packages": {}},
            "requirements_locked": {
                "_meta": {"requires": {"python_version": "3.11"}},
                "default": default,
                "develop": {},
            },
        },
        "run": {"requests": {"cpu": "1", "memory": "4Gi"}},
        **changes,
    }


def status_document(**changes: Any) -> Record:
    """How a build ended: well, unless it is changed."""
    return {
        "state": "succeeded",
        "reason": None,
        "message": "",
        "exit_code": 0,
        "started_at": BEGAN.isoformat(timespec="microseconds"),
        "finished_at": (BEGAN + timedelta(seconds=9)).isoformat(timespec="microseconds"),
        "environment": "sha256:" + "2e" * 32,
        "launcher": "local",
        **changes,
    }


def failed_status(reason: str | None = "no-wheel", message: str = "no wheel fits") -> Record:
    """How a build failed."""
    return status_document(
        state="failed", reason=reason, message=message, exit_code=1, environment=None
    )


def inspection_files(
    jobs: Iterable[Record] = (), specification: Record | None = None, status: Record | None = None
) -> dict[str, bytes]:
    """The files of an inspection folder, by their path in it."""
    files: dict[str, Any] = {
        "build/specification": specification or specification_document({"numpy": "2.1.0"}),
        "build/status": status or status_document(),
    }
    for number, job in enumerate(jobs):
        files[f"results/{number}/result"] = job
        files[f"results/{number}/hwinfo"] = job.get("hwinfo")
    encoded = {name: json.dumps(value).encode() for name, value in files.items()}
    return {**encoded, "build/log": b"installed\n"}


def inspection(
    *jobs: Record, place: str = "inspection-matmul-1f2e3d4c", **parts: Any
) -> RawDocument:
    """The same as it comes from a source."""
    return RawDocument("delivery", place, files=inspection_files(jobs, **parts))


def stack_jobs(outputs: Sequence[Any], name: str, turn: int = 0, **changes: Any) -> list[Record]:
    """One job an output, the n-th in block n; ``turn`` tells stacks apart that ran in turns.

    :param outputs: what the jobs printed; a number is a rate in GFLOPS
    """
    jobs = []
    for number, output in enumerate(outputs):
        started = BEGAN + timedelta(minutes=number, seconds=10 * turn)
        job = job_document(
            number,
            output if isinstance(output, dict | str) else printed(measured(output)),
            inspection_id=name,
            schedule={"run": RUN, "block": number, "turn": turn, "interleaved": True},
            start_datetime=started.isoformat(timespec="microseconds"),
        )
        jobs.append({**job, **changes})
    return jobs


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of one inspection below ``folder``."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_stack(
    folder: Path,
    name: str,
    outputs: Sequence[Any],
    packages: Mapping[str, str],
    turn: int = 0,
    **status: Any,
) -> None:
    """Write an inspection of a stack below ``folder``, with a job for each rate or output."""
    jobs, build = stack_jobs(outputs, name, turn), status_document(**status)
    files = inspection_files(jobs, specification_document(packages), build)
    write(folder / name, files)
