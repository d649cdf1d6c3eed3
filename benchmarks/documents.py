"""Inspection documents in any number: 50 stacks of 40 packages, 10 hardware classes, 10 KB each."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

STACKS, PACKAGES, HARDWARE = 50, 40, 10
_FLAGS = [
    "aes",
    "avx",
    "avx2",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "bmi1",
    "bmi2",
    "clflush",
    "cmov",
    "constant_tsc",
    "cx16",
    "cx8",
    "de",
    "erms",
    "f16c",
    "fma",
    "fpu",
    "fsgsbase",
    "fxsr",
    "hypervisor",
    "ibpb",
    "ibrs",
    "invpcid",
    "lahf_lm",
    "lm",
    "mca",
    "mce",
    "mmx",
    "movbe",
    "msr",
    "mtrr",
    "nopl",
    "nx",
    "pae",
    "pat",
    "pcid",
    "pclmulqdq",
    "pge",
    "pni",
    "popcnt",
    "pse",
    "pse36",
    "rdrand",
    "rdseed",
    "rdtscp",
    "sep",
    "smap",
    "smep",
    "ss",
    "ssbd",
    "sse",
    "sse2",
    "sse4_1",
    "sse4_2",
    "ssse3",
    "stibp",
    "syscall",
    "tsc",
    "vme",
    "x2apic",
    "xsave",
]


def write_documents(folder: Path, count: int, seed: int = 1) -> int:
    """Write ``count`` result documents with their locks, and return their mean size in bytes."""
    draw = random.Random(seed)
    locks = [_lock(draw) for _ in range(STACKS)]
    machines = [_machine(number) for number in range(HARDWARE)]
    folder.mkdir(parents=True)
    size = 0
    for number in range(count):
        document = _document(draw, number, locks[number % STACKS], machines[number % HARDWARE])
        text = json.dumps(document)
        size += len(text)
        part = folder / f"{number // 1000:03d}"
        part.mkdir(exist_ok=True)
        (part / f"inspection-{number:06d}.json").write_text(text)
    return size // count


def _lock(draw: random.Random) -> dict[str, Any]:
    default = {}
    for number in range(PACKAGES):
        version = f"{draw.randint(0, 3)}.{draw.randint(0, 30)}.{draw.randint(0, 9)}"
        name = "tensorflow" if number == 0 else f"package-{number:02d}"
        digest = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
        default[name] = {"hashes": [f"sha256:{digest}"], "version": f"=={version}", "index": "pypi"}
    return {
        "_meta": {
            "hash": {"sha256": f"{draw.getrandbits(256):064x}"},
            "pipfile-spec": 6,
            "requires": {"python_version": "3.12"},
            "sources": [{"name": "pypi", "url": "https://index.example/simple"}],
        },
        "default": default,
        "develop": {},
    }


def _machine(number: int) -> dict[str, Any]:
    return {
        "cpu_features": {"flags": _FLAGS[number:], "l3_cache_size": 16_777_216},
        "cpu_info": {
            "arch": "X86_64",
            "arch_string_raw": "x86_64",
            "bits": 64,
            "brand_raw": f"Example CPU {number}",
            "count": 8,
            "family": 6,
            "model": 80 + number,
            "stepping": 4,
            "vendor_id_raw": "GenuineIntel",
        },
        "cpu_type": {f"is_type_{kind}": kind == number for kind in range(40)},
        "platform": {"machine": "x86_64", "release": "6.1.0", "version": "#1 SMP"},
    }


def _document(
    draw: random.Random, number: int, lock: dict[str, Any], machine: dict[str, Any]
) -> dict[str, Any]:
    elapsed_ms = 1.2 * draw.lognormvariate(0, 0.03)
    return {
        "datetime": f"2026-03-{1 + number % 28:02d}T{number % 24:02d}:10:00.{number % 10**6:06d}",
        "exit_code": 0,
        "hostname": f"inspection-bench-{number:08x}-1",
        "hwinfo": machine,
        "os_release": {"id": "fedora", "version_id": "40", "name": "Fedora Linux"},
        "runtime_environment": {
            "cuda_version": None,
            "hardware": {"cpu_family": 6, "cpu_model": machine["cpu_info"]["model"]},
            "operating_system": {"name": "fedora", "version": "40"},
            "python_version": "3.12",
        },
        "script_sha256": "ab" * 32,
        "stderr": "DTYPE set to float32\n" * 40,
        "stdout": {
            "@parameters": {"device": "cpu", "dtype": "float32", "matrix_size": 512, "reps": 2000},
            "@result": {"elapsed": elapsed_ms, "rate": 268_173_312 / elapsed_ms / 1e6},
            "component": "tensorflow",
            "name": "PiMatmul",
        },
        "usage": {"ru_maxrss": 350_000 + number, "ru_utime": 7.0, "ru_stime": 0.6, "ru_nswap": 0},
        "requirements": {"packages": {"tensorflow": "*"}, "requires": {"python_version": "3.12"}},
        "requirements_locked": lock,
        "build_log": None,
    }
