"""Rows of the record with their outbox entries, without any document behind them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
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


def document_row(key: str) -> dict[str, Any]:
    """A document, for those rows that must name one."""
    return {
        "document_id": key, "kind": "inspection", "schema_version": "inspection-directory",
        "source": "memory://", "collector": "thoth", "size_bytes": 2, "body": b"{}",
        "ingested_at": _EPOCH,
    }  # fmt: skip


def stack_rows(number: int, document_id: str, packages: int = 4) -> Rows:
    """A stack whose packages it shares with its neighbours, one of them on another index."""
    versions = []
    for package in range(packages):
        name, version = f"package-{package}", f"1.{number % 7}.{package}"
        index = "builds" if package % 5 == 4 else "pypi"
        purl = f"pkg:pypi/{name}@{version}" + ("" if index == "pypi" else f"?index={index}")
        versions.append({"purl": purl, "name": name, "version": version, "index_name": index,
                         "document_id": document_id})  # fmt: skip
    stack = digest_of("stack", number, packages)
    return {
        PackageVersionRow: versions,
        StackRow: [{"digest": stack, "package_count": packages, "document_id": document_id}],
        StackPackage: [{"stack_digest": stack, "purl": it["purl"]} for it in versions],
    }


def package_rows(versions: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    """What is known about these versions beyond their names; of every third one, nothing."""
    names = sorted({row["name"] for row in versions})
    documents = [row["document_id"] for row in versions]
    known = [row for number, row in enumerate(versions) if number % 3]
    told = [_version_row(row, rng, known=number % 3 > 0) for number, row in enumerate(versions)]
    required = [*names, "required-only"] if versions else []
    projects = sorted({(row["name"], row["index_name"]) for row in versions})
    return {
        PackageRow: [
            {"name": name, "revision": digest_of("revision", name) if name in names else None,
             "document_id": rng.choice(documents)}
            for name in required
        ],
        PackageVersionRow: told,
        IndexProject: [_project(name, index) for name, index in projects],
        RequirementRow: [
            drawn_row(RequirementRow, rng, purl=row["purl"], position=position,
                      name=rng.choice([*required, None]))
            for row in known
            for position in range(rng.randrange(6))
        ],
        **_harm_rows(known, rng),
        **_native_rows(known, rng),
    }  # fmt: skip


def _project(name: str, index: str) -> dict[str, Any]:
    archived = name.endswith(("0", "1"))
    return {
        "index_name": index, "name": name, "state": "known", "asked_at": _EPOCH,
        "status": "archived" if archived else "active",
        "status_reason": "use another" if archived else None,
    }  # fmt: skip


def _version_row(row: dict[str, Any], rng: random.Random, *, known: bool) -> dict[str, Any]:
    if not known:
        blank = {it.name: None for it in PackageVersionRow.__table__.columns if it.nullable}
        given = {"state": "unread", "wheels": [], "extras": [], "yanked": False}
        return row | blank | given | {"files_complete": False}
    return drawn_row(
        PackageVersionRow, rng, **row, state=rng.choice(["solved", "solved", "unsolvable"]),
        wheels=rng.choice([[], ["py3-none-any"], ["cp311-cp311-linux_x86_64", "py3-none-any"]]),
        extras=rng.choice([[], ["a", "b"]]), yanked=rng.random() < 0.2,
        files_complete=rng.random() < 0.5, release_document_id=row["document_id"],
    )  # fmt: skip


def _harm_rows(versions: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    harms = [f"CVE-2024-{number}" for number in range(min(3, len(versions)))]
    return {
        VulnerabilityRow: [
            drawn_row(VulnerabilityRow, rng, vulnerability_id=harm, withdrawn_at=None,
                      document_id=versions[0]["document_id"])
            for harm in harms
        ],
        AffectedVersion: [
            {"vulnerability_id": harm, "purl": row["purl"]}
            for harm in harms
            for row in versions
            if rng.random() < 0.5 or row is versions[0]
        ],
    }  # fmt: skip


def _native_rows(versions: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    interfaces = ["libc.so.6", "libc.so.6:GLIBC_2.17", "libm.so.6"] if versions else []
    document = {"document_id": versions[0]["document_id"]} if versions else {}
    artifacts = [
        drawn_row(
            ArtifactRow,
            rng,
            sha256=digest_of("artifact", row["purl"])[7:],
            purl=row["purl"],
            **document,
        )
        for row in versions[:3]
    ]
    machines = [digest_of("machine", number) for number in range(2 if versions else 0)]
    return {
        NativeInterfaceRow: [
            {"interface": name, "library": name.partition(":")[0],
             "version": name.partition(":")[2] or None, **document}
            for name in interfaces
        ],
        ArtifactRow: artifacts,
        ArtifactInterface: [
            {"sha256": row["sha256"], "interface": name} for row in artifacts for name in interfaces
        ],
        NativeEnvironmentRow: [
            drawn_row(NativeEnvironmentRow, rng, digest=it, kind="host", **document)
            for it in machines
        ],
        NativeEnvironmentInterface: [
            {"digest": machine, "interface": name}
            for machine in machines
            for name in interfaces[:2]
        ],
    }  # fmt: skip


def hardware_row(number: int, document_id: str) -> dict[str, Any]:
    """A hardware class; every second one has an accelerator and a quota."""
    identity: dict[str, Any] = {
        "source": "measured", "vendor": "GenuineIntel", "family": 6, "model": number,
        "stepping": 4, "cpus": 8,
    }  # fmt: skip
    if number % 2:
        identity |= {"cpu_quota": 2.5, "gpus": [{"name": f"Accelerator {number}"}]}
    return {
        "digest": digest_of("hardware", number), "label": f"machine {number}",
        "identity": identity, "document_id": document_id,
    }  # fmt: skip


def observation_row(
    document_id: str, position: int, outcome: str, ends: Sequence[str], rng: random.Random
) -> dict[str, Any]:
    """An observation; ``ends`` are the keys of its indicator, hardware and environment."""
    indicator, hardware, environment = ends
    measured = outcome == "measured"
    return drawn_row(
        ObservationRow, rng, document_id=document_id, position=position, outcome=outcome,
        observation_id=digest_of("observation", document_id, position), job_id=str(position // 2),
        indicator_id=indicator, hardware_digest=hardware, environment_digest=environment,
        comparison_key=digest_of("comparison", indicator, hardware),
        rate=rng.choice([1e12, 2.0, 1e300, rng.random() * 1e13]) if measured else None,
        unit=rng.choice(["FLOP/s", "images/s"]) if measured else None,
    )  # fmt: skip


def inspection_rows(
    count: int,
    *,
    seed: int = 0,
    stacks: int = 5,
    packages: int = 4,
    machines: int = 3,
    observations: int | None = None,
) -> Rows:
    """``count`` inspections and all that they point at.

    :param observations: of each inspection; unset, any number from none to five, on
        several machines, and every fifth inspection knows no stack
    """
    rng = random.Random(seed)
    ids = [digest_of("document", seed, number) for number in range(max(1, count))]
    rows: Rows = {Document: [document_row(key) for key in ids]}
    for number in range(stacks):
        for table, some in stack_rows(number, rng.choice(ids), packages).items():
            rows.setdefault(table, []).extend(some)
    purls = {row["purl"]: row for row in rows.pop(PackageVersionRow, [])}
    included: Rows = {table: rows.pop(table, []) for table in (StackRow, StackPackage)}
    rows |= package_rows(list(purls.values()), rng)
    rows |= included
    rows[HardwareRow] = [hardware_row(n, rng.choice(ids)) for n in range(machines)]
    rows[RuntimeEnvironmentRow] = [
        drawn_row(RuntimeEnvironmentRow, rng, digest=digest_of("environment", n),
                  document_id=rng.choice(ids))
        for n in range(3)
    ]  # fmt: skip
    rows[IndicatorRow] = [
        drawn_row(IndicatorRow, rng, indicator_id=digest_of("indicator", n),
                  name=f"Indicator{n}", document_id=rng.choice(ids))
        for n in range(3)
    ]  # fmt: skip
    rows[InspectionRow], rows[ObservationRow] = [], []
    for number, key in enumerate(ids[:count]):
        seen = rng.randrange(6) if observations is None else observations
        known = stacks > 0 and (observations is not None or number % 5 > 0)
        rows[InspectionRow].append(
            {
                "document_id": key,
                "name": f"inspection-{number}",
                "stack_digest": rng.choice(rows[StackRow])["digest"] if known else None,
                "stack_note": None if known else "no specification",
                "job_count": (seen + 1) // 2,
                "created_at": _EPOCH + timedelta(seconds=number) if known else None,
                "bundled": {"numpy==2.3.0": []} if number % 3 else None,
            }
        )
        for position in range(seen):
            outcome = rng.choice(["measured", "measured", "crashed", "no_result"])
            ends = (
                rng.choice(rows[IndicatorRow])["indicator_id"],
                rng.choice(rows[HardwareRow])["digest"],
                rng.choice(rows[RuntimeEnvironmentRow])["digest"],
            )
            rows[ObservationRow].append(observation_row(key, position, outcome, ends, rng))
    return rows | advice_rows(rows, rng)


def advice_rows(rows: Rows, rng: random.Random) -> Rows:
    """Some advice on stacks and observations of these rows; one found no stack."""
    document = rows[Document][0]["document_id"]
    stacks = [row["digest"] for row in rows[StackRow]]
    seen = [row["observation_id"] for row in rows[ObservationRow]]
    made: Rows = {AdviceRow: [], AdvisedStack: [], AdviceObservation: []}
    for number in range(3):
        key = f"adviser-{number}"
        parts = ("request", "snapshot", "evidence", "files", "report")
        made[AdviceRow].append(
            drawn_row(AdviceRow, rng, advice_id=key, created_at=_EPOCH + timedelta(number),
                      status="optimal" if number else "infeasible",
                      **{f"{part}_document_id": document for part in parts})
        )  # fmt: skip
        advised = rng.sample(stacks, min(number, len(stacks)))
        made[AdvisedStack] += [
            drawn_row(AdvisedStack, rng, advice_id=key, rank=rank, stack_digest=stack)
            for rank, stack in enumerate(advised, 1)
        ]
        made[AdviceObservation] += [
            {"advice_id": key, "observation_id": one}
            for one in rng.sample(seen, min(4 * number, len(seen)))
        ]
    names = rng.choice([[], ["package-0", "package-1"]])
    hardware = rng.choice([None, digest_of("hardware", 0)])
    made[RequestRow] = [
        drawn_row(RequestRow, rng, document_id=document, hardware_digest=hardware, packages=names)
    ]
    return made | claim_rows(rows, made[AdviceRow], rng)


def claim_rows(rows: Rows, advice: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    """Some claims about stacks of these rows, each made for one advice or more."""
    made: Rows = {ClaimRow: [], ClaimPackage: [], AdviceClaim: []}
    stacks = [row["digest"] for row in rows[StackRow]]
    for number in range(4 if stacks else 0):
        key, candidate = digest_of("claim", number), rng.choice(stacks)
        purls = [row["purl"] for row in rows[StackPackage] if row["stack_digest"] == candidate]
        made[ClaimRow].append(
            drawn_row(
                ClaimRow, rng, claim_id=key, stack_digest=candidate,
                baseline_digest=rng.choice(stacks), package=rng.choice([None, "package-0"]),
                indicator="Indicator0", hardware_digest=digest_of("hardware", 0),
                document_id=rows[Document][0]["document_id"],
            )
        )  # fmt: skip
        made[ClaimPackage] += [
            {
                "claim_id": key,
                "name": purl.removeprefix("pkg:pypi/").partition("@")[0],
                "version": "1.10.0",
                "index_name": "pypi",
                "version_key": version_key("1.10.0"),
                "baseline_version": rng.choice([None, "1.9.0"]),
                "baseline_index_name": "pypi",
                "baseline_version_key": version_key("1.9.0"),
            }
            for purl in rng.sample(purls, min(number, len(purls)))
        ]
        made[AdviceClaim] += [
            {"advice_id": row["advice_id"], "claim_id": key}
            for row in rng.sample(list(advice), 1 + number % 2)
        ]
    return made


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


def store(engine: Engine, rows: Rows, entries: Iterable[dict[str, Any]] | None = None) -> None:
    """Write the rows and their entries (or those given instead) in one transaction."""
    with engine.begin() as connection:
        for table, of_table in rows.items():
            for first in range(0, len(of_table), _CHUNK):
                connection.execute(insert(table), of_table[first : first + _CHUNK])
        wanted = entries_of(rows) if entries is None else list(entries)
        if wanted:
            connection.execute(insert(OutboxEntry), wanted)


def canonical_parameters(row: dict[str, Any]) -> str:
    """The parameters of an observation's row as the graph should hold them."""
    return canonical_json(row["parameters"]).decode()
