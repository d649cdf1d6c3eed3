"""OSU Micro-Benchmarks: latency, bandwidth and message rate of MPI by message size.

Each program prints a title, lines about the run, a header and a row for each size. Releases and
options differ in their columns, which the header names with their units.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from ingest.benchmarks.result_texts import complete_lines
from ingest.benchmarks.result_tree import ResultFile, missing_value, reader_of_parts
from ingest.benchmarks.results import HIGHER, LOWER, Run, finite_number, measure, whole_number
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter, Validity

SYSTEM = "osu-micro-benchmarks"
_TITLE = re.compile(r"^[ \t]*# OSU (.{1,100}?) Test\b(?: +v([\w.]{1,20}))?.*", re.MULTILINE)
#: Where the buffers of a run are, such as ``MPI-CUDA``.
_DEVICE = re.compile(r"^(\w+)-(CUDA|ROCM|OPENACC|SYCL)\b")
_RUN_OPTIONS = (
    re.compile(r"\[ pairs: (?P<pairs>\d{1,9}) \] \[ window size: (?P<window_size>\d{1,9}) \]"),
    # Newer releases end the name of the data type with a full stop.
    re.compile(r"Datatype: (?P<datatype>\S.{0,99}?)\.?[ \t]*$"),
    re.compile(r"Window creation: (?P<window_creation>\S.{0,99}?)[ \t]*$"),
    re.compile(r"Synchronization: (?P<synchronization>\S.{0,99}?)[ \t]*$"),
    re.compile(
        r"Send Buffer on (?P<send_buffer>\w{1,20}).* Receive Buffer on (?P<receive_buffer>\w{1,20})"
    ),
)
_COMMENT = re.compile(r"[ \t]*# ?(.*)")
_COLUMN = re.compile(
    r"Size\b|Iterations\b|Validation\b|MB/s\b|Messages/s\b|Bandwidth ?\(MB/s\)|Overlap ?\(%\)"
    r"|(?:(?:Avg|Min|Max|P\d\d Tail) )?(?:Latency|Lat) ?\(us\)"
    r"|(?:Overall|Compute|Coll\. Init|MPI_Test|MPI_Wait|(?:(?:Min|Max) )?Pure Comm\.) ?\(us\)"
    r"|(?:(?:Min|Max) )?Comm\.? ?\(us\)|P\d\d Tail (?:BW|Bandwidth) ?\(MB/s\)"
)
_measure = partial(measure, definition="osu-micro-benchmarks-1")
_BANDWIDTH = _measure("bandwidth", "MB/s", HIGHER, aggregate=Aggregate.TOTAL)
_MEAN = _measure("latency", "us", LOWER, aggregate=Aggregate.MEAN)
#: Measures by column without its unit. The other columns describe the run, or are parts of a value.
_MEASURES = {
    "Latency": _MEAN,
    "Avg Latency": _MEAN,
    "Min Latency": _measure("latency_min", "us", LOWER, aggregate=Aggregate.MINIMUM),
    "Max Latency": _measure("latency_max", "us", LOWER, aggregate=Aggregate.MAXIMUM),
    "P50 Tail Lat": _measure("latency_p50", "us", LOWER, aggregate=Aggregate.P50),
    "P90 Tail Lat": _measure("latency_p90", "us", LOWER, aggregate=Aggregate.P90),
    "P99 Tail Lat": _measure("latency_p99", "us", LOWER, aggregate=Aggregate.P99),
    "Bandwidth": _BANDWIDTH,
    "MB/s": _BANDWIDTH,
    "Messages/s": _measure("message_rate", "messages/s", HIGHER, aggregate=Aggregate.TOTAL),
    "Overall": _measure("overall_time", "us", LOWER, aggregate=Aggregate.MEAN),
    "Pure Comm.": _measure("communication_time", "us", LOWER, aggregate=Aggregate.MEAN),
    "Overlap": _measure("overlap", "%", HIGHER, aggregate=Aggregate.MEAN, zero_counts=True),
}
_COUNTS = {"size_bytes": "Size", "iterations": "Iterations"}


def _runs(file: ResultFile) -> list[tuple[re.Match[str], str]]:
    """Title and output of each program."""
    text = complete_lines(file.text)
    titles = list(_TITLE.finditer(text))
    if not titles:
        raise missing_value(file.place, "$", "no title of a test")
    ends = [*(it.start() for it in titles[1:]), len(text)]
    return [(title, text[title.end() : end]) for title, end in zip(titles, ends, strict=True)]


@reader_of_parts(SYSTEM, _runs, independent=True)
def read(run: Run, output: tuple[re.Match[str], str]) -> Iterator[BenchmarkResult]:
    """Results of each run in a file."""
    title, text = output
    device = _DEVICE.match(title[1])
    run = replace(run, benchmark=_DEVICE.sub(r"\1", title[1]), software={SYSTEM: title[2]})
    options: dict[str, Parameter] = {"device": device[2]} if device else {}
    columns: list[str] = []
    rows = 0
    for number, line in enumerate(text.split("\n"), 1):
        comment = _COMMENT.match(line)
        if comment is not None:
            for match in filter(None, (it.search(comment[1]) for it in _RUN_OPTIONS)):
                values = match.groupdict().items()
                options |= {key: int(it) if it.isdecimal() else it for key, it in values}
            columns = _columns(comment[1], number) or columns
            continue
        cells = line.split()
        if cells and len(cells) == len(columns) and finite_number(cells[0]) is not None:
            rows += 1
            row = dict(zip(columns, cells, strict=True))
            counts = {name: whole_number(row.get(column)) for name, column in _COUNTS.items()}
            parameters = options | {name: it for name, it in counts.items() if it is not None}
            verdict = row.get("Validation", "").lower()
            validity: dict[str, Any] = {"validity": Validity.VALID} if verdict == "pass" else {}
            if verdict not in ("", "pass"):
                reason = f"validation: {verdict[:20]}"
                validity = {"validity": Validity.INVALID, "reason": reason}
            for column, cell in row.items():
                if column in _MEASURES:
                    failure = f"the cell is {cell[:60]!r}"
                    of_row = replace(run, parameters=parameters)
                    yield of_row.result(_MEASURES[column], cell, failure, **validity)
    if not rows:
        raise missing_value("", "$", "the run printed no row")


def _columns(text: str, number: int) -> list[str]:
    """Names of the columns without units; empty if ``text`` is no header."""
    names = [re.sub(r" ?\(.*", "", it) for it in _COLUMN.findall(text)]
    unknown = _COLUMN.sub("", text).strip()
    # A line with " = " says what a column is the sum of.
    if not any(it in _MEASURES for it in names) or (unknown and " = " in text):
        return []
    if unknown:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"an unknown column: {unknown[:60]}", field=f"line {number}"
        )
    return names
