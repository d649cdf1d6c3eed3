"""Stores results of other benchmark systems: entries with what they share, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, text

from graph.record.benchmark_links import (
    add_benchmarks,
    enqueue_entries,
    link_hardware,
    link_software,
)
from graph.record.benchmark_results import ENTRY_COLUMNS, RESULT_COLUMNS
from graph.record.bulk import add_entries, copy_rows, insert_new
from graph.tables import BenchmarkEntryRow, BenchmarkResultRow, table_of
from graph.verification.parser_version import READER_VERSION
from model.json_documents import digest
from model.measurements.benchmark_results import BenchmarkResult

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


def entry_id_of(result: BenchmarkResult) -> str:
    """Identifier of the entry of a result: a digest of what all its results share.

    It depends on the content of the files and not on their paths, so that a copy of the same files
    adds nothing. Other readers make another entry, which replaces it.
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
    """Store entries with all their results; return the number of new results. They replace what
    earlier versions of the readers made of the same files.

    Entries that are stored already, or that come a second time, are read and left out. Results are
    streamed. The caller owns the transaction, so that an entry is stored as a whole. Two writers of
    the same entries cannot block each other for ever if only the last entry has more than
    :data:`COPIED_AT_ONCE` results.

    :param origin: what the user named, without credentials
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
    """Results with their entry and their position in it; those of a repeated entry are left out."""
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
