"""Results of one system by entry: copies are told from entries that a reader returns to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.benchmarks.pipeline import ScatteredResults, results_by_entry
from tests.factories.benchmark_files import read_files, sample_text
from tests.factories.foreign_results import foreign_result

_TABLE, _BLOCK = sample_text("aiia-dnn/plain"), sample_text("aiia-dnn/block")


def test_results_that_follow_each_other_are_one_entry() -> None:
    results = [foreign_result(1.0, source="a"), foreign_result(2.0, source="a"),
               foreign_result(3.0, source="b")]  # fmt: skip
    values = [[it.value for it in group] for _, group in results_by_entry(results)]
    assert values == [[1.0, 2.0], [3.0]]


def test_a_copy_of_the_files_is_an_entry_of_its_own() -> None:
    """Its identifier is the same, so that it is stored once."""
    original = foreign_result(1.0, source="a")
    copy = foreign_result(1.0, source="b", files=original.files)
    entries = [
        (key, [it.source for it in group]) for key, group in results_by_entry([original, copy])
    ]
    assert [sources for _, sources in entries] == [["a"], ["b"]]
    assert entries[0][0] == entries[1][0]


def test_a_reader_that_returns_to_an_entry_is_an_error() -> None:
    """Its later results would be lost, because the entry is stored already."""
    scattered = [foreign_result(1.0, source="a"), foreign_result(2.0, source="b"),
                 foreign_result(3.0, source="a")]  # fmt: skip
    with pytest.raises(ScatteredResults, match="a: "):
        list(results_by_entry(scattered))


@pytest.mark.parametrize(
    ("system", "name", "content"),
    [
        ("aiia-dnn", "table.md", f"{_TABLE}\n\n{_TABLE}"),
        ("aiia-dnn", "log.txt", f"{_BLOCK}\n{_TABLE}\n{_BLOCK}"),
        (
            "tf_cnn_benchmarks",
            "throughput.csv",
            "name_gpu,num_gpu,vgg16\n2x V100,2,350.5\nA100,1,500\n2x V100,2,351.5\n",
        ),
    ],
)
def test_a_table_may_return_to_a_machine(
    system: str, name: str, content: str, tmp_path: Path
) -> None:
    results, refusals = read_files(tmp_path, system, {name: content})
    assert refusals == []
    assert sum(len(list(group)) for _, group in results_by_entry(results)) == len(results)
