"""Result files of benchmark systems: samples in ``tests/data/benchmarks``, one folder for each.

A folder is named ``SYSTEM/SAMPLE``. It has the files of a source, written by hand in the form of
the system, and ``expected.jsonl``: the files that are recognised, then a line for each result or
refusal that the reader must give.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ingest.benchmarks.pipeline import known_system
from ingest.benchmarks.result_tree import ResultTree
from ingest.sources.content_detection import system_of
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument
from model.measurements.benchmark_results import BenchmarkResult, result_document

FOLDER = Path(__file__).parents[1] / "data" / "benchmarks"
EXPECTED = "expected.jsonl"
#: All samples by name, such as ``jetson/summary``, in order.
SAMPLES = sorted(it.parent.relative_to(FOLDER).as_posix() for it in FOLDER.rglob(EXPECTED))

#: What a person states beside the samples of a system.
STATED = {"sglang-bench": {"accelerator": "NVIDIA H100 80GB HBM3", "accelerators": "4"}}


def sample(name: str) -> dict[str, bytes]:
    """Contents of the files of a sample by their paths."""
    folder = FOLDER / name
    files = (it for it in folder.rglob("*") if it.is_file() and it.name != EXPECTED)
    return {it.relative_to(folder).as_posix(): it.read_bytes() for it in sorted(files)}


def sample_text(name: str) -> str:
    """The first file of a sample."""
    return next(iter(sample(name).values())).decode()


def expected(name: str) -> str:
    """The lines that :func:`described` must give for a sample."""
    return (FOLDER / name / EXPECTED).read_text()


def described(
    system: str, files: Mapping[str, bytes],
    results: list[BenchmarkResult], refusals: list[InvalidDocument],
) -> str:  # fmt: skip
    """The lines that ``expected.jsonl`` has, without fields that say nothing."""
    known = known_system(system)
    recognised = [place for place, content in files.items() if system_of(content) == known]
    lines: list[dict[str, Any]] = [{"recognised": recognised}]
    for result in results:
        document = result_document(result) | {"files": [it.place for it in result.files]}
        lines.append({key: it for key, it in document.items() if it not in (None, {}, [])})
    for it in refusals:
        lines.append({"refused": it.reason, "place": it.place, "field": it.field,
                      "message": it.message})  # fmt: skip
    return "".join(json.dumps(it, ensure_ascii=False) + "\n" for it in lines)


def training_log(start: float, stop: float, status: str = "success") -> str:
    """A log of MLPerf Training v0.6, with lines that a second process repeats."""
    lines = [
        (0.0, "submission_benchmark", '{"value": "resnet"}'),
        (start, "run_start", '{"value": null}'),
        (start + 1, "run_start", '{"value": null}'),
        (stop - 1, "run_stop", f'{{"value": null, "metadata": {{"status": "{status}"}}}}'),
        (stop, "run_stop", f'{{"value": null, "metadata": {{"status": "{status}"}}}}'),
    ]
    return "".join(f":::MLL {at:.3f} {key}: {value}\n" for at, key, value in lines)


def write_files(folder: Path, files: Mapping[str, str] | Mapping[str, bytes]) -> None:
    """Write files by their paths below ``folder``."""
    for place, content in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def read_files(
    folder: Path, system: str, files: Mapping[str, str] | Mapping[str, bytes]
) -> tuple[list[BenchmarkResult], list[InvalidDocument]]:
    """Results and refusals of ``files``, read as those of one system."""
    write_files(folder, files)
    tree = ResultTree("source", folder, sorted(files), SourceLimits())
    tree.stated = STATED.get(system, {})
    reader = known_system(system).reader
    results: list[BenchmarkResult] = []
    refusals: list[InvalidDocument] = []
    items: Iterator[BenchmarkResult | InvalidDocument] = reader(tree, tree.places)
    for item in items:
        if isinstance(item, InvalidDocument):
            refusals.append(item)
        else:
            results.append(item)
    return results, refusals
