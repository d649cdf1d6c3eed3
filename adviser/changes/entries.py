"""The entries to add to the list of changes; entry point :func:`new_entries`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from adviser.changes.machine_steps import machine_entries
from adviser.changes.release_steps import release_entries
from model.changes import ChangeLook, PerformanceChange
from model.measurements.evidence import Evidence


@dataclass(frozen=True, slots=True)
class ChangeUpdate:
    """What new evidence adds to the list of changes.

    :param entries: new entries, in a stable order
    :param looks: looks that were taken, by identifier of the change
    """

    entries: tuple[PerformanceChange, ...]
    looks: Mapping[str, ChangeLook]


def new_entries(
    evidence: Evidence,
    known: Iterable[PerformanceChange],
    looks: Mapping[str, ChangeLook],
    references: Collection[str] = (),
) -> ChangeUpdate:
    """The entries that the evidence adds. Equal evidence adds nothing the second time.

    :param evidence: all measurements, stacks included
    :param known: all earlier entries, oldest first
    :param looks: earlier looks, by identifier of the change
    :param references: see :func:`adviser.changes.release_steps.compared_releases`
    """
    earlier = list(known)
    recorded = {it.change_id for it in earlier}
    latest = {it.announcement: it for it in earlier}
    by_release, taken = release_entries(evidence, latest, looks, references)
    by_night = machine_entries(evidence, latest)
    added = (it for it in (*by_release, *by_night) if it.change_id not in recorded)
    return ChangeUpdate(tuple(added), taken)
