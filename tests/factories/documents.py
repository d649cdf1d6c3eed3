"""Builders of inspection documents as foreign services wrote them; every part can be replaced."""

import json
from pathlib import Path
from typing import Any

from ingest.sources.source_items import RawDocument

#: Made-up documents of every generation. Against ``tensorflow-cpu`` 2.15.1 every verdict occurs:
#: 2.16.2 is faster by 9 %, 2.17.0 within 0.3 %, 2.14.1 slower by 11 %, 2.13.1 too noisy to tell.
GENERATIONS = Path(__file__).parents[1] / "data" / "inspections"
SAMPLES = Path(__file__).parents[2] / "samples" / "inspections.tar.gz"
FLAGS = ["avx2", "fma", "fpu", "ibrs", "pni", "sse2", "vmx"]


def result_document(**changes: Any) -> dict[str, Any]:
    """A result of 2020-08; 512 × 512 in 1.25 ms is 214.5 GFLOP/s."""
    return {
        "exit_code": 0,
        "hostname": "inspection-matmul-0a1b2c3d-1234567890",
        "start_datetime": "2024-05-01T10:00:00.000000",
        "end_datetime": "2024-05-01T10:01:00.500000",
        "script_sha256": "ab" * 32,
        "stderr": "",
        "stdout": {
            "@parameters": {"device": "cpu", "dtype": "float32", "matrix_size": 512, "reps": 10},
            "@result": {"elapsed": 1.25, "rate": 214.5},
            "component": "tensorflow",
            "name": "PiMatmul",
        },
        "hwinfo": {
            "cpu_features": {"flags": FLAGS, "hz_actual": [2693672000, 0]},
            "cpu_info": {
                "arch_string_raw": "x86_64",
                "brand_raw": "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz",
                "count": 64,
                "family": 6,
                "hz_actual_friendly": "2.6937 GHz",
                "model": 85,
                "stepping": 4,
                "vendor_id_raw": "GenuineIntel",
            },
            "platform": {"machine": "x86_64", "node": "inspection-matmul-0a1b2c3d-1234567890"},
        },
        "os_release": {"id": "rhel", "version_id": "8.2"},
        "runtime_environment": {
            "cuda_version": None,
            "operating_system": {"name": "rhel", "version": "8.2"},
            "python_version": "3.8",
        },
        "usage": {"ru_maxrss": 350288, "ru_nswap": 0, "ru_stime": 0.5, "ru_utime": 7.25},
        **changes,
    }


def stdout(**result: Any) -> dict[str, Any]:
    """Standard output of a matmul, with fields of ``@result`` replaced."""
    printed = result_document()["stdout"]
    printed["@result"] |= result
    return dict(printed)


def lock(**versions: str) -> dict[str, Any]:
    """A Pipfile.lock."""
    pinned = versions or {"tensorflow": "2.2.0", "numpy": "1.18.5"}
    return {
        "_meta": {"requires": {"python_version": "3.8"}},
        "default": {
            name: {"version": f"=={version}", "index": "pypi"} for name, version in pinned.items()
        },
        "develop": {"pytest": {"version": "==5.4.3"}},
    }


def specification(**changes: Any) -> dict[str, Any]:
    """A specification that asks for two CPUs and two threads."""
    return {
        "@created": "2024-05-01T09:00:00.000000",
        "base": "images.example/python:3.8",
        "batch_size": 1,
        "environment": [{"name": "OMP_NUM_THREADS", "value": "2"}],
        "packages": ["which", "libgomp", "which"],
        "python": {"requirements": {"packages": {}}, "requirements_locked": lock()},
        "run": {"requests": {"cpu": "2", "memory": "4Gi"}},
        "script": "https://code.example/performance/master/tensorflow/matmul.py",
        **changes,
    }


def directory_files(
    *results: Any, specification: Any = None, log: bytes = b"installed"
) -> dict[str, bytes]:
    """The files of an inspection folder; a ``specification`` of ``False`` is left out."""
    files = {
        f"results/{number}/result": encoded(result)
        for number, result in enumerate(results or [result_document()])
    }
    if specification is not False:
        files["build/specification"] = encoded(specification or _specification())
        files["build/log"] = log
    return files


def directory(*results: Any, place: str = "", **options: Any) -> RawDocument:
    """The same as it comes from a source."""
    return RawDocument("delivery", place, files=directory_files(*results, **options))


def single(document: Any) -> RawDocument:
    """A document in one file."""
    return RawDocument("delivery.json", data=encoded(document))


def document_2019(**job_log: Any) -> dict[str, Any]:
    """A document of 2019 with two matrix sizes."""
    hardware = {"cpu_family": 6, "cpu_model": 94, "physical_cpus": 32, "processor": "Skylake"}
    return {
        "inspection_id": "inspect-002c9fbb7513b20b",
        "build_log": "Step 1/17",
        "job_log": {
            "exit_code": 0,
            "hwinfo": {"cpu": {"has_sse": True, "ncpus": 64}},
            "script_sha256": "cd" * 32,
            "stderr": "DTYPE set to float32\nDEVICE set to cpu\nREPS set to 5\n",
            "stdout": {
                "1024": {"elapsed_ms": 400.0, "rate": 5.25},
                "256": {"elapsed_ms": 0.25, "rate": 125.5},
                "performance_index": 23.1,
            },
            **job_log,
        },
        "specification": specification(
            run={"requests": {"cpu": "500m", "hardware": hardware}}, environment=None
        ),
        "status": {
            "job": {"started_at": "2019-01-22T11:23:56Z", "finished_at": "2019-01-22T11:24:07Z"}
        },
    }


def document_with_job_logs(jobs: int = 3, **changes: Any) -> dict[str, Any]:
    """A document of 2020-02 with all jobs of an inspection; published without file extension."""
    logs = []
    for number in range(jobs):
        log = document_2020_02(datetime=f"2020-02-12T14:58:{number:02d}.000000")
        log["stdout"]["framework"] = log["stdout"].pop("component")
        for key in ("requirements", "requirements_locked", "build_log"):
            del log[key]
        logs.append(log)
    pods = [{"exit_code": 0, "reason": "Completed", "state": "terminated"}] * jobs
    return {
        "build_log": "Step 1/19",
        "created": "2020-02-12T14:54:57.643346",
        "inspection_id": "inspection-test-e666815e",
        "job_logs": logs,
        "specification": specification(environment=None),
        "status": {
            "build": {"exit_code": 0, "reason": "Completed", "state": "terminated"},
            "job": {"completions": jobs, "pods": pods, "succeeded": jobs},
            "workflow": {"phase": "Succeeded"},
        },
        **changes,
    }


def document_2020_02(**changes: Any) -> dict[str, Any]:
    """A result of 2020-02 with its lock beside it, and the spelling of py-cpuinfo 5."""
    document = result_document(
        datetime="2020-02-26T15:08:55.756935",
        requirements=[{"packages": {}, "requires": {"python_version": "3.6"}}],
        requirements_locked=[lock(tensorflow="1.9.0")],
        build_log=[None],
    )
    for key in ("hostname", "start_datetime", "end_datetime"):
        del document[key]
    cpu = document["hwinfo"]["cpu_info"]
    for new, old in (
        ("brand_raw", "brand"),
        ("vendor_id_raw", "vendor_id"),
        ("arch_string_raw", "raw_arch_string"),
    ):
        cpu[old] = cpu.pop(new)
    return {**document, **changes}


def encoded(document: Any) -> bytes:
    """``document`` as bytes; bytes stay what they are."""
    return document if isinstance(document, bytes) else json.dumps(document).encode()


_specification = specification
