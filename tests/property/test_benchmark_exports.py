"""What is written in the form of another benchmark database is read back equal."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

from hypothesis import given
from hypothesis import strategies as st

from ingest.benchmarks.readers.perfzero import perfzero_summaries
from ingest.benchmarks.readers.pytorch_v3 import v3_record
from ingest.sources.content_detection import system_of
from model.json_documents import canonical_json
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Validity,
)
from tests.factories.benchmark_files import read_files

TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30
) | st.sampled_from(["8", "true", "null", "[1]", '"x"', "/home", "./a", "1e5", "a@b", "\\"])
#: Without -0.0, whose mean is 0.0.
NUMBERS = st.floats(-1e29, 1e29, allow_nan=False).map(lambda number: number + 0.0)
VALUES = TEXTS | st.integers(-(2**53), 2**53) | NUMBERS | st.booleans()
RESULTS = st.builds(
    BenchmarkResult,
    system=st.sampled_from(["dawnbench", "thoth", "jetson"]),
    source=TEXTS,
    benchmark=TEXTS,
    metric=st.builds(
        Metric, TEXTS | st.just("wall_time"), TEXTS | st.sampled_from(["", "s"]),
        st.sampled_from(Direction), TEXTS,
    ),
    value=NUMBERS,
    aggregate=st.sampled_from(Aggregate),
    parameters=st.dictionaries(TEXTS | st.sampled_from(["phase", "precision", "host"]), VALUES),
    samples=st.lists(NUMBERS, max_size=5).map(tuple),
    validity=st.sampled_from(list(set(Validity) - {Validity.FAILED})),
    reason=st.none() | TEXTS,
    hardware=st.dictionaries(st.sampled_from(["cpu", "accelerator", "description", "x"]), TEXTS),
    accelerators=st.none() | st.integers(0, 5000),
    software=st.dictionaries(TEXTS, st.none() | TEXTS),
    measured_at=st.none()
    | st.integers(6 * 10**14, 4 * 10**15).map(
        lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    ),
    files=st.just((MeasuredFile("a", "0" * 64),)),
)  # fmt: skip


def read_back(system: str, content: bytes) -> list[BenchmarkResult]:
    recognised = system_of(content)
    assert recognised.key == system
    with tempfile.TemporaryDirectory() as folder:
        results, refusals = read_files(Path(folder), system, {"a.json": content})
    assert refusals == []
    return results


def comparable(results: Sequence[BenchmarkResult], suite: bool = False) -> list[str]:
    """Everything but system, source and files; the suite is what the system was."""
    return sorted(
        repr(
            replace(
                it, system="", source="", files=(), samples=tuple(it.samples),
                parameters=dict(sorted({**({"suite": it.system} if suite else {}),
                                        **it.parameters}.items())),
                hardware=dict(sorted(it.hardware.items())),
                software=dict(sorted(it.software.items())),
            )
        )
        for it in results
    )  # fmt: skip


@given(st.lists(RESULTS, min_size=1, max_size=4))
def test_records_of_pytorch_are_read_back_equal(results: list[BenchmarkResult]) -> None:
    content = canonical_json([v3_record(it) for it in results])
    written = comparable(results, suite=True)
    assert comparable(read_back("pytorch-v3", content)) == written


@given(st.lists(RESULTS, min_size=1, max_size=4))
def test_samples_are_written_where_their_mean_is_the_value(results: list[BenchmarkResult]) -> None:
    for result in results:
        record = v3_record(result)
        assert fmean(record["metric"]["benchmark_values"]) == result.value
        # The database has maps of texts for additional information.
        texts = (record["metric"], record["benchmark"])
        assert all(isinstance(it, str) for part in texts for it in part["extra_info"].values())


@given(st.lists(RESULTS, min_size=1, max_size=4))
def test_summaries_of_perfzero_are_read_back_equal(results: list[BenchmarkResult]) -> None:
    together = [replace(it, parameters=results[0].parameters) for it in results] + results
    lines = [canonical_json(it) for it in perfzero_summaries(together)]
    content = b"\n".join(lines)
    assert comparable(read_back("perfzero", content)) == comparable(together)
