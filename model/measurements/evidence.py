"""The frozen evidence behind scores: measurements, stacks, vulnerabilities, sources.

Evidence does no I/O. Like a snapshot, it is identified by a digest of its content, so equal
evidence leads to equal advice. :mod:`graph.record.evidence` reads evidence from the record. Quality
reports read jobs with their raw repetitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any

import orjson

from model.declared_fields import (
    COMPARISON_KEY,
    COMPONENT,
    DEVICE,
    HARDWARE_DIGEST,
    HARDWARE_LABEL,
    INDICATOR,
    PARAMETERS,
    PYTHON_VERSION,
    RATE_UNIT,
    SCRIPT,
    STACK_DIGEST,
    Field,
)
from model.errors import InvalidDocument, Reason
from model.json_documents import as_json_time, canonical_json, digest_bytes, fault_in
from model.json_fields import Fields
from model.measurements.units import Unit
from model.packages.identity import PackageVersion, Purl
from model.packages.native_libraries import Bundled, bundled_document, bundled_of

#: Name of the source of advisories if no archive of advisories was ever read.
ADVISORIES = "advisories"

#: Indicator of the measurements of a command.
COMMAND = "command"
#: Parameters of such a measurement: the command, and the digest of the files that it names.
COMMAND_TEXT, COMMAND_FILES = "command", "files_sha256"

#: Schema of the JSON form.
SCHEMA_VERSION = "evidence-1"


@dataclass(frozen=True, slots=True)
class Series:
    """A group of comparable measurements: one indicator, its parameters and one hardware class.

    :param comparison_key: digest of indicator, script, parameters, device and hardware class
    :param python_version: such as ``3.11``; ``None`` if the documents do not contain it
    :param origin: digest of the pack that it is from; ``None`` for the own record
    """

    comparison_key: Annotated[str, COMPARISON_KEY]
    indicator: Annotated[str, INDICATOR]
    script_sha256: Annotated[str | None, SCRIPT]
    parameters: Annotated[Mapping[str, Any], PARAMETERS]
    device: Annotated[str | None, DEVICE]
    unit: Annotated[Unit, RATE_UNIT]
    hardware_digest: str
    python_version: Annotated[str | None, PYTHON_VERSION]
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement of one job.

    :param series: index into :attr:`Evidence.series`
    :param stack: digest of the measured stack
    :param rate: rate of the median repetition in the unit of the series, positive
    :param seen_at: end of the job, otherwise the date of the document
    :param tick_share: smallest step of the clock as a share of the time of a repetition
    :param session: boot of the machine, build of the environment and day; ``None`` if
        only its document is known
    """

    observation_id: str
    series: int
    stack: str
    document_id: str
    job_id: str
    rate: float
    unstable_reason: str | None = None
    host: str | None = None
    block: str | None = None
    seen_at: datetime | None = None
    tick_share: float | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class VulnerabilityDetails:
    """Facts about a vulnerability that the snapshot does not contain.

    :param aliases: all its identifiers, its own included, sorted
    """

    aliases: tuple[str, ...]
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """A pack of others' measurements, and what the policy lets it decide.

    :param digest: of its manifest; the ``origin`` of its series
    :param name: for people
    :param key: fingerprint of the verified key that signed it; ``None`` without a signature
    :param licence: SPDX expression
    :param sessions: number of sessions, as :attr:`Reading.session`
    :param problem: why it never decides; ``None`` if it may decide
    :param indicators: names of the indicators for which it may decide; ``None`` for all
    :param hardware: digests of the hardware classes for which it may decide; ``None`` for all
    :param min_jobs: number of jobs of each stack from which a comparison may decide
    :param min_sessions: number of sessions from which a comparison may decide
    """

    digest: str
    name: str
    key: str | None = None
    licence: str | None = None
    sessions: int = 0
    problem: str | None = None
    indicators: tuple[str, ...] | None = None
    hardware: tuple[str, ...] | None = None
    min_jobs: int = 5
    min_sessions: int = 2

    def decides(self, series: Series) -> bool:
        """Whether it may decide about a series, on the hardware class where it was measured."""
        return (
            self.problem is None
            and (self.indicators is None or series.indicator in self.indicators)
            and (self.hardware is None or series.hardware_digest in self.hardware)
        )


@dataclass(frozen=True)
class Evidence:
    """Everything that scoring reads in addition to the snapshot.

    :param as_of: reference time for ages, which replaces the clock
    :param series: sorted by content
    :param readings: sorted by series, then by identifier
    :param stacks: the versions in each measured stack, sorted
    :param hardware: label of each hardware class, by digest
    :param vulnerabilities: details about vulnerabilities of the snapshot's candidates, by
        identifier
    :param sources: time of the last answer or document of each source, by name
    :param refused: number of observations of these stacks that are left out, because their
        documents were tampered with
    :param packs: the packs that series are from, sorted by digest
    :param bundled: libraries in the wheels of the stacks' releases; see
        :func:`model.packages.native_libraries.bundled_of`
    """

    as_of: datetime
    series: tuple[Series, ...] = ()
    readings: tuple[Reading, ...] = ()
    stacks: Mapping[str, tuple[Purl, ...]] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    vulnerabilities: Mapping[str, VulnerabilityDetails] = field(default_factory=dict)
    sources: Mapping[str, datetime | None] = field(default_factory=dict)
    refused: int = 0
    packs: tuple[EvidencePack, ...] = ()
    bundled: Bundled = field(default_factory=dict)

    def with_packs(self, others: Iterable[Evidence]) -> Evidence:
        """This evidence and the evidence of packs, whose series stay separate.

        Observations of this evidence are left out of the packs. A stack that a pack describes
        differently has another digest. Bundled libraries are ignored if a pack that never decides
        names them.

        :param others: the evidence of one pack each
        """
        series, readings = list(self.series), list(self.readings)
        known = {it.observation_id for it in readings}
        stacks, hardware, packs = dict(self.stacks), dict(self.hardware), list(self.packs)
        bundled = dict(self.bundled)
        for other in sorted(others, key=lambda it: [pack.digest for pack in it.packs]):
            names = {
                stack: stack
                if stacks.setdefault(stack, purls) == purls
                else digest_bytes(canonical_json([stack, *purls]))
                for stack, purls in other.stacks.items()
            }
            stacks |= {names[stack]: purls for stack, purls in other.stacks.items()}
            readings += [
                replace(it, series=it.series + len(series), stack=names.get(it.stack, it.stack))
                for it in other.readings
                if it.observation_id not in known
            ]
            series += other.series
            packs += other.packs
            hardware = {**other.hardware, **hardware}
            if all(it.problem is None for it in other.packs):
                bundled = {**other.bundled, **bundled}
        packs.sort(key=lambda it: it.digest)
        return replace(
            self, series=tuple(series), readings=tuple(readings), hardware=hardware,
            stacks=dict(sorted(stacks.items())), packs=tuple(packs),
            bundled=dict(sorted(bundled.items())),
        )  # fmt: skip

    def only(self, series: Collection[int]) -> Evidence:
        """The part about some series, given by their indexes, with its packs."""
        numbers = {number: place for place, number in enumerate(sorted(series))}
        kept = tuple(self.series[it] for it in numbers)
        readings = tuple(
            it if numbers[it.series] == it.series else replace(it, series=numbers[it.series])
            for it in self.readings
            if it.series in numbers
        )
        measured, origins = {it.stack for it in readings}, {it.origin for it in kept}
        return replace(
            self, series=kept, readings=readings,
            stacks={key: them for key, them in self.stacks.items() if key in measured},
            packs=tuple(it for it in self.packs if it.digest in origins),
        )  # fmt: skip

    @cached_property
    def revision(self) -> str:
        """Digest of the content."""
        return digest_bytes(self.to_json())

    @property
    def knows_advisories(self) -> bool:
        """Whether an archive of advisories was read; otherwise no version counts as vulnerable."""
        return self.sources.get(ADVISORIES, self.as_of) is not None

    def to_json(self) -> bytes:
        """The canonical JSON form, cached; equal evidence has equal bytes."""
        return self._json

    @cached_property
    def _json(self) -> bytes:
        return canonical_json(
            {
                "schema_version": SCHEMA_VERSION,
                "as_of": as_json_time(self.as_of),
                "series": [_members(it) for it in self.series],
                "readings": list(map(_row, self.readings)),
                "stacks": self.stacks,
                "hardware": self.hardware,
                "vulnerabilities": {key: _members(it) for key, it in self.vulnerabilities.items()},
                "sources": {key: _plain(it) for key, it in self.sources.items()},
            }
            # Absent if zero or empty: evidence without these keeps its digest.
            | ({"refused": self.refused} if self.refused else {})
            | ({"packs": [_members(it) for it in self.packs]} if self.packs else {})
            | ({"bundled": bundled_document(self.bundled)} if self.bundled else {})
        )

    @classmethod
    def from_json(cls, data: bytes) -> Evidence:
        """Read the output of :meth:`to_json`.

        :raises InvalidDocument: if ``data`` is not such a document
        """
        try:
            raw = orjson.loads(data)
            version = raw["schema_version"]
            if version != SCHEMA_VERSION:
                raise InvalidDocument(
                    Reason.UNKNOWN_SCHEMA, f"{version!r} is not {SCHEMA_VERSION}",
                    field="schema_version",
                )  # fmt: skip
            return cls(
                as_of=datetime.fromisoformat(raw["as_of"]),
                series=tuple(Series(**{**row, "unit": Unit(row["unit"])}) for row in raw["series"]),
                readings=tuple(map(_reading, raw["readings"])),
                stacks={key: tuple(map(Purl, it)) for key, it in raw["stacks"].items()},
                hardware=raw["hardware"],
                vulnerabilities={
                    key: VulnerabilityDetails(tuple(it["aliases"]), it["summary"])
                    for key, it in raw["vulnerabilities"].items()
                },
                sources={key: _moment(it) for key, it in raw["sources"].items()},
                refused=raw.get("refused", 0),
                packs=tuple(map(_pack, raw.get("packs", ()))),
                bundled=bundled_of(Fields(raw.get("bundled", {}))),
            )
        except orjson.JSONDecodeError as error:
            raise InvalidDocument(Reason.INVALID_JSON, str(error), field="$") from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidDocument(
                Reason.MISSING_FIELD, f"not evidence: {fault_in(error)}", field="$"
            ) from error


#: Fields of a reading, in the order of its row.
_READING = tuple(field.name for field in fields(Reading))
_SEEN_AT = _READING.index("seen_at")


def _members(row: Series | VulnerabilityDetails | EvidencePack) -> dict[str, Any]:
    """All fields, without the ``origin`` of own series, so that old evidence keeps its digest."""
    members = {field.name: getattr(row, field.name) for field in fields(row)}
    if members.get("origin", "") is None:
        del members["origin"]
    return members


def _pack(row: Mapping[str, Any]) -> EvidencePack:
    lists = {key: row[key] and tuple(row[key]) for key in ("indicators", "hardware")}
    return EvidencePack(**{**row, **lists})


def _plain(value: Any) -> Any:
    return as_json_time(value) if isinstance(value, datetime) else value


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _row(reading: Reading) -> list[Any]:
    """The values of a reading without unknown last ones, so that old evidence keeps its digest."""
    row = [_plain(getattr(reading, name)) for name in _READING]
    while len(row) > _SEEN_AT + 1 and row[-1] is None:
        row.pop()
    return row


def _reading(row: list[Any]) -> Reading:
    row[_SEEN_AT] = _moment(row[_SEEN_AT])
    row += [None] * (len(_READING) - len(row))
    return Reading(**dict(zip(_READING, row, strict=True)))


#: Placeholder for the stack of readings whose inspection has no lock.
UNKNOWN_STACK = ""


@dataclass(frozen=True, slots=True)
class MeasuredObservation:
    """One measurement of one job, with its stack and machine.

    :param reading: its stack may be :data:`UNKNOWN_STACK`; its series is a number, counted from 0
        in the order of the result
    :param component: package that provides the measured library, otherwise the library's name
    :param component_version: version of that package in the stack, if known
    :param packages: all packages of the stack; empty if it is unknown
    """

    series: Series
    reading: Reading
    hardware_label: str
    component: str | None
    component_version: str | None
    packages: tuple[PackageVersion, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareName:
    """Name of a hardware class."""

    digest: Annotated[str, HARDWARE_DIGEST]
    label: Annotated[str, HARDWARE_LABEL]


@dataclass(frozen=True, slots=True)
class RecordedHardware(HardwareName):
    """A hardware class; its digest is computed from ``identity``."""

    identity: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobSamples:
    """One measured job with its raw durations.

    :param repetitions_s: duration of each repetition, s, in order; may be empty
    :param elapsed_s: duration of one measured call, s: the median repetition, if there are any
    :param duration_s: from the start of the job to its end, s
    """

    observation: MeasuredObservation
    repetitions_s: tuple[float, ...]
    elapsed_s: float | None
    duration_s: float | None

    @property
    def series(self) -> Series:
        """The series of the job."""
        return self.observation.series

    def repetition_rates(self) -> list[float]:
        """The rate of each repetition, in the unit of the series."""
        if self.elapsed_s is None:
            return []
        return [self.observation.reading.rate * self.elapsed_s / it for it in self.repetitions_s]


@dataclass(frozen=True, slots=True)
class SeriesSettings:
    """The settings of a series, and its number of measurements.

    :param hardware: identity of the hardware class
    """

    comparison_key: Annotated[str, COMPARISON_KEY]
    indicator: Annotated[str, INDICATOR]
    component: Annotated[str | None, COMPONENT]
    script_sha256: Annotated[str | None, SCRIPT]
    parameters: Annotated[Mapping[str, Any], PARAMETERS]
    device: Annotated[str | None, DEVICE]
    unit: Annotated[str, RATE_UNIT]
    hardware_digest: str
    hardware_label: str
    hardware: Mapping[str, Any]
    python_versions: Annotated[
        tuple[str, ...], Field("Versions of the Python interpreter.", ["3.11"])
    ]
    jobs: Annotated[int, Field("Number of measurements.", 60)]
    stacks: Annotated[int, Field("Number of known stacks.", 6)]


@dataclass(frozen=True, slots=True)
class MissingMeasurement:
    """Jobs that ran but were not measured, or whose measurement does not count."""

    comparison_key: Annotated[str, COMPARISON_KEY]
    stack: Annotated[str | None, STACK_DIGEST]
    outcome: Annotated[str, Field("Outcome of the jobs.", "crashed")]
    reason: Annotated[str | None, Field("Code of the crash or of the quarantine.")]
    jobs: Annotated[int, Field("Number of jobs.", 1)]
