"""Read what a Parquet export knows of two locks, for ``thoth guard`` without stores.

Needs the extra ``export``. The result equals that of
:func:`adviser.answering.lock_comparison.knowledge_of_locks` at the time of the export, except for
times of sources that no comparison of locks reads.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from adviser.answering.lock_comparison import MAX_MEASUREMENTS, LockKnowledge
from adviser.answering.target_hardware import class_names
from adviser.exports.croissant import CROISSANT_FILE
from adviser.guard import versions_without_candidate
from graph.record.affected_versions import stored_package
from graph.record.evidence import day_of, purls_in, series_and_readings, too_many_measurements
from graph.snapshot_reader import (
    PackageRecord,
    RequestedPackage,
    unnamed_snapshot,
    walk,
    with_affected,
)
from model.advisories import AffectedPackage, VersionLine
from model.errors import InvalidArgument
from model.measurements.evidence import ADVISORIES, Evidence, RecordedHardware
from model.packages.candidate_builder import roots_of
from model.packages.candidates import KnownVulnerability
from model.packages.environments import Environment
from model.packages.identity import Purl
from model.packages.releases import Requirement, parse_requirement
from model.packages.snapshot import Snapshot
from model.reasons import Reason

_Row = dict[str, Any]


def knowledge_of_exported_locks(
    folder: Path,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    choose_hardware: Callable[[Sequence[RecordedHardware]], str] | None = None,
) -> tuple[LockKnowledge, datetime]:
    """What an export knows of two locks, each given as version by package name.

    :param choose_hardware: given all hardware classes, returns the digest of the one whose
        measurements are read; by default, those of all classes are read
    :returns: also the time of the data
    :raises InvalidArgument: if ``folder`` is not a complete export of this version, or if there are
        too many measurements
    """
    try:
        export = _Export(folder)
        hardware = None if choose_hardware is None else [choose_hardware(export.hardware)]
        snapshot = export.snapshot(sorted({*old, *new}), environment)
        unlisted = versions_without_candidate(old, new, snapshot)
        vulnerabilities = export.vulnerabilities_by_version(unlisted)
        evidence = export.evidence(snapshot, hardware)
        known = LockKnowledge(snapshot, evidence, vulnerabilities, export.hardware)
        return known.of_locks(old, new, environment, hardware or ()), export.as_of
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError) as error:
        raise InvalidArgument(
            f"{folder}: not a complete export: {error}",
            hint="make it with this version, without --only: thoth export parquet DIR",
        ) from error


class _Export:
    """The files of an export."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        description = json.loads((folder / CROISSANT_FILE).read_text("utf-8"))
        self.as_of = datetime.fromisoformat(description["datePublished"])
        #: By name.
        self._releases: dict[str, list[_Row]] = {}

    def snapshot(self, names: Sequence[str], environment: Environment) -> Snapshot:
        """Packages in an environment, as :func:`graph.snapshot_reader.load_packages` reads them."""
        roots = roots_of(names, environment)
        closure = walk(self._packages, roots, environment, follow=False)
        vulnerabilities = {
            row["purl"]: [self._vulnerabilities[it] for it in row["vulnerabilities"]]
            for name in closure.candidates
            for row in self._releases[name]
            if row["vulnerabilities"]
        }
        return unnamed_snapshot(with_affected(closure, vulnerabilities), roots, environment)

    def evidence(self, snapshot: Snapshot, hardware: Collection[str] | None = None) -> Evidence:
        """The measurements of all stacks that contain a version of the snapshot.

        :param hardware: digests of the hardware classes whose measurements are read; by default all
        """
        stacks = self._stacks_with(purls_in(snapshot, with_excluded=True))
        excluded = self._rows(
            "observations", ("quarantine_reason",),
            stack_digest=stacks, quarantine_reason=[Reason.TAMPERED.value],
        )  # fmt: skip
        wanted = {"stack_digest": stacks} | (
            {} if hardware is None else {"hardware_digest": hardware}
        )
        jobs = self._rows("observations", _OBSERVATIONS, **wanted)
        series, readings = series_and_readings(self._measured(jobs))
        measured = {it.stack for it in readings}
        classes = {it.hardware_digest for it in series}
        labels = class_names(self.hardware)
        archives = self._rows("advisory_archives", ("read_at",))
        return Evidence(
            as_of=day_of(self.as_of),
            series=series,
            readings=readings,
            stacks={key: purls for key, purls in stacks.items() if key in measured},
            hardware={key: labels[key] for key in labels if key in classes},
            sources={} if archives else {ADVISORIES: None},
            refused=len(excluded),
        )

    def _measured(self, jobs: Sequence[_Row]) -> Iterator[Any]:
        """Comparable measurements, as :func:`graph.record.measurements.measured` selects them."""
        measured = [
            it for it in jobs if it["outcome"] == "measured" and it["quarantine_reason"] is None
        ]
        if len(measured) > MAX_MEASUREMENTS:
            raise too_many_measurements(MAX_MEASUREMENTS)
        documents = {it["document_id"] for it in measured}
        inspections = self._rows("inspections", _INSPECTIONS, document_id=documents)
        made_at = {it["document_id"]: it["created_at"] for it in inspections}
        samples: dict[str, list[float]] = defaultdict(list)
        identifiers = [it["observation_id"] for it in measured]
        for row in self._rows("samples", _SAMPLES, observation_id=identifiers):
            samples[row["observation_id"]].append(row["duration_s"])
        for row in measured:
            yield SimpleNamespace(
                **row | {"parameters": json.loads(row["parameters"])},
                repetitions_s=samples.get(row["observation_id"], []),
                seen_at=row["ended_at"] or row["started_at"] or made_at[row["document_id"]],
            )

    def vulnerabilities_by_version(
        self, versions: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[KnownVulnerability, ...]]:
        """Vulnerabilities of versions that need not be in the export; its files are read once."""
        claims: dict[str, list[tuple[str, AffectedPackage]]] = defaultdict(list)
        names = {name for name, _ in versions}
        rows = self._rows("advisory_packages", _ADVISORY_PACKAGES, name=names) if names else ()
        for row in rows:
            if row["advisory_id"] in self._advisories:
                claims[row["name"]].append((self._advisories[row["advisory_id"]], _affected(row)))
        known = {}
        for name, version in versions:
            line = VersionLine([version])
            affecting = {it for it, package in claims[name] if line.affected(package)}
            known[name, version] = tuple(self._vulnerabilities[it] for it in sorted(affecting))
        return known

    @cached_property
    def hardware(self) -> tuple[RecordedHardware, ...]:
        """All hardware classes, by digest."""
        rows = self._rows("hardware", ("hardware_digest", "hardware", "identity"))
        return tuple(
            RecordedHardware(it["hardware_digest"], it["hardware"], json.loads(it["identity"]))
            for it in sorted(rows, key=lambda it: str(it["hardware_digest"]))
        )

    @cached_property
    def _advisories(self) -> dict[str, str]:
        """The vulnerability of each advisory that was not withdrawn."""
        rows = self._rows("advisories", ("advisory_id", "vulnerability_id", "withdrawn_at"))
        return {
            it["advisory_id"]: it["vulnerability_id"] for it in rows if it["withdrawn_at"] is None
        }

    @cached_property
    def _vulnerabilities(self) -> dict[str, KnownVulnerability]:
        rows = self._rows("vulnerabilities", _VULNERABILITIES)
        known = (KnownVulnerability(*(row[it] for it in _VULNERABILITIES)) for row in rows)
        return {it.id: it for it in known}

    def _packages(self, packages: Sequence[RequestedPackage]) -> Iterator[PackageRecord]:
        """The releases of packages, each read once."""
        unread = {name for name, _ in packages} - self._releases.keys()
        self._releases |= {name: [] for name in unread}
        for row in self._rows("releases", _RELEASES, name=unread) if unread else ():
            self._releases[row["name"]].append(row)
        for name, extras in packages:
            versions = [_version(it, extras) for it in self._releases[name]]
            yield PackageRecord(name, None, versions)

    def _stacks_with(self, purls: Collection[Purl]) -> dict[str, tuple[Purl, ...]]:
        """All versions of each measured stack that contains one of ``purls``, by stack digest."""
        containing = self._rows("stacks", ("stack_digest",), purl=purls)
        digests = {it["stack_digest"] for it in containing}
        stacks: dict[str, list[Purl]] = defaultdict(list)
        for row in self._rows("stacks", ("stack_digest", "purl"), stack_digest=digests):
            stacks[row["stack_digest"]].append(Purl(row["purl"]))
        return {stack: tuple(sorted(versions)) for stack, versions in sorted(stacks.items())}

    def _rows(self, table: str, columns: Sequence[str], **wanted: Collection[str]) -> list[_Row]:
        """Some columns of the rows of a table.

        :param wanted: columns and their values; all rows without any
        """
        condition = None
        for column, values in wanted.items():
            alike = ds.field(column).isin(pa.array(sorted(values), pa.string()))
            condition = alike if condition is None else condition & alike
        files = ds.dataset(self._folder / table, format="parquet")
        rows: list[_Row] = files.to_table(list(columns), filter=condition).to_pylist()
        return rows


def _affected(row: _Row) -> AffectedPackage:
    return stored_package(row["name"], json.loads(row["ranges"]), row["versions"])


def _version(row: _Row, extras: Sequence[str]) -> list[Any]:
    """The values of :class:`model.packages.candidate_builder.VersionRecord`."""
    lines = map(parse_requirement, row["requirements"])
    requires = [
        (it.name, it.specifier, it.marker, it.extras, it.url, it.problem)
        for it in lines
        if it.name is not None and _may_apply(it, extras)
    ]
    return [*(row[it] for it in _VERSION), requires, row["metadata_source"]]


def _may_apply(requirement: Requirement, extras: Sequence[str]) -> bool:
    """Whether the graph returns a requirement: see :data:`graph.snapshot_reader.PACKAGES`."""
    marker = requirement.marker or ""
    return (
        not requirement.for_extras
        or any(extra in extras for extra in requirement.for_extras)
        or any(it in marker for it in (" or ", "extra !=", "!= extra"))
    )


#: Columns of the table ``releases``, in the order of a version's values.
_VERSION = (
    "purl", "version", "index", "state", "problem", "requires_python", "yanked", "yanked_reason",
    "uploaded_at", "wheels", "has_sdist", "files_complete", "extras",
)  # fmt: skip
_RELEASES = (*_VERSION, "name", "metadata_source", "requirements", "vulnerabilities")
_OBSERVATIONS = (
    "observation_id", "document_id", "job_id", "comparison_key", "parameters", "device", "unit",
    "rate", "elapsed_s", "unstable_reason", "host", "block", "hardware_digest", "stack_digest",
    "indicator", "script_sha256", "python_version", "outcome", "started_at", "ended_at",
    "quarantine_reason", "tick_share",
)  # fmt: skip
_INSPECTIONS = ("document_id", "created_at")
_SAMPLES = ("observation_id", "duration_s")
_ADVISORY_PACKAGES = ("advisory_id", "name", "ranges", "versions")
_VULNERABILITIES = ("vulnerability_id", "severity", "score")
