"""What an indicator printed, as results with declared metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from model.measurements.benchmark_results import BenchmarkResult, Validity
from model.measurements.units import DISPLAY_UNITS, UNITS
from pis.metrics import metric_values


def results_in(document: Mapping[str, Any], ended_at: datetime) -> Iterator[BenchmarkResult]:
    """The value of each declared metric in the document that a bundled indicator printed.

    >>> printed = {"name": "PiMatmul", "component": "numpy", "component_version": "2.4.6",
    ...            "python": "3.11.7", "@parameters": {"matrix_size": 8},
    ...            "@result": {"rate": 4.0, "unit": "GFLOPS", "elapsed": 2.0, "repetitions": [2.0]}}
    >>> [(it.metric.name, it.value, it.metric.unit) for it in results_in(printed, datetime.now())]
    [('rate', 4.0, 'GFLOPS')]
    """
    software = {document["component"]: document["component_version"], "python": document["python"]}
    gpu = document.get("gpu")
    for part in document.get("@results", [document]):
        measured, parameters = part["@result"], part["@parameters"]
        unit = UNITS[measured["unit"]]
        values = metric_values(
            document["name"],
            parameters,
            unit,
            measured["rate"] * DISPLAY_UNITS[unit].factor,
            measured["elapsed"] / 1e3,
            [it / 1e3 for it in measured["repetitions"]],
        )
        for measurement in values:
            yield BenchmarkResult(
                system="thoth",
                source=document["name"],
                benchmark=measurement.declared.benchmark,
                metric=measurement.declared.metric,
                value=measurement.value,
                aggregate=measurement.declared.aggregate,
                parameters={
                    key: it for key, it in parameters.items() if isinstance(it, str | int | float)
                },
                samples=measurement.samples,
                validity=Validity.VALID,
                hardware={"accelerator": gpu["name"]} if gpu and gpu.get("name") else {},
                software=software,
                measured_at=ended_at,
            )
