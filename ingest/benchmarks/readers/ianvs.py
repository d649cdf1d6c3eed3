"""KubeEdge Ianvs: tables that rank test cases by metrics that the user defined.

A rank table is CSV, with or without a column ``rank``, Markdown, or a box on the console. It does
not say which values are better; ``benchmarkingjob.yaml`` beside it or above it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from posixpath import basename, dirname
from typing import Any

import yaml

from ingest.benchmarks.result_tree import ResultTree, results_or_refusal
from ingest.benchmarks.text_tables import TextTable, csv_rows, delimiter_of, tables_with_bars
from ingest.benchmarks.values import finite_number, time_of_text
from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
    Validity,
)
from model.reasons import Reason

SYSTEM = "ianvs"
#: Units of the metrics that the examples of Ianvs define; other names may mean anything.
_UNITS = {
    "Time to First Token": "s", "Internal Token Latency": "s", "Throughput": "tokens/s",
    "Edge Ratio": "%",
}  # fmt: skip
_DIRECTIONS = {"descend": Direction.HIGHER, "ascend": Direction.LOWER}
_NEEDED = {"algorithm", "paradigm"}
_NO_METRICS = {"rank", "algorithm", "paradigm", "time", "url"}
#: Hyper-parameters that some tables name without their module.
_PARAMETERS = re.compile(r"learning_rate|momentum|batch_size|epochs?|threshold\w*|seed|.+-.+")
_JOB_FILE = re.compile(r"benchmarkingjob[\w-]*\.ya?ml")
_JOB_BYTES = 1024 * 1024
_GENERIC_FOLDERS = {"rank", "benchmarkingjob", "workspace", "results", "leaderboards", "docs"}
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T]?(\d\d:\d\d:\d\d)")
_PATH = re.compile(r"(?:~|\.{0,2}/|[A-Za-z]:[\\/])")
_LONGEST_TEXT = 300


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Results of each table."""
    for place in places:
        yield from results_or_refusal(_results(tree, place), place)


def _results(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    text = file.text
    files = [file.measured]
    directions = {}
    job = _job_place(tree, place)
    if job is not None:
        described = tree.file(job)
        directions = _directions(described.content)
        if directions:
            files.append(described.measured)
    rows = []
    refusal: InvalidDocument | None = None
    try:
        for table in _tables(text):
            metrics = _metrics(table, directions)
            for cells in table.rows:
                row = dict(zip(table.header, cells, strict=True))
                if row["algorithm"]:
                    rows.append((_time(row.get("time", "")), row, metrics))
    except InvalidDocument as error:
        refusal = error
    # Rows of one time are one entry, and the results of an entry follow each other.
    rows.sort(key=lambda it: it[0].isoformat() if it[0] else "")
    for moment, row, metrics in rows:
        yield from _of_row(
            row, metrics, directions, place, moment, sorted(files, key=lambda it: it.place)
        )
    if refusal is not None:
        raise refusal


def _tables(text: str) -> Iterator[TextTable]:
    """Tables with the columns of Ianvs.

    :raises InvalidDocument: after the other rows, if a row of a CSV file has too many cells
    """
    tables = list(tables_with_bars(text))
    if tables:
        yield from (it for it in tables if set(it.header) >= _NEEDED)
        return
    wide: list[int] = []
    header: list[str] = []
    rows: list[list[str]] = []
    first = text.partition("\n")[0]
    for number, cells in enumerate(csv_rows(text, delimiter_of(first)), 1):
        row = [cell.strip() for cell in cells]
        if set(row) >= _NEEDED:
            # Programs append to a file, sometimes with other columns.
            if rows and row != header:
                yield TextTable("", header, rows)
                rows = []
            header = row
        elif any(row[len(header) :]):
            # Decimal commas and unquoted delimiters move the cells behind them.
            wide.append(number)
        elif header:
            rows.append((row + [""] * len(header))[: len(header)])
    if rows:
        yield TextTable("", header, rows)
    if wide:
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"rows with too many cells: {len(wide)}", field=f"row {wide[0]}"
        )


def _metrics(table: TextTable, directions: Mapping[str, Direction]) -> list[str]:
    """Columns with metrics: those between algorithm and paradigm, where Ianvs writes them.

    Tables of other programs have none there; their numeric columns without the name of a
    hyper-parameter are metrics.
    """
    header = list(table.header)
    between = header[header.index("algorithm") + 1 : header.index("paradigm")]
    if between:
        return between
    metrics = []
    for column, name in enumerate(header):
        cells = [row[column] for row in table.rows]
        numbers = [cell for cell in cells if finite_number(cell) is not None]
        if name in directions or (
            name not in _NO_METRICS
            and not _PARAMETERS.fullmatch(name)
            and numbers
            and len(numbers) == sum(bool(cell) for cell in cells)
        ):
            metrics.append(name)
    return metrics


def _of_row(
    row: Mapping[str, str],
    metrics: Sequence[str],
    directions: Mapping[str, Direction],
    place: str,
    moment: datetime | None,
    files: Sequence[MeasuredFile],
) -> Iterator[BenchmarkResult]:
    scenario = _scenario(place)
    benchmark = "/".join(filter(None, (scenario, row["paradigm"])))
    parameters: dict[str, Parameter] = {"algorithm": row["algorithm"][:_LONGEST_TEXT]}
    case = _UUID.search(row.get("url", ""))
    if case:
        parameters["test_case"] = case[0].lower()
    for name, cell in row.items():
        if name and cell and name not in _NO_METRICS and name not in metrics:
            parameters[name] = _parameter(cell)
    for name in metrics:
        value = finite_number(row[name])
        measured = value is not None
        yield BenchmarkResult(
            system=SYSTEM,
            source=place,
            benchmark=benchmark[:_LONGEST_TEXT] or "unknown",
            metric=Metric(
                name,
                _UNITS.get(name, ""),
                directions.get(name, Direction.UNKNOWN),
                # The user defines the metrics of a scenario.
                f"ianvs-1 {scenario or files[0].sha256[:12]}",
            ),
            value=value,
            aggregate=Aggregate.SINGLE,
            parameters=parameters,
            validity=Validity.UNKNOWN if measured else Validity.FAILED,
            reason=None if measured else _reason(row[name]),
            measured_at=moment,
            files=files,
        )


def _reason(cell: str) -> str:
    return f"the cell has {cell[:50]!r} instead of a number" if cell else "the cell is empty"


def _parameter(cell: str) -> Parameter:
    """A cell as a number or text; of a path, which belongs to the user's machine, the last name."""
    if re.fullmatch(r"-?\d{1,15}", cell):
        return int(cell)
    number = finite_number(cell)
    if number is not None:
        return number
    if _PATH.match(cell):
        return re.split(r"[\\/]", cell.rstrip("\\/"))[-1][:_LONGEST_TEXT]
    return cell[:_LONGEST_TEXT]


def _scenario(place: str) -> str:
    """The innermost folder with a telling name; empty if there is none."""
    folders = [it for it in dirname(place).split("/") if it and it not in _GENERIC_FOLDERS]
    return folders[-1].removeprefix("leaderboard-in-")[:_LONGEST_TEXT] if folders else ""


def _job_place(tree: ResultTree, place: str) -> str | None:
    """The description of the job in the folder of ``place`` or in the nearest folder above."""
    folder = dirname(place)
    while True:
        jobs = [it for it in tree.in_folder(folder) if _JOB_FILE.fullmatch(basename(it))]
        if jobs:
            return jobs[0] if len(jobs) == 1 else None
        if not folder:
            return None
        folder = dirname(folder)


def _directions(described: bytes) -> dict[str, Direction]:
    """Directions of metrics by name, as the job sorts them; empty if the job is not readable."""
    if len(described) > _JOB_BYTES:
        return {}
    try:
        job: Any = yaml.safe_load(described)
        sorting = job["benchmarkingjob"]["rank"]["sort_by"]
        return {
            str(name): _DIRECTIONS[order]
            for item in sorting
            for name, order in item.items()
            if order in _DIRECTIONS
        }
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _time(cell: str) -> datetime | None:
    """A time; the box on the console may lack the space between day and hour."""
    return time_of_text(_TIME.sub(r"\1 \2", cell.strip(), count=1))
