"""KubeEdge Ianvs: tables that rank test cases by metrics that the user defined.

A rank table is CSV, with or without a column ``rank``, or Markdown. Which values are better is in
``benchmarkingjob.yaml``, beside or above the table.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from posixpath import basename, dirname
from typing import Any

import yaml

from ingest.benchmarks.result_texts import TextTable, csv_rows, delimiter_of, markdown_tables
from ingest.benchmarks.result_tree import ResultTree, reader_of_places
from ingest.benchmarks.results import HIGHER, LOWER, Run, finite_number, measure, time_of_text
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import BenchmarkResult, Direction, Parameter, Validity

#: Units of the metrics that the examples of Ianvs define; other names may mean anything.
_UNITS = {
    "Time to First Token": "s", "Internal Token Latency": "s", "Throughput": "tokens/s",
    "Edge Ratio": "%",
}  # fmt: skip
_DIRECTIONS = {"descend": HIGHER, "ascend": LOWER}
_NEEDED = {"algorithm", "paradigm"}
_NO_METRICS = {"rank", "algorithm", "paradigm", "time", "url"}
#: Hyper-parameters that some tables name without their module.
_PARAMETERS = re.compile(r"learning_rate|momentum|batch_size|epochs?|threshold\w*|seed|.+-.+")
_JOB_FILE = re.compile(r"benchmarkingjob[\w-]*\.ya?ml")
_JOB_BYTES = 1024 * 1024
_GENERIC_FOLDERS = {"rank", "benchmarkingjob", "workspace", "results", "leaderboards", "docs"}
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.{0,2}/|[A-Za-z]:[\\/])")
_LONGEST_TEXT = 300


@reader_of_places
def read(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of each row of a table."""
    file, job = tree.file(place), None
    # The description of the job is in the same folder or in the nearest folder above.
    folders = [str(it) for it in PurePosixPath(place).parents]
    for folder in ("" if it == "." else it for it in folders):
        if jobs := [it for it in tree.in_folder(folder) if _JOB_FILE.fullmatch(basename(it))]:
            job = jobs[0] if len(jobs) == 1 else None
            break
    described = None if job is None else tree.file(job)
    directions = {} if described is None else _directions(described.content)
    run = file.run("ianvs", *((described.measured,) if described and directions else ()))
    rows = []
    refusal: InvalidDocument | None = None
    try:
        for table in _tables(file.text):
            metrics = _metrics(table, directions)
            for cells in table.rows:
                row = dict(zip(table.header, cells, strict=True))
                if row["algorithm"]:
                    rows.append((time_of_text(row.get("time", "").strip()), row, metrics))
    except InvalidDocument as error:
        refusal = error
    # Rows of one time are one entry, and the results of an entry follow each other.
    rows.sort(key=lambda it: it[0].isoformat() if it[0] else "")
    for moment, row, metrics in rows:
        yield from _of_row(replace(run, measured_at=moment), row, metrics, directions)
    if refusal is not None:
        raise refusal


def _tables(text: str) -> Iterator[TextTable]:
    """Tables with the columns of Ianvs; CSV rows with too many cells are refused at the end."""
    tables = list(markdown_tables(text))
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

    Tables of other programs have no columns there; their numeric columns are metrics unless they
    have the name of a hyper-parameter.
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
    run: Run, row: Mapping[str, str], metrics: Sequence[str], directions: Mapping[str, Direction]
) -> Iterator[BenchmarkResult]:
    # The innermost folder with a telling name.
    folders = [it for it in dirname(run.source).split("/") if it and it not in _GENERIC_FOLDERS]
    scenario = "".join(folders[-1:]).removeprefix("leaderboard-in-")[:_LONGEST_TEXT]
    benchmark = "/".join(filter(None, (scenario, row["paradigm"])))
    parameters: dict[str, Parameter] = {"algorithm": row["algorithm"][:_LONGEST_TEXT]}
    case = _UUID.search(row.get("url", ""))
    if case:
        parameters["test_case"] = case[0].lower()
    for name, cell in row.items():
        if name and cell and name not in _NO_METRICS and name not in metrics:
            parameters[name] = _parameter(cell)
    run = replace(run, benchmark=benchmark[:_LONGEST_TEXT] or "unknown", parameters=parameters)
    # The user defines the metrics of a scenario.
    definition = f"ianvs-1 {scenario or run.files[0].sha256[:12]}"
    for name in metrics:
        value, cell = finite_number(row[name]), row[name]
        failed: dict[str, Any] = {}
        if value is None:
            shown = f"the cell has {cell[:50]!r} instead of a number"
            failed = {"validity": Validity.FAILED, "reason": shown if cell else "the cell is empty"}
        direction = directions.get(name, Direction.UNKNOWN)
        each = measure(name, _UNITS.get(name, ""), direction, definition)
        yield run.stated(each, value, **failed)


def _parameter(cell: str) -> Parameter:
    """A cell as a number or text; a path is cut to its last name, without the user's folders."""
    if re.fullmatch(r"-?\d{1,15}", cell):
        return int(cell)
    number = finite_number(cell)
    if number is not None:
        return number
    if _PATH.match(cell):
        return re.split(r"[\\/]", cell.rstrip("\\/"))[-1][:_LONGEST_TEXT]
    return cell[:_LONGEST_TEXT]


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
