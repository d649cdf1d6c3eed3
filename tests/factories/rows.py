"""Rows of the record with their outbox entries, without any document behind them."""

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Boolean, DateTime, Double, Engine, Integer, Text, insert
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    AffectedVersion,
    ArtifactInterface,
    ArtifactRow,
    Base,
    ClaimPackage,
    ClaimRow,
    Document,
    HardwareRow,
    IndexProject,
    IndicatorRow,
    InspectionRow,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    ObservationRow,
    OutboxEntry,
    PackageRow,
    PackageVersionRow,
    RequestRow,
    RequirementRow,
    RuntimeEnvironmentRow,
    StackPackage,
    StackRow,
    VulnerabilityRow,
    table_of,
)
from model.json_documents import canonical_json
from model.packages.identity import version_key

_EPOCH = datetime(2020, 2, 1, tzinfo=UTC)
_CHUNK = 1_000

Rows = dict[type[Base], list[dict[str, Any]]]


def digest_of(*parts: object) -> str:
    """A digest that looks like the real ones."""
    return "sha256:" + hashlib.sha256(repr(parts).encode()).hexdigest()


def drawn_row(table: type[Base], rng: random.Random, **given: Any) -> dict[str, Any]:
    """A row of ``table``: what is given, and in every other column without a default some value.

    A column that may be null is null in three rows of ten. References must be given, or are null.
    """
    drawn = {
        it.name: None
        if it.nullable and (it.foreign_keys or rng.random() < 0.3)
        else _drawn(it.name, it.type, rng)
        for it in table.__table__.columns
        if it.name not in given and it.server_default is None
    }
    return drawn | given


def _drawn(name: str, kind: TypeEngine[Any], rng: random.Random) -> Any:
    if isinstance(kind, ARRAY):
        return [_drawn(name, kind.item_type, rng) for _ in range(rng.randrange(4))]
    if isinstance(kind, JSONB):
        return {"size": 512, "m": 2**63, "width": 0.5, "note": "Grüße 😀", "strides": [1, 2]}
    largest = 2**62 if isinstance(kind, BigInteger) else 2**31
    values = {
        Boolean: rng.random() < 0.5,
        Integer: rng.randrange(largest),
        Double: rng.choice([2.0, 1e300, rng.random(), rng.random() * 1e13]),
        DateTime: _EPOCH + timedelta(microseconds=rng.randrange(10**14)),
        Text: f"{name} {rng.randrange(3)}",
    }
    return next(value for of, value in values.items() if isinstance(kind, of))


class _Record:
    """Rows by table, which are added one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows: Rows = defaultdict(list)

    def add(self, table: type[Base], **given: Any) -> dict[str, Any]:
        """Draw a row; without another one given, it names one of the documents."""
        if "document_id" in table.__table__.columns and "document_id" not in given:
            given["document_id"] = self.one_of(Document, "document_id")
        self.rows[table].append(drawn_row(table, self.rng, **given))
        return self.rows[table][-1]

    def keys(self, table: type[Base], column: str) -> list[Any]:
        return [row[column] for row in self.rows[table]]

    def one_of(self, table: type[Base], column: str) -> Any:
        return self.rng.choice(self.keys(table, column))

    def some_of(self, table: type[Base], column: str, most: int) -> list[Any]:
        known = self.keys(table, column)
        return self.rng.sample(known, min(most, len(known)))


def inspection_rows(
    count: int,
    *,
    seed: int = 0,
    stacks: int = 5,
    packages: int = 4,
    machines: int = 3,
    observations: int | None = None,
) -> Rows:
    """``count`` inspections and all that they point at, with advice on some of it.

    :param observations: of each inspection; unset, any number from none to five, on
        several machines, and every fifth inspection knows no stack
    """
    record = _Record(seed)
    rng = record.rng
    ids = [digest_of("document", seed, number) for number in range(max(1, count))]
    for key in ids:
        record.add(
            Document, document_id=key, kind="inspection", schema_version="inspection-directory",
            source="memory://", collector="thoth", size_bytes=2, body=b"{}", location=None,
            ingested_at=_EPOCH,
        )  # fmt: skip
    _add_stacks(record, stacks, packages)
    _add_knowledge(record)
    _add_native(record)
    for number in range(machines):
        record.add(HardwareRow, digest=digest_of("hardware", number), label=f"machine {number}",
                   identity=_identity(number))  # fmt: skip
    for number in range(3):
        record.add(RuntimeEnvironmentRow, digest=digest_of("environment", number))
        key = digest_of("indicator", number)
        record.add(IndicatorRow, indicator_id=key, name=f"Indicator{number}")
    for number, key in enumerate(ids[:count]):
        seen = rng.randrange(6) if observations is None else observations
        known = stacks > 0 and (observations is not None or number % 5 > 0)
        record.add(
            InspectionRow, document_id=key, name=f"inspection-{number}",
            stack_digest=record.one_of(StackRow, "digest") if known else None,
            stack_note=None if known else "no specification", job_count=(seen + 1) // 2,
            created_at=_EPOCH + timedelta(seconds=number) if known else None,
            bundled={"numpy==2.3.0": []} if number % 3 else None,
        )  # fmt: skip
        for position in range(seen):
            _add_observation(record, key, position)
    _add_advice(record)
    return {**record.rows}


def _add_stacks(record: _Record, stacks: int, packages: int) -> None:
    """Stacks that share packages with their neighbours; one package is on another index."""
    for number in range(stacks):
        stack = digest_of("stack", number, packages)
        record.add(StackRow, digest=stack, package_count=packages)
        for package in range(packages):
            name, version = f"package-{package}", f"1.{number % 7}.{package}"
            index = "builds" if package % 5 == 4 else "pypi"
            purl = f"pkg:pypi/{name}@{version}" + ("" if index == "pypi" else f"?index={index}")
            record.add(StackPackage, stack_digest=stack, purl=purl)
            if purl not in record.keys(PackageVersionRow, "purl"):
                _add_version(record, purl, name, version, index)


def _add_version(record: _Record, purl: str, name: str, version: str, index: str) -> None:
    """A version with what is known of it; of every third one, nothing."""
    rng, document = record.rng, record.one_of(Document, "document_id")
    facts: dict[str, Any] = {
        "state": rng.choice(["solved", "solved", "unsolvable"]), "extras": rng.choice([[], ["a"]]),
        "wheels": rng.choice([[], ["py3-none-any"], ["cp311-cp311-linux_x86_64", "py3-none-any"]]),
        "yanked": rng.random() < 0.2, "files_complete": rng.random() < 0.5,
        "release_document_id": document,
    }  # fmt: skip
    if len(record.rows[PackageVersionRow]) % 3 == 0:
        facts = {it.name: None for it in PackageVersionRow.__table__.columns if it.nullable}
        facts |= {"state": "unread", "wheels": [], "extras": [], "yanked": False}
        facts["files_complete"] = False
    record.add(PackageVersionRow, purl=purl, name=name, version=version, index_name=index,
               document_id=document, **facts)  # fmt: skip


def _add_knowledge(record: _Record) -> None:
    """Packages, projects, requirements and vulnerabilities of the versions."""
    rng, versions = record.rng, record.rows[PackageVersionRow]
    known = [row for row in versions if row["state"] != "unread"]
    for name in sorted({row["name"] for row in versions}):
        record.add(PackageRow, name=name, revision=digest_of("revision", name))
    if versions:
        record.add(PackageRow, name="required-only", revision=None)
    for name, index in sorted({(row["name"], row["index_name"]) for row in versions}):
        archived = name.endswith(("0", "1"))
        record.add(IndexProject, index_name=index, name=name, state="known", asked_at=_EPOCH,
                   status="archived" if archived else "active",
                   status_reason="use another" if archived else None)  # fmt: skip
    for row in known:
        for position in range(rng.randrange(6)):
            name = rng.choice([*record.keys(PackageRow, "name"), None])
            record.add(RequirementRow, purl=row["purl"], position=position, name=name)
    for number in range(min(3, len(known))):
        harm = f"CVE-2024-{number}"
        record.add(VulnerabilityRow, vulnerability_id=harm, withdrawn_at=None)
        for row in known:
            if rng.random() < 0.5 or row is known[0]:
                record.add(AffectedVersion, vulnerability_id=harm, purl=row["purl"])


def _add_native(record: _Record) -> None:
    known = [it["purl"] for it in record.rows[PackageVersionRow] if it["state"] != "unread"]
    interfaces = ["libc.so.6", "libc.so.6:GLIBC_2.17", "libm.so.6"] if known else []
    for name in interfaces:
        library, _, version = name.partition(":")
        record.add(NativeInterfaceRow, interface=name, library=library, version=version or None)
    for purl in known[:3]:
        sha256 = digest_of("artifact", purl)[7:]
        record.add(ArtifactRow, sha256=sha256, purl=purl)
        for name in interfaces:
            record.add(ArtifactInterface, sha256=sha256, interface=name)
    for number in range(2 if known else 0):
        digest = digest_of("machine", number)
        record.add(NativeEnvironmentRow, digest=digest, kind="host")
        for name in interfaces[:2]:
            record.add(NativeEnvironmentInterface, digest=digest, interface=name)


def _identity(number: int) -> dict[str, Any]:
    """A hardware class; every second one has an accelerator and a quota."""
    identity: dict[str, Any] = {
        "source": "measured", "vendor": "GenuineIntel", "family": 6, "model": number,
        "stepping": 4, "cpus": 8,
    }  # fmt: skip
    if number % 2:
        identity |= {"cpu_quota": 2.5, "gpus": [{"name": f"Accelerator {number}"}]}
    return identity


def _add_observation(record: _Record, document_id: str, position: int) -> None:
    rng = record.rng
    indicator = record.one_of(IndicatorRow, "indicator_id")
    hardware = record.one_of(HardwareRow, "digest")
    outcome = rng.choice(["measured", "measured", "crashed", "no_result"])
    measured = outcome == "measured"
    record.add(
        ObservationRow, document_id=document_id, position=position, outcome=outcome,
        observation_id=digest_of("observation", document_id, position), job_id=str(position // 2),
        indicator_id=indicator, hardware_digest=hardware,
        environment_digest=record.one_of(RuntimeEnvironmentRow, "digest"),
        comparison_key=digest_of("comparison", indicator, hardware),
        rate=rng.choice([1e12, 2.0, 1e300, rng.random() * 1e13]) if measured else None,
        unit=rng.choice(["FLOP/s", "images/s"]) if measured else None,
    )  # fmt: skip


def _add_advice(record: _Record) -> None:
    """Advice on stacks and observations, of which one found no stack, and claims about stacks."""
    rng, document = record.rng, record.rows[Document][0]["document_id"]
    parts = (f"{it}_document_id" for it in ("request", "snapshot", "evidence", "files", "report"))
    documents = dict.fromkeys(parts, document)
    for number in range(3):
        key = f"adviser-{number}"
        record.add(AdviceRow, advice_id=key, created_at=_EPOCH + timedelta(number),
                   status="optimal" if number else "infeasible", **documents)  # fmt: skip
        for rank, stack in enumerate(record.some_of(StackRow, "digest", number), 1):
            record.add(AdvisedStack, advice_id=key, rank=rank, stack_digest=stack)
        for one in record.some_of(ObservationRow, "observation_id", 4 * number):
            record.add(AdviceObservation, advice_id=key, observation_id=one)
    record.add(RequestRow, document_id=document, packages=rng.choice([[], ["package-0"]]),
               hardware_digest=rng.choice([None, digest_of("hardware", 0)]))  # fmt: skip
    for number in range(4 if record.rows[StackRow] else 0):
        key, candidate = digest_of("claim", number), record.one_of(StackRow, "digest")
        record.add(
            ClaimRow, claim_id=key, stack_digest=candidate, indicator="Indicator0",
            baseline_digest=record.one_of(StackRow, "digest"), document_id=document,
            package=rng.choice([None, "package-0"]), hardware_digest=digest_of("hardware", 0),
        )  # fmt: skip
        purls = [it["purl"] for it in record.rows[StackPackage] if it["stack_digest"] == candidate]
        for purl in rng.sample(purls, min(number, len(purls))):
            record.add(
                ClaimPackage, claim_id=key, version="1.10.0", version_key=version_key("1.10.0"),
                name=purl.removeprefix("pkg:pypi/").partition("@")[0],
                baseline_version=rng.choice([None, "1.9.0"]),
            )  # fmt: skip
        for advice in record.some_of(AdviceRow, "advice_id", 1 + number % 2):
            record.add(AdviceClaim, advice_id=advice, claim_id=key)


#: Kind of outbox entry and the column that holds its key, those before what points at them.
_ENTRIES: tuple[tuple[str, type[Base], str], ...] = (
    ("package", PackageRow, "name"),
    ("vulnerability", VulnerabilityRow, "vulnerability_id"),
    ("package_version", PackageVersionRow, "purl"),
    ("artifact", ArtifactRow, "sha256"),
    ("native_environment", NativeEnvironmentRow, "digest"),
    ("stack", StackRow, "digest"),
    ("hardware", HardwareRow, "digest"),
    ("runtime_environment", RuntimeEnvironmentRow, "digest"),
    ("indicator", IndicatorRow, "indicator_id"),
    ("inspection", InspectionRow, "document_id"),
    ("claim", ClaimRow, "claim_id"),
    ("request", RequestRow, "document_id"),
    ("advice", AdviceRow, "advice_id"),
)


def entries_of(rows: Rows) -> list[dict[str, Any]]:
    """The outbox entries that the repository writes for these rows."""
    return [
        {"kind": kind, "key": row[key]}
        for kind, table, key in _ENTRIES
        for row in rows.get(table, ())
    ]


#: Tables before those that refer to them.
_ORDER = Base.metadata.sorted_tables


def store(engine: Engine, rows: Rows, entries: Iterable[dict[str, Any]] | None = None) -> None:
    """Write the rows and their entries (or those given instead) in one transaction."""
    with engine.begin() as connection:
        for table in sorted(rows, key=lambda it: _ORDER.index(table_of(it))):
            of_table = rows[table]
            for first in range(0, len(of_table), _CHUNK):
                connection.execute(insert(table), of_table[first : first + _CHUNK])
        wanted = entries_of(rows) if entries is None else list(entries)
        if wanted:
            connection.execute(insert(OutboxEntry), wanted)


def canonical_parameters(row: dict[str, Any]) -> str:
    """The parameters of an observation's row as the graph should hold them."""
    return canonical_json(row["parameters"]).decode()
