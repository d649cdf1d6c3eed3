"""Result files of benchmark programs: a format is a function and a line in the table.

A file is recognised by its content. Each of its benchmarks becomes a series with its repetitions.
Only the rates of our own indicators are calculated; other values and units are as in the file.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from statistics import median
from typing import Any

from common.formats.job_results import measurements_of
from model.errors import InvalidDocument, Reason
from model.json_documents import json_value_of
from model.json_fields import FieldPath, Fields
from model.measurements.benchmark_results import Direction, Parameter, ResultSeries
from model.measurements.units import DISPLAY_UNITS

ONLY_SUMMARY = "the file has only a summary, without the repetitions"
_NOT_POSITIVE = "a value is zero or negative, so that ratios mean nothing"
_NO_DIRECTION = "the file does not say which values are better"
#: Larger files are refused.
MAX_BYTES = 64 * 1024 * 1024
_MOST_SERIES = 10_000
_LARGEST = 1e30
#: A series is named like a command or a test with its parameters.
_LONGEST_NAME = 2000
_OWN = "thoth"

Reader = Callable[[Fields], Iterator[ResultSeries]]


@dataclass(frozen=True, slots=True)
class _Format:
    """A format of result files.

    :param matches: whether an object of the file is of this format
    :param read: yields the series of the object
    :param identity: keys whose values distinguish builds, machines or models
    """

    key: str
    matches: Callable[[Mapping[str, Any]], bool]
    read: Reader
    identity: tuple[str, ...] = ()


def read_benchmark_file(content: bytes) -> tuple[ResultSeries, ...]:
    """The series of a result file, in its order; series with the same label are joined.

    :raises InvalidDocument: if the format is unknown, a field has a wrong value, or objects
        with the same label are of two builds, machines or models
    """
    series: dict[str, ResultSeries] = {}
    for records in grouped_records(content):
        for item in series_of(records):
            if series.setdefault(item.label, item) is not item:
                message = f"{item.label}: of another build, machine or model than before"
                raise records[0].invalid(Reason.CONFLICTING_FIELDS, message)
    if not series:
        raise InvalidDocument(Reason.MISSING_FIELD, "the file has no benchmark")
    return tuple(series.values())


def grouped_records(content: bytes) -> list[list[Fields]]:
    """The objects of a file in order, in one list for each build, machine and model.

    :raises InvalidDocument: if the file is too large, or the format not known
    """
    if len(content) > MAX_BYTES:
        raise InvalidDocument(Reason.FILE_TOO_LARGE, f"more than {MAX_BYTES} bytes")
    groups: dict[str, list[Fields]] = {}
    for record in benchmark_records(content):
        identity = [record.get(it) for it in _format_of(record).identity]
        groups.setdefault(repr(identity), []).append(record)
    return list(groups.values())


def series_of(records: Iterable[Fields]) -> tuple[ResultSeries, ...]:
    """The series of objects of one build, machine and model; equal labels are joined.

    :raises InvalidDocument: with the field that has a wrong value
    """
    series: dict[tuple[str, str], ResultSeries] = {}
    for record in records:
        for item in _format_of(record).read(record):
            key = item.name, repr(sorted(item.parameters.items()))
            series[key] = _joined(series[key], item) if key in series else item
            if len(series) > _MOST_SERIES:
                raise record.invalid(Reason.OUT_OF_RANGE, f"more than {_MOST_SERIES} benchmarks")
    return tuple(map(_checked, series.values()))


def benchmark_records(content: bytes) -> Iterator[Fields]:
    """The objects of a file: a single object, the items of a list, or one object on each line."""
    content = content.removeprefix(BOM_UTF8)
    try:
        value = json_value_of(content)
    except InvalidDocument:
        lines = [it for it in content.splitlines() if it.strip()]
        if len(lines) < 2 or not all(it.lstrip().startswith(b"{") for it in lines):
            raise
        value = [json_value_of(it) for it in lines]
    if not isinstance(value, list):
        yield Fields(value)
        return
    for position, item in enumerate(value):
        yield Fields(item, FieldPath("$"), position)


def _format_of(record: Fields) -> _Format:
    for known in _FORMATS:
        if known.matches(record.record):
            return known
    known_keys = ", ".join(dict.fromkeys(it.key for it in _FORMATS))
    raise record.invalid(Reason.UNKNOWN_SCHEMA, f"not a result file of {known_keys}")


def _joined(first: ResultSeries, second: ResultSeries) -> ResultSeries:
    """Two parts of one series, such as the repetitions of Google Benchmark."""
    return replace(
        first, samples=first.samples + second.samples, excluded=first.excluded or second.excluded
    )


def _checked(series: ResultSeries) -> ResultSeries:
    """The series, excluded if it has no samples or samples that cannot be compared."""
    reason = series.excluded
    if reason is None and not series.samples:
        reason = ONLY_SUMMARY
    elif reason is None and min(series.samples) <= 0:
        reason = _NOT_POSITIVE
    elif reason is None and series.direction is Direction.UNKNOWN:
        reason = _NO_DIRECTION
    return replace(series, excluded=reason)


def _numbers(record: Fields, key: str, low: float = 0.0) -> tuple[float, ...]:
    """The numbers of a list, each within ``[low, 1e30]``; empty if it is missing."""
    values = enumerate(record.sequence(key, "a list of numbers"))
    return tuple(record.checked_number(it, low, _LARGEST, key, index) for index, it in values)


def _scalars(record: Fields) -> dict[str, Parameter]:
    """The parameters among the fields of an object."""
    return {key: it for key, it in record.items() if isinstance(it, str | int | float | bool)}


def _has_list(record: Mapping[str, Any], key: str, inner: str) -> bool:
    """Whether ``key`` has a list that is empty or begins with an object that has ``inner``."""
    values = record.get(key)
    return isinstance(values, list) and all(
        isinstance(it, dict) and inner in it for it in values[:1]
    )


def _pyperf(file: Fields) -> Iterator[ResultSeries]:
    """Values of all processes; runs without values calibrated the number of loops."""
    for benchmark in file.each("benchmarks"):
        metadata = [benchmark.nested("metadata"), file.nested("metadata")]
        name = next((it for it in (of.text("name", _LONGEST_NAME) for of in metadata) if it), None)
        if name is None:
            raise benchmark.invalid(Reason.MISSING_FIELD, "is missing", "metadata", "name")
        unit = next((it for it in (of.text("unit") for of in metadata) if it), "second")
        runs = [it for it in benchmark.each("runs") if it.sequence("values")]
        samples = tuple(value for run in runs for value in _numbers(run, "values"))
        first = [_first_warmup(run) for run in runs]
        yield ResultSeries(
            "pyperf", name, {}, unit, Direction.LOWER, samples,
            first=median(it for it in first if it is not None) if any(first) else None,
        )  # fmt: skip


def _first_warmup(run: Fields) -> float | None:
    """The first warm-up of a process: ``[[loops, value], …]``."""
    for warmup in run.sequence("warmups")[:1]:
        if not isinstance(warmup, list) or len(warmup) != 2:
            raise run.wrong_type(warmup, "a pair of loops and value", "warmups", 0)
        return run.checked_number(warmup[1], 0.0, _LARGEST, "warmups", 0, 1)
    return None


def _pytest(file: Fields) -> Iterator[ResultSeries]:
    for benchmark in file.each("benchmarks"):
        name = benchmark.required_text("fullname", most=_LONGEST_NAME)
        # The identifier in brackets repeats the parameters, unless one of them is an object.
        stated = benchmark.nested("params")
        parameters = {
            key: it for key, it in _scalars(stated).items()
            if not str(it).startswith("UNSERIALIZABLE[")
        }  # fmt: skip
        if len(parameters) == len(stated):
            name = name.removesuffix(f"[{benchmark.text('param', _LONGEST_NAME)}]")
        statistics = benchmark.nested("stats")
        summary = statistics.number("median", high=_LARGEST)
        yield ResultSeries(
            "pytest-benchmark", name, parameters, "s", Direction.LOWER,
            _numbers(statistics, "data"), summary,
        )  # fmt: skip


#: asv's own patterns for the names of times and of memory, which count as better if they are lower.
#: The file has neither unit nor direction of other values.
_ASV_TIME = re.compile(r"Time(?:raw)?[A-Z_].|time(?:raw)?_.")
_ASV_MEMORY = re.compile(r"(?:Peak)?Mem[A-Z_].|(?:peak)?mem_.")


def _asv(file: Fields) -> Iterator[ResultSeries]:
    """The benchmarks of one commit; rows omit empty columns at their end."""
    columns, results = file.texts("result_columns"), file.nested("results")
    for name in results:
        row = Fields(dict(zip(columns, results.sequence(name), strict=False)), results, name)
        if len(name) > _LONGEST_NAME:
            message = f"the name has {len(name)} characters; at most {_LONGEST_NAME} are allowed"
            raise results.invalid(Reason.OUT_OF_RANGE, message)
        function = name.rpartition(".")[2]
        unit = "s" if _ASV_TIME.match(function) else "bytes" if _ASV_MEMORY.match(function) else ""
        samples = row.sequence("samples")
        for position, (parameters, value) in enumerate(_asv_cases(row)):
            if value is None:
                continue  # failed or skipped
            repetitions: tuple[float, ...] = ()
            if unit != "s":
                repetitions = (row.checked_number(value, -_LARGEST, _LARGEST, "result", position),)
            elif position < len(samples) and samples[position] is not None:
                at = Fields({"samples": samples[position]}, row, position)
                repetitions = _numbers(at, "samples")
            yield ResultSeries(
                "asv", name, parameters, unit,
                Direction.LOWER if unit else Direction.UNKNOWN,
                repetitions, row.checked_number(value, -_LARGEST, _LARGEST, "result", position),
            )  # fmt: skip


def _asv_cases(row: Fields) -> Iterator[tuple[dict[str, Parameter], Any]]:
    """The value of each combination of parameters; the last parameter varies fastest."""
    values, choices = row.sequence("result"), row.sequence("params")
    for number, each in enumerate(choices):
        if not isinstance(each, list):
            raise row.wrong_type(each, "a list of texts", "params", number)
    combinations = prod(map(len, choices))
    if values and len(values) != combinations:
        message = f"{len(values)} values for {combinations} combinations of parameters"
        raise row.invalid(Reason.CONFLICTING_FIELDS, message, "result")
    for value, chosen in zip(values, product(*choices), strict=False):
        yield {f"param{number}": str(it) for number, it in enumerate(chosen, 1)}, value


def _hyperfine(file: Fields) -> Iterator[ResultSeries]:
    for result in file.each("results"):
        yield ResultSeries(
            "hyperfine", result.required_text("command", most=_LONGEST_NAME),
            _scalars(result.nested("parameters")), "second", Direction.LOWER,
            _numbers(result, "times"), result.number("median", high=_LARGEST),
        )  # fmt: skip


def _google(file: Fields) -> Iterator[ResultSeries]:
    """Wall time of each repetition, or a median or mean if the repetitions are absent."""
    entries = list(file.each("benchmarks"))
    measured = {it.text("run_name", _LONGEST_NAME) for it in entries if not _is_aggregate(it)}
    summaries: dict[str, ResultSeries] = {}
    for entry in entries:
        name = entry.text("run_name", _LONGEST_NAME) or entry.required_text(
            "name", most=_LONGEST_NAME
        )
        failed = entry.flag("error_occurred") or entry.flag("skipped")
        if failed:
            text = entry.text("error_message", _LONGEST_NAME) or entry.text("skip_message")
            yield ResultSeries(
                "google-benchmark", name, {}, "", Direction.LOWER, (),
                excluded=f"the benchmark failed: {text}" if text else "the benchmark failed",
            )  # fmt: skip
            continue
        aggregate = entry.text("aggregate_name") if _is_aggregate(entry) else None
        if _is_aggregate(entry) and (name in measured or aggregate not in ("mean", "median")):
            continue
        value = entry.number("real_time", high=_LARGEST)
        if value is None:
            raise entry.invalid(Reason.MISSING_FIELD, "is missing", "real_time")
        series = ResultSeries(
            "google-benchmark", name, {}, entry.text("time_unit") or "ns", Direction.LOWER,
            () if aggregate else (value,), value if aggregate else None,
        )  # fmt: skip
        if aggregate == "median" or (aggregate and name not in summaries):
            summaries[name] = series
        elif not aggregate:
            yield series
    yield from summaries.values()


def _is_aggregate(entry: Fields) -> bool:
    return entry.get("run_type") == "aggregate" or "aggregate_name" in entry


#: What distinguishes tests of llama-bench. Its build and machine are no parameters.
_LLAMA_PARAMETERS = (
    "model_type", "n_prompt", "n_gen", "n_depth", "n_batch", "n_ubatch", "n_threads", "type_k",
    "type_v", "n_gpu_layers", "split_mode", "flash_attn", "no_kv_offload", "use_mmap", "embeddings",
)  # fmt: skip


def _llama(test: Fields) -> Iterator[ResultSeries]:
    """The duration of a test of a fixed number of tokens."""
    counts = {name: test.integer(key) or 0 for name, key in (("pp", "n_prompt"), ("tg", "n_gen"))}
    name = "+".join(f"{part}{count}" for part, count in counts.items() if count)
    parameters = {key: test.get(key) for key in _LLAMA_PARAMETERS if key in test}
    yield ResultSeries(
        "llama-bench", name or "test", _scalars(Fields(parameters, test.at)), "ns",
        Direction.LOWER, _numbers(test, "samples_ns"), test.number("avg_ns", high=_LARGEST),
    )  # fmt: skip


def _own(result: Fields) -> Iterator[ResultSeries]:
    """A result as ``thoth benchmarks --json`` prints it, which any program can write."""
    direction = Direction.UNKNOWN
    if "direction" in result:
        direction = result.choice("direction", Direction, "direction: write higher or lower")
    parameters = dict(_scalars(result.nested("parameters")))
    metric = result.text("metric")
    if metric:
        parameters["metric"] = metric
    yield ResultSeries(
        _OWN, result.required_text("benchmark", most=_LONGEST_NAME), parameters,
        result.text("unit") or "", direction, _numbers(result, "samples", -_LARGEST),
        result.number("value", -_LARGEST, _LARGEST), result.number("first", high=_LARGEST),
    )  # fmt: skip


def _own_list(file: Fields) -> Iterator[ResultSeries]:
    for result in file.each("results"):
        yield from _own(result)


def _indicator(printed: Fields) -> Iterator[ResultSeries]:
    """The document that an indicator prints; a series has the rates of its repetitions."""
    for each in measurements_of(printed.record, "", printed.at):
        durations = each.repetitions_s if each.elapsed_s else ()
        rates = tuple(each.printed_rate * (each.elapsed_s or 0) / it for it in durations)
        yield ResultSeries(
            _OWN, printed.required_text("name"), _scalars(each.parameters),
            DISPLAY_UNITS[each.unit].name, Direction.HIGHER, rates or (each.printed_rate,),
        )  # fmt: skip


#: Tried in this order.
_FORMATS = (
    _Format("asv", lambda it: "result_columns" in it and "commit_hash" in it, _asv),
    _Format(
        "pytest-benchmark",
        lambda it: "machine_info" in it and _has_list(it, "benchmarks", "stats"), _pytest,
    ),
    _Format("pyperf", lambda it: _has_list(it, "benchmarks", "runs"), _pyperf),
    _Format(
        "google-benchmark", lambda it: "context" in it and _has_list(it, "benchmarks", "name"),
        _google,
    ),
    _Format("hyperfine", lambda it: _has_list(it, "results", "command"), _hyperfine),
    _Format(
        "llama-bench", lambda it: "samples_ns" in it or "avg_ns" in it, _llama,
        ("build_commit", "build_number", "backends", "cpu_info", "gpu_info", "model_filename"),
    ),
    _Format(_OWN, lambda it: "@result" in it or "@results" in it, _indicator),
    _Format(_OWN, lambda it: "benchmark" in it and "samples" in it, _own),
    _Format(_OWN, lambda it: _has_list(it, "results", "benchmark"), _own_list),
)  # fmt: skip
