"""A small world whose truths are known before anything is written.

Inspections are planned in plain Python, and the documents that the product reads are made from the
plan. What must come out of them can so be computed from the plan alone.

The package ``engine`` has five versions. On the first machine 1.9.0 and 1.10.0 are truly slower
than 1.2.0; 1.8.0 is as fast, but so noisy that its median is lower; 1.11.0 is as fast again. The
second machine sees no difference. The third has the label of the second, but is of another
hardware class. ``helper`` 2.0 halves the rate of whatever it is combined with,
and another index builds a faster ``codec`` 1.0.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from model.measurements.units import matmul_operations, matmul_operations_of_2019
from tests.factories.inspections import (
    BEGAN,
    MATMUL,
    RUN,
    failed_status,
    hwinfo,
    inspection_files,
    job_document,
    measured,
    printed,
    specification_document,
    write,
)

FAST_INDEX = "fast-builds"
BLAS = "OpenBLAS 0.3.31 SkylakeX"


@dataclass(frozen=True)
class Machine:
    """A hardware class, and how it is shown."""

    label: str
    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    cpus: int | None = None


FIRST, SECOND = (
    Machine(f"{brand}, 4 CPUs, quota 2, threads 2", "GenuineIntel", 6, model, 4)
    for brand, model in (("Example CPU", 106), ("Other CPU", 143))
)
#: Another hardware class, which has the label of :data:`SECOND`.
THIRD = replace(SECOND, model=207)
#: What earlier documents tell of their machine, and what builds tell.
EARLIER_MACHINE, NO_MACHINE = Machine("x86_64, 8 CPUs", cpus=8), Machine("unknown hardware")


@dataclass(frozen=True)
class Job:
    """One job of a plan.

    :param rates: by matrix size, in the unit of its inspection; none if the job crashed
    :param steal: share of CPU time that the hypervisor took; above 1 % a job is unstable
    """

    machine: Machine
    block: int
    rates: Mapping[int, float]
    steal: float = 0.001
    started: datetime = BEGAN


@dataclass(frozen=True)
class Plan:
    """One inspection: a stack and its jobs.

    :param stack: version by package; a pair names the index too; ``None`` for an unknown stack
    :param failure: reason and message of a build that failed
    """

    name: str
    stack: Mapping[str, str | tuple[str, str]] | None
    jobs: tuple[Job, ...] = ()
    turn: int = 0
    script: str = "matmul"
    component: str = "numpy"
    unit: str = "GFLOPS"
    python: str = "3.11"
    image: str = "local"
    native: tuple[str, ...] = ()
    failure: tuple[str, str] | None = None

    @property
    def packages(self) -> frozenset[tuple[str, str, str]]:
        """Name, version and index of each package."""
        pairs = (self.stack or {}).items()
        return frozenset((n, *v) if isinstance(v, tuple) else (n, v, "pypi") for n, v in pairs)


def jobs(
    rates: list[float], first_block: int = 0, machine: Machine = FIRST, **others: Any
) -> tuple[Job, ...]:
    """A job a rate, each in the block after the one before."""
    hours = others.pop("hours", 0)
    return tuple(
        Job(machine, block, {512: rate},
            started=BEGAN + timedelta(hours=hours, minutes=block), **others)
        for block, rate in enumerate(rates, first_block)
    )  # fmt: skip


def calm(rate: float, count: int = 12) -> list[float]:
    """Rates within 0.4 % of each other."""
    return [rate * (1 + 0.002 * math.sin(3 * number + rate)) for number in range(count)]


def restless(rate: float, count: int = 12) -> list[float]:
    """Rates that vary by 30 %, and of which more than half are low."""
    return [rate * (1.3 if number % 3 == 0 else 0.9 + 0.01 * number) for number in range(count)]


PLANS = (
    Plan("inspection-matmul-00000001", {"engine": "1.2.0", "helper": "1.0"},
         jobs(calm(100.0)) + jobs(calm(200.0, 6), 20, SECOND) + jobs(calm(90.0, 6), 30, THIRD)),
    Plan("inspection-matmul-00000002", {"engine": "1.8.0", "helper": "1.0"},
         jobs(restless(96.0)), turn=1),
    Plan("inspection-matmul-00000003", {"engine": "1.9.0", "helper": "1.0"},
         jobs(calm(80.0)) + jobs(calm(200.1, 6), 20, SECOND) + jobs(calm(90.1, 6), 30, THIRD),
         turn=2),
    # Measured before all others: the order of versions is not that of measurements.
    Plan("inspection-matmul-00000004", {"engine": "1.10.0", "helper": "1.0"},
         jobs(calm(79.0), hours=-2), turn=3),
    Plan("inspection-matmul-00000005", {"engine": "1.11.0", "helper": "1.0"},
         jobs(calm(100.1)), turn=4),
    # Of 1.8.0 too, but with another helper: no package alone can be named as the cause.
    Plan("inspection-matmul-00000006", {"engine": "1.8.0", "helper": "2.0"},
         jobs(calm(40.0)), turn=5),
    Plan("inspection-matmul-00000007", {"engine": "1.2.0", "helper": "2.0"},
         jobs(calm(50.0)), turn=6),
    # The same version of one package, from two indexes.
    Plan("inspection-matmul-00000008", {"codec": ("1.0", FAST_INDEX)}, jobs(calm(130.0)), turn=7),
    Plan("inspection-matmul-00000010", {"codec": "1.0"}, jobs(calm(100.0)), turn=8),
    # The stack of the first one again, on another Python, and on the same.
    Plan("inspection-matmul-00000009", {"engine": "1.2.0", "helper": "1.0"},
         jobs(calm(300.0, 5), 40), python="3.12"),
    Plan("inspection-matmul-0000000a", {"engine": "1.2.0", "helper": "1.0"},
         jobs(calm(100.4, 5), 50)),
    Plan("inspection-train-0000000b", {"engine": "1.2.0", "helper": "1.0"},
         (*jobs([50.0, 51.0, 53.0]), Job(FIRST, 3, {512: 20.0}, steal=0.02)),
         script="train", component="torch", unit="images/s", image="images.example/base:1",
         native=("gcc", "which")),
    Plan("inspection-train-0000000c", {"engine": "1.9.0", "helper": "1.0"},
         jobs([60.0, 62.0]), turn=1, script="train", component="torch", unit="images/s",
         image="images.example/base:2", native=("gcc",)),
    # One job that measures three sizes, and two that crash.
    Plan("inspection-matmul-0000000d", {"engine": "1.2.0", "helper": "1.0", "bad": "1.0"},
         (Job(FIRST, 60, {256: 90.0, 512: 99.0, 1024: 110.0}),
          Job(FIRST, 61, {}), Job(FIRST, 62, {}))),
    Plan("inspection-matmul-0000000e", {"engine": "9.9.0"},
         failure=("no-wheel", "engine 9.9.0 has no wheel for this Python")),
    # Measured on one machine only: a build that fails knows none.
    Plan("inspection-matmul-00000011", {"engine": "1.11.0", "helper": "1.0"},
         failure=("download", "the index does not answer")),
    Plan("inspection-matmul-0000000f", None, jobs([70.0], 70)),
    # Measured on two hardware classes with one label, and on no other.
    Plan("inspection-matmul-00000012", {"tool": "1.0"},
         jobs(calm(150.0, 6), machine=SECOND) + jobs(calm(70.0, 6), 20, THIRD), turn=9),
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """An observation that must come out, in the units of the record."""

    plan: Plan
    number: int
    outcome: str
    size: int | None = None
    machine: Machine = NO_MACHINE
    rate: float | None = None
    unit: str | None = None
    indicator: str = "PiMatmul"
    component: str | None = "numpy"
    exit_code: int = 0
    unstable: str | None = None
    quarantine: str | None = None
    correction: str | None = None
    started: datetime = BEGAN
    block: int | None = None
    device: str = "cpu"
    python: str | None = None

    @property
    def job(self) -> tuple[str, int]:
        """Names the job."""
        return self.plan.name, self.number

    @property
    def counts(self) -> bool:
        """Whether it may be compared with others."""
        return self.outcome == "measured" and not (self.unstable or self.quarantine)

    @property
    def key(self) -> tuple[Any, ...]:
        """What must be equal of observations that are compared, less their Python."""
        return self.indicator, self.component, self.size, self.device, self.machine, self.unit

    @property
    def stack(self) -> str | None:
        """Digest of the stack."""
        return None if self.plan.stack is None else stack_digest(self.plan.packages)


def observations() -> list[Seen]:
    """Everything that the jobs of all plans show."""
    return [one for plan in PLANS for one in _seen(plan)] + list(EARLIER.values())


def _seen(plan: Plan) -> Iterator[Seen]:
    titles = {"matmul": "PiMatmul", "train": "PiTrain"}
    base = Seen(plan, 0, "measured", indicator=titles[plan.script], component=plan.component)
    if plan.failure is not None:
        yield replace(base, outcome="build_failed", exit_code=1, python=plan.python)
    for number, job in enumerate(plan.jobs):
        shared = replace(
            base, number=number, machine=job.machine, block=job.block, python=plan.python,
            started=job.started + timedelta(seconds=plan.turn),
        )  # fmt: skip
        if not job.rates:
            yield replace(shared, outcome="crashed", exit_code=139)
        for size, rate in job.rates.items():
            unstable = "steal" if job.steal > 0.01 else None
            factor, unit = (1e9, "FLOP/s") if plan.unit == "GFLOPS" else (1.0, plan.unit)
            yield replace(shared, size=size, rate=rate * factor, unit=unit, unstable=unstable)


def _earlier(number: int, component: str, device: str, rate: float, **seen: Any) -> Seen:
    plan = Plan(f"inspection-earlier-{number:08x}", {"engine": "1.2.0"}, component=component)
    return Seen(
        plan, 0, "measured", 512, EARLIER_MACHINE, rate * 1e9, "FLOP/s", "PiMatmul", component,
        device=device, **seen,
    )  # fmt: skip


#: Milliseconds that the product of earlier documents took.
ELAPSED_MS = 2.0
#: By the way in which their rates are wrong: one is left out, the other is corrected.
EARLIER = {
    "unsynchronised": _earlier(
        1, "pytorch", "cuda", matmul_operations(512) / ELAPSED_MS / 1e6,
        quarantine="pytorch-matmul-unsynchronised",
    ),
    "mini_batch": _earlier(
        2, "tensorflow", "cpu", matmul_operations(512, 40) / ELAPSED_MS / 1e6,
        correction="tensorflow-matmul-mini-batch",
    ),
}  # fmt: skip


def write_inspections(folder: Path) -> None:
    """Write the documents of all plans: folders, and two files of an earlier generation."""
    for plan in PLANS:
        documents = [_document(plan, number, job) for number, job in enumerate(plan.jobs)]
        status = failed_status(*plan.failure) if plan.failure else None
        files = inspection_files(documents, _specification(plan), status)
        if plan.stack is None:
            files = {name: data for name, data in files.items() if name.startswith("results/")}
        write(folder / plan.name, files)
    for name, seen in EARLIER.items():
        (folder / f"{name}.json").write_text(json.dumps(_earlier_document(name, seen)))


def _document(plan: Plan, number: int, job: Job) -> dict[str, Any]:
    """The result of a job as the executor writes it."""
    results = [
        measured(rate, plan.unit, parameters={**MATMUL, "matrix_size": size})
        for size, rate in job.rates.items()
    ]
    stdout: Any = "Segmentation fault"
    if results:
        running = [{"configuration": "OpenBLAS 0.3.31  USE64BITINT", "kernels": "SkylakeX"}]
        stdout = {
            **printed(*results, script=plan.script, component=plan.component),
            "threads": {"requested": 2, "used": 2},
            "build": {"blas_runtime": running},
        }
    began = job.started + timedelta(seconds=plan.turn)
    made = job_document(
        number, stdout,
        inspection_id=plan.name,
        script={"name": plan.script, "bundled": True},
        script_sha256=hashlib.sha256(plan.script.encode()).hexdigest(),
        exit_code=0 if results else 139,
        hwinfo=hwinfo(brand_raw=job.machine.label.partition(",")[0], model=job.machine.model),
        start_datetime=began.isoformat(),
        end_datetime=(began + timedelta(seconds=1)).isoformat(),
        schedule={"run": RUN, "block": job.block, "turn": plan.turn, "interleaved": True},
    )  # fmt: skip
    made["conditions"]["steal_share"] = job.steal
    made["runtime_environment"]["python_version"] = plan.python
    return made


def _specification(plan: Plan) -> dict[str, Any]:
    made = specification_document({}, plan.script, base=plan.image)
    made["packages"] = list(plan.native)
    lock = made["python"]["requirements_locked"]
    lock["default"] = {
        name: {"version": f"=={version}", "index": index}
        for name, version, index in sorted(plan.packages)
    }
    return made


def _earlier_document(name: str, seen: Seen) -> dict[str, Any]:
    batched = name == "mini_batch"
    operations = matmul_operations_of_2019(512, 40) if batched else matmul_operations(512)
    parameters = {"device": seen.device, "dtype": "float32", "matrix_size": 512}
    return {
        "datetime": "2024-04-01T12:00:00",
        "exit_code": 0,
        "hostname": f"{seen.plan.name}-x7k2p",
        "hwinfo": {"cpu_type": {"ncpus": 8}, "platform": {"machine": "x86_64"}},
        "requirements": {},
        "requirements_locked": {"default": {"engine": {"version": "==1.2.0"}}},
        "script_sha256": hashlib.sha256(name.encode()).hexdigest(),
        "stderr": "",
        "stdout": {
            "@parameters": parameters | ({"mini_batch": 40} if batched else {}),
            "@result": {"elapsed": ELAPSED_MS, "rate": operations / ELAPSED_MS / 1e6},
            "component": seen.component,
            "name": "PiMatmul",
        },
        "usage": {"ru_maxrss": 100},
    }


def stack_digest(packages: frozenset[tuple[str, str, str]]) -> str:
    """The digest of a stack: of its sorted Package URLs as compact JSON."""
    purls = sorted(
        f"pkg:pypi/{name}@{version}" + ("" if index == "pypi" else f"?index={index}")
        for name, version, index in packages
    )
    text = json.dumps(purls, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
