"""The manifest of an evidence pack: its contents, and the digest that names it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from adviser.reports.serialization import dataclass_of, dataclass_to_json
from model.declared_fields import (
    COMPONENT,
    HARDWARE_DIGEST,
    HARDWARE_LABEL,
    INDICATOR,
    PYTHON_VERSION,
    STACK_DIGEST,
    Field,
)
from model.errors import InvalidDocument, Reason
from model.json_documents import digest_bytes, load_json

SCHEMA_VERSION = "evidence-pack-1"
#: A session goes on after midnight until a longer pause.
_PAUSE = timedelta(hours=4)
#: Tables of a pack, in the form of ``thoth export parquet``.
TABLES = ("inspections", "observations", "samples", "hardware", "stacks", "releases")


@dataclass(frozen=True, slots=True)
class PackFile:
    """A file of a pack."""

    path: Annotated[str, Field("Path below the pack, with slashes.", "hardware/part-00000.parquet")]
    sha256: Annotated[str, Field("SHA-256 of its content, hexadecimal.")]
    size_bytes: Annotated[int, Field("Its size.", 14_020, unit="B")]


@dataclass(frozen=True, slots=True)
class PackedIndicator:
    """A script that measured; ``script_sha256`` names its file below ``indicators``."""

    name: Annotated[str, INDICATOR]
    component: Annotated[str | None, COMPONENT]
    script_sha256: Annotated[str | None, Field("SHA-256 of the script; null if unknown.")]
    measurements: Annotated[int, Field("Number of its measurements.", 70)]


@dataclass(frozen=True, slots=True)
class PackedHardware:
    """A hardware class that was measured on."""

    digest: Annotated[str, HARDWARE_DIGEST]
    label: Annotated[str, HARDWARE_LABEL]


@dataclass(frozen=True, slots=True)
class PackedSession:
    """Jobs of a stack with the same start of the machine, build and day."""

    stack_digest: Annotated[str, STACK_DIGEST]
    python_version: Annotated[str | None, PYTHON_VERSION]
    boot: Annotated[str | None, Field("Digest of the start of the machine; null if unknown.")]
    build: Annotated[str | None, Field("Installation of the environment; null if unknown.")]
    day: Annotated[str | None, Field("Day on which it began, UTC.", "2026-11-29")]
    jobs: Annotated[int, Field("Number of jobs.", 7)]


@dataclass(frozen=True, slots=True)
class MeasuredWheel:
    """A package version that was installed in a measured stack."""

    purl: Annotated[str, Field("Package URL.", "pkg:pypi/numpy@2.4.6")]
    sha256: Annotated[
        tuple[str, ...],
        Field("SHA-256 of the wheels that the locks allowed; empty if they have no hashes."),
    ]


@dataclass(frozen=True, slots=True)
class PackManifest:
    """The contents of a pack; the digest of its canonical JSON is the digest of the pack."""

    name: Annotated[str, Field("Name for people.", "releases-2026-11")]
    licence: Annotated[str | None, Field("SPDX expression of the licence.", "CC-BY-4.0")]
    made_at: Annotated[datetime, Field("When the last of its inspections was stored.")]
    measured_until: Annotated[datetime, Field("When its last job ended.")]
    checker_version: Annotated[str, Field("Version of the program that made it.", "0.3.0")]
    counts: Annotated[Mapping[str, int], Field("Number of rows of each table.")]
    files: tuple[PackFile, ...]
    scripts: tuple[PackedIndicator, ...]
    hardware: tuple[PackedHardware, ...]
    sessions: tuple[PackedSession, ...]
    wheels: tuple[MeasuredWheel, ...]
    schema_version: Annotated[str, Field("Version of this form.", SCHEMA_VERSION)] = SCHEMA_VERSION

    @property
    def canonical(self) -> bytes:
        """The canonical JSON, which is the content of the file."""
        return dataclass_to_json(self)

    @property
    def digest(self) -> str:
        """The digest of the pack."""
        return digest_bytes(self.canonical)

    @property
    def indicators(self) -> list[str]:
        """Names of its indicators, sorted."""
        return sorted({it.name for it in self.scripts})

    @property
    def classes(self) -> list[str]:
        """Digests of its hardware classes, sorted."""
        return sorted({it.digest for it in self.hardware})

    @property
    def session_count(self) -> int:
        """The largest number of sessions in which one stack, with one Python, was measured."""
        stacks = Counter((it.stack_digest, it.python_version) for it in self.sessions)
        return max(stacks.values(), default=0)


def session_days(times: Iterable[datetime | None]) -> dict[datetime | None, str | None]:
    """The day (UTC) on which the session of each job began.

    :param times: when jobs of one start of the machine and one installation ended; ``None`` if
        unknown
    """
    days: dict[datetime | None, str | None] = {None: None}
    last: datetime | None = None
    for at in sorted({it for it in times if it is not None}):
        goes_on = last is not None and at - last <= _PAUSE
        days[at] = days[last] if goes_on else at.astimezone(UTC).date().isoformat()
        last = at
    return days


def parse_manifest(data: bytes) -> PackManifest:
    """The manifest whose canonical JSON is ``data``.

    :raises InvalidDocument: if its schema is unknown, or it is not canonical
    """
    value, _ = load_json(data)
    schema = value.get("schema_version") if isinstance(value, dict) else None
    if schema != SCHEMA_VERSION:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA,
            f"schema_version {str(schema)[:40]!r} is not known; known is {SCHEMA_VERSION}",
            field="$.schema_version",
        )
    manifest = dataclass_of(value, PackManifest)
    if manifest.canonical != data:
        raise InvalidDocument(Reason.TAMPERED, "is not in canonical form")
    return manifest
