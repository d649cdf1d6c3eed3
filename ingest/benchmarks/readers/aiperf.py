"""AIPerf: operations a second of an AutoML search, known from the source of its report only.

``results.txt`` has the final scores, a table, and a Python dictionary with one value for each 0.1
hours. The search counts if it ran for an hour and reached an error of at most 30 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ingest.benchmarks.result_tree import ResultFile, numbered_parts, reader_of_files
from ingest.benchmarks.values import finite_number
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Metric,
    Parameter,
    Validity,
)

SYSTEM = "aiperf"
_DEFINITION = "aiperf-1"
_SCORE = Metric("score", "GFLOPS", Direction.HIGHER, _DEFINITION)
_REGULATED_SCORE = Metric("regulated_score", "GFLOPS", Direction.HIGHER, _DEFINITION)
_ERROR = Metric("error", "%", Direction.LOWER, _DEFINITION)
_FINAL = re.compile(r"^Final (Regulated )?Score *: *(\S+) *GFLOPS", re.MULTILINE)
#: The beginning of a report; a failure comes before the scores.
_REPORT = re.compile(
    r"(?:^!!! .{1,200}? !!!\n(?:(?!Final|\{).*\n){0,9})?^Final Score\b", re.MULTILINE
)
_FAILURE = re.compile(r"^!!! (.{1,200}?) !!!$", re.MULTILINE)
_SERIES = re.compile(r"'(real_time|GFLOPS|Error|Score)': *\[([^\]\n]*)\]")
#: A text, which may have a decimal comma, or a number.
_LISTED = re.compile(r"['\"]([^'\"]*)['\"]|([^\s,'\"]+)")
_LEAST_HOURS = 1.0
_MOST_ERROR_PERCENT = 30.0


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of each report in a file."""
    starts = [it.start() for it in _REPORT.finditer(file.text)]
    ends = [*starts[1:], len(file.text)]
    reports = [file.text[start:end] for start, end in zip([0, *starts[1:]], ends, strict=True)]
    for source, report in numbered_parts(file.place, reports):
        yield from _of_report(report, source, file)


def _of_report(text: str, source: str, file: ResultFile) -> Iterator[BenchmarkResult]:
    series = {match[1]: _numbers(match[2]) for match in _SERIES.finditer(text)}
    hours, errors = series.get("real_time", ()), series.get("Error", ())
    violation = _violation(text, hours, errors)
    parameters: dict[str, Parameter] = {"hours": hours[-1]} if hours else {}
    common: dict[str, Any] = {
        "system": SYSTEM,
        "source": source,
        "benchmark": "AutoML",
        # Versions of the report print the last or the largest value.
        "aggregate": Aggregate.SINGLE,
        "parameters": parameters,
        "files": (file.measured,),
    }
    final = {bool(match[1]): _number(match[2]) for match in _FINAL.finditer(text)}
    values = (
        (_SCORE, final.get(False), series.get("GFLOPS", ())),
        (_REGULATED_SCORE, final.get(True), series.get("Score", ())),
        (_ERROR, errors[-1] if errors else None, errors),
    )
    for metric, stated, samples in values:
        value = stated or None  # a search without a trial has a score of zero
        if value is None:
            validity, reason = Validity.FAILED, f"the report has no {metric.name}"
        elif violation is not None:
            validity, reason = Validity.INVALID, violation
        else:
            # Without the series, neither time nor error is known.
            validity = Validity.VALID if hours and errors else Validity.UNKNOWN
            reason = None
        yield BenchmarkResult(
            metric=metric, value=value, samples=samples, validity=validity, reason=reason, **common
        )


def _violation(text: str, hours: Sequence[float], errors: Sequence[float]) -> str | None:
    """Which rule the search violates, if any."""
    stated = _FAILURE.search(text)
    if stated is not None:
        return stated[1]
    if errors and errors[-1] > _MOST_ERROR_PERCENT:
        return f"the error is {errors[-1]:g} %, and at most {_MOST_ERROR_PERCENT:g} % is allowed"
    if hours and hours[-1] < _LEAST_HOURS:
        return f"the search ran for {hours[-1]:g} of at least {_LEAST_HOURS:g} hours"
    return None


def _numbers(text: str) -> tuple[float, ...]:
    """The numbers of a list of texts; empty if one of them is no number."""
    values = [_number(quoted or plain) for quoted, plain in _LISTED.findall(text)]
    numbers = tuple(it for it in values if it is not None)
    return numbers if len(numbers) == len(values) else ()


def _number(text: str) -> float | None:
    """A finite number that is not negative."""
    number = finite_number(text)
    return number if number is not None and number >= 0 else None
