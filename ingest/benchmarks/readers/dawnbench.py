"""DAWNBench: time and cost to a target accuracy, and latency of inference.

A training entry is a JSON description and a table (TSV) of accuracy by epoch; an inference entry is
the JSON alone. The first epoch that reaches the target of the data set gives the time. Authors and
their addresses are not read.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from posixpath import splitext
from typing import Any

from ingest.benchmarks.result_tree import ResultTree, results_or_refusal
from ingest.benchmarks.results import (
    LOWER,
    Run,
    finite_number,
    measure,
    positive_number,
    software_versions,
    time_of_text,
    with_parameters,
)
from model.errors import InvalidDocument, Reason
from model.json_fields import Fields
from model.measurements.benchmark_results import BenchmarkResult, Parameter, Validity

_HOURS = measure("time_to_accuracy", "hours", LOWER, "dawnbench-1")
_COST = measure("training_cost", "USD", LOWER, "dawnbench-1")
_LATENCY = measure("latency", "ms", LOWER, "dawnbench-1")
_INFERENCE_COST = measure("inference_cost", "USD", LOWER, "dawnbench-1")
#: Column and value that an epoch must reach, by data set.
_TARGETS = {
    "CIFAR10": ("top1Accuracy", 94.0),
    "ImageNet": ("top5Accuracy", 93.0),
    "SQuAD": ("f1Score", 0.73),
}
_ACCURACIES = ("top1Accuracy", "top5Accuracy", "f1Score")
#: A model of an accelerator behind its number, such as ``16 * 8 * Tesla-V100``.
_ACCELERATOR = re.compile(
    r"(?<![\w.])(?:(?P<groups>\d{1,6})\s*[*x×]\s*)?(?:(?P<count>\d{1,6})\s*(?:[*x×]\s*)?)?"
    r"(?:(?i:nvidia|tesla)[\s-]+)*"
    r"(?P<name>(?:[KMPVTA]\d{2,3}|(?i:[kmpvta]\d{2}0|[pt]4|GTX|RTX|Titan|TPU))(?![.\d])[\w -]*)"
)
_NODES = re.compile(r"(\d{1,6}) (?:node|machine|server|instance)s?\b", re.IGNORECASE)
_IN_EACH = re.compile(r"\b(?:each|per) (?:node|machine|server|instance)", re.IGNORECASE)
#: Rows without a number that a result names, and characters of a cell in such a remark.
_MOST_REMARKS, _LONGEST_CELL = 3, 40
_CPUS_ALONE = re.compile(r"\A\s*\d+\s*v?CPUs?\b", re.IGNORECASE)


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Results of all entries; a table without its description has no costs and no hardware."""
    descriptions = {splitext(it)[0]: it for it in places if it.lower().endswith(".json")}
    tables = {splitext(it)[0]: it for it in places if it.lower().endswith(".tsv")}
    for stem, place in descriptions.items():
        if stem not in tables:
            yield from results_or_refusal(_inference(tree, place), place)
    for stem, place in tables.items():
        results = _training(tree, place, descriptions.get(stem))
        yield from results_or_refusal(results, place)


def _inference(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    entry = file.json_object()
    latency = positive_number(entry.get("latency"))
    if latency is None:
        raise InvalidDocument(
            Reason.MISSING_FIELD,
            "the entry has no latency, and no table lies beside it",
            field="$.latency",
        )
    run = _described(file.run("dawnbench"), entry, "inference")
    numbers = {key: finite_number(entry.get(key)) for key in _ACCURACIES}
    run = with_parameters(run, **{key: it for key, it in numbers.items() if it is not None})
    key, target = _TARGETS.get(str(run.parameters.get("data_set")), ("", 0.0))
    reached = finite_number(entry.get(key))
    if reached is not None and reached < (wanted := _in_unit_of(target, reached)):
        missed = f"{key} {reached:g} misses the target of {wanted:g}"
        run = replace(run, validity=Validity.INVALID, reason=missed)
    yield run.stated(_LATENCY, latency)
    cost = finite_number(entry.get("cost"))
    if cost is not None:
        yield run.stated(_INFERENCE_COST, cost)


def _training(tree: ResultTree, place: str, description: str | None) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    described = None if description is None else tree.file(description)
    entry = {} if described is None else described.json_object()
    run = file.run("dawnbench", *((described.measured,) if described else ()))
    run = _described(run, entry, "training")
    hours, reason = _hours_to_target(file.text, run.parameters.get("data_set"))
    validity = Validity.UNKNOWN if reason is not None else Validity.VALID
    run = replace(run, reason=reason, validity=Validity.FAILED if hours is None else validity)
    yield run.stated(_HOURS, hours)
    price = finite_number(entry.get("costPerHour"))
    if price is not None and hours is not None:
        yield run.stated(_COST, hours * price)


def _hours_to_target(table: str, data_set: Parameter | None) -> tuple[float | None, str | None]:
    """Hours of the first epoch that reaches the target, and a remark, or why there is none."""
    header, rows = _cells(table)
    column, target = _TARGETS.get(str(data_set), ("", 0.0))
    if column not in header:
        candidates = [value for value in _TARGETS.values() if value[0] in header]
        if not candidates:
            raise InvalidDocument(Reason.MISSING_FIELD, "no column of accuracies", field="$[0]")
        column, target = candidates[-1]
    if "hours" not in header:
        raise InvalidDocument(Reason.MISSING_FIELD, "no column of hours", field="$[0]")
    hours, accuracies, epochs = (
        [_number(row, header, name) for _, row in rows] for name in ("hours", column, "epoch")
    )
    remarks: list[str] = []
    if _counts_from_one(hours) and not _counts_from_one(epochs):
        # Some tables have the titles of these two columns in the wrong order.
        hours, remarks = epochs, ["the titles of hours and epochs are swapped"]
    known = [it for it in hours if it is not None]
    # A row that is missing may hide that the hours fall; equal ones are of single epochs then.
    if any(
        later < earlier or (later == earlier and len(known) < len(hours))
        for earlier, later in pairwise(known)
    ):
        total: float | None = 0.0
        for number, it in enumerate(hours):
            hours[number] = total = None if it is None or total is None else total + it
        remarks = ["the hours of single epochs were summed"]
    wanted = _in_unit_of(target, max((it for it in accuracies if it is not None), default=0.0))
    for passed, accuracy, (line, row) in zip(hours, accuracies, rows, strict=True):
        if accuracy is None and len(row) != len(header):
            remarks.append(f"line {line}: {len(row)} of {len(header)} cells")
        # An empty cell is none, because not every epoch ends with an evaluation.
        elif accuracy is None and (cell := row[header.index(column)]):
            remarks.append(f"line {line}: {cell[:_LONGEST_CELL]!r} is no number")
        if accuracy is None or accuracy < wanted:
            continue
        if passed is None:
            return None, f"the hours of the first epoch at the target are not known: line {line}"
        return passed, _joined(remarks)
    return None, _joined([f"no epoch reaches {column} {target:g}", *remarks])


def _joined(remarks: Sequence[str]) -> str | None:
    more = [f"{len(remarks) - _MOST_REMARKS} more"] if len(remarks) > _MOST_REMARKS else []
    return "; ".join([*remarks[:_MOST_REMARKS], *more]) or None


def _in_unit_of(target: float, accuracy: float) -> float:
    """``target`` as a fraction or in per cent, as ``accuracy`` is written."""
    if accuracy > 1:
        return target * 100 if target < 1 else target
    return target / 100 if target > 1 else target


def _cells(table: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The titles of a table, and its rows with their line numbers.

    Cells are separated by tabs, and in some tables by several tabs or by spaces.
    """
    header: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate(table.split("\n"), 1):
        cells = [it.strip() for it in (line if header else line.strip()).split("\t")]
        if not header:
            # The rules call a title ``top1Accuracy``, and some tables ``top1``.
            titles = [it.lower() for it in (cells if len(cells) > 2 else line.split())]
            header = [
                next((it for it in _ACCURACIES if name and it.lower().startswith(name)), name)
                for name in titles
            ]
        elif "hours" in line.lower().split():
            raise InvalidDocument(
                Reason.UNKNOWN_SCHEMA, "a second table begins", field=f"line {number}"
            )
        elif line.strip():
            rows.append((number, cells if len(cells) == len(header) else line.split()))
    return header, rows


def _number(row: Sequence[str], header: Sequence[str], name: str) -> float | None:
    """The number in a column; ``None`` if there is none, or if the row has too few or many cells.

    A row with another number of cells does not show which cell is missing.
    """
    if name not in header or len(row) != len(header):
        return None
    return finite_number(row[header.index(name)].removesuffix("%"))


def _counts_from_one(numbers: Sequence[float | None]) -> bool:
    """Whether these are the numbers of epochs, as far as they are known."""
    known = [it for it in numbers if it is not None]
    return len(known) > 1 and all(it.is_integer() for it in known) and known[0] in (0, 1)


def _described(run: Run, record: dict[str, Any], phase: str) -> Run:
    """``run`` with the fields in the description of an entry; its source names the data set."""
    fields = Fields(record)
    framework = fields.text("framework") or ""
    misc = record.get("misc") if isinstance(record.get("misc"), dict) else {}
    stated = [f"{key} {value}" for key, value in (misc or {}).items() if "version" in key.lower()]
    hardware = fields.text("hardware")
    parts = {} if hardware is None else {"description": hardware}
    if match := _ACCELERATOR.search(hardware or ""):
        parts["accelerator"] = match["name"].strip()
    data_set = next((it for it in run.source.split("/") if it in _TARGETS), None)
    return replace(
        run,
        benchmark=fields.text("model") or "unknown",
        parameters={"phase": phase, **({"data_set": data_set} if data_set is not None else {})},
        validity=Validity.VALID,
        hardware=parts,
        accelerators=_accelerators(hardware),
        software=software_versions([*re.split(r"[,;+]", framework), *stated]),
        measured_at=time_of_text(fields.text("timestamp"), "%Y-%m-%d"),
    )


def _accelerators(text: str | None) -> int | None:
    """The number of accelerators of all nodes; ``None`` if it is unknown.

    >>> [_accelerators(it) for it in ("8*V100 (AWS)", "16 * 8 * Tesla-V100", "V100 (AWS)")]
    [8, 128, None]
    >>> _accelerators("2 nodes with InfiniBand (8*V100 for each node)"), _accelerators("4 CPUs")
    (16, 0)
    """
    match = None if text is None else _ACCELERATOR.search(text)
    if text is None or match is None:
        return 0 if text is not None and _CPUS_ALONE.match(text) else None
    numbers = [int(it) for it in match.group("groups", "count") if it is not None]
    if not numbers:
        return None
    count = math.prod(numbers)
    nodes = _NODES.search(text)
    if _IN_EACH.search(text):
        return count * int(nodes[1]) if nodes else None
    return None if nodes and nodes.start() < match.start() else count
