"""Which of the recorded hardware classes this host is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.errors import InvalidArgument
from graph.repositories.hardware import RecordedHardware

#: What two machines of a class have in common; quota and threads are the job's, not the host's.
_FIELDS = ("vendor", "family", "model", "stepping")


def hardware_class(recorded: Sequence[RecordedHardware], prefix: str | None = None) -> str | None:
    """The digest of the class that is named, or of the one that this host is of.

    Of several classes that differ only in what jobs were given, the least restricted one.

    :returns: ``None`` if nothing was recorded on such a machine
    :raises InvalidArgument: if no class, or more than one, has a digest that begins so
    """
    if prefix is not None:
        wanted = prefix if ":" in prefix else f"sha256:{prefix}"
        found = [row.digest for row in recorded if row.digest.startswith(wanted)]
        if len(found) != 1:
            raise InvalidArgument(f"{len(found)} hardware classes begin with {prefix!r}")
        return found[0]
    ours = _identity()
    alike = [row for row in recorded if _is_alike(row.identity, ours)]
    order = sorted(alike, key=lambda row: (_restrictions(row.identity), row.digest))
    return order[0].digest if order else None


def _identity() -> dict[str, Any]:
    from pis.amun.hardware import hwinfo

    found = hwinfo()
    cpu = found["cpu_info"]
    return {
        "vendor": cpu.get("vendor_id_raw"),
        "family": cpu.get("family"),
        "model": cpu.get("model"),
        "stepping": cpu.get("stepping"),
        "cpus": cpu.get("count") or found["cpu_type"]["ncpus"],
        "gpus": sorted(gpu.get("name") or "" for gpu in found["gpu"] or ()),
    }


def _is_alike(identity: dict[str, Any], ours: dict[str, Any]) -> bool:
    if identity.get("source") != "measured" or identity.get("cpus") != ours["cpus"]:
        return False
    gpus = sorted(gpu.get("name", "") for gpu in identity.get("gpus") or ())
    return gpus == ours["gpus"] and all(identity.get(it) == ours[it] for it in _FIELDS)


def _restrictions(identity: dict[str, Any]) -> tuple[bool, int]:
    return "cpu_quota" in identity, len(identity.get("threads_environment") or ())
