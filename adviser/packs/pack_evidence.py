"""Evidence, releases and hardware classes of a pack, read from its tables without stores.

A pack contains no verdicts: its samples are judged by the rules for own measurements.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import product
from types import SimpleNamespace
from typing import Any

from adviser.answering.target_hardware import class_names
from adviser.packs.manifest import session_days
from adviser.packs.pack_files import Pack
from graph.record.evidence import (
    MAX_MEASUREMENTS,
    day_of,
    series_and_readings,
    too_many_measurements,
)
from graph.snapshot_reader import PackageRecord, RequestedPackage, unnamed_snapshot, walk
from model.errors import InvalidDocument, InvalidPack, Reason
from model.json_documents import digest
from model.json_fields import Fields
from model.measurements.evidence import ADVISORIES, Evidence, EvidencePack, RecordedHardware
from model.measurements.inspection import Outcome
from model.packages.candidate_builder import roots_of
from model.packages.environments import Environment
from model.packages.identity import Purl
from model.packages.native_libraries import Bundled, bundled_of, with_libraries
from model.packages.releases import Requirement, parse_requirement
from model.packages.snapshot import Snapshot


def packed_evidence(
    pack: Pack,
    about: EvidencePack,
    purls: Collection[Purl],
    now: datetime,
    hardware: Collection[str] | None = None,
) -> Evidence:
    """The measurements of all stacks of a pack that contain one of ``purls``.

    :param about: describes the pack, and what it may decide
    :param now: ages are measured from the beginning of its day (UTC)
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :raises InvalidPack: if the tables have an impossible value
    :raises InvalidArgument: if there are too many measurements
    """
    with _usable(pack):
        stacks = _stacks_with(pack, purls)
        wanted = {"stack_digest": stacks} | (
            {} if hardware is None else {"hardware_digest": hardware}
        )
        rows = pack.rows("observations", _OBSERVATIONS, **wanted)
        measured = _measured(pack, rows)
        sessions = _sessions(measured)
        comparable = [it for it in measured if it.quarantine_reason is None]
        series, readings = series_and_readings(comparable)
        # The policy decides by what the manifest names.
        named = product(pack.manifest.indicators, pack.manifest.classes)
        if {(it.indicator, it.hardware_digest) for it in series} - {*named}:
            raise ValueError("its manifest does not name an indicator or a hardware class")
        readings = tuple(replace(it, session=sessions[it.observation_id]) for it in readings)
        stacked = {it.stack for it in readings}
        classes = {it.hardware_digest for it in series}
        labels = class_names(packed_hardware(pack))
        return Evidence(
            as_of=day_of(now),
            series=tuple(replace(it, origin=pack.digest) for it in series),
            readings=readings,
            stacks={key: purls for key, purls in stacks.items() if key in stacked},
            hardware={key: label for key, label in labels.items() if key in classes},
            sources={ADVISORIES: None},
            packs=(about,),
            bundled=_bundled(pack, stacked),
        )


def _sessions(rows: Iterable[Any]) -> dict[str, str]:
    """The session of each measurement by its identifier, as the manifest counts them.

    Only the day is known of jobs without a recorded start and installation.
    """
    occasions: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        occasions[row.stack_digest, row.python_version, row.boot, row.build].append(row)
    sessions = {}
    for (*_, boot, build), alike in occasions.items():
        days = session_days(it.seen_at for it in alike)
        for row in alike:
            day = days[row.seen_at]
            known = boot is not None or build is not None
            sessions[row.observation_id] = digest([boot, build, day]) if known else str(day)
    return sessions


def _bundled(pack: Pack, stacks: Collection[str]) -> Bundled:
    """Bundled libraries that inspections of these stacks recorded, as in the own record."""
    rows = pack.rows("inspections", ("document_id", "bundled"), stack_digest=stacks)
    known: dict[str, Any] = {}
    for row in sorted(rows, key=lambda row: str(row["document_id"]), reverse=True):
        known |= json.loads(row["bundled"] or "{}")
    return with_libraries(bundled_of(Fields(known)))


def packed_snapshot(pack: Pack, names: Sequence[str], environment: Environment) -> Snapshot:
    """The releases of these packages alone, without vulnerabilities.

    :raises InvalidPack: if a value of the tables cannot be
    """
    releases: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    with _usable(pack):
        for row in pack.rows("releases", _RELEASES, name=names):
            releases[row["name"]].append(row)

    def read(packages: Sequence[RequestedPackage]) -> Iterator[PackageRecord]:
        for name, extras in packages:
            yield PackageRecord(name, None, [_version(it, extras) for it in releases[name]])

    roots = roots_of(names, environment)
    with _usable(pack):
        return unnamed_snapshot(walk(read, roots, environment, follow=False), roots, environment)


def packed_hardware(pack: Pack) -> tuple[RecordedHardware, ...]:
    """The hardware classes of a pack, by digest.

    :raises InvalidPack: if a value of the tables cannot be
    """
    with _usable(pack):
        rows = pack.rows("hardware", ("hardware_digest", "hardware", "identity"))
        return tuple(
            RecordedHardware(it["hardware_digest"], it["hardware"], json.loads(it["identity"]))
            for it in sorted(rows, key=lambda it: str(it["hardware_digest"]))
        )


@contextmanager
def _usable(pack: Pack) -> Iterator[None]:
    """Turn errors about values that columns allow and rules do not into errors of the pack."""
    try:
        yield
    except (
        AttributeError, ArithmeticError, InvalidDocument, LookupError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        message = f"its tables have an impossible value: {error}"
        raise InvalidPack(Reason.OUT_OF_RANGE, message, place=str(pack.path)) from error


def _measured(pack: Pack, jobs: Iterable[dict[str, Any]]) -> list[Any]:
    """The measurements among these rows, as :func:`graph.record.measurements.measured` has them."""
    measured = [it for it in jobs if it["outcome"] == Outcome.MEASURED]
    if len(measured) > MAX_MEASUREMENTS:
        raise too_many_measurements(MAX_MEASUREMENTS)
    documents = {it["document_id"] for it in measured}
    inspections = pack.rows("inspections", ("document_id", "created_at"), document_id=documents)
    made_at = {it["document_id"]: it["created_at"] for it in inspections}
    samples: dict[str, list[float]] = defaultdict(list)
    identifiers = [it["observation_id"] for it in measured]
    columns = ("observation_id", "duration_s")
    for row in pack.rows("samples", columns, observation_id=identifiers):
        samples[row["observation_id"]].append(row["duration_s"])
    for row in measured:
        if not (math.isfinite(row["rate"]) and row["rate"] > 0):
            raise ValueError(f"{row['observation_id']} has the rate {row['rate']}")
    return [
        SimpleNamespace(
            **{**row, "parameters": json.loads(row["parameters"])},
            repetitions_s=samples.get(row["observation_id"], []),
            seen_at=row["ended_at"] or row["started_at"] or made_at.get(row["document_id"]),
        )
        for row in measured
    ]


def _stacks_with(pack: Pack, purls: Collection[Purl]) -> dict[str, tuple[Purl, ...]]:
    """All versions of each measured stack that contains one of ``purls``, by stack digest."""
    containing = pack.rows("stacks", ("stack_digest",), purl=purls)
    digests = {it["stack_digest"] for it in containing}
    stacks: dict[str, list[Purl]] = defaultdict(list)
    for row in pack.rows("stacks", ("stack_digest", "purl"), stack_digest=digests):
        stacks[row["stack_digest"]].append(Purl(row["purl"]))
    return {stack: tuple(sorted(versions)) for stack, versions in sorted(stacks.items())}


def _version(row: Mapping[str, Any], extras: Sequence[str]) -> list[Any]:
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
_RELEASES = (*_VERSION, "name", "metadata_source", "requirements")
_OBSERVATIONS = (
    "observation_id", "document_id", "job_id", "comparison_key", "parameters", "device", "unit",
    "rate", "elapsed_s", "unstable_reason", "host", "block", "hardware_digest", "stack_digest",
    "indicator", "script_sha256", "python_version", "outcome", "started_at", "ended_at",
    "quarantine_reason", "tick_share", "boot", "build",
)  # fmt: skip
