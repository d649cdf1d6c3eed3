"""Hardware classes, from the identity that their digest is made of."""

from __future__ import annotations

from sqlalchemy import Double, Integer, select

from graph.projection.model import NodeKind, Subject
from graph.tables import HardwareRow

_IDENTITY = HardwareRow.identity

HARDWARE = NodeKind(
    label="Hardware",
    rows=select(
        HardwareRow.digest,
        HardwareRow.label,
        _IDENTITY["vendor"].astext.label("cpu_vendor"),
        _IDENTITY["family"].astext.cast(Integer).label("cpu_family"),
        _IDENTITY["model"].astext.cast(Integer).label("cpu_model"),
        _IDENTITY["stepping"].astext.cast(Integer).label("cpu_stepping"),
        _IDENTITY["cpus"].astext.cast(Integer).label("logical_cpus"),
        _IDENTITY["cpu_quota"].astext.cast(Double).label("cpu_quota"),
        # A class has one kind of accelerator or none; how many is in its label.
        _IDENTITY["gpus"][0]["name"].astext.label("gpu_name"),
        HardwareRow.document_id,
    ),
    owner=HardwareRow.digest,
)

HARDWARE_CLASSES = Subject(node=HARDWARE)
