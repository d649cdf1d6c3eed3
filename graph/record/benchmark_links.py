"""What entries of other benchmark systems have in common with the rest of the record.

Benchmarks, software and parts of machines are rows of their own, so that the graph can link them
with packages and hardware classes, whichever is stored first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection, text

from graph.record.bulk import add_entries, insert_new
from graph.tables import BenchmarkEntrySoftware, BenchmarkRow, BenchmarkSoftwareRow
from model.errors import InvalidDocument
from model.json_documents import digest
from model.measurements.benchmark_results import PYTHON_PACKAGES, ResultContext
from model.packages.identity import package_version

#: Results in one outbox entry, which is written to the graph in one transaction.
RESULTS_IN_PART = 1_000

_LINK_HARDWARE = text(
    """
    WITH named AS (
        SELECT DISTINCT entry_id, kind || ':' || hardware_model(name) AS part_id, kind,
               hardware_model(name) AS model
        FROM unnest(CAST(:entries AS text[]), CAST(:kinds AS text[]), CAST(:names AS text[]))
            AS given (entry_id, kind, name)
        WHERE hardware_model(name) <> ''
    ), added AS (
        INSERT INTO hardware_parts (part_id, kind, model)
        SELECT DISTINCT part_id, kind, model FROM named ORDER BY part_id
        ON CONFLICT DO NOTHING RETURNING part_id
    ), enqueued AS (
        INSERT INTO outbox (kind, key) SELECT 'hardware_part', part_id FROM added
    )
    INSERT INTO benchmark_entry_parts (entry_id, part_id) SELECT entry_id, part_id FROM named
    """
)
#: Parts that a hardware class has, as a condition on ``part`` and ``class``.
HAS_PART = """
    part.model = hardware_model(CASE part.kind
        WHEN 'accelerator' THEN class.identity #>> '{gpus,0,name}'
        ELSE cpu_of(class.label, class.identity)
    END)
"""
_ENQUEUE_PARTS = text(
    f"""
    INSERT INTO outbox (kind, key)
    SELECT DISTINCT 'hardware_part', part_id
    FROM hardware AS class JOIN hardware_parts AS part ON {HAS_PART}
    WHERE class.digest = ANY(:digests)
    """
)
_ENQUEUE_SOFTWARE = text(
    """
    INSERT INTO outbox (kind, key)
    SELECT 'software', software_id FROM benchmark_software
    WHERE package = ANY(:packages) OR purl = ANY(:purls)
    ORDER BY software_id
    """
)
#: Numbers of results by system, software and part of the machine. Of a machine with an accelerator
#: that entries name, only the accelerator counts.
_CONTEXT = text(
    f"""
    WITH machine AS (
        SELECT part_id, model FROM hardware AS class JOIN hardware_parts AS part ON {HAS_PART}
        WHERE class.digest = :hardware ORDER BY kind LIMIT 1
    ), of_software AS (
        SELECT entry_id, name FROM benchmark_software
        JOIN benchmark_entry_software USING (software_id)
        WHERE package = ANY(:packages)
    ), of_machine AS (
        SELECT entry_id, model FROM machine JOIN benchmark_entry_parts USING (part_id)
    )
    SELECT system, CAST(sum(result_count) AS bigint) AS results, name, model
    FROM of_software FULL JOIN of_machine USING (entry_id) JOIN benchmark_entries USING (entry_id)
    GROUP BY system, name, model
    ORDER BY system, name, model
    """
)


def benchmark_id_of(system: str, name: str) -> str:
    """Identifier of a benchmark."""
    return digest([system, name])


def software_id_of(name: str, version: str | None) -> str:
    """Identifier of software: its name, with its version if that is known.

    >>> software_id_of("cuda", "10.1"), software_id_of("torch", None)
    ('cuda==10.1', 'torch')
    """
    return name if version is None else f"{name}=={version}"


def add_benchmarks(connection: Connection, names: Iterable[tuple[str, str]]) -> None:
    """Add the benchmarks that are new, by system and name."""
    rows = [(benchmark_id_of(system, name), system, name) for system, name in names]
    columns = ("benchmark_id", "system", "name")
    new = insert_new(connection, BenchmarkRow, rows, columns, "benchmark_id")
    add_entries(connection, {"benchmark": new})


def link_software(connection: Connection, software: Mapping[str, Mapping[str, str | None]]) -> None:
    """Add the software of new entries: versions by name, by entry."""
    links = [
        (entry_id, software_id_of(name, version), name, version)
        for entry_id, versions in software.items()
        for name, version in versions.items()
    ]
    rows = [
        (software_id, name, version, *_package(name, version))
        for software_id, name, version in {it[1:] for it in links}
    ]
    columns = ("software_id", "name", "version", "package", "purl")
    new = insert_new(connection, BenchmarkSoftwareRow, rows, columns, "software_id")
    pairs = [it[:2] for it in links]
    insert_new(connection, BenchmarkEntrySoftware, pairs, ("entry_id", "software_id"))
    add_entries(connection, {"software": new})


def _package(name: str, version: str | None) -> tuple[str | None, str | None]:
    """The package that software is, and the package URL of the version."""
    if name not in PYTHON_PACKAGES:
        return None, None
    try:
        return name, None if version is None else package_version(name, version).purl
    except InvalidDocument:
        return name, None


def link_hardware(connection: Connection, hardware: Mapping[str, Mapping[str, str]]) -> None:
    """Add the processor and the accelerator of new entries: names by kind, by entry."""
    named = [
        (entry_id, kind, parts[kind])
        for entry_id, parts in hardware.items()
        for kind in ("accelerator", "cpu")
        if kind in parts
    ]
    if named:
        entries, kinds, names = map(list, zip(*named, strict=True))
        connection.execute(_LINK_HARDWARE, {"entries": entries, "kinds": kinds, "names": names})


def enqueue_entries(connection: Connection, counts: Mapping[str, int]) -> None:
    """Write the outbox entries of new entries, given their numbers of results."""
    parts = [
        f"{entry_id}/{first}"
        for entry_id, count in counts.items()
        for first in range(0, count, RESULTS_IN_PART)
    ]
    add_entries(connection, {"benchmark_entry": counts, "benchmark_results": parts})


def enqueue_software_of(
    connection: Connection, packages: Iterable[str], purls: Iterable[str]
) -> None:
    """Enqueue software that is one of these new packages or versions."""
    values = {"packages": sorted(packages), "purls": sorted(purls)}
    if values["packages"] or values["purls"]:
        connection.execute(_ENQUEUE_SOFTWARE, values)


def enqueue_parts_of(connection: Connection, digests: Collection[str]) -> None:
    """Enqueue the parts that these new hardware classes have."""
    if digests:
        connection.execute(_ENQUEUE_PARTS, {"digests": list(digests)})


def context_of(
    connection: Connection, packages: Iterable[str], hardware: str | None
) -> list[ResultContext]:
    """What other benchmark systems have about packages and a machine, ordered by system.

    For each system and package, results on the machine if there are any, else all results with the
    package; and results on the machine with other software.

    :param hardware: digest of the hardware class
    """
    values = {"packages": sorted(packages), "hardware": hardware}
    rows = [ResultContext(*row) for row in connection.execute(_CONTEXT, values)]
    here = {(it.system, it.software) for it in rows if it.hardware is not None}
    return [it for it in rows if it.hardware is not None or (it.system, it.software) not in here]
