"""Stores results of other benchmark systems: entries with shared properties, and their values.

Benchmarks, software and parts of machines are rows of their own, so that the graph can link them
with packages and hardware classes, whichever is stored first.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from sqlalchemy import Connection, text

from graph.record.benchmark_results import ENTRY_COLUMNS, RESULT_COLUMNS
from graph.record.bulk import add_entries, copy_rows, insert_new
from graph.tables import (
    BenchmarkEntryRow,
    BenchmarkEntrySoftware,
    BenchmarkResultRow,
    BenchmarkRow,
    BenchmarkSoftwareRow,
    table_of,
)
from graph.verification.parser_version import READER_VERSION
from model.errors import InvalidDocument
from model.json_documents import digest
from model.measurements.benchmark_results import PYTHON_PACKAGES, BenchmarkResult, ResultContext
from model.packages.identity import package_version

#: Results that are copied at once; this bounds memory.
COPIED_AT_ONCE = 5_000

#: Identifier of an entry, and its results in the order of its files; at least one.
Entry = tuple[str, Iterable[BenchmarkResult]]

#: Deletes the entries that earlier readers made of the same files.
_REPLACE = text(
    """
    WITH outdated AS (
        SELECT entry_id FROM benchmark_entries
        WHERE reader_version < :version AND (
            SELECT string_agg(file ->> 'sha256', ',' ORDER BY file ->> 'sha256' COLLATE "C")
            FROM jsonb_array_elements(files) AS file
        ) = ANY(:files)
    ), results AS (
        DELETE FROM benchmark_results AS it USING outdated WHERE it.entry_id = outdated.entry_id
    ), software AS (
        DELETE FROM benchmark_entry_software AS it USING outdated
        WHERE it.entry_id = outdated.entry_id
    ), parts AS (
        DELETE FROM benchmark_entry_parts AS it USING outdated WHERE it.entry_id = outdated.entry_id
    )
    DELETE FROM benchmark_entries AS it USING outdated WHERE it.entry_id = outdated.entry_id
    RETURNING it.entry_id
    """
)
_COUNT = text(
    """
    UPDATE benchmark_entries SET result_count = counted.result_count
    FROM unnest(CAST(:entries AS text[]), CAST(:counts AS integer[]))
        AS counted (entry_id, result_count)
    WHERE benchmark_entries.entry_id = counted.entry_id
    """
)
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


def entry_id_of(result: BenchmarkResult) -> str:
    """Identifier of the entry of a result: a digest of the properties that its results share.

    It depends on the content of the files and not on their paths, so that a copy of the same files
    adds nothing. An entry by another version of the readers replaces an earlier entry.
    """
    moment = None if result.measured_at is None else result.measured_at.isoformat()
    return digest(
        [
            READER_VERSION,
            result.system,
            sorted(it.sha256 for it in result.files),
            result.source.partition("#")[2],
            dict(result.hardware),
            result.accelerators,
            dict(result.software),
            moment,
        ]
    )


def store_entries(connection: Connection, origin: str, entries: Iterable[Entry]) -> int:
    """Store entries with all their results; return the number of new results. They replace entries
    that earlier versions of the readers made of the same files.

    Entries that are stored already, or that are repeated, are read and left out. Results are
    streamed. The caller owns the transaction, so that an entry is stored as a whole. Two writers of
    the same entries cannot block each other for ever if only the last entry has more than
    :data:`COPIED_AT_ONCE` results.

    :param origin: the path or URL that the user gave, without credentials
    """
    table = table_of(BenchmarkResultRow)
    new: dict[str, BenchmarkResult] = {}
    counts: dict[str, int] = {}
    benchmarks: set[tuple[str, str]] = set()
    remaining = _numbered(entries)
    while batch := list(islice(remaining, COPIED_AT_ONCE)):
        first = {entry_id: it for entry_id, position, it in batch if position == 0}
        files = [",".join(sorted(file.sha256 for file in it.files)) for it in first.values()]
        replaced = connection.scalars(_REPLACE, {"version": READER_VERSION, "files": files})
        add_entries(connection, {"benchmark_entry": replaced})
        rows = [
            (*_entry_values(entry_id, origin, it), 0, READER_VERSION)
            for entry_id, it in first.items()
        ]
        columns = (*ENTRY_COLUMNS, "result_count", "reader_version")
        for entry_id in insert_new(connection, BenchmarkEntryRow, rows, columns, "entry_id"):
            new[entry_id] = first[entry_id]
        added = [it for it in batch if it[0] in new]
        copy_rows(connection, table.name, table, map(_result_values, added), RESULT_COLUMNS)
        benchmarks |= {(it.system, it.benchmark) for _, _, it in added}
        counts |= {entry_id: position + 1 for entry_id, position, _ in added}
    if not new:
        return 0
    values = {"entries": list(counts), "counts": list(counts.values())}
    connection.execute(_COUNT, values)
    add_benchmarks(connection, benchmarks)
    link_software(connection, {entry_id: it.software for entry_id, it in new.items()})
    link_hardware(connection, {entry_id: it.hardware for entry_id, it in new.items()})
    enqueue_entries(connection, counts)
    return sum(counts.values())


_Numbered = tuple[str, int, BenchmarkResult]


def _numbered(entries: Iterable[Entry]) -> Iterator[_Numbered]:
    """Results with their entry and their position in it, without results of repeated entries."""
    begun: set[str] = set()
    for entry_id, results in entries:
        if entry_id in begun:
            for _ in results:  # the caller counts what it hands over
                pass
            continue
        begun.add(entry_id)
        for position, result in enumerate(results):
            yield entry_id, position, result


def _entry_values(entry_id: str, origin: str, result: BenchmarkResult) -> tuple[Any, ...]:
    files = [{"place": file.place, "sha256": file.sha256} for file in result.files]
    return (
        entry_id, result.system, origin, result.source, dict(result.hardware), result.accelerators,
        dict(result.software), result.measured_at, files,
    )  # fmt: skip


def _result_values(numbered: _Numbered) -> tuple[Any, ...]:
    entry_id, position, result = numbered
    return (
        entry_id, position, result.benchmark, dict(result.parameters), result.metric.name,
        result.metric.unit, result.metric.direction.value, result.metric.definition,
        result.value, list(result.samples),
        result.aggregate.value, result.validity.value, result.reason,
    )  # fmt: skip


def software_id_of(name: str, version: str | None) -> str:
    """Identifier of software: its name, with its version if that is known.

    >>> software_id_of("cuda", "10.1"), software_id_of("torch", None)
    ('cuda==10.1', 'torch')
    """
    return name if version is None else f"{name}=={version}"


def add_benchmarks(connection: Connection, names: Iterable[tuple[str, str]]) -> None:
    """Add the benchmarks that are new, by system and name."""
    rows = [(digest([system, name]), system, name) for system, name in names]
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
    """The package of some software, and the package URL of its version."""
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
    """Enqueue software that one of these new packages or versions provides."""
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
    """Results of other benchmark systems on packages and a machine, counted and ordered by system.

    For each system and package, counts results on the machine or, if there are none, all results
    with the package. Also counts results on the machine with other software.

    :param hardware: digest of the hardware class
    """
    values = {"packages": sorted(packages), "hardware": hardware}
    rows = [ResultContext(*row) for row in connection.execute(_CONTEXT, values)]
    here = {(it.system, it.software) for it in rows if it.hardware is not None}
    return [it for it in rows if it.hardware is not None or (it.system, it.software) not in here]
