"""The hardware class of a request: a named class, or the class of this host."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.errors import InvalidArgument
from model.measurements.evidence import RecordedHardware
from model.measurements.hardware import Allowance, distinct_labels, hardware_class
from model.measurements.inspection import Hardware
from model.measurements.units import THREAD_VARIABLES

#: Properties that the nearest class must share with a host.
_SHARED = ("source", "vendor", "family", "model", "stepping", "cpus")
#: Characters of a digest that tables show and ``--hardware`` takes.
_SHOWN_DIGITS = 8


@dataclass(frozen=True, slots=True)
class TargetHardware:
    """The hardware class that a request is about.

    :param name: its label, and the differences from known classes with the same label
    :param note: text for a person if nothing was measured on the class of this host. It names the
        nearest class, which is never used in its place
    """

    digest: str
    name: str
    note: str | None = None


def requested_hardware(recorded: Sequence[RecordedHardware], prefix: str | None) -> TargetHardware:
    """The hardware class whose digest starts with ``prefix``; by default, this host's exact class.

    :raises InvalidArgument: if the prefix matches no class or several
    """
    if prefix is None:
        return of_host(own_hardware(), recorded)
    matches = find_classes(recorded, prefix)
    if len(matches) != 1:
        raise InvalidArgument(f"{len(matches)} hardware classes begin with {prefix!r}")
    return recorded_target(matches[0].digest, recorded)


def find_classes(recorded: Iterable[RecordedHardware], prefix: str) -> list[RecordedHardware]:
    """The hardware classes whose digests start with ``prefix``."""
    wanted = prefix if ":" in prefix else f"sha256:{prefix}"
    return [row for row in recorded if row.digest.startswith(wanted)]


def recorded_target(digest: str, recorded: Sequence[RecordedHardware]) -> TargetHardware:
    """A recorded class as the target of a request."""
    return TargetHardware(digest, class_names(recorded)[digest])


def own_hardware() -> Hardware:
    """The class under which a job that this process starts would be recorded.

    The class covers what the executor writes and :mod:`ingest` reads: usable processors, the quota
    of the control groups, and the thread variables that jobs inherit.
    """
    from pis.amun.hardware import hwinfo, read_limits, runtime_environment

    allowance = Allowance(
        cpus=len(os.sched_getaffinity(0)),
        cpu_quota=read_limits().cpu_quota,
        threads={it: os.environ[it] for it in THREAD_VARIABLES if it in os.environ},
    )
    description = {"hwinfo": hwinfo(), "runtime_environment": runtime_environment(None)}
    return hardware_class(description, allowance)


def of_host(own: Hardware, recorded: Sequence[RecordedHardware]) -> TargetHardware:
    """The class of a host, with a note if nothing was measured on it."""
    name = class_names([*recorded, own])[own.digest]
    if not recorded or any(row.digest == own.digest for row in recorded):
        return TargetHardware(own.digest, name)
    message = f"nothing was measured on this host's hardware class, {name}"
    near = next(iter(near_classes(own.identity, recorded)), None)
    if near is None or not near.same_processor:
        return TargetHardware(own.digest, name, f"{message}, nor on any like it")
    known = near.hardware
    return TargetHardware(
        own.digest,
        name,
        f"{message}; the nearest is another class, {known.label} ({_short(known.digest)}),"
        f" which differs in {', '.join(near.differs)}: --hardware {_short(known.digest)} asks about"
        " that one",
    )


@dataclass(frozen=True, slots=True)
class NearClass:
    """A recorded class that is like another one.

    :param same_processor: whether processor, number of CPUs and GPUs are the same
    :param differs: properties in which the two classes differ, sorted
    """

    hardware: RecordedHardware
    same_processor: bool
    differs: tuple[str, ...]


def near_classes(
    identity: Mapping[str, Any], recorded: Iterable[RecordedHardware]
) -> list[NearClass]:
    """The other recorded classes: first classes with the same processor, then by the number of
    properties that differ. Classes that were described in another way are left out.

    :param identity: properties of the class
    """
    near = [
        NearClass(row, _same_processor(identity, row.identity), tuple(sorted(differs)))
        for row in recorded
        if row.identity.get("source") == identity.get("source")
        and (
            differs := {
                it
                for it in identity.keys() | row.identity.keys()
                if identity.get(it) != row.identity.get(it)
            }
        )
    ]
    return sorted(near, key=lambda it: (not it.same_processor, len(it.differs), it.hardware.digest))


def _same_processor(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(it) == other.get(it) for it in _SHARED) and _gpus(one) == _gpus(other)


def _gpus(identity: Mapping[str, Any]) -> list[str]:
    return sorted(gpu.get("name", "") for gpu in identity.get("gpus") or ())


def class_names(classes: Iterable[Hardware | RecordedHardware]) -> dict[str, str]:
    """Names of classes for people, by digest."""
    return distinct_labels((it.digest, it.label, it.identity) for it in classes)


def _short(digest: str) -> str:
    return digest.rpartition(":")[2][:_SHOWN_DIGITS]
