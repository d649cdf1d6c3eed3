"""Indicators and their results as tables for a person."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from common.terminal import printable
from pis.indicators.harness import Indicator

#: What the tables read; a document without it is no result of ours.
_KEYS = frozenset({"name", "component", "component_version", "threads", "build"})
_NUMBERS = ("rate", "elapsed", "jitter")
_OTHERS = frozenset({"unit", "repetitions", "calls_per_repetition", "peak", "warm_up"})

_COLUMNS = ("median ms", "spread", "repetitions", "of peak")


def _table(title: str, columns: Iterable[str], numbers: Sequence[str] = ()) -> Table:
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    for column in columns:
        right = column in numbers
        table.add_column(
            column, justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    return table


def indicators_table(indicators: Iterable[Indicator]) -> Table:
    """What there is."""
    table = _table("", ("name", "libraries", "what it does"))
    for it in indicators:
        table.add_row(it.name, ", ".join(it.frameworks), escape(it.summary))
    return table


def parameters_table(indicator: Indicator) -> Table:
    """What one indicator takes."""
    table = _table(
        f"{indicator.title}: {escape(indicator.summary)}", ("flag", "default", "what it is")
    )
    for it in indicator.all_parameters():
        words = [it.help]
        if it.choices:
            words.append("one of " + ", ".join(map(str, it.choices)))
        if it.environment:
            words.append("variable " + " or ".join(it.environment))
        table.add_row(it.flag, str(it.default), escape("; ".join(words)))
    return table


def document_of(text: str) -> dict[str, Any] | None:
    """The result document that ``text`` is; ``None`` if it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not document.keys() >= _KEYS:
        return None
    results = document.get("@results", [document])
    whole = isinstance(results, list) and results and all(map(_is_result, results))
    return document if whole else None


def _is_result(part: Any) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("@parameters"), dict):
        return False
    result = part.get("@result")
    if not isinstance(result, dict) or not result.keys() >= _OTHERS:
        return False
    numbers = [it for it in map(result.get, _NUMBERS) if isinstance(it, (int, float))]
    return len(numbers) == len(_NUMBERS) and all(map(isfinite, numbers)) and result["rate"] > 0


def result_table(document: dict[str, Any]) -> Table:
    """One row a result."""
    results = results_of(document)
    shared = _shared([it["@parameters"] for it in results])
    differing = [name for name in results[0]["@parameters"] if name not in shared]
    columns = (*differing, results[0]["@result"]["unit"], *_COLUMNS)
    table = _table("", columns, columns)
    for it in results:
        cells = [str(it["@parameters"][name]) for name in differing]
        table.add_row(*map(escape, cells), *_numbers(it["@result"]))
    return table


def result_title(document: dict[str, Any]) -> str:
    """What was measured: the library, and the parameters that all results share."""
    shared = _shared([it["@parameters"] for it in results_of(document)])
    told = ", ".join(f"{name} {value}" for name, value in shared.items())
    component = f"{document['component']} {document['component_version']}"
    return printable(f"{document['name']}, {component}: {told}")


def results_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a document that holds one or several."""
    results: list[dict[str, Any]] = document.get("@results", [document])
    return results


def _shared(parameters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Parameters that are the same in every result; all of them if there is one result."""
    first = parameters[0]
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in parameters)
    }


def _numbers(result: dict[str, Any]) -> list[str]:
    peak, calls = result["peak"], result["calls_per_repetition"]
    return [
        f"{result['rate']:,.5g}",
        f"{result['elapsed']:,.5g}",
        f"{result['jitter'] / result['rate']:.1%}",
        f"{len(result['repetitions'])} × {calls}",
        "–" if peak is None else f"{result['rate'] / peak['rate']:.1%}",
    ]


def result_notes(document: dict[str, Any]) -> list[str]:
    """Lines under the table: threads, build, and what a reader should know."""
    threads, build = document["threads"], document["build"]
    used = "unknown" if threads["used"] is None else threads["used"]
    notes = [f"threads: {threads['requested']} requested, library uses {used}"]
    notes.append("build: " + printable(_build_words(build) or "unknown"))
    if document.get("gpu"):
        notes.append("gpu: " + printable(str(document["gpu"]["name"])))
    results = results_of(document)
    restless = sum(not it["@result"]["warm_up"]["settled"] for it in results)
    if restless:
        notes.append(f"{restless} of {len(results)} never settled in the warm-up: mind the spread")
    return notes


def _build_words(build: dict[str, Any]) -> str:
    """The parts of a build that a person asks for first."""
    blas = build.get("blas")
    if isinstance(blas, dict):
        blas = " ".join(str(blas[key]) for key in ("name", "version") if key in blas)
    kernels = [it.get("kernels") for it in build.get("blas_runtime") or []]
    words = {"BLAS": blas, "kernels": ", ".join(filter(None, kernels))}
    for name in ("capability", "onednn", "cuda", "cudnn", "compiler", "git"):
        words[name] = build.get(name)
    return ", ".join(f"{name} {value}" for name, value in words.items() if value)
