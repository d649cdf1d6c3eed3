"""Reads the evidence for a request from the record; entry point :func:`evidence_for`."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import ARRAY, Connection, Row, Text, any_, bindparam, func, select, text

from graph.record.freshness import HAS_ADVISORIES
from graph.record.measurements import (
    ReadingValues,
    measurements_query,
    minor,
    numbered_reading,
    reading_values,
    refused_observations,
    series_of,
)
from graph.record.postgresql_helpers import texts
from graph.snapshot_reader import CheckTime
from graph.tables import (
    AdvisorySource,
    HardwareRow,
    IndexProject,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    StackPackage,
    VulnerabilityRow,
)
from model.errors import InvalidArgument
from model.json_documents import canonical_json
from model.json_fields import Fields
from model.measurements.evidence import ADVISORIES, Evidence, Reading, Series, VulnerabilityDetails
from model.measurements.hardware import distinct_labels
from model.packages.identity import Purl
from model.packages.native_libraries import Bundled, bundled_of, with_libraries
from model.packages.snapshot import Snapshot

#: Name of the source "measurements", beside indexes and advisories.
INSPECTIONS = "inspections"
#: Maximum number of measurements of the packages of two locks; reading them takes some 10 s and
#: 170 MB.
MAX_MEASUREMENTS = 250_000
#: Measurements of one fetch.
_ROWS_AT_A_TIME = 1_000

#: The libraries of each release; a stack has thousands of inspections, and a release many stacks.
_BUNDLED = text(
    "SELECT DISTINCT ON (key) key, value FROM inspections, LATERAL jsonb_each(bundled)"
    " WHERE stack_digest = ANY(:stacks) ORDER BY key, document_id"
).bindparams(bindparam("stacks", type_=ARRAY(Text)))


def evidence_for(
    connection: Connection,
    snapshot: Snapshot,
    now: datetime,
    *,
    with_excluded: bool = False,
    hardware: Collection[str] | None = None,
    most: int | None = None,
    check_time: CheckTime = lambda: None,
) -> Evidence:
    """The evidence for ``snapshot``: all measurements of stacks that contain one of its candidates.

    Crashes, quarantined observations and inspections without a known stack are left out; unstable
    jobs are marked. The number of queries does not depend on the snapshot.

    :param now: ages are measured from the beginning of its day (UTC), so that evidence of equal
        knowledge is equal all day long, and stored once
    :param with_excluded: include stacks that contain an excluded version
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :param most: maximum number of measurements; each takes up to 0.7 kB of memory
    :param check_time: called before each thousand of the measurements
    :raises InvalidArgument: if there are more measurements
    """
    reader = EvidenceReader(now, check_time, hardware, most)
    return reader.evidence(connection, snapshot, with_excluded=with_excluded)


class EvidenceReader:
    """Reads the evidence for a growing snapshot, and reads nothing twice.

    :param now: as for :func:`evidence_for`
    :param check_time: as for :func:`evidence_for`
    :param hardware: as for :func:`evidence_for`
    :param most: as for :func:`evidence_for`
    """

    def __init__(
        self,
        now: datetime,
        check_time: CheckTime = lambda: None,
        hardware: Collection[str] | None = None,
        most: int | None = None,
    ) -> None:
        self._as_of = day_of(now)
        self._check_time = check_time
        self._hardware = hardware
        self._most = most
        self._purls: set[Purl] = set()
        self._stacks: dict[str, tuple[Purl, ...]] = {}
        self._last: Evidence | None = None
        self._last_stacks: tuple[str, ...] = ()
        self._last_names: frozenset[str] = frozenset()

    def evidence(
        self, connection: Connection, snapshot: Snapshot, *, with_excluded: bool = False
    ) -> Evidence:
        """Like :func:`evidence_for`; returns the previous object if the evidence is equal."""
        stacks = self._stacks_with(connection, purls_in(snapshot, with_excluded=with_excluded))
        vulnerability_ids = {
            known.id
            for candidates in snapshot.packages.values()
            for it in candidates
            for known in it.vulnerabilities
        }
        last, names = self._last, frozenset(snapshot.revisions)
        if last is None or tuple(stacks) != self._last_stacks:
            evidence = self._measured(connection, stacks)
        else:
            evidence = last
        if evidence.vulnerabilities.keys() != vulnerability_ids:
            query = select(
                VulnerabilityRow.vulnerability_id,
                VulnerabilityRow.aliases,
                VulnerabilityRow.summary,
            ).where(VulnerabilityRow.vulnerability_id == any_(texts(sorted(vulnerability_ids))))
            rows = sorted(connection.execute(query), key=lambda row: row[0])
            known = {
                key: VulnerabilityDetails(tuple(sorted(aliases)), summary)
                for key, aliases, summary in rows
            }
            evidence = replace(evidence, vulnerabilities=known)
        if last is None or names != self._last_names:
            sources = _sources(connection, names)
            if last is None or sources != last.sources:
                evidence = replace(evidence, sources=sources)
        self._last, self._last_stacks, self._last_names = evidence, tuple(stacks), names
        return evidence

    def all_measured(self, connection: Connection) -> Evidence:
        """All comparable measurements of inspected stacks, with their hardware; nothing else."""
        return self._measured(connection, _stacks(connection, None))

    def _stacks_with(
        self, connection: Connection, purls: Collection[Purl]
    ) -> dict[str, tuple[Purl, ...]]:
        """Versions of each inspected stack that contains one of ``purls``, by sorted digest."""
        new = [it for it in purls if it not in self._purls]
        if new:
            self._purls.update(new)
            self._stacks = dict(sorted({**self._stacks, **_stacks(connection, new)}.items()))
        wanted = set(purls) if self._stacks else set()
        return {key: them for key, them in self._stacks.items() if not wanted.isdisjoint(them)}

    def _measured(self, connection: Connection, stacks: Mapping[str, tuple[Purl, ...]]) -> Evidence:
        rows = self._observations(connection, list(stacks)) if stacks else ()
        series, readings = series_and_readings(rows)
        measured = {it.stack for it in readings}
        last = self._last
        return Evidence(
            as_of=self._as_of,
            series=series,
            readings=readings,
            stacks={key: purls for key, purls in stacks.items() if key in measured},
            hardware=_labels(connection, {it.hardware_digest for it in series}) if series else {},
            vulnerabilities=last.vulnerabilities if last else {},
            sources=last.sources if last else {},
            refused=refused_observations(connection, list(stacks)) if stacks else 0,
            bundled=recorded_bundled(connection, measured),
        )

    def _observations(self, connection: Connection, stacks: Sequence[str]) -> Iterator[Row[Any]]:
        query = measurements_query().where(InspectionRow.stack_digest == any_(texts(stacks)))
        if self._hardware is not None:
            query = query.where(ObservationRow.hardware_digest == any_(texts(self._hardware)))
        # On the query: an option of the connection would also apply to later statements.
        rows = connection.execute(query.execution_options(yield_per=_ROWS_AT_A_TIME))
        number = 0
        for partition in rows.partitions():
            self._check_time()
            number += len(partition)
            if self._most is not None and number > self._most:
                raise too_many_measurements(self._most)
            yield from partition


def recorded_bundled(connection: Connection, stacks: Collection[str]) -> Bundled:
    """Bundled libraries that inspections of these stacks recorded; a release's first record counts.

    :param stacks: digests
    """
    rows = connection.execute(_BUNDLED, {"stacks": sorted(stacks)}).all() if stacks else ()
    return with_libraries(bundled_of(Fields(dict(map(tuple, rows)))))


def too_many_measurements(most: int) -> InvalidArgument:
    """The error for packages with more measurements than are read."""
    return InvalidArgument(
        f"the packages have more than {most} measurements on the requested hardware, and no more"
        " are read"
    )


def purls_in(snapshot: Snapshot, *, with_excluded: bool) -> list[Purl]:
    """Package URLs of all candidates, and of the excluded versions on request."""
    purls = [it.purl for versions in snapshot.packages.values() for it in versions]
    if with_excluded:
        purls += [it.purl for versions in snapshot.excluded.values() for it in versions]
    return purls


def day_of(moment: datetime) -> datetime:
    """The beginning of the day, UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _stacks(connection: Connection, purls: Sequence[str] | None) -> dict[str, tuple[Purl, ...]]:
    """All versions of each inspected stack that contains one of ``purls``, by stack digest.

    :param purls: ``None`` for all inspected stacks
    """
    # Most stacks were only recommended and have no measurements.
    containing = select(InspectionRow.stack_digest).join(
        StackPackage, StackPackage.stack_digest == InspectionRow.stack_digest
    )
    if purls is not None:
        containing = containing.where(StackPackage.purl == any_(texts(purls)))
    query = (
        select(StackPackage.stack_digest, StackPackage.purl)
        .where(StackPackage.stack_digest.in_(containing))
        .order_by(StackPackage.stack_digest, StackPackage.purl)
    )
    stacks: dict[str, list[Purl]] = defaultdict(list)
    for stack, purl in connection.execute(query):
        stacks[stack].append(Purl(purl))
    return {stack: tuple(sorted(versions)) for stack, versions in sorted(stacks.items())}


def series_and_readings(rows: Iterable[Row[Any]]) -> tuple[tuple[Series, ...], tuple[Reading, ...]]:
    """Series and readings, sorted by content, independent of the order of ``rows``.

    :param rows: of :func:`graph.record.measurements.measured`, each with a known stack
    """
    # A row takes several times the memory of its values.
    by_series: dict[tuple[str, str], tuple[Series, list[ReadingValues]]] = {}
    for row in rows:
        key = row.comparison_key, minor(row.python_version) or ""
        if key not in by_series:
            by_series[key] = (series_of(row), [])
        by_series[key][1].append(reading_values(row, row.stack_digest))
    ordered = sorted(by_series.values(), key=lambda it: _order(it[0]))
    readings: list[Reading] = []
    for number, (_, values) in enumerate(ordered):
        values.sort(key=itemgetter(0), reverse=True)
        while values:
            readings.append(numbered_reading(number, values.pop()))
    return tuple(it for it, _ in ordered), tuple(readings)


def _order(series: Series) -> tuple[str, ...]:
    parameters = canonical_json(series.parameters).decode()
    return series.indicator, parameters, series.comparison_key, series.python_version or ""


def _labels(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    row, wanted = HardwareRow, sorted(digests)
    alike = select(row.label).where(row.digest == any_(texts(wanted)))
    query = select(row.digest, row.label, row.identity).where(row.label.in_(alike))
    labels = distinct_labels(map(tuple, connection.execute(query)))
    return {digest: labels[digest] for digest in wanted if digest in labels}


def _sources(connection: Connection, packages: Iterable[str]) -> dict[str, datetime | None]:
    """When each source last answered; for an index, the earliest time among these packages."""
    times: dict[str, datetime | None] = {}
    # Each maximum is read from the end of an index; a join would read all observations.
    last_job = select(func.max(ObservationRow.ended_at)).scalar_subquery()
    last_inspection = select(func.max(InspectionRow.created_at)).scalar_subquery()
    times[INSPECTIONS] = connection.scalar(select(func.greatest(last_job, last_inspection)))
    names = sorted(packages)
    releases = select(PackageVersionRow.index_name, func.min(PackageVersionRow.as_of)).where(
        PackageVersionRow.name == any_(texts(names))
    )
    times |= dict(connection.execute(releases.group_by(PackageVersionRow.index_name)).all())
    pages = select(IndexProject.index_name, func.min(IndexProject.as_of)).where(
        IndexProject.name == any_(texts(names)), IndexProject.as_of.is_not(None)
    )
    # An unchanged page is newer than the releases that it confirms.
    times |= dict(connection.execute(pages.group_by(IndexProject.index_name)).all())
    advisories = select(AdvisorySource.source, AdvisorySource.as_of).where(HAS_ADVISORIES)
    archives: dict[str, datetime | None] = dict(connection.execute(advisories).all())
    times |= archives or {ADVISORIES: None}
    return dict(sorted(times.items()))
