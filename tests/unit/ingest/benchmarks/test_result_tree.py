"""Paths of files, packed or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ingest.benchmarks.result_tree import ResultTree
from ingest.sources.content_detection import system_of
from ingest.sources.source_items import SourceLimits
from tests.factories.benchmark_files import read_files, sample, write_files


def test_a_packed_file_has_the_path_of_the_plain_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/RUN.TXT.gz": gzip.compress(b"\n\npacked"), "a/run.log": b"plain"})
    places = ["a/RUN.TXT.gz", "a/run.log"]
    tree = ResultTree("source", tmp_path, places, SourceLimits())
    assert list(tree.places) == ["a/RUN.txt", "a/run.log"]
    assert tree.file("a/RUN.txt").text == "packed"
    assert tree.stored_place("a/RUN.txt#2") == "a/RUN.TXT.gz#2"
    assert tree.renames


def test_a_plain_file_beside_a_packed_one_keeps_its_path(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": b"plain", "a.txt.gz": gzip.compress(b"packed")})
    places = ["a.txt", "a.txt.gz"]
    tree = ResultTree("source", tmp_path, places, SourceLimits())
    assert list(tree.places) == places
    assert [tree.file(it).text for it in places] == ["plain", "packed"]


@pytest.mark.parametrize("name", ["dawnbench/plain", "mlperf-training/v06"])
def test_packed_parts_of_an_entry_are_found(name: str, tmp_path: Path) -> None:
    system, files = name.partition("/")[0], sample(name)
    packed = {f"{place}.gz": gzip.compress(content) for place, content in files.items()}
    values = [
        [(it.benchmark, it.value, it.accelerators) for it in read_files(folder, system, given)[0]]
        for folder, given in ((tmp_path / "plain", files), (tmp_path / "packed", packed))
    ]
    assert values[0] == values[1] != []


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_a_system_is_recognised_whatever_ends_its_lines(end: str) -> None:
    for text, key in (
        (f"BLEU: 23.8{end}", "mlperf-inference"),
        (f"epoch\thours\ttop1Accuracy{end}1\t0.5\t29.54{end}", "dawnbench"),
    ):
        recognised = system_of(text.encode())
        assert recognised.key == key
