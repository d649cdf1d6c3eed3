"""Paths of files, packed or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from ingest.benchmarks.result_tree import ResultTree
from ingest.sources.content_detection import system_of
from ingest.sources.source_items import SourceLimits
from tests.factories.benchmark_files import (
    DAWNBENCH_ENTRY,
    DAWNBENCH_TABLE,
    read_files,
    training_log,
    write_files,
)


def test_a_packed_file_has_the_path_of_the_plain_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/RUN.TXT.gz": gzip.compress(b"\n\npacked"), "a/run.log": b"plain"})
    places = ["a/RUN.TXT.gz", "a/run.log"]
    tree = ResultTree("source", LocalFileSystem(), str(tmp_path), places, SourceLimits())
    assert list(tree.places) == ["a/RUN.txt", "a/run.log"]
    assert tree.file("a/RUN.txt").text == "packed"
    assert tree.stored_place("a/RUN.txt#2") == "a/RUN.TXT.gz#2"
    assert tree.renames


def test_a_plain_file_beside_a_packed_one_keeps_its_path(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": b"plain", "a.txt.gz": gzip.compress(b"packed")})
    places = ["a.txt", "a.txt.gz"]
    tree = ResultTree("source", LocalFileSystem(), str(tmp_path), places, SourceLimits())
    assert list(tree.places) == places
    assert [tree.file(it).text for it in places] == ["plain", "packed"]


@pytest.mark.parametrize(
    ("system", "files", "values"),
    [
        ("dawnbench", {"CIFAR10/a.json": DAWNBENCH_ENTRY, "CIFAR10/a.tsv": DAWNBENCH_TABLE}, 2),
        ("mlperf-training", {"s/resnet/result_0.txt": training_log(1e9, 1e9 + 60)}, 1),
    ],
)
def test_packed_parts_of_an_entry_are_found(
    system: str, files: dict[str, str], values: int, tmp_path: Path
) -> None:
    plain, _ = read_files(tmp_path / "plain", system, files)
    packed, _ = read_files(
        tmp_path / "packed",
        system,
        {f"{place}.gz": gzip.compress(text.encode()) for place, text in files.items()},
    )
    assert len(plain) == values
    assert [(it.benchmark, it.value) for it in packed] == [(it.benchmark, it.value) for it in plain]


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_a_system_is_recognised_whatever_ends_its_lines(end: str) -> None:
    for text, key in (
        (f"BLEU: 23.8{end}", "mlperf-inference"),
        (DAWNBENCH_TABLE.replace("\r\n", end), "dawnbench"),
    ):
        recognised = system_of(text.encode())
        assert recognised is not None
        assert recognised.key == key
