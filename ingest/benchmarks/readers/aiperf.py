"""AIPerf: operations a second of an AutoML search, known from the source of its report only.

``results.txt`` has the final scores, a table, and a Python dictionary with one value for each 0.1
hours. The search counts if it ran for an hour and reached an error of at most 30 %.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ingest.benchmarks.result_tree import reader_of_parts
from ingest.benchmarks.results import HIGHER, LOWER, Run, finite_number, first_group, measure
from model.measurements.benchmark_results import BenchmarkResult, Validity

# Versions of the report print the last or the largest value of a series.
_SCORE = measure("score", "GFLOPS", HIGHER, "aiperf-1")
_REGULATED_SCORE = measure("regulated_score", "GFLOPS", HIGHER, "aiperf-1")
_ERROR = measure("error", "%", LOWER, "aiperf-1")
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


def _reports(text: str) -> list[str]:
    """A part for each report; the first part includes the text before its report."""
    starts = [it.start() for it in _REPORT.finditer(text)]
    return [text[begin:end] for begin, end in pairwise([0, *starts[1:], len(text)])]


@reader_of_parts("aiperf", lambda file: _reports(file.text))
def read(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """Results of a report."""
    series: dict[str, tuple[float, ...]] = {}
    for name, listed in _SERIES.findall(text):
        values = [_number(quoted or plain) for quoted, plain in _LISTED.findall(listed)]
        numbers = tuple(it for it in values if it is not None)
        series[name] = numbers if len(numbers) == len(values) else ()
    hours, errors = series.get("real_time", ()), series.get("Error", ())
    violation = first_group(_FAILURE, text)
    if violation is None and errors and errors[-1] > _MOST_ERROR_PERCENT:
        most = f"at most {_MOST_ERROR_PERCENT:g} % is allowed"
        violation = f"the error is {errors[-1]:g} %, and {most}"
    elif violation is None and hours and hours[-1] < _LEAST_HOURS:
        violation = f"the search ran for {hours[-1]:g} of at least {_LEAST_HOURS:g} hours"
    # Without the series, neither time nor error is known.
    validity = Validity.VALID if hours and errors else Validity.UNKNOWN
    run = replace(
        run,
        benchmark="AutoML",
        parameters={"hours": hours[-1]} if hours else {},
        validity=validity if violation is None else Validity.INVALID,
        reason=violation,
    )
    final = {bool(regulated): _number(score) for regulated, score in _FINAL.findall(text)}
    for each, value, samples in (
        (_SCORE, final.get(False), series.get("GFLOPS", ())),
        (_REGULATED_SCORE, final.get(True), series.get("Score", ())),
        (_ERROR, errors[-1] if errors else None, errors),
    ):
        # A search without a trial has a score of zero; its samples stay.
        failed = {} if value else {
            "validity": Validity.FAILED, "reason": f"the report has no {each.metric.name}"
        }  # fmt: skip
        yield run.stated(each, value or None, samples=samples, **failed)


def _number(text: str) -> float | None:
    """A finite number that is not negative."""
    number = finite_number(text)
    return number if number is not None and number >= 0 else None
