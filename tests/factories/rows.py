"""Rows of the record with their outbox entries, without any document behind them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, insert

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


def document_row(key: str) -> dict[str, Any]:
    """A document, for those rows that must name one."""
    return {
        "document_id": key,
        "kind": "inspection",
        "schema_version": "inspection-directory",
        "source": "memory://",
        "collector": "thoth",
        "size_bytes": 2,
        "body": b"{}",
        "ingested_at": _EPOCH,
    }


def stack_rows(number: int, document_id: str, packages: int = 4) -> Rows:
    """A stack whose packages it shares with its neighbours, one of them on another index."""
    purls, versions = [], []
    for package in range(packages):
        name, version = f"package-{package}", f"1.{number % 7}.{package}"
        index = "builds" if package % 5 == 4 else "pypi"
        purl = f"pkg:pypi/{name}@{version}" + ("" if index == "pypi" else f"?index={index}")
        purls.append(purl)
        versions.append(
            {
                "purl": purl,
                "name": name,
                "version": version,
                "index_name": index,
                "document_id": document_id,
            }
        )
    stack = digest_of("stack", number, packages)
    return {
        PackageVersionRow: versions,
        StackRow: [{"digest": stack, "package_count": packages, "document_id": document_id}],
        StackPackage: [{"stack_digest": stack, "purl": purl} for purl in purls],
    }


def package_rows(versions: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    """What is known about these versions beyond their names; of every third one, nothing."""
    names = sorted({row["name"] for row in versions})
    documents = [row["document_id"] for row in versions]
    known = [row for number, row in enumerate(versions) if number % 3]
    for number, row in enumerate(versions):
        row.update(_unread() if number % 3 == 0 else _told(row, number, rng))
    required = [*names, "required-only"] if versions else []
    projects = sorted({(row["name"], row["index_name"]) for row in versions})
    return {
        PackageRow: [
            {
                "name": name,
                "revision": digest_of("revision", name) if name in names else None,
                "document_id": rng.choice(documents),
            }
            for name in required
        ],
        PackageVersionRow: list(versions),
        IndexProject: [_project(name, index) for name, index in projects],
        RequirementRow: [
            requirement_row(row["purl"], position, required, rng)
            for row in known
            for position in range(rng.randrange(6))
        ],
        **_harm_rows(known, rng),
        **_native_rows(known, rng),
    }


def _project(name: str, index: str) -> dict[str, Any]:
    archived = name.endswith(("0", "1"))
    return {
        "index_name": index,
        "name": name,
        "state": "known",
        "asked_at": _EPOCH,
        "status": "archived" if archived else "active",
        "status_reason": "use another" if archived else None,
    }


def _unread() -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("problem", "requires_python", "yanked_reason", "uploaded_at", "has_sdist", "facts",
         "metadata_source", "release_document_id")
    )  # fmt: skip
    empty: dict[str, Any] = {"wheels": [], "extras": [], "yanked": False, "files_complete": False}
    return {"state": "unread", **nothing, **empty}


def _told(row: dict[str, Any], number: int, rng: random.Random) -> dict[str, Any]:
    solved = rng.random() < 0.8
    return {
        "state": "solved" if solved else "unsolvable",
        "problem": None if solved else "dynamic_metadata",
        "requires_python": rng.choice([None, ">=3.8"]),
        "yanked": number % 5 == 0,
        "yanked_reason": "broken" if number % 10 == 0 else None,
        "uploaded_at": rng.choice([None, _EPOCH + timedelta(microseconds=rng.randrange(10**14))]),
        "wheels": rng.choice([[], ["py3-none-any"], ["cp311-cp311-linux_x86_64", "py3-none-any"]]),
        "has_sdist": rng.choice([None, True, False]),
        "files_complete": rng.random() < 0.5,
        "extras": rng.choice([[], ["a", "b"]]),
        "facts": digest_of("facts", number),
        "metadata_source": "wheel" if solved else None,
        "release_document_id": row["document_id"],
    }


def requirement_row(
    purl: str, position: int, names: Sequence[str], rng: random.Random
) -> dict[str, Any]:
    """A requirement; now and then no requirement at all, and often one asked for twice."""
    parsed = rng.random() < 0.9
    extra = rng.random() < 0.3
    return {
        "purl": purl,
        "position": position,
        "raw": f"line {position}",
        "name": rng.choice(names) if parsed else None,
        "specifier": rng.choice(["", ">=1.0", "<2,>=1.5"]) if parsed else "",
        "marker": 'extra == "a"' if extra else rng.choice([None, "os_name == 'nt'"]),
        "extras": rng.choice([[], [], ["x", "y"]]),
        "for_extras": ["a"] if extra else [],
        "url": "file:///builds/one.whl" if rng.random() < 0.1 else None,
        "problem": None if parsed else "no requirement",
    }


def _harm_rows(versions: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    harms = [f"CVE-2024-{number}" for number in range(min(3, len(versions)))]
    return {
        VulnerabilityRow: [
            {
                "vulnerability_id": harm,
                "aliases": [harm, harm.replace("CVE", "GHSA")],
                "summary": "something leaks",
                "severity": rng.choice([None, "high"]),
                "score": rng.choice([None, 7.5]),
                "vector": None,
                "published_at": _EPOCH,
                "modified_at": rng.choice([None, _EPOCH + timedelta(days=1)]),
                "withdrawn_at": None,
                "document_id": versions[0]["document_id"],
            }
            for harm in harms
        ],
        AffectedVersion: [
            {"vulnerability_id": harm, "purl": row["purl"]}
            for harm in harms
            for row in versions
            if rng.random() < 0.5 or row is versions[0]
        ],
    }


def _native_rows(versions: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    interfaces = ["libc.so.6", "libc.so.6:GLIBC_2.17", "libm.so.6"] if versions else []
    document = versions[0]["document_id"] if versions else ""
    artifacts = [
        {
            "sha256": digest_of("artifact", row["purl"]).removeprefix("sha256:"),
            "filename": f"{row['name']}-{row['version']}-py3-none-any.whl",
            "purl": row["purl"],
            "imports": [row["name"]],
            "bundled": rng.choice([[], ["libgomp.so.1"]]),
            "document_id": row["document_id"],
        }
        for row in versions[:3]
    ]
    machines = [digest_of("machine", number) for number in range(2 if versions else 0)]
    return {
        NativeInterfaceRow: [
            {
                "interface": name,
                "library": name.partition(":")[0],
                "version": name.partition(":")[2] or None,
                "document_id": document,
            }
            for name in interfaces
        ],
        ArtifactRow: artifacts,
        ArtifactInterface: [
            {"sha256": row["sha256"], "interface": name} for row in artifacts for name in interfaces
        ],
        NativeEnvironmentRow: [
            {
                "digest": machine,
                "kind": "host",
                "name": "here",
                "architecture": "x86_64",
                "os_name": rng.choice([None, "debian"]),
                "os_version": None,
                "document_id": document,
            }
            for machine in machines
        ],
        NativeEnvironmentInterface: [
            {"digest": machine, "interface": name}
            for machine in machines
            for name in interfaces[:2]
        ],
    }


def hardware_row(number: int, document_id: str) -> dict[str, Any]:
    """A hardware class; every second one has an accelerator and a quota."""
    identity: dict[str, Any] = {
        "source": "measured",
        "vendor": "GenuineIntel",
        "family": 6,
        "model": number,
        "stepping": 4,
        "cpus": 8,
    }
    if number % 2:
        identity |= {"cpu_quota": 2.5, "gpus": [{"name": f"Accelerator {number}"}]}
    return {
        "digest": digest_of("hardware", number),
        "label": f"machine {number}",
        "identity": identity,
        "document_id": document_id,
    }


def environment_row(number: int, document_id: str) -> dict[str, Any]:
    """A runtime environment; the first knows nothing of itself."""
    known = number > 0
    return {
        "digest": digest_of("environment", number),
        "os_name": "fedora" if known else None,
        "os_version": str(30 + number) if known else None,
        "python_version": "3.6" if known else None,
        "cuda_version": None,
        "base_image": f"image-{number % 2}" if known else None,
        "native_packages": ["gcc-c++", f"lib-{number}", "gcc-c++"] if known else [],
        "document_id": document_id,
    }


def indicator_row(number: int, document_id: str) -> dict[str, Any]:
    """A performance indicator."""
    return {
        "indicator_id": digest_of("indicator", number),
        "name": f"Indicator{number}",
        "component": "tensorflow" if number % 2 else None,
        "script_sha256": digest_of("script", number),
        "document_id": document_id,
    }


def observation_row(
    document_id: str, position: int, outcome: str, ends: Sequence[str], rng: random.Random
) -> dict[str, Any]:
    """An observation; ``ends`` are the keys of its indicator, hardware and environment."""
    indicator, hardware, environment = ends
    measured = outcome == "measured"
    rate = rng.choice([1e12, 2.0, 1e300, rng.random() * 1e13]) if measured else None
    return {
        "observation_id": digest_of("observation", document_id, position),
        "document_id": document_id,
        "job_id": str(position // 2),
        "position": position,
        "outcome": outcome,
        "exit_code": 139 if outcome == "crashed" else 0,
        "indicator_id": indicator,
        "hardware_digest": hardware,
        "environment_digest": environment,
        "comparison_key": digest_of("comparison", indicator, hardware),
        "parameters": {
            "size": 512, "dtype": "float32", "batch": 4, "strides": [1, 2], "width": 0.5,
            "mode": True, "m": 2**63, "note": "Grüße 😀",
        },
        "device": "cpu" if measured else None,
        "elapsed_s": rng.random() if measured else None,
        "rate": rate,
        "reported_rate": rate,
        "unit": rng.choice(["FLOP/s", "images/s"]) if measured else None,
        "repetitions_s": [0.5, 0.25] if measured and position % 2 else [],
        "spread": rng.random() if measured and position % 2 else None,
        "correction": None,
        "quarantine_reason": None,
        "unstable_reason": None,
        "failure_reason": "timed-out" if outcome == "crashed" else None,
        "failure_message": None,
        "host": digest_of("host", hardware) if position % 2 else None,
        "block": f"run:{position}" if position % 2 else None,
        "turn": position if position % 2 else None,
        "steal_share": rng.random() if position % 2 else None,
        "started_at": _EPOCH + timedelta(microseconds=rng.randrange(10**14)),
        "ended_at": None,
        "memory_bytes": rng.randrange(2**50) if measured else None,
        "user_s": None,
        "system_s": None,
        **_conditions(rng if position % 2 else None),
    }  # fmt: skip


def _conditions(rng: random.Random | None) -> dict[str, Any]:
    """What the machine reported; nothing without a generator."""
    counts = (
        "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches",
        "blocks_read", "blocks_written",
    )  # fmt: skip
    return {
        **{name: rng and rng.randrange(2**62) for name in counts},
        "throttled": rng and rng.random() < 0.5,
        "swapped": rng and False,
        "load": rng and rng.random(),
        "launcher": rng and "local",
        "threads": rng and 2,
        "blas": rng and "OpenBLAS 0.3.31 SkylakeX",
        "tick_share": rng and rng.random() * 1e-6,
        "boot": rng and digest_of("boot", rng.randrange(3)),
        "build": rng and f"{rng.randrange(3):032x}",
        "energy_j": rng and rng.uniform(1, 500),
        "energy_note": rng and "package-0",
    }


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
    included = {table: rows.pop(table, []) for table in (StackRow, StackPackage)}
    rows |= package_rows(list(purls.values()), rng)
    rows |= included
    rows[HardwareRow] = [hardware_row(n, rng.choice(ids)) for n in range(machines)]
    rows[RuntimeEnvironmentRow] = [environment_row(n, rng.choice(ids)) for n in range(3)]
    rows[IndicatorRow] = [indicator_row(n, rng.choice(ids)) for n in range(3)]
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
        solved = number > 0
        made[AdviceRow].append(
            {
                "advice_id": key,
                "recommendation_type": "latest",
                "status": "optimal" if solved else "infeasible",
                "python_version": rng.choice([None, "3.11"]),
                "platform": rng.choice([None, "manylinux_2_28_x86_64"]),
                "snapshot_revision": digest_of("snapshot", number),
                "result_digest": digest_of("result", number),
                "created_at": _EPOCH + timedelta(microseconds=rng.randrange(10**14)),
                **{
                    f"{part}_document_id": document
                    for part in ("request", "snapshot", "evidence", "files", "report")
                },
            }
        )
        advised = rng.sample(stacks, min(number, len(stacks)))
        made[AdvisedStack] += [
            {
                "advice_id": key,
                "rank": rank,
                "stack_digest": stack,
                "score": rng.choice([0.0, -2.5]),
            }
            for rank, stack in enumerate(advised, 1)
        ]
        made[AdviceObservation] += [
            {"advice_id": key, "observation_id": one}
            for one in rng.sample(seen, min(4 * number, len(seen)))
        ]
    made[RequestRow] = [
        {
            "document_id": document,
            "recommendation_type": "latest",
            "python_version": rng.choice([None, "3.11"]),
            "platform": None,
            "hardware_digest": rng.choice([None, digest_of("hardware", 0)]),
            "requirements": rng.choice([[], ["package-0>=1", "package-1"]]),
            "packages": rng.choice([[], ["package-0", "package-1"]]),
            "stack_count": 1,
        }
    ]
    return made | claim_rows(rows, made[AdviceRow], rng)


def claim_rows(rows: Rows, advice: Sequence[dict[str, Any]], rng: random.Random) -> Rows:
    """Some claims about stacks of these rows, each made for one advice or more."""
    made: Rows = {ClaimRow: [], ClaimPackage: [], AdviceClaim: []}
    stacks = [row["digest"] for row in rows[StackRow]]
    for number in range(4 if stacks else 0):
        key, candidate = digest_of("claim", number), rng.choice(stacks)
        purls = [row["purl"] for row in rows[StackPackage] if row["stack_digest"] == candidate]
        made[ClaimRow].append(claim_row(key, candidate, rng.choice(stacks), rng, rows))
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


def claim_row(
    key: str, stack: str, baseline: str, rng: random.Random, rows: Rows
) -> dict[str, Any]:
    """A claim; of every second one the error is not known."""
    bounded = rng.random() < 0.5
    return {
        "claim_id": key,
        "package": rng.choice([None, "package-0"]),
        "stack_digest": stack,
        "baseline_digest": baseline,
        "indicator": "Indicator0",
        "parameters": {"size": 512, "dtype": "float32"},
        "device": rng.choice([None, "cpu"]),
        "unit": "FLOP/s",
        "comparison_key": digest_of("comparison", key),
        "hardware_digest": digest_of("hardware", 0),
        "python_version": rng.choice([None, "3.11"]),
        "same_hardware": rng.random() < 0.5,
        "same_python": True,
        "verdict": "slower" if bounded else "undetermined",
        "effect_pct": -rng.random() if bounded else None,
        "observed_pct": -rng.random(),
        "interval_low_pct": -rng.random() if bounded else None,
        "interval_high_pct": -rng.random() if bounded else None,
        "delta_pct": 2.0,
        "p_value": rng.random(),
        "method": "paired",
        "jobs": 7,
        "baseline_jobs": 7,
        "runs": 7,
        "baseline_runs": 7,
        "pairs": 7,
        "hosts": rng.choice([None, 1]),
        "needs": None if bounded else "jobs",
        "jobs_missing": 0 if bounded else 3,
        "baseline_jobs_missing": 0 if bounded else 3,
        "scored": bounded,
        "as_of": rng.choice([None, _EPOCH + timedelta(microseconds=rng.randrange(10**14))]),
        "document_id": rows[Document][0]["document_id"],
    }


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
