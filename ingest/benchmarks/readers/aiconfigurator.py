"""Tables of NVIDIA AIConfigurator: latencies of operators by engine release and GPU, as Parquet.

A row has the mean of a few runs of one session. ``collection_meta.yaml`` beside a table says which
collector measured it. Collectors of some releases time differently, so only rows of the same
collector have the same definition; rows of an unknown collector are comparable within a table only.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from posixpath import basename, dirname, join
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from common.formats.file_decoding import yaml_value
from ingest.benchmarks.result_tree import ResultFile, ResultTree, reader_of_places
from ingest.benchmarks.results import LOWER, Run, measure, numbered_parts, time_of_text
from ingest.sources.bounded_reads import unreadable
from model.errors import InvalidDocument, Reason
from model.json_fields import Fields
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Validity

_SYSTEM = "aiconfigurator"
_META = "collection_meta.yaml"
_IDENTITY = ("framework", "version", "device")
_MEASURED = {"latency": "ms", "power": "W"}
_PACKAGES = {"trtllm": "tensorrt-llm", "tensorrtllm": "tensorrt-llm"}
_ROWS_AT_ONCE = 5_000
#: A small file may have any number of equal rows; the largest published table has 20 million.
_MOST_CELLS = 100_000_000


@dataclass(frozen=True, slots=True)
class _Collection:
    """How a table was measured, as far as known.

    :param harness: identity of the collector or, if it is unknown, of the table
    :param images: container image by engine version
    """

    harness: str
    collected_at: datetime | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False


@reader_of_places
def read(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of each row of a table."""
    if basename(place) == _META:
        return
    file = tree.file(place)
    table = _table(file)
    name = basename(place).removesuffix(".parquet")
    described = join(dirname(place), _META)
    run, collection = file.run(_SYSTEM), _Collection(f"unknown, table {file.measured.sha256[:16]}")
    if described in tree.in_folder(dirname(place)):
        meta = tree.file(described)
        run = file.run(_SYSTEM, meta.measured)
        collection = _collection(meta, name, table.num_rows, collection)
    groups = table.group_by(list(_IDENTITY), use_threads=False).aggregate([]).to_pylist()
    for part, group in numbered_parts(run, groups):
        mask = [pc.equal(table[key], value) for key, value in group.items()]
        rows = table.filter(pc.and_(pc.and_(mask[0], mask[1]), mask[2]))
        yield from _of_release(
            part, group, rows, f"{name}, collector {collection.harness}", collection
        )


def _table(file: ResultFile) -> Any:
    """The rows of a file."""
    try:
        parquet = pq.ParquetFile(io.BytesIO(file.content))
        if parquet.metadata.num_rows * parquet.metadata.num_columns > _MOST_CELLS:
            message = f"more than {_MOST_CELLS} values: divide the table"
            raise InvalidDocument(Reason.FILE_TOO_LARGE, message, field="$")
        table = parquet.read()
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise unreadable(file.place, error) from None
    for key in (*_IDENTITY, "op_name", "kernel_source", "latency"):
        if key not in table.column_names:
            message = "the table lacks this column: export it again with its collector"
            raise InvalidDocument(Reason.MISSING_FIELD, message, field=key)
        kind = table.schema.field(key).type
        right = pa.types.is_floating(kind) if key == "latency" else pa.types.is_string(kind)
        if not right:
            raise InvalidDocument(Reason.WRONG_TYPE, f"a column of {kind}", field=key)
        if key in _IDENTITY and table[key].null_count:
            raise InvalidDocument(Reason.MISSING_FIELD, "a row lacks it", field=key)
    return table


def _collection(meta: ResultFile, name: str, rows: int, unknown: _Collection) -> _Collection:
    """The entry of ``collection_meta.yaml`` for a table, which may have been collected in parts."""
    try:
        document = Fields(yaml_value(meta.text))
        table, runtime = document.nested("tables").nested(name), document.nested("runtime")
        stated = table.text("rows")
        if stated not in (None, str(rows)):
            message = (
                f"states {stated} rows, but the table has {rows}: keep files of one collection"
                " together"
            )
            raise table.invalid(Reason.CONFLICTING_FIELDS, message, "rows")
        parts = [*table.each("collections")] or [table]
        collectors = {it.text("collector_hash") for it in parts}
        times = {time_of_text(it.text("collected_at")) for it in parts}
        image = "@".join(filter(None, (runtime.text(it) for it in ("image", "image_digest"))))
        images = {runtime.text("version") or "": image} if image else {}
        partial = table.text("status") == "partial"
    except InvalidDocument as error:
        error.place = meta.place
        raise
    # Rows do not say which of several collectors measured them.
    known = collectors.pop() if len(collectors) == 1 else None
    return _Collection(
        known.removeprefix("sha256:")[:16] if known else unknown.harness,
        times.pop() if len(times) == 1 else None, images, partial,
    )  # fmt: skip


def _of_release(
    run: Run, release: dict[str, str], rows: Any, definition: str, collection: _Collection
) -> Iterator[BenchmarkResult]:
    """A result for each row of one engine release on one GPU."""
    engine = release["framework"].lower().replace("-", "").replace("_", "")
    software: dict[str, str | None] = {_PACKAGES.get(engine, engine): release["version"]}
    if release["version"] in collection.images:
        software["image"] = collection.images[release["version"]]
    reason = "the collection of the table is partial" if collection.partial else None
    run = replace(
        run, hardware={"accelerator": release["device"]}, software=software, reason=reason,
        measured_at=collection.collected_at, validity=Validity.UNKNOWN,
    )  # fmt: skip
    measures = {
        key: measure(key, unit, LOWER, definition, Aggregate.MEAN)
        for key, unit in _MEASURED.items()
        if key in rows.column_names
    }
    left_out = {*_IDENTITY, *measures, "op_name"}
    for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            keys = {key: it for key, it in row.items() if key not in left_out}
            # Other numbers with a fraction are measured, too.
            parameters = {key: it for key, it in keys.items() if isinstance(it, str | int)}
            of_row = replace(run, benchmark=row["op_name"] or "unknown", parameters=parameters)
            for key, each in measures.items():
                yield of_row.result(each, row[key])
