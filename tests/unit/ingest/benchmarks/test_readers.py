"""Readers of benchmark systems: each sample gives the results that lie beside it."""

import gzip
from hashlib import sha256
from pathlib import Path

import pytest

from ingest.benchmarks.pipeline import ScatteredResults, results_by_entry
from ingest.benchmarks.result_texts import markdown_tables
from ingest.benchmarks.result_tree import ResultTree
from ingest.benchmarks.systems import SYSTEMS
from ingest.benchmarks.user_metadata import stated_facts
from ingest.sources.content_detection import system_of
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidArgument, Reason
from model.measurements.benchmark_results import BenchmarkResult
from tests.factories import benchmark_files as files
from tests.factories.benchmark_files import (
    EXPECTED,
    SAMPLES,
    described,
    expected,
    read_files,
    sample,
    sample_text,
    training_log,
    write_files,
)
from tests.factories.foreign_results import foreign_result
from tests.factories.golden import compare_with_golden

READABLE = [it.key for it in SYSTEMS]
#: Persons, their folders and machines in the samples; nothing of them may be stored.
PRIVATE = ("Jo Doe", "jo@mail.example", "/home/jo", "jos-laptop", "corp.example")
#: Values by benchmark and metric, and why files were refused.
Read = tuple[list[tuple[str, str, float | None]], list[str]]


def read(folder: Path, system: str, content: str | bytes, place: str = "log") -> Read:
    data = content.encode() if isinstance(content, str) else content
    results, refusals = read_files(folder, system, {place: data})
    return values(results), [it.message for it in refusals]


def values(results: list[BenchmarkResult]) -> list[tuple[str, str, float | None]]:
    return sorted(((it.benchmark, it.metric.name, it.value) for it in results), key=repr)


@pytest.mark.parametrize("name", SAMPLES)
def test_reader_gives_the_expected_results_of_each_sample(name: str, tmp_path: Path) -> None:
    system, files = name.partition("/")[0], sample(name)
    results, refusals = read_files(tmp_path, system, files)
    lines = described(system, files, results, refusals)
    compare_with_golden(f"benchmarks/{name}/{EXPECTED}", lines)
    assert not any(it in lines for it in PRIVATE)
    assert not {it for it in map(system_of, files.values()) if it and it.key != system}
    for file in {file for it in results for file in it.files if file.place in files}:
        assert file.sha256 == sha256(files[file.place]).hexdigest()


def test_each_reader_has_a_sample_with_a_value() -> None:
    measured = {it.partition("/")[0] for it in SAMPLES if '"value"' in expected(it)}
    assert measured == set(READABLE)


@pytest.mark.parametrize("system", READABLE)
@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"a": ', "a\tb\n1\t2\n", "x" * 5000, "{" * 3000, "0\n" * 100]
)
def test_file_of_another_program_gives_no_benchmark_result(
    system: str, content: str, tmp_path: Path
) -> None:
    names = ("a.json", "a.tsv", "metric.log", "mlperf_log_summary.txt", "e/result_0.txt")
    results, _ = read_files(tmp_path, system, dict.fromkeys(names, content))
    assert [it for it in results if it.value is not None] == []


@pytest.mark.parametrize("name", ["ianvs/markdown", "aiia-dnn/plain"])
@pytest.mark.parametrize("separator", ["|---|", "|:-:|---|", "--- | ---:", "|-" * 12 + "|"])
def test_separator_of_a_markdown_table_may_have_any_number_of_cells(
    name: str, separator: str, tmp_path: Path
) -> None:
    system, table = name.partition("/")[0], sample_text(name)
    lines = table.split("\n")
    at = next(number for number, it in enumerate(lines) if set(it) <= set("|:-\t ") and "-" in it)
    other = "\n".join([*lines[:at], separator, *lines[at + 1 :]])
    plain = read(tmp_path, system, table, "table.md")
    assert read(tmp_path, system, other, "table.md") == plain
    assert plain[0]


@pytest.mark.parametrize("separator", ["|-|", "|-|-|", "|-|-|-|"])
def test_row_of_a_markdown_table_may_be_shorter_than_the_header(separator: str) -> None:
    (table,) = markdown_tables(f"|a|b|\n{separator}\n|1|2|\n|3|\n")
    assert [*table.rows] == [["1", "2"], ["3", ""]]


@pytest.mark.parametrize("rows", ["|1|", "|1|2|\n|1|2|3|"])
def test_markdown_rows_that_disagree_with_the_header_are_no_table(rows: str) -> None:
    assert [*markdown_tables(f"|a|b|\n|-|\n{rows}\n")] == []


@pytest.mark.parametrize(
    ("system", "table"),
    [
        ("aibench", sample_text("aibench/plain").replace('"a, b"', "OK")),
        ("edge-aibench", "lane,detection,light,sign\n0.2,0.5,0.3,0.1\n0.4,0.6,0.2,0.1\n"),
    ],
)
def test_table_columns_may_be_reordered(system: str, table: str, tmp_path: Path) -> None:
    rows = [line.split(",") for line in table.splitlines()]
    other = "".join(",".join([*row[2:], *row[:2]]) + "\n" for row in rows)
    assert system_of(other.encode()) == system_of(table.encode()) is not None
    plain = read(tmp_path, system, table)
    assert read(tmp_path, system, other) == plain
    assert plain[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("aibench/plain", "Search", '"' + "x" * 200_000, Reason.UNKNOWN_SCHEMA),
        ("pytorch-benchmark/plain", "timing:", "timing: " + "[" * 5000, Reason.NESTED_TOO_DEEP),
    ],
    ids=["cell", "nesting"],
)
def test_overlong_benchmark_text_is_refused(
    name: str, old: str, new: str, reason: Reason, tmp_path: Path
) -> None:
    files = {"log": sample_text(name).replace(old, new, 1)}
    results, (refusal,) = read_files(tmp_path, name.partition("/")[0], files)
    assert (results, refusal.reason) == ([], reason)


def test_profiles_of_two_programs_are_separate_results(tmp_path: Path) -> None:
    profile = sample_text("aibench/kernels")
    other = profile.replace("train", "test").replace("0.3,", "0.5,")
    results, refusals = read_files(tmp_path, "aibench", {"log": profile + other})
    assert refusals == []
    assert [(it.source, it.benchmark, it.value) for it in results] == [
        ("log#0", "train.py", pytest.approx(400)), ("log#1", "test.py", pytest.approx(600)),
    ]  # fmt: skip


def test_runs_of_a_training_log_may_be_in_any_order(tmp_path: Path) -> None:
    log = training_log(1e9 + 1000, 1e9 + 2200) + training_log(1e9, 1e9 + 600)
    results, _ = read_files(tmp_path, "mlperf-training", {"s/resnet/result_0.txt": log})
    assert [it.samples for it in results] == [(10.0, 20.0)]


def test_result_table_with_a_repeated_header_is_read_completely(tmp_path: Path) -> None:
    table = "name_gpu,num_gpu,resnet50\n2x V100,2,350.5\n"
    results, _ = read_files(tmp_path, "tf_cnn_benchmarks", {"train-throughput.csv": 2 * table})
    assert [it.value for it in results] == [350.5, 350.5]


_TABLE, _BLOCK = sample_text("aiia-dnn/plain"), sample_text("aiia-dnn/block")


def test_consecutive_results_of_a_file_are_stored_together() -> None:
    results = [foreign_result(1.0, source="a"), foreign_result(2.0, source="a"),
               foreign_result(3.0, source="b")]  # fmt: skip
    values = [[it.value for it in group] for _, group in results_by_entry(results)]
    assert values == [[1.0, 2.0], [3.0]]


def test_copied_benchmark_files_have_the_identifier_of_the_originals() -> None:
    """Its identifier is the same, so that it is stored once."""
    original = foreign_result(1.0, source="a")
    copy = foreign_result(1.0, source="b", files=original.files)
    entries = [
        (key, [it.source for it in group]) for key, group in results_by_entry([original, copy])
    ]
    assert [sources for _, sources in entries] == [["a"], ["b"]]
    assert entries[0][0] == entries[1][0]


def test_reader_that_scatters_the_results_of_a_file_is_an_error() -> None:
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
def test_results_of_interleaved_machines_in_a_table_are_kept_separate(
    system: str, name: str, content: str, tmp_path: Path
) -> None:
    results, refusals = read_files(tmp_path, system, {name: content})
    assert refusals == []
    assert sum(len(list(group)) for _, group in results_by_entry(results)) == len(results)


def test_compressed_benchmark_file_has_the_path_of_the_uncompressed_file(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/RUN.TXT.gz": gzip.compress(b"\n\npacked"), "a/run.log": b"plain"})
    places = ["a/RUN.TXT.gz", "a/run.log"]
    tree = ResultTree("source", tmp_path, places, SourceLimits())
    assert list(tree.places) == ["a/RUN.txt", "a/run.log"]
    assert tree.file("a/RUN.txt").text == "packed"
    assert tree.stored_place("a/RUN.txt#2") == "a/RUN.TXT.gz#2"
    assert tree.renames


def test_file_with_a_compressed_copy_beside_it_keeps_its_path(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": b"plain", "a.txt.gz": gzip.compress(b"packed")})
    places = ["a.txt", "a.txt.gz"]
    tree = ResultTree("source", tmp_path, places, SourceLimits())
    assert list(tree.places) == places
    assert [tree.file(it).text for it in places] == ["plain", "packed"]


@pytest.mark.parametrize("name", ["dawnbench/plain", "mlperf-training/v06"])
def test_compressed_benchmark_files_are_read(name: str, tmp_path: Path) -> None:
    system, files = name.partition("/")[0], sample(name)
    packed = {f"{place}.gz": gzip.compress(content) for place, content in files.items()}
    values = [
        [(it.benchmark, it.value, it.accelerators) for it in read_files(folder, system, given)[0]]
        for folder, given in ((tmp_path / "plain", files), (tmp_path / "packed", packed))
    ]
    assert values[0] == values[1] != []


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_benchmark_system_is_recognised_with_any_line_ends(end: str) -> None:
    for text, key in (
        (f"BLEU: 23.8{end}", "mlperf-inference"),
        (f"epoch\thours\ttop1Accuracy{end}1\t0.5\t29.54{end}", "dawnbench"),
    ):
        recognised = system_of(text.encode())
        assert recognised.key == key


def test_versions_and_hardware_can_be_stated_by_lock_and_metadata() -> None:
    locked = [("vllm", "0.11.2"), ("torch", "2.8.0"), ("torch", "2.9.0"), ("flask", "3.1.0")]
    assert stated_facts([("GPU", " NVIDIA L4 "), ("tp", "2")], locked) == {
        "vllm": "0.11.2", "accelerator": "NVIDIA L4", "tensor_parallel_size": "2",
    }  # fmt: skip


@pytest.mark.parametrize("pair", [("owner", "me"), ("gpu", " "), ("vllm", "0.12.0")])
def test_unknown_empty_or_contradicting_stated_metadata_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        stated_facts([pair], [("vllm", "0.11.2")])


def test_file_that_contradicts_stated_metadata_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(files.STATED, "vllm-bench", {"vllm": "0.12.0"})
    results, (refusal,) = files.read_files(
        tmp_path, "vllm-bench", files.sample("vllm-bench/metadata")
    )
    assert results == []
    assert (refusal.reason, refusal.field) == (Reason.CONFLICTING_FIELDS, "$.vllm")
