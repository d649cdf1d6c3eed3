"""Results that other people published, read as they published them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ingest.benchmarks.pipeline import known_system
from ingest.benchmarks.result_tree import ResultTree
from ingest.sources.content_detection import HEAD_BYTES, system_of
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument
from model.measurements.benchmark_results import BenchmarkResult
from tests.factories import golden

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[4].parent / "shared" / "data"
)
pytestmark = pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)
PUBLISHED = json.loads((golden.DATA / "published_results.json").read_text("utf-8"))


def results_in(folder: str, key: str, stated: dict[str, str]) -> list[BenchmarkResult]:
    """Results of the files below ``folder`` that are recognised as those of one system.

    :param stated: what a person states beside them
    """
    root = DATA / folder
    files = sorted(it.relative_to(root).as_posix() for it in root.rglob("*") if it.is_file())
    places = []
    for place in files:
        with (root / place).open("rb") as stream:
            system = system_of(stream.read(HEAD_BYTES))
        if system is not None and system.key == key:
            places.append(place)
    tree = ResultTree("source", root, files, SourceLimits(), stated=stated)
    results = []
    for item in known_system(key).reader(tree, places):
        assert not isinstance(item, InvalidDocument), item
        results.append(item)
    return results


def is_meant(it: BenchmarkResult, expected: dict[str, Any]) -> bool:
    """Whether a result is the one whose value was published."""
    facts = {
        "metric": it.metric.name, "reason": it.reason, "source": it.source,
        "accelerators": it.accelerators, "samples": len(it.samples),
        "commit": it.software.get("commit", "")[:8],
        "measured_at": it.measured_at and f"{it.measured_at:%Y-%m-%dT%H}",
    }  # fmt: skip
    maps = {"parameters": it.parameters, "hardware": it.hardware, "software": it.software}
    return (
        it.benchmark.endswith(expected.get("benchmark", ""))
        and all(facts[key] == value for key, value in expected.items() if key in facts)
        and all(
            maps[key].items() >= value.items() for key, value in expected.items() if key in maps
        )
    )


def agrees(value: float | None, published: str | None) -> bool:
    """Whether a value is the published one, to as many digits as were published."""
    if value is None or published is None:
        return value is published
    digits = len(published.partition(".")[2])
    return value == float(published) or round(value, digits) == float(published)


@pytest.mark.parametrize("group", PUBLISHED, ids=lambda it: it["folder"])
def test_published_benchmark_files_give_the_published_values(group: dict[str, Any]) -> None:
    results = results_in(group["folder"], group["system"], group.get("stated", {}))
    for expected in group["results"]:
        meant = [it for it in results if is_meant(it, expected)]
        wanted = expected.get("value", ...)
        assert [it for it in meant if wanted is ... or agrees(it.value, wanted)], expected
    assert not [it for it in group.get("private", ()) if it in repr(results)]


def test_results_of_unnamed_collectors_are_not_comparable() -> None:
    results = results_in("sources/aiconfigurator", "aiconfigurator", {})
    old, new = (
        {it.metric.definition for it in results if it.software.get("vllm") == version}
        for version in ("0.19.0", "0.24.0")
    )
    assert not old & new
