"""Files of pyperf, pytest-benchmark, asv, hyperfine, Google Benchmark and llama-bench.

:mod:`common.formats.benchmark_files` reads their series, as for ``thoth compare``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from statistics import median
from typing import Any

from common.formats.benchmark_files import benchmark_records, read_benchmark_file
from ingest.benchmarks.result_tree import ResultFile, reader_of_files
from ingest.benchmarks.results import measure
from ingest.benchmarks.values import mapping_of
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, ResultSeries, Validity

#: Where the files of a system name the processor, the accelerator and Python.
_PLACES = {
    "pyperf": {"cpu": "metadata.cpu_model_name", "python": "metadata.python_version"},
    "pytest-benchmark": {
        "cpu": "machine_info.cpu.brand_raw", "python": "machine_info.python_version",
    },
    "asv": {"cpu": "params.cpu", "python": "params.python"},
    "llama-bench": {"cpu": "cpu_info", "accelerator": "gpu_info", "llama.cpp": "build_commit"},
}  # fmt: skip
_QUANTITIES = {"bytes": "memory", "byte": "memory", "": "value", "integer": "value"}
#: llama-bench prints the mean of its repetitions; the others print the median.
_MEAN = frozenset({"llama-bench"})
#: Folders in a measured command, which may name a person.
_FOLDERS = re.compile(r"(?<![\w:])(?:~|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])+")


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """One result for each series, whose value is the median of its repetitions."""
    series = read_benchmark_file(file.content)
    stated = dict(_stated(series[0].system, next(benchmark_records(file.content)).record))
    names = {"cpu", "accelerator"}
    run = replace(
        file.run(series[0].system),
        hardware={key: it for key, it in stated.items() if key in names},
        software={key: it for key, it in stated.items() if key not in names},
    )
    for each in series:
        quantity = _QUANTITIES.get(each.unit, "time")
        metric = measure(
            quantity, each.unit, each.direction, each.system, _aggregate(each), zero_counts=True
        )
        yield replace(
            run, benchmark=_FOLDERS.sub("", each.name), parameters=each.parameters
        ).result(
            metric,
            median(each.samples) if each.samples else each.summary,
            each.excluded or "there is no value",
            samples=each.samples if len(each.samples) > 1 else (),
            validity=Validity.UNKNOWN,
        )


def _aggregate(series: ResultSeries) -> Aggregate:
    if len(series.samples) == 1:
        return Aggregate.SINGLE
    of_mean = not series.samples and series.system in _MEAN
    return Aggregate.MEAN if of_mean else Aggregate.MEDIAN


def _stated(system: str, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names of parts and versions that the file has."""
    for name, place in _PLACES.get(system, {}).items():
        *outer, key = place.split(".")
        text = reduce(mapping_of, outer, record).get(key)
        if isinstance(text, str) and text and not text.startswith("/"):
            yield name, text[:200]
