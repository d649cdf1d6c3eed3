"""The recorded hardware class that is most like the machine that a client describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adviser.answering.hardware import AskedHardware
from adviser.asked import Asked
from graph.engine import Stores
from graph.evidence import RecordedHardware
from graph.record.hardware import jobs_on, recorded_hardware

#: What a client says of a processor, by the name that identities have for it.
_CPU = {"cpu_family": "family", "cpu_model": "model"}


def on_described_hardware(
    stores: Stores, asked: Asked, described: Mapping[str, Any] | None
) -> Asked:
    """A request about the machine that is described, never about the one that serves."""
    hardware = (described or {}).get("hardware")
    with stores.engine.connect() as connection:
        recorded, jobs = recorded_hardware(connection), jobs_on(connection)
    found = matching(recorded, jobs, hardware if isinstance(hardware, Mapping) else {})
    return replace(asked, hardware=found.digest if found else None, hardware_note=None)


def matching(
    recorded: Sequence[RecordedHardware], jobs: Mapping[str, int], described: Mapping[str, Any]
) -> AskedHardware | None:
    """The class of the described processor and GPU that most was measured on.

    Several classes may share family and model, which is all that clients tell; evidence is of
    one of them, and named with it.

    :param jobs: measured on each class, by digest
    :returns: ``None`` if no processor is described, or nothing was measured on such a one
    """
    wanted = {ours: described.get(theirs) for theirs, ours in _CPU.items()}
    if None in wanted.values():
        return None
    gpu = described.get("gpu_model")
    alike = [
        row
        for row in recorded
        if jobs.get(row.digest)
        and all(str(row.identity.get(name)) == str(value) for name, value in wanted.items())
        and _has_gpu(row, gpu)
    ]
    if not alike:
        return None
    return AskedHardware(min(alike, key=lambda row: (-jobs[row.digest], row.digest)).digest)


def _has_gpu(row: RecordedHardware, model: object) -> bool:
    """Whether a class has the GPU that is named, or none if none is."""
    names = [str(gpu.get("name", "")).lower() for gpu in row.identity.get("gpus") or ()]
    if not model:
        return not names
    return any(str(model).lower() in name for name in names)
