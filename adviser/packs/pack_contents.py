"""Summarises the tables of a pack for its manifest, and checks that the tables are consistent.

Digests of files do not show that somebody changed a table and wrote a new manifest. These rules
do, as far as content can: classes, stacks and series are named by the digest of their content, and
rates follow from their samples.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from adviser.exports import tables as export_tables
from adviser.exports.arrow_files import schema_of_table
from adviser.packs.manifest import (
    TABLES,
    MeasuredWheel,
    PackedHardware,
    PackedIndicator,
    PackedSession,
    session_days,
)
from adviser.packs.pack_files import MANIFEST, Pack, Progress, ignore, refused_in
from model.errors import InvalidPack, Reason
from model.json_documents import digest
from model.measurements.inspection import Outcome
from model.measurements.job_stability import within_job_spread
from model.measurements.units import Unit

#: Relative tolerance of numbers that are computed again.
_TOLERANCE = 1e-3
NEVER = datetime.fromtimestamp(0, UTC)
#: Stack, version of Python, start of the machine and installation.
_Occasion = tuple[str, str | None, str | None, str | None]
_INSPECTION = ("document_id", "created_at", "ingested_at")
_SAMPLE = ("observation_id", "duration_s")
_OBSERVATION = (
    "observation_id", "document_id", "job_id", "comparison_key", "outcome", "indicator",
    "component", "script_sha256", "parameters", "device", "unit", "rate", "elapsed_s", "spread",
    "hardware_digest", "stack_digest", "python_version", "started_at", "ended_at",
    "boot", "build",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The part of a manifest that follows from the tables; wheels are without hashes."""

    scripts: tuple[PackedIndicator, ...]
    hardware: tuple[PackedHardware, ...]
    sessions: tuple[PackedSession, ...]
    wheels: tuple[MeasuredWheel, ...]
    made_at: datetime
    measured_until: datetime


def check_contents(pack: Pack, progress: Progress = ignore) -> None:
    """Compare the manifest with the tables, and the tables with each other.

    :param progress: called with the number of observations so far, and of all
    :raises InvalidPack: with the first difference
    """
    with refused_in(pack.path):
        for table in TABLES:
            known = {it.name: it.type for it in schema_of_table(export_tables.TABLES[table])}
            for name, schema in pack.schemas(table):
                for column in schema:
                    if (expected := known.get(column.name, column.type)) != column.type:
                        message = f"column {column.name} is {column.type} instead of {expected}"
                        raise InvalidPack(Reason.WRONG_TYPE, message, field=name)
        summary = summary_of(pack, progress)
        for name in (it.name for it in fields(summary)):
            stated = getattr(pack.manifest, name)
            if name == "wheels":
                stated = tuple(replace(it, sha256=()) for it in stated)
            if getattr(summary, name) != stated:
                raise _refused(f"{MANIFEST}:$.{name}", "differs from the tables")


def summary_of(pack: Pack, progress: Progress = ignore) -> TableSummary:
    """Read all tables, and compare them with each other.

    :param progress: as for :func:`check_contents`
    :raises InvalidPack: if they are inconsistent
    """
    documents = {it["document_id"]: it for it in _rows(pack, "inspections", _INSPECTION)}
    hardware, stacks = _hardware(pack), _stacks(pack)
    measured: Counter[tuple[str, str | None, str | None]] = Counter()
    jobs: dict[_Occasion, dict[str, datetime | None]] = defaultdict(dict)
    work: dict[str, float] = {}
    ends = []
    samples = groupby(_rows(pack, "samples", _SAMPLE), itemgetter("observation_id"))
    sampled = next(samples, None)
    for number, row in enumerate(_rows(pack, "observations", _OBSERVATION), 1):
        progress(number, pack.manifest.counts["observations"])
        name, document = row["observation_id"], documents.get(row["document_id"])
        if document is None or row["stack_digest"] not in stacks:
            raise _refused("observations", f"{name}: its inspection or its stack is missing")
        _check_series(row, hardware)
        repetitions: list[float] = []
        if sampled is not None and sampled[0] == name:
            repetitions = [it["duration_s"] for it in sampled[1]]
            sampled = next(samples, None)
        if row["outcome"] != Outcome.MEASURED:
            continue
        _check_rate(row, repetitions, work)
        ended = row["ended_at"] or row["started_at"] or document["created_at"]
        occasion = row["stack_digest"], row["python_version"], row["boot"], row["build"]
        jobs[occasion][row["job_id"]] = ended
        measured[row["indicator"], row["component"], row["script_sha256"]] += 1
        ends += [] if ended is None else [ended]
    if sampled is not None:
        raise _refused(
            "samples", f"{sampled[0]}: its samples belong to no observation, or are out of order"
        )
    sessions: Counter[tuple[str, str | None, str | None, str | None, str | None]] = Counter()
    for occasion, times in jobs.items():
        days = session_days(times.values())
        sessions.update((*occasion, days[it]) for it in times.values())
    return TableSummary(
        scripts=tuple(PackedIndicator(*it, measured[it]) for it in sorted(measured, key=str)),
        hardware=tuple(PackedHardware(it, hardware[it]) for it in sorted(hardware)),
        sessions=tuple(PackedSession(*it, sessions[it]) for it in sorted(sessions, key=str)),
        wheels=tuple(MeasuredWheel(it, ()) for it in sorted(set().union(*stacks.values()))),
        made_at=max((it["ingested_at"] for it in documents.values()), default=NEVER),
        measured_until=max(ends, default=NEVER),
    )


def _rows(pack: Pack, table: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    return (row for batch in pack.batches(table, columns) for row in batch.to_pylist())


def _hardware(pack: Pack) -> dict[str, str]:
    """Label of each hardware class by digest."""
    labels = {}
    for row in _rows(pack, "hardware", ("hardware_digest", "hardware", "identity")):
        if digest(json.loads(row["identity"])) != row["hardware_digest"]:
            raise _refused("hardware", f"{row['hardware_digest']} is not the digest of its class")
        labels[row["hardware_digest"]] = row["hardware"]
    return labels


def _stacks(pack: Pack) -> dict[str, set[str]]:
    """Package URLs of each stack by digest."""
    stacks: dict[str, set[str]] = defaultdict(set)
    for row in _rows(pack, "stacks", ("stack_digest", "purl")):
        stacks[row["stack_digest"]].add(row["purl"])
    for key, purls in stacks.items():
        if digest(sorted(purls)) != key:
            raise _refused("stacks", f"{key} is not the digest of its packages")
    return stacks


def _check_series(row: Mapping[str, Any], hardware: Mapping[str, str]) -> None:
    """Check that an observation belongs to the series of its script, class and parameters."""
    indicator = digest([row["indicator"], row["component"], row["script_sha256"]])
    parameters, unit = json.loads(row["parameters"]), row["unit"]
    key = [indicator, parameters, row["device"], row["hardware_digest"]]
    key += [] if unit in (None, Unit.FLOP_PER_SECOND) else [unit]
    if row["hardware_digest"] not in hardware or digest(key) != row["comparison_key"]:
        message = "has another comparison key than its indicator, hardware and parameters give"
        raise _refused("observations", f"{row['observation_id']} {message}")


def _check_rate(row: Mapping[str, Any], samples: Sequence[float], work: dict[str, float]) -> None:
    """Check that a rate and its spread follow from the samples.

    :param work: the amount of work in one call, by series; changed
    """
    rate, elapsed = row["rate"], row["elapsed_s"]
    wrong = rate is None
    if rate is not None and elapsed is not None:
        once = work.setdefault(row["comparison_key"], rate * elapsed)
        wrong |= not math.isclose(rate * elapsed, once, rel_tol=_TOLERANCE)
    if samples and elapsed is not None:
        wrong |= not min(samples) * (1 - _TOLERANCE) <= elapsed <= max(samples) * (1 + _TOLERANCE)
    if len(samples) > 1:
        spread = within_job_spread(samples)
        wrong |= not math.isclose(row["spread"], spread, rel_tol=_TOLERANCE, abs_tol=1e-9)
    if wrong:
        raise _refused("observations", f"{row['observation_id']}: its rate does not follow"
                       " from its samples, or from the work of its series")  # fmt: skip


def _refused(field: str, message: str) -> InvalidPack:
    return InvalidPack(Reason.CONFLICTING_FIELDS, message, field=field)
