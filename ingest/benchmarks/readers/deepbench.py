"""DeepBench: times of single operations, from workbooks and from console output.

A result sheet has sections (dense and sparse matrix products, convolutions, recurrent layers,
all-reduce), each with its own header. Spellings vary, so columns are recognised by keywords in
titles. Rates are computed from times by the formulas of the workbooks. A cell without a number is a
failed result.
"""

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from typing import Any

from ingest.benchmarks.result_texts import complete_lines
from ingest.benchmarks.result_tree import ResultFile, ResultTree, missing_value, reader_of_places
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    finite_number,
    measure,
    positive_number,
    software_versions,
    stated_texts,
    whole_number,
)
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

SYSTEM = "deepbench"
#: Title and rows of a sheet.
_Sheet = tuple[str, Sequence[tuple[Any, ...]]]
#: Published sheets have fewer than 1,000 rows and 40 columns; a damaged one may claim any number.
_MOST_ROWS, _MOST_COLUMNS = 20_000, 100
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, SyntaxError, ValueError, TypeError, AttributeError, LookupError,
    OSError, EOFError, RuntimeError, ArithmeticError, AssertionError,
)  # fmt: skip
#: Sections by the beginning of their name, and the benchmark that each holds.
_SECTIONS = {
    "dense matrix multiplication": "gemm", "sparse matrix multiplication": "sparse_gemm",
    "convolution": "convolution", "recurrent layers - vanilla": "rnn_vanilla",
    "recurrent layers - lstm": "rnn_lstm", "recurrent layers - gru": "rnn_gru",
    "all-reduce": "all_reduce",
}  # fmt: skip
_PASSES = (
    (re.compile(r"(?:backward|wrt).*input", re.IGNORECASE), "backward_inputs"),
    (re.compile(r"(?:backward|wrt).*(?:weight|param)", re.IGNORECASE), "backward_weights"),
    (re.compile(r"backward", re.IGNORECASE), "backward"),
    (re.compile(r"total", re.IGNORECASE), "total"),
    (re.compile(r"sparse time", re.IGNORECASE), ""),
    (re.compile(r"dense time", re.IGNORECASE), "dense"),
    (re.compile(r"forward", re.IGNORECASE), "forward"),
    (re.compile(r"", re.IGNORECASE), ""),
)
#: Benchmark, parameters, and milliseconds by pass of a row on a console.
_ConsoleRow = tuple[str, dict[str, Parameter], dict[str, float | None]]
_TIMED_COLUMN = re.compile(r"time \([um]sec\)")
_COLUMN = re.compile(r"(?:(?:sparse|dense) )?\S+(?: \([um]sec\))?")
_BENCHMARK_COLUMNS = (
    ("sparsity", "sparse_gemm"), ("a_t", "gemm"), ("stride_w", "convolution"),
    ("hidden", "rnn"), ("hidden_size", "rnn"),
)  # fmt: skip
_TRANSPOSED = {"a_t": "a_transpose", "b_t": "b_transpose"}
#: Columns that follow from the others, or name what the library chose.
_UNREAD = frozenset({"fwd_algo", "speedup", "pad_kerenels", "GOPS", "TERAFLOPS"})
#: Names of the console, and those of the workbooks.
_SHAPES = {
    "f_w": "s", "f_h": "r", "stride_w": "horizontal_stride", "stride_h": "vertical_stride",
    "hidden": "hidden_units", "hidden_size": "hidden_units", "batch_size": "n", "N": "n",
    "time_steps": "timesteps",
}  # fmt: skip
_CONSOLE_PASSES = {
    "fwd_time": "forward", "bwd_time": "backward", "bwd_inputs_time": "backward_inputs",
    "bwd_params_time": "backward_weights", "total_time": "total", "dense time": "dense",
}  # fmt: skip
#: Matrix products of MKL.
_INTEL = re.compile(
    r"^(SGEMM|DGEMM|GEMM_S8U8S32)\((\w),(\w),(\d{1,9}),(\d{1,9}),(\d{1,9})\)[ \t]+(\S+) usec",
    re.MULTILINE,
)
_PRECISIONS = {"SGEMM": "float", "DGEMM": "double", "GEMM_S8U8S32": "int8"}
#: Passes that have the operations of one convolution each.
_CONVOLUTIONS = ("forward", "backward_inputs", "backward_weights")
#: Parts of the titles of columns that are not read: they follow from the others.
_COMPUTED = ("flops", "speedup", "bytes", "std dev", "algorithm", "application")


_TIME = measure("time", "ms", LOWER, "deepbench-1")
_GEMM_SUM = measure("gemm_time_sum", "ms", LOWER, "deepbench-1", Aggregate.SUM)
_RATE = measure("rate", "TFLOPS", HIGHER, "deepbench-1")


@reader_of_places
def read(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of a workbook or a console log, row by row."""
    file = tree.file(place)
    run = file.run(SYSTEM)
    if not file.content.startswith(b"PK"):
        rows_of_console = list(_rows(complete_lines(file.text)))
        if not any(times for _, _, times in rows_of_console):
            message = "no row of matrix products, convolutions or layers"
            raise missing_value(file.place, "$", message)
        for benchmark, parameters, times in rows_of_console:
            for name, duration in times.items():
                failure = "the row has no time" if duration is None else "the time is zero"
                of_row = replace(run, benchmark=benchmark)
                yield from _timed(of_row, parameters, name, positive_number(duration), failure)
        return
    sheets = list(_sheets(file, tree.limits))
    run = _with_specs(run, sheets)
    for title, rows in sheets:
        if not _has_specs(title):
            yield from _sheet(replace(run, source=f"{file.place}#{title}"), rows)


def _sheets(file: ResultFile, limits: SourceLimits) -> Iterator[_Sheet]:
    """Title and rows of each sheet."""
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(BytesIO(file.content)) as packed:
            size = sum(it.file_size for it in packed.infolist())
        if size > limits.document_bytes:
            raise InvalidDocument(
                Reason.ARCHIVE_BOMB, f"the workbook unpacks to {size} bytes", place=file.place
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which are not read
            workbook = load_workbook(BytesIO(file.content), read_only=True, data_only=True)
            with closing(workbook):
                for sheet in workbook.worksheets:
                    rows = sheet.iter_rows(
                        max_row=_MOST_ROWS, max_col=_MOST_COLUMNS, values_only=True
                    )
                    yield sheet.title, list(rows)
    except InvalidDocument:
        raise
    # The parser fails in many ways at a damaged part, for example with a TypeError at an unknown
    # attribute.
    except _DAMAGED as error:
        raise InvalidDocument(
            Reason.ARCHIVE_BROKEN, f"not a workbook: {type(error).__name__}", place=file.place
        ) from None


def _has_specs(title: str) -> bool:
    return title.lower().startswith("spec")


def _with_specs(run: Run, sheets: Sequence[_Sheet]) -> Run:
    """``run`` with the hardware and software that the sheet of specifications states."""
    stated: dict[str, str] = {}
    for title, rows in sheets:
        for row in rows if _has_specs(title) else ():
            if len(row) > 1 and row[0] is not None and row[1] is not None:
                stated[str(row[0]).strip().lower()] = str(row[1]).replace("\xa0", " ").strip()
    cpu = stated.get("cpu model") or stated.get("cpu")
    gpu = stated.get("gpu model") or stated.get("gpu")
    parts = stated_texts(500, cpu=cpu, accelerator=gpu)
    versions = [
        f"{key.removesuffix(' version')} {value}"
        for key, value in stated.items()
        if key.endswith("version") or key.endswith("driver")
    ]
    return replace(
        run,
        hardware={key: text for key, text in parts.items() if text != "-"},
        accelerators=1 if gpu and gpu != "-" else 0 if cpu else None,
        software=software_versions(versions),
    )


def _sheet(run: Run, rows: Sequence[tuple[Any, ...]]) -> Iterator[BenchmarkResult]:
    precision: dict[str, Parameter] = {}
    benchmark: str | None = None
    columns: dict[int, str] = {}  # lower-case titles by index; empty until the header was read
    times: list[float] = []
    reduced: list[BenchmarkResult] = []
    for row in rows:
        first = str(row[0]).strip().lower() if row and row[0] is not None else ""
        if first == "precision" and len(row) > 1:
            precision = {} if row[1] is None else {"precision": str(row[1])[:200]}
            continue
        section = next((it for name, it in _SECTIONS.items() if first.startswith(name)), None)
        if section is not None:
            has_header = sum(isinstance(cell, str) for cell in row[1:]) > 1
            benchmark, columns = section, _titles(row) if has_header else {}
            continue
        if benchmark is None or not any(cell is not None for cell in row):
            continue
        if not columns:
            columns = _titles(row)
            continue
        for result in _row(replace(run, benchmark=benchmark, parameters=precision), columns, row):
            if benchmark == "all_reduce":
                reduced.append(result)
                continue
            yield result
            if benchmark == "gemm" and result.metric == _TIME.metric and result.value:
                times.append(result.value)
    if times:
        gemm = replace(run, benchmark="gemm", parameters=precision)
        yield gemm.stated(_GEMM_SUM, sum(times), samples=tuple(times))
    # Results with the same number of accelerators are one entry, and follow each other.
    yield from sorted(reduced, key=lambda it: it.accelerators or 0)


def _titles(row: Sequence[Any]) -> dict[int, str]:
    return {
        index: cell.strip().lower()
        for index, cell in enumerate(row)
        if index and isinstance(cell, str)
    }


def _row(run: Run, columns: Mapping[int, str], row: Sequence[Any]) -> Iterator[BenchmarkResult]:
    """One result for each time, and its rate where the formula of the operation is known."""
    parameters = dict(run.parameters)
    times: list[tuple[str, Any]] = []
    for index, title in columns.items():
        cell = row[index] if index < len(row) else None
        if any(it in title for it in _COMPUTED):
            continue
        if "msec" in title or title == "total time":
            times.append((next(name for pattern, name in _PASSES if pattern.search(title)), cell))
        elif isinstance(cell, int | float | str) and cell != "":
            name = re.sub(r"\W+", "_", title.partition("(")[0].strip())
            name = "ranks" if title.startswith("#") else name  # chips, cards or nodes
            parameters[name] = int(cell) if isinstance(cell, float) and cell.is_integer() else cell
    if isinstance(row[1] if len(row) > 1 else None, str):
        parameters.setdefault("application", row[1])
    if not any(isinstance(it, int | float) for key, it in parameters.items() if key != "precision"):
        return  # a note between the rows
    if run.benchmark == "all_reduce" and run.accelerators:
        run = replace(run, accelerators=whole_number(parameters.get("ranks")))
    for name, cell in times:
        if cell is not None:
            timed = positive_number(cell)
            yield from _timed(run, parameters, name, timed, f"the cell is {str(cell)[:60]!r}")


def _timed(
    run: Run, parameters: Mapping[str, Parameter], name: str, milliseconds: float | None,
    failure: str,
) -> Iterator[BenchmarkResult]:  # fmt: skip
    """The time of a pass, and its rate where the formula of the operation is known."""
    run = replace(run, parameters={**parameters, "pass": name} if name else {**parameters})
    yield run.result(_TIME, milliseconds, failure)
    operations = _operations(run.benchmark, parameters, name)
    if milliseconds is not None and operations is not None:
        yield run.result(_RATE, operations / milliseconds / 1e9, "the rate is zero or too large")


def _operations(benchmark: str, parameters: Mapping[str, Parameter], phase: str) -> float | None:
    """Floating-point operations of a row; ``None`` if its formula is not known."""
    shape = {key: it for key, it in parameters.items() if isinstance(it, int | float)}
    try:
        if benchmark in ("gemm", "sparse_gemm"):
            density = 1.0
            if benchmark == "sparse_gemm" and phase != "dense":
                density = 1.0 - float(shape["sparsity"])
            return 2.0 * shape["m"] * shape["n"] * shape["k"] * density
        if benchmark == "convolution" and phase in _CONVOLUTIONS:
            return convolution_operations(shape)
    except (KeyError, ArithmeticError):  # a size is missing, zero or too large
        return None
    return None


def convolution_operations(shape: Mapping[str, float]) -> float:
    """Operations of a convolution: ``2 P Q K C N R S`` for outputs of P × Q.

    :param shape: ``w``, ``h``, ``c``, ``n``, ``k``, ``s``, ``r``, paddings and strides, as the
        workbooks name them
    :raises KeyError: if a size is missing

    >>> convolution_operations(
    ...     dict(w=3, h=3, c=1, n=1, k=1, r=1, s=1, pad_w=0, pad_h=0)
    ...     | dict(horizontal_stride=1, vertical_stride=1)
    ... )
    18.0
    """
    columns = 1 + (shape["w"] - shape["s"] + 2 * shape["pad_w"]) // shape["horizontal_stride"]
    rows = 1 + (shape["h"] - shape["r"] + 2 * shape["pad_h"]) // shape["vertical_stride"]
    filters = shape["k"] * shape["c"] * shape["r"] * shape["s"]
    return float(2 * columns * rows * filters * shape["n"])


def _rows(text: str) -> Iterator[_ConsoleRow]:
    """Matrix products of the program for Intel processors, and rows of the tables of the programs
    for NVIDIA, AMD and ARM; each table has a header of its own.
    """
    for kind, first, second, m, n, k, microseconds in _INTEL.findall(text):
        sizes = {"m": int(m), "n": int(n), "k": int(k)}
        orders = {
            "a_transpose": "T" if first in "Tt" else "N",
            "b_transpose": "T" if second in "Tt" else "N",
        }
        times = {"": _milliseconds(microseconds, "(usec)")}
        yield "gemm", {**sizes, **orders, "precision": _PRECISIONS[kind]}, times
    names: list[str] = []
    for line in text.split("\n"):
        if _TIMED_COLUMN.search(line):
            names = [re.sub(r" \(", "(", it) for it in _COLUMN.findall(line)]
            continue
        cells = line.split()
        timed = [index for index, name in enumerate(names) if name.endswith("sec)")]
        if not timed or len(cells) <= timed[-1]:
            continue
        row = dict(zip(names[: timed[-1] + 1], cells, strict=False))  # algorithms follow the times
        benchmark = next((it for column, it in _BENCHMARK_COLUMNS if column in row), None)
        kind = row.pop("type", None) or row.pop("rnn_type", None)
        parameters: dict[str, Parameter] = {}
        for name, cell in row.items():
            if name in _TRANSPOSED:
                parameters[_TRANSPOSED[name]] = "T" if cell in "1tT" else "N"
            elif name == "precision":
                parameters[name] = cell[:20]
            elif name not in _UNREAD and not name.endswith("sec)"):
                number = finite_number(cell) if name == "sparsity" else whole_number(cell)
                if number is None:
                    break  # a line of something else
                parameters[_SHAPES.get(name, name)] = number
        else:
            times = {
                _CONSOLE_PASSES.get(name.partition("(")[0], ""): _milliseconds(row[name], name)
                for name in (names[index] for index in timed)
            }
            if benchmark is not None:
                yield f"{benchmark}_{kind}" if kind else benchmark, parameters, times


def _milliseconds(cell: str, name: str) -> float | None:
    """A time of a column in microseconds or milliseconds."""
    number = finite_number(cell)
    return None if number is None else number / 1000 if name.endswith("(usec)") else number
