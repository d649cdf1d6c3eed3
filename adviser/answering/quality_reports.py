"""Reads the measurements of a quality report: series by their keys, or jobs of inspections."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from adviser.quality.job_statistics import repetition_families
from adviser.quality.reports import QualityReport, quality_report
from graph.record.observations import (
    browse_series,
    inspections_named,
    job_samples,
    keys_starting,
    missing_measurements,
)
from model.errors import InvalidArgument, ProjectError

_SHA256 = "sha256:"
#: Shortest start of a digest that selects measurements.
SHORTEST_PREFIX = 4


class NothingSelected(ProjectError):
    """Raised if a name or a digest selects no measurement."""

    hint = "`thoth stacks --all --verbose` shows the keys of all measurements"


@dataclass(frozen=True, slots=True)
class ReportSelection:
    """The selected measurements of a report.

    :param keys: comparison keys, sorted
    :param inspections: identifiers of documents, if only their jobs count
    """

    keys: tuple[str, ...]
    inspections: tuple[str, ...] | None = None


def selected_measurements(connection: Connection, names: Iterable[str]) -> ReportSelection:
    """Find series and inspections by what people type.

    :param names: start of a comparison key, or the name, the folder or the start of the digest of
        an inspection; a name may end with slashes
    :raises NothingSelected: for a name without measurements
    :raises InvalidArgument: if the start of a digest is too short, or if both keys and inspections
        are given
    """
    keys: set[str] = set()
    inspections: dict[str, list[str]] = {}
    for name in names:
        text = name.rstrip("/").rpartition("/")[2]
        if len(text.removeprefix(_SHA256)) < SHORTEST_PREFIX:
            raise InvalidArgument(f"{name!r}: a digest needs {SHORTEST_PREFIX} digits or more")
        digest = text if text.startswith(_SHA256) else f"{_SHA256}{text}"
        matching = keys_starting(connection, digest)
        documents = inspections_named(connection, text) | inspections_named(connection, digest)
        if not matching and not documents:
            raise NothingSelected(f"no measured series and no inspection is called {name!r}")
        keys.update(matching)
        if not matching:
            inspections |= documents
    if keys and inspections:
        raise InvalidArgument("name either comparison keys or inspections, not both")
    if not inspections:
        return ReportSelection(tuple(sorted(keys)))
    measured = {key for its_keys in inspections.values() for key in its_keys}
    return ReportSelection(tuple(sorted(measured)), tuple(sorted(inspections)))


def read_report(
    connection: Connection, selection: ReportSelection, *, baseline: str | None = None
) -> QualityReport:
    """Read the measurements and report on them.

    :param baseline: prefix of the digest of the stack to compare with
    :raises UnknownBaseline: if no series has such a stack
    """
    targets = browse_series(connection, keys=selection.keys)
    indicators = sorted({it.indicator for it in targets})
    others = [it for name in indicators for it in browse_series(connection, indicator=name)]
    families = repetition_families(targets, others)
    keys = sorted({*selection.keys, *(key for it in families for key in it.values())})
    inspections = selection.inspections
    return quality_report(
        job_samples(connection, keys, inspections=inspections),
        selection.keys,
        families=families,
        missing=missing_measurements(connection, selection.keys, inspections=inspections),
        baseline=baseline,
    )
