"""Records the machine before and after a job, and waits until it is free of other work.

It records load, stolen time, swapping, throttling and energy. ``/proc/stat`` counts processor time
by use; ``steal`` is the time that the host of a virtual machine gave to other machines (proc(5)).
``/proc/vmstat`` counts swapped pages. Processor packages and memory (RAPL, in the kernel's powercap
interface) and NVIDIA GPUs count the energy of everything that runs on the machine.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from model.errors import AlreadyRunning
from pis.amun import nvidia
from pis.amun.hardware import text_of, throttled_periods

#: One MiB; fewer swapped pages are background activity of other processes.
SWAPPED_PAGES = 256

#: A person is warned if other processes use more than this share of all processors.
BUSY_SHARE = 0.2
_SAMPLING_S = 0.5

_PROC = Path("/proc")
_THERMAL = "cpu[0-9]*/thermal_throttle/*_throttle_count"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Counters at one moment; numbers only grow.

    :param load: runnable processes, averaged over 1, 5 and 15 minutes
    :param steal_ticks, cpu_ticks: stolen and total time of all processors together
    :param swapped_pages: in and out
    :param thermal_events: of all cores and packages
    :param throttled_periods: of this process's control groups
    :param gpu_thermal_ns: time for which heat has lowered the GPUs' clocks
    :param energy: counters of energy by name
    """

    load: tuple[float, float, float]
    steal_ticks: int
    cpu_ticks: int
    swapped_pages: int
    thermal_events: int
    throttled_periods: int
    gpu_thermal_ns: int
    gpu_throttled: tuple[str, ...]
    energy: Mapping[str, EnergyCounter]


def busy_share() -> float:
    """Return the busy share of the time of all processors, sampled over half a second."""
    return float(psutil.cpu_percent(_SAMPLING_S)) / 100


def read_conditions(proc: Path = _PROC) -> Conditions:
    """Read the current counters; counters that this machine lacks are zero."""
    steal, total = _cpu_ticks(text_of(proc / "stat"))
    counters = dict(
        line.split()[:2] for line in text_of(proc / "vmstat").splitlines() if " " in line
    )
    return Conditions(
        load=os.getloadavg(),
        steal_ticks=steal,
        cpu_ticks=total,
        swapped_pages=sum(int(counters.get(name, 0)) for name in ("pswpin", "pswpout")),
        thermal_events=sum(int(text_of(path).strip() or 0) for path in _thermal_counters()),
        throttled_periods=throttled_periods(),
        gpu_thermal_ns=nvidia.thermal_violations_ns(),
        gpu_throttled=tuple(nvidia.throttle_reasons()),
        energy=read_counters(),
    )


def conditions_between(before: Conditions, after: Conditions) -> dict[str, Any]:
    """Return the ``conditions`` of a job's result.

    ``steal_share`` is the stolen share of all processor time between the two moments, 0 … 1;
    ``None`` if no tick passed.
    """
    ticks = after.cpu_ticks - before.cpu_ticks
    stolen = after.steal_ticks - before.steal_ticks
    counted = any(
        getattr(after, name) > getattr(before, name)
        for name in ("thermal_events", "throttled_periods", "gpu_thermal_ns")
    )
    return {
        "before": _document(before),
        "after": _document(after),
        "steal_share": round(max(0.0, stolen / ticks), 6) if ticks > 0 else None,
        "throttled": counted or bool(before.gpu_throttled or after.gpu_throttled),
        "swapped": after.swapped_pages - before.swapped_pages >= SWAPPED_PAGES,
        "energy": energy_between(before.energy, after.energy),
    }


def _document(conditions: Conditions) -> dict[str, Any]:
    """Return the counters as JSON values, without energy counters, whose zero has no meaning."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(conditions).items()
        if name != "energy"
    }


def _cpu_ticks(stat: str) -> tuple[int, int]:
    """Return stolen and total ticks of all processors.

    The first line is ``cpu user nice system idle iowait irq softirq steal guest guest_nice``;
    ``user`` and ``nice`` already contain the time of guests.

    >>> _cpu_ticks("cpu  100 0 20 800 5 0 3 72 10 0")
    (72, 1000)
    """
    fields = stat.partition("\n")[0].split()
    if len(fields) < 9 or fields[0] != "cpu":
        return 0, 0
    ticks = [int(field) for field in fields[1:9]]
    return ticks[7], sum(ticks)


@cache
def _thermal_counters() -> tuple[Path, ...]:
    return tuple(sorted(Path("/sys/devices/system/cpu").glob(_THERMAL)))


_POWERCAP = Path("/sys/class/powercap")
#: Zones that overlap with no other one: ``core`` is a part of a package, ``psys`` contains it.
_ZONES = ("package-", "dram")
#: No package takes more, in watts. A counter that could have wrapped twice is not used.
_MAX_WATTS = 1_000.0
NO_COUNTER = "no counter is readable here"
_NO_VALUE = "the counters gave no value for this time"


@dataclass(frozen=True, slots=True)
class EnergyCounter:
    """A counter at one moment.

    :param joules: since some moment in the past
    :param range_j: where the counter starts again at zero; ``None`` if it does not
    :param at_s: time of a monotonic clock
    """

    joules: float
    range_j: float | None
    at_s: float


def read_counters(powercap: Path = _POWERCAP) -> dict[str, EnergyCounter]:
    """The readable counters by name, such as ``package-0`` and ``gpu-0``."""
    counters = {}
    for zone in sorted(powercap.glob("intel-rapl:*")):
        name = text_of(zone / "name").strip()
        energy, largest = (
            text_of(zone / it).strip() for it in ("energy_uj", "max_energy_range_uj")
        )
        if name.startswith(_ZONES) and energy.isdigit() and largest.isdigit():
            key = name if name not in counters else f"{name} {zone.name}"
            counters[key] = EnergyCounter(int(energy) / 1e6, int(largest) / 1e6, time.monotonic())
    for number, millijoules in nvidia.energy_mj().items():
        counters[f"gpu-{number}"] = EnergyCounter(millijoules / 1e3, None, time.monotonic())
    return counters


def energy_between(
    before: Mapping[str, EnergyCounter], after: Mapping[str, EnergyCounter]
) -> dict[str, Any]:
    """The energy between two moments, with the names of its counters, or why it is unknown.

    A virtual machine or a driver does not really support a counter that stood still.

    >>> energy_between({"package-0": EnergyCounter(90.0, 100.0, 0.0)},
    ...     {"package-0": EnergyCounter(5.0, 100.0, 0.05)})
    {'joules': 15.0, 'counters': ['package-0'], 'reason': None}
    >>> energy_between({}, {})
    {'joules': None, 'counters': [], 'reason': 'no counter is readable here'}
    """
    used = {
        name: joules
        for name in sorted(before.keys() & after.keys())
        if (joules := _used(before[name], after[name])) is not None
    }
    if not used:
        reason = _NO_VALUE if before or after else NO_COUNTER
        return {"joules": None, "counters": [], "reason": reason}
    return {"joules": round(sum(used.values()), 6), "counters": list(used), "reason": None}


def _used(before: EnergyCounter, after: EnergyCounter) -> float | None:
    joules = after.joules - before.joules
    if before.range_j is not None:
        if (after.at_s - before.at_s) * _MAX_WATTS >= before.range_j:
            return None
        joules %= before.range_j
    return joules if joules > 0 else None


#: Address of the lock, in Linux's abstract namespace (unix(7)). The kernel frees it when the
#: process ends, however it ends, and it works across users and homes.
_LOCK = "\0thoth-measures"
_PAUSE_S = 1.0

#: Called at least once a second while something waits, with the cause and the time that it has
#: waited so far, s: 0 at the first call.
OnWait = Callable[[str, float], None]


class MachineBusy(AlreadyRunning):
    """The machine did not become free in time; the message says what it waited for."""


@contextmanager
def free_machine(
    wait_s: float, most_busy: float = 1.0, on_wait: OnWait = lambda *_: None
) -> Iterator[None]:
    """Hold the machine for measurements, once it is free.

    A job of a killed process may still run for a moment; it keeps the machine busy.

    :param wait_s: limit for both waits together
    :param most_busy: share of all processors that other processes may use; 1 for any
    :raises MachineBusy: after ``wait_s``
    """
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        while not _bound(lock):
            _pause(began, wait_s, "another measurement runs on this machine", on_wait)
        if most_busy < 1:
            wait_until_quiet(wait_s - (time.monotonic() - began), most_busy, on_wait)
        yield


def wait_until_quiet(wait_s: float, most_busy: float, on_wait: OnWait) -> None:
    """Wait until other processes use little of the processors.

    :param most_busy: share of all processors that they may use
    :raises MachineBusy: after ``wait_s``
    """
    began: float | None = None
    while (share := busy_share()) > most_busy:
        began = began or time.monotonic()
        _pause(began, wait_s, f"other processes use {share:.0%} of the processors", on_wait)


def _bound(lock: socket.socket) -> bool:
    try:
        lock.bind(_LOCK)
    except OSError:
        return False
    return True


def _pause(began: float, wait_s: float, cause: str, on_wait: OnWait) -> None:
    waited_s = time.monotonic() - began
    if waited_s >= wait_s:
        raise MachineBusy(cause)
    on_wait(cause, waited_s if waited_s >= _PAUSE_S else 0.0)
    time.sleep(_PAUSE_S)
