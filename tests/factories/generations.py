"""Writes ``tests/data/inspections``: ``python -m tests.factories.generations`` after a change here.

The numbers are made up, and plausible: matrix products of 512 × 512 near 200 GFLOPS on
two CPUs of a server, convolutions near 8. They are laid out so that against
``tensorflow-cpu`` 2.15.1 every verdict occurs: 2.16.2 is faster by 9 %, 2.17.0 within
0.3 %, 2.14.1 slower by 11 %, and 2.13.1 too noisy to tell. The same seed gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any

from model.measurements.units import matmul_operations, matmul_operations_of_2019

FOLDER = Path(__file__).parents[1] / "data" / "inspections"
SEED = 20240902
REPETITIONS = 9
MATMUL = {"device": "cpu", "dtype": "float32", "matrix_size": 512, "reps": 2000}
CONV2D = {
    "batch": 4, "data_format": "NHWC", "device": "cpu", "dtype": "float32", "filter_height": 20,
    "filter_width": 5, "input_channels": 1, "input_height": 700, "input_width": 161,
    "mini_batch": 100, "output_channels": 32, "padding": "SAME", "reps": 30, "strides": 2,
}  # fmt: skip
CONV2D_OPERATIONS = 721_515_520
_X86 = ["aes", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "popcnt", "pni", "sse", "sse2",
        "sse4_1", "sse4_2", "ssse3"]  # fmt: skip
SERVER: dict[str, Any] = {
    "brand_raw": "Intel Xeon Processor (Icelake)", "vendor_id_raw": "GenuineIntel", "family": 6,
    "model": 106, "stepping": 6, "count": 16,
    "flags": [*_X86, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "avx512_vnni"],
}  # fmt: skip
DESKTOP: dict[str, Any] = {
    "brand_raw": "AMD EPYC 7763 64-Core Processor", "vendor_id_raw": "AuthenticAMD", "family": 25,
    "model": 1, "stepping": 1, "count": 16, "flags": [*_X86, "sse4a", "vaes"],
}  # fmt: skip
TENSORFLOW = {
    "absl-py": "2.1.0", "flatbuffers": "24.3.25", "grpcio": "1.66.1", "h5py": "3.11.0",
    "numpy": "1.26.4", "protobuf": "4.25.4", "wrapt": "1.14.1",
}  # fmt: skip


@dataclass(frozen=True)
class Series:
    """Jobs of one stack: around ``rate`` GFLOP/s, scattered by ``spread``."""

    identifier: str
    packages: dict[str, str]
    rate: float
    jobs: int
    spread: float
    machine: dict[str, Any]
    script: str = "matmul"
    component: str = "tensorflow"
    index: str = "pypi"


def _tensorflow(version: str, **others: str) -> dict[str, str]:
    return {**TENSORFLOW, "tensorflow-cpu": version, **others}


SERIES = [
    Series("matmul-tf215-xeon", _tensorflow("2.15.1"), 205.0, 10, 0.006, SERVER),
    Series("matmul-tf216-xeon", _tensorflow("2.16.2"), 223.5, 8, 0.006, SERVER),
    Series("matmul-tf217-xeon", _tensorflow("2.17.0"), 205.6, 9, 0.006, SERVER),
    Series("matmul-tf214-xeon", _tensorflow("2.14.1"), 182.5, 8, 0.007, SERVER),
    Series("matmul-tf213-xeon", _tensorflow("2.13.1", numpy="1.24.3"), 209.0, 6, 0.045, SERVER),
    Series("matmul-tf215-epyc", _tensorflow("2.15.1"), 171.0, 6, 0.007, DESKTOP),
    Series("matmul-tf216-epyc", _tensorflow("2.16.2"), 170.6, 6, 0.006, DESKTOP),
    Series("conv2d-tf215-xeon", _tensorflow("2.15.1"), 7.9, 6, 0.008, SERVER, "conv2d"),
    Series("conv2d-tf216-xeon", _tensorflow("2.16.2"), 8.6, 6, 0.008, SERVER, "conv2d"),
    Series(
        "matmul-torch24-xeon",
        {"filelock": "3.15.4", "numpy": "1.26.4", "sympy": "1.13.2", "torch": "2.4.0"},
        211.0, 6, 0.006, SERVER, "matmul", "pytorch",
    ),
]  # fmt: skip


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    draw = random.Random(SEED)
    for number, series in enumerate(SERIES):
        _write_series(draw, series, datetime(2024, 9, 2, 8) + timedelta(minutes=number))  # noqa: DTZ001 - as the documents were
    _write_crash()
    _write_without_specification(draw)
    _write_wrong_rate()
    _write_2019()
    _write_2020_02()
    _write_job_logs()
    _write_other_index(draw)
    _write_unsynchronised()


def _write_series(draw: random.Random, series: Series, start: datetime) -> None:
    name = f"inspection-{series.identifier}-{_hex(series.identifier, 8)}"
    # Quantiles in random order: the mean and the spread come out as they were meant to.
    scatter = [NormalDist().inv_cdf((i + 0.5) / series.jobs) for i in range(series.jobs)]
    draw.shuffle(scatter)
    results = []
    for number, deviation in enumerate(scatter):
        rate = series.rate * (1 + series.spread * deviation)
        result = _result(name, number, series, start + timedelta(minutes=20 * number))
        result["stdout"] |= _measured(draw, series, rate)
        results.append(result)
    _write_directory(name, _specification(series), results)


def _measured(draw: random.Random, series: Series, rate: float) -> dict[str, Any]:
    conv = series.script == "conv2d"
    operations = CONV2D_OPERATIONS if conv else matmul_operations(512)
    elapsed_ms = operations / rate / 1e6
    repetitions = sorted(elapsed_ms * (1 + draw.gauss(0, 0.004)) for _ in range(REPETITIONS))
    repetitions[REPETITIONS // 2] = elapsed_ms  # the job's figure is their median
    draw.shuffle(repetitions)
    return {
        "@parameters": CONV2D if conv else MATMUL,
        "@result": {"elapsed": elapsed_ms, "rate": rate, "repetitions": repetitions},
    }


def _result(name: str, number: int, series: Series, start: datetime) -> dict[str, Any]:
    end = start + timedelta(seconds=31 + number % 3, microseconds=4711 * number)
    host = f"{name}-{int(_hex(name + str(number), 8), 16) % 10**10}"
    indicator = {"matmul": "PiMatmul", "conv2d": "PiConv2D"}[series.script]
    return {
        "end_datetime": end.isoformat(timespec="microseconds"),
        "exit_code": 0,
        "hostname": host,
        "hwinfo": _hwinfo(series.machine, host),
        "os_release": {"id": "fedora", "name": "Fedora Linux", "version_id": "40"},
        "runtime_environment": {
            "cuda_version": None,
            "hardware": {
                "cpu_family": series.machine["family"],
                "cpu_model": series.machine["model"],
            },
            "operating_system": {"name": "fedora", "version": "40"},
            "python_version": "3.11",
        },
        "script_sha256": _hex(f"{series.component}/{series.script}", 64),
        "start_datetime": start.isoformat(timespec="microseconds"),
        "stderr": "DTYPE set to float32\nDEVICE set to cpu\n",
        "stdout": {"component": series.component, "name": indicator},
        "usage": {
            "ru_maxrss": 350_000 + 37 * number, "ru_nivcsw": 180 + number, "ru_nswap": 0,
            "ru_nvcsw": 757, "ru_stime": 0.6 + number / 100, "ru_utime": 7 + number / 10,
        },
    }  # fmt: skip


def _hwinfo(machine: dict[str, Any], host: str) -> dict[str, Any]:
    info = {key: value for key, value in machine.items() if key != "flags"}
    return {
        "cpu_features": {"flags": sorted(machine["flags"])},
        "cpu_info": {"arch": "X86_64", "arch_string_raw": "x86_64", "bits": 64, **info},
        "cpu_type": {"ncpus": machine["count"]},
        "platform": {"machine": "x86_64", "node": host, "release": "6.8.9-300.fc40.x86_64"},
    }


def _specification(series: Series) -> dict[str, Any]:
    return {
        "@created": "2024-09-02T07:30:00.000000",
        "base": "images.example/fedora-python:3.11",
        "batch_size": series.jobs,
        "environment": [{"name": "OMP_NUM_THREADS", "value": "2"}],
        "identifier": series.identifier,
        "packages": ["libgomp", "which"],
        "python": {
            "requirements": _pipfile(series.packages),
            "requirements_locked": _lock(series.packages, index=series.index),
        },
        "run": {"requests": {"cpu": "2", "memory": "4Gi"}},
        "script": f"https://code.example/performance/{series.component}/{series.script}.py",
    }


def _pipfile(packages: dict[str, str], python: str = "3.11") -> dict[str, Any]:
    wanted = next((name for name in packages if name.startswith(("tensor", "torch"))), "numpy")
    return {
        "dev-packages": {},
        "packages": {wanted: f"=={packages[wanted]}"},
        "requires": {"python_version": python},
        "source": [{"name": "pypi", "url": "https://index.example/simple", "verify_ssl": True}],
    }


def _lock(packages: dict[str, str], python: str = "3.11", index: str = "pypi") -> dict[str, Any]:
    """All from one index but the framework, which may come from another: ``index``."""
    default = {
        name: {
            "hashes": [f"sha256:{_hex(f'{name}=={version}', 64)}"],
            "index": index if name.startswith("tensorflow") else "pypi",
            "version": f"=={version}",
        }
        for name, version in sorted(packages.items())
    }
    return {
        "_meta": {"pipfile-spec": 6, "requires": {"python_version": python}},
        "default": default,
        "develop": {},
    }


def _write_crash() -> None:
    """tensorflow 2.13 was built against numpy 1, and does not start with numpy 2."""
    packages = _tensorflow("2.13.1", numpy="2.0.2")
    series = Series("matmul-tf213-numpy2-xeon", packages, 0, 2, 0, SERVER)
    name = f"inspection-{series.identifier}-{_hex(series.identifier, 8)}"
    results = [
        _result(name, number, series, datetime(2024, 9, 3, 8, number))  # noqa: DTZ001
        | {"exit_code": 1, "stdout": {}, "stderr": "ImportError: numpy.core.umath failed to import"}
        for number in range(2)
    ]
    _write_directory(name, _specification(series), results)


def _write_without_specification(draw: random.Random) -> None:
    """Published without ``build/``: measured, of an unknown stack."""
    series = Series("conv2d-unknown-xeon", {}, 8.1, 3, 0.01, SERVER, "conv2d")
    name = f"inspection-{series.identifier}-{_hex(series.identifier, 8)}"
    results = []
    for number in range(3):
        result = _result(name, number, series, datetime(2024, 9, 4, 8, number))  # noqa: DTZ001
        result["stdout"] |= _measured(draw, series, series.rate + number / 10)
        results.append(result)
    _write_directory(name, None, results)


def _write_wrong_rate() -> None:
    """The script that multiplied only the additions by the mini batch; ingest mends the rate."""
    series = Series("matmul-minibatch-xeon", _tensorflow("2.15.1"), 0, 1, 0, SERVER)
    name = f"inspection-{series.identifier}-{_hex(series.identifier, 8)}"
    result = _result(name, 0, series, datetime(2024, 9, 5, 8))  # noqa: DTZ001
    elapsed_ms = matmul_operations(512, 40) / 204e6
    rate = matmul_operations_of_2019(512, 40) / elapsed_ms / 1e6
    result["stdout"] |= {
        "@parameters": {**MATMUL, "mini_batch": 40},
        "@result": {"elapsed": elapsed_ms, "rate": rate},
    }
    _write_directory(name, _specification(series), [result])


def _write_other_index(draw: random.Random) -> None:
    """The same release, built by somebody else for newer processors."""
    series = Series(
        "conv2d-tf216-avx512-xeon", _tensorflow("2.16.2"), 9.3, 6, 0.008, SERVER, "conv2d",
        index="avx512-builds",
    )  # fmt: skip
    _write_series(draw, series, datetime(2024, 9, 6, 8))  # noqa: DTZ001


def _write_unsynchronised() -> None:
    """The PyTorch script that stopped the clock before a GPU had finished: kept, never compared."""
    packages = {"filelock": "3.15.4", "numpy": "1.26.4", "sympy": "1.13.2", "torch": "2.4.0"}
    gpu = {"name": "Example GPU 40 GB", "compute_capability": "8.0", "driver_version": "550.90"}
    series = Series("matmul-torch24-gpu", packages, 0, 2, 0, SERVER, component="pytorch")
    name = f"inspection-{series.identifier}-{_hex(series.identifier, 8)}"
    results = []
    for number in range(2):
        result = _result(name, number, series, datetime(2024, 9, 7, 8, number))  # noqa: DTZ001
        result["hwinfo"]["gpu"] = [gpu]
        elapsed_ms = 0.012 + number / 1000
        result["stdout"] |= {
            "@parameters": {**MATMUL, "device": "cuda"},
            "@result": {"elapsed": elapsed_ms, "rate": matmul_operations(512) / elapsed_ms / 1e6},
        }
        results.append(result)
    _write_directory(name, _specification(series), results)


def _write_2019() -> None:
    packages = {"numpy": "1.15.4", "protobuf": "3.6.1", "six": "1.12.0", "tensorflow": "1.12.0"}
    hardware = {"cpu_family": 6, "cpu_model": 94, "physical_cpus": 16,
                "processor": "Intel Core Processor (Skylake, IBRS)"}  # fmt: skip
    resources = {"requests": {"cpu": "500m", "hardware": hardware, "memory": "1Gi"}}
    sizes_ms = {256: 0.301, 512: 1.562, 1024: 12.48}
    stdout: dict[str, Any] = {
        str(size): {"elapsed_ms": ms, "rate": matmul_operations(size) / ms / 1e6}
        for size, ms in sizes_ms.items()
    }
    document = {
        "build_log": "Step 1/3 : FROM images.example/fedora:28\nSuccessfully built\n",
        "inspection_id": f"inspect-{_hex('2019', 16)}",
        "job_log": {
            "exit_code": 0,
            "hwinfo": {"cpu": {"has_sse": True, "is_64bit": True, "is_Intel": True, "ncpus": 32}},
            "script_sha256": _hex("tensorflow/matmul.py of 2019", 64),
            "stderr": "DTYPE set to float32\nDEVICE set to cpu\nREPS set to 5\nsize,time,flop\n",
            "stdout": {**stdout, "performance_index": 41.7},
        },
        "specification": {
            "base": "images.example/fedora:28", "build": resources, "files": None,
            "packages": ["python36", "which"],
            "python": {
                "requirements": _pipfile(packages, "3.6"),
                "requirements_locked": _lock(packages, "3.6"),
            },
            "run": resources,
            "script": "https://code.example/performance/tensorflow/matmul.py",
        },
        "status": {
            "build": {"exit_code": 0, "finished_at": "2019-03-05T10:02:36Z",
                      "started_at": "2019-03-05T10:00:50Z", "state": "terminated"},
            "job": {"exit_code": 0, "finished_at": "2019-03-05T10:04:07Z",
                    "started_at": "2019-03-05T10:03:56Z", "state": "terminated"},
        },
    }  # fmt: skip
    _write(FOLDER / "2019" / "inspection_1.json", document)


def _write_2020_02() -> None:
    first, second, single = (
        _document_2020_02(f"inspection-conv2d-{_hex(version, 8)}-x7k2p", version, rate)
        for version, rate in (("2.0.1", 2.41), ("2.1.0", 2.63), ("1.15.2", 2.37))
    )
    folder = FOLDER / "2020-02"
    names = [f"inspection-conv2d-{_hex(version, 8)}" for version in ("2.0.1", "2.1.0")]
    _write(folder / "dictionary.json", {names[0]: [first], names[1]: [second]})
    _write(folder / "single.json", single)


def _write_job_logs() -> None:
    """All jobs of an inspection in one document, published without file extension."""
    name = f"inspection-conv2d-{_hex('1.13.1', 8)}"
    logs = []
    for number, rate in enumerate((2.28, 2.31, 2.29)):
        result = _document_2020_02(f"{name}-x7k{number}p", "1.13.1", rate)
        lock, pipfile = result.pop("requirements_locked"), result.pop("requirements")
        del result["build_log"]
        result["datetime"] = f"2020-02-12T14:58:{31 + number}.000417"
        logs.append(result)
    document = {
        "build_log": "Successfully built\n",
        "created": "2020-02-12T14:54:57.643346",
        "inspection_id": name,
        "job_logs": logs,
        "specification": {
            "base": "images.example/python-36",
            "python": {"requirements": pipfile[0], "requirements_locked": lock[0]},
            "script": "https://code.example/performance/master/tensorflow/conv2d.py",
        },
        "status": {"build": {"exit_code": 0, "reason": "Completed", "state": "terminated"}},
    }
    _write(FOLDER / "2020-02" / name, document)


def _document_2020_02(host: str, version: str, rate: float) -> dict[str, Any]:
    packages = {"numpy": "1.18.1", "protobuf": "3.11.3", "six": "1.14.0", "tensorflow": version}
    parameters = {key: value for key, value in CONV2D.items() if key != "mini_batch"}
    flags = sorted(SERVER["flags"])
    return {
        "build_log": ["Successfully built\n"],
        "datetime": "2020-02-26T15:08:55.756935",
        "exit_code": 0,
        "hwinfo": {
            "cpu_features": {"flags": flags},
            "cpu_info": {
                "arch": "X86_64", "bits": 64, "brand": "Intel Xeon Processor (Skylake, IBRS)",
                "count": 64, "family": 6, "model": 85, "raw_arch_string": "x86_64", "stepping": 4,
                "vendor_id": "GenuineIntel",
            },
            "cpu_type": {"ncpus": 64},
            "platform": {"machine": "x86_64", "node": host},
        },
        "os_release": {"id": "fedora", "name": "Fedora", "version_id": "31"},
        "requirements": [_pipfile(packages, "3.6")],
        "requirements_locked": [_lock(packages, "3.6")],
        "runtime_environment": {
            "cuda_version": None, "hardware": {"cpu_family": None, "cpu_model": None},
            "operating_system": {"name": None, "version": None}, "python_version": None,
        },
        "script_sha256": _hex("tensorflow/conv2d.py of 2020", 64),
        "stderr": "DTYPE set to float32\nDEVICE set to cpu\nREPS set to 30\n",
        "stdout": {
            "@parameters": parameters,
            "@result": {"elapsed": CONV2D_OPERATIONS / rate / 1e6, "rate": rate},
            "component": "tensorflow",
            "name": "PiConv2D",
        },
        "usage": {"ru_maxrss": 164_560, "ru_nswap": 0, "ru_stime": 7.2, "ru_utime": 20.6},
    }  # fmt: skip


def _write_directory(
    name: str, specification: dict[str, Any] | None, results: list[dict[str, Any]]
) -> None:
    folder = FOLDER / "directories" / name
    if specification is not None:
        _write(folder / "build" / "specification", specification)
        (folder / "build" / "log").write_text("STEP 1: FROM images.example/fedora\nCOMMIT\n")
    for number, result in enumerate(results):
        _write(folder / "results" / str(number) / "result", result)


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(f"sample {text}".encode()).hexdigest()[:digits]


if __name__ == "__main__":
    main()
