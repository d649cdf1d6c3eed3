"""Hardware classes: machines as described by a job, by its specification or by the host.

The identity of a class consists of vendor, family, model, stepping, the instruction sets that
arithmetic can use, the number of CPUs, the quota, the thread variables and the accelerators (rule 1
of ``docs/statistics.md``). The identity never contains a clock rate, because clock rates vary.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from model.json_documents import digest
from model.json_fields import FieldPath, Fields, Record
from model.measurements.inspection import Hardware
from model.measurements.units import THREAD_VARIABLES

#: Instruction sets by which numeric libraries choose their kernels. Flags of mitigations,
#: virtualisation and power management vary with the operating system kernel and do not matter.
_ARITHMETIC = re.compile(
    r"sse\d?|sse4[_.]?[12a]|ssse3|avx\w*|fma\d?|f16c|bmi[12]|amx\w*|aes|popcnt"
    r"|asimd\w*|sve\w*|sme[2fib]\w*|neon|fphp|bf16|i8mm|vfpv\d|vsx\w*|altivec"
)
#: Linux calls SSE3 ``pni``.
_ALIASES = {"pni": "sse3"}
_CLOCK = re.compile(r"\s*(?:CPU\s*)?@\s*[\d.]+\s*[GM]Hz", re.IGNORECASE)
_MARKS = re.compile(r"\((?:R|TM|C)\)", re.IGNORECASE)
_MAJOR_MINOR = re.compile(r"\d+(?:\.\d+)?")

#: Fields of ``cpu_info`` that are read; versions of py-cpuinfo spell some differently.
_CPU_FIELDS = (
    "vendor_id_raw",
    "vendor_id",
    "brand_raw",
    "brand",
    "arch_string_raw",
    "raw_arch_string",
    "arch",
    "family",
    "model",
    "stepping",
    "count",
    "sockets",
    "cores",
    "threads",
)
_HWINFO, _RUNTIME = FieldPath("$.hwinfo"), FieldPath("$.runtime_environment")
_REQUESTED_FIELDS = ("cpu_family", "cpu_model", "physical_cpus", "processor")

#: Differences that the label of a class names at most.
_MOST_FACTS = 4
#: Maximum bytes of cached input; real machines need less, and larger inputs are not worth caching.
_KEPT_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """Resource limits of a job; ``None`` where there is no limit.

    :param cpus: number of CPUs that it is pinned to
    :param cpu_quota: CPU time, in CPUs
    :param threads: thread variables that are set, by name
    """

    cpus: int | None = None
    cpu_quota: float | None = None
    threads: Mapping[str, str] = field(default_factory=dict)


def hardware_class(
    result: Record, allowance: Allowance, requested: Record | None = None
) -> Hardware:
    """The hardware class of one job; cached, because classes repeat.

    :param result: result document of the job; ``hwinfo`` and ``runtime_environment`` are read
    :param requested: requested hardware, used if the job recorded none
    :raises InvalidDocument: with fields relative to the result
    """
    info = Fields(result).nested("hwinfo")
    cpu, features, platform = map(info.nested, ("cpu_info", "cpu_features", "platform"))
    kind = info.nested("cpu") or info.nested("cpu_type")
    runtime = Fields(result).nested("runtime_environment")
    seen = {
        "cpu": {name: cpu[name] for name in _CPU_FIELDS if name in cpu},
        "flags": features.get("flags") or cpu.get("flags"),
        "ncpus": kind.get("ncpus"),
        "machine": platform.get("machine"),
        "gpu": info.get("gpu"),
        "cuda": runtime.get("cuda_version"),
        "known": runtime.get("hardware"),
    }
    request = requested or {}
    limits = {
        "hardware": {name: request[name] for name in _REQUESTED_FIELDS if name in request},
        "quota": allowance.cpu_quota,
        "cpus": allowance.cpus,
        "threads": dict(allowance.threads),
    }
    facts = orjson.dumps((seen, limits))
    return (_hardware if len(facts) <= _KEPT_BYTES else _hardware.__wrapped__)(facts)


@lru_cache(maxsize=4096)
def _hardware(facts: bytes) -> Hardware:
    seen, limits = orjson.loads(facts)
    cpu = Fields(seen["cpu"], _HWINFO / "cpu_info")
    requested = Fields(limits["hardware"], FieldPath("$.run.requests.hardware"))
    if cpu:
        identity = _measured(cpu, seen)
        brand = _either(cpu, "brand_raw", "brand")
    elif requested:
        identity = _requested(requested, seen)
        brand = requested.text("processor")
    else:
        identity, brand = _reported(seen), None
    identity |= {
        "cpu_quota": _quota(limits, identity.get("cpus")),
        "threads_environment": limits["threads"] or None,
        "gpus": _gpus(seen) or None,
    }
    identity = {name: value for name, value in identity.items() if value is not None}
    return Hardware(digest(identity), _label(brand, identity), identity)


def _measured(cpu: Fields, seen: Record) -> Record:
    count = cpu.integer("count")
    return {
        "source": "measured",
        "machine": Fields(seen, _HWINFO / "platform").text("machine")
        or _either(cpu, "arch_string_raw", "raw_arch_string"),
        "vendor": _either(cpu, "vendor_id_raw", "vendor_id"),
        "family": cpu.integer("family"),
        "model": cpu.integer("model"),
        "stepping": cpu.integer("stepping"),
        "flags": _flags(seen["flags"]),
        "cpus": Fields(seen, _HWINFO / "cpu_type").integer("ncpus") if count is None else count,
        "sockets": cpu.integer("sockets"),
        "cores": cpu.integer("cores"),
        "threads": cpu.integer("threads"),
    }


def _requested(hardware: Fields, seen: Record) -> Record:
    """The requested hardware, because jobs of 2019 recorded only the flags of their machine."""
    return {
        "source": "requested",
        "processor": _without_clock(hardware.text("processor")),
        "family": hardware.integer("cpu_family"),
        "model": hardware.integer("cpu_model"),
        "physical_cpus": hardware.integer("physical_cpus"),
        "cpus": Fields(seen, _HWINFO / "cpu").integer("ncpus"),
    }


def _reported(seen: Record) -> Record:
    known = Fields({"hardware": seen["known"]}, _RUNTIME).nested("hardware")
    family, model = known.integer("cpu_family"), known.integer("cpu_model")
    return {
        "source": "unknown" if family is None and model is None else "reported",
        "machine": Fields(seen, _HWINFO / "platform").text("machine"),
        "family": family,
        "model": model,
        "cpus": Fields(seen, _HWINFO / "cpu_type").integer("ncpus"),
    }


def _quota(limits: Record, cpus: int | None) -> float | None:
    """Number of CPUs that the job could use, if that is less than the machine has."""
    pinned = limits["cpus"]
    if pinned is None or (cpus is not None and pinned >= cpus):
        quota: float | None = limits["quota"]
        return quota
    return float(pinned if limits["quota"] is None else min(pinned, limits["quota"]))


def _flags(flags: Any) -> list[str] | None:
    listed = Fields({"flags": flags}, _HWINFO / "cpu_features").texts("flags")
    names = {_ALIASES.get(flag, flag) for flag in listed}
    return sorted(name for name in names if _ARITHMETIC.fullmatch(name)) or None


def _gpus(seen: Record) -> list[Record]:
    gpus = []
    for gpu in Fields(seen, _HWINFO).each("gpu"):
        facts = {
            "name": gpu.text("name"),
            "compute_capability": gpu.text("compute_capability"),
            "driver": _either(gpu, "driver_version", "driver"),
            "cuda": _major_minor(
                _either(gpu, "cuda_version", "cuda") or Fields(seen, _RUNTIME).text("cuda")
            ),
            "cudnn": _major_minor(_either(gpu, "cudnn_version", "cudnn")),
        }
        gpus.append({name: value for name, value in facts.items() if value is not None})
    return gpus


def _either(record: Fields, *names: str) -> str | None:
    """Value of a text field that has several spellings; the first spelling with a value counts."""
    return next(filter(None, map(record.text, names)), None)


def _major_minor(version: str | None) -> str | None:
    match = _MAJOR_MINOR.match(version) if version else None
    return match.group() if match else version


def _without_clock(brand: str | None) -> str | None:
    """The brand without its clock rate.

    >>> _without_clock("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz")
    'Intel Xeon Gold 6130'
    """
    return _MARKS.sub("", _CLOCK.sub("", brand)).strip()[:120] if brand else None


def _label(brand: str | None, identity: Record) -> str:
    parts = [_without_clock(brand) or identity.get("machine") or "unknown hardware"]
    parts += [gpu["name"] for gpu in identity.get("gpus", ()) if "name" in gpu]
    if "cpus" in identity:
        parts.append(f"{identity['cpus']} CPUs")
    if "cpu_quota" in identity:
        parts.append(f"quota {identity['cpu_quota']:g}")
    threads = identity.get("threads_environment", {})
    if threads.keys() == set(THREAD_VARIABLES) and len(set(threads.values())) == 1:
        parts.append(f"threads {threads[THREAD_VARIABLES[0]]}")
    else:
        parts += [f"{name}={value}" for name, value in sorted(threads.items())]
    if identity["source"] == "requested":
        parts.append("as requested")
    return ", ".join(parts)


def distinct_labels(classes: Iterable[tuple[str, str, Record]]) -> dict[str, str]:
    """Labels of classes by digest; equal labels are followed by the differences of the classes.

    :param classes: digest, label and identity of each class

    >>> distinct_labels([("a", "CPU", {"stepping": 3}), ("b", "CPU", {"stepping": 4})])
    {'a': 'CPU (stepping 3)', 'b': 'CPU (stepping 4)'}
    """
    alike: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for key, label, identity in classes:
        alike[label][key] = _facts(identity)
    labels = {}
    for label, facts_of in alike.items():
        names = sorted(set().union(*facts_of.values()))
        differing = [it for it in names if len({each.get(it) for each in facts_of.values()}) > 1]
        for key, facts in facts_of.items():
            texts = [f"{it} {facts[it]}".strip() if it in facts else f"no {it}" for it in differing]
            labels[key] = f"{label} ({', '.join(texts[:_MOST_FACTS])})" if texts else label
        if len({labels[key] for key in facts_of}) < len(facts_of):
            labels |= {key: f"{labels[key]} {key.rpartition(':')[2][:8]}" for key in facts_of}
    return labels


def _facts(identity: Record) -> dict[str, str]:
    """Properties of a class as texts by name; an instruction set is a name without a text."""
    facts = {it: str(value) for it, value in identity.items() if it not in {"flags", "gpus"}}
    facts |= dict.fromkeys(identity.get("flags", ()), "")
    for number, gpu in enumerate(identity.get("gpus", ()), 1):
        facts |= {f"{it} of GPU {number}": str(value) for it, value in gpu.items()}
    return facts
