"""Counts the energy that a job's machine used, in joules.

Sources are the counters of processor packages and memory (RAPL, in the kernel's powercap interface)
and those of NVIDIA GPUs. They count everything that runs on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pis.amun import nvidia
from pis.amun.system_files import text_of

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

    A counter that stood still is one that a virtual machine or a driver does not really offer.

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
