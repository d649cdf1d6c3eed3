"""Damaged result files of other benchmark systems give results or refusals, and never a crash."""

import codecs
import io
import math
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.measurements.benchmark_results import BenchmarkResult, Validity
from tests.factories import benchmark_files as files

#: Samples that a sample of the same system does not contain, and the workbooks' console.
NAMES = (
    "mlperf-training/v06", "mlperf-training/v05", "mlperf-training/json",
    "mlperf-inference/summary", "mlperf-inference/console",
    "mlperf-inference/accuracy", "tf_cnn_benchmarks/plain", "tf_cnn_benchmarks/json",
    "tf_cnn_benchmarks/table", "tf_cnn_benchmarks/runs", "pytorch-benchmark/plain",
    "perfzero/plain", "aiot-bench/plain", "aiperf/plain", "pytorch-v3/plain", "pytorch-v3/lines",
    "deepbench/plain", "deepbench/convolution", "deepbench/layers", "deepbench/intel",
    "dawnbench/plain", "dawnbench/inference", "hpe-dlcookbook/plain", "hpe-dlcookbook/json",
    "jetson/plain", "jetson/summary", "jetson/engines", "ianvs/plain", "ianvs/markdown",
    "edge-aibench/plain", "edge-aibench/faces", "edge-aibench/kernels", "aibench/plain",
    "osu-micro-benchmarks/plain", "aibench/kernels", "aibench/rouge", "aiia-dnn/plain",
    "aiia-dnn/block", "vllm-bench/metadata",
    "vllm-bench/appended", "sglang-bench/lines", "pyperf/processes", "asv/machine-and-requirements",
    "asv/parameters-and-failures", "llama-bench/two-builds", "google-benchmark/repetitions",
    "hyperfine/two-commands", "pytest-benchmark/data-and-summary", "llm-d/report", "llm-d/json",
)  # fmt: skip
#: Texts by their paths, by name of the sample.
SAMPLES = {name: {place: it.decode() for place, it in files.sample(name).items()} for name in NAMES}
PIECES = st.sampled_from(
    ["", "\n", "-1", "0", "0.00", "nan", "-inf", "1e999", "1.2.3", "null", "[]", "{", '"', "#",
     ": ", "- ", ",", "\t", "|", "9" * 400, "\x00", "µ", "²", "\u3000", "\ud83d"]
) | st.text(max_size=8)  # fmt: skip


def read(sample: str, contents: Mapping[str, bytes]) -> list[BenchmarkResult]:
    with tempfile.TemporaryDirectory() as folder:
        results, _ = files.read_files(Path(folder), sample.partition("/")[0], contents)
    for result in results:
        assert result.value is None or math.isfinite(result.value)
        assert all(math.isfinite(it) for it in result.samples)
        assert result.validity is not Validity.FAILED or (result.value is None and result.reason)
        assert result.value is not None or result.reason
        assert "\0" not in repr(result)
        repr(result).encode()
    return results


def encoded(sample: str, encoding: str = "utf-8") -> dict[str, bytes]:
    return {place: text.encode(encoding) for place, text in SAMPLES[sample].items()}


def without_files(results: Sequence[BenchmarkResult]) -> list[BenchmarkResult]:
    return sorted((replace(it, files=()) for it in results), key=repr)


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_benchmark_sample_gives_a_value(sample: str) -> None:
    assert any(it.value is not None for it in read(sample, encoded(sample)))


#: A value behind its title; an object or list that begins here is none.
_VALUE = re.compile(r"^([^\n:=,]*[:=][ \t]*)(?![\[{\n])(\S[^\n]*)$", re.MULTILINE)


def facts(results: Sequence[BenchmarkResult]) -> set[tuple[object, ...]]:
    """What results say, each fact by itself; reasons quote the texts that are no values."""
    return {
        fact
        for it in results
        for fact in (
            ("benchmark", it.benchmark), (it.metric.name, it.value),
            (it.metric.name, it.validity), *it.parameters.items(), *it.hardware.items(),
            *it.software.items(),
        )
    }  # fmt: skip


#: A report without a version or an accelerator is refused whole.
@pytest.mark.parametrize("sample", [it for it in SAMPLES if it != "llm-d/report"])
def test_empty_benchmark_value_does_not_take_the_next_line(sample: str) -> None:
    """It is read like a value that means nothing, and no other line is lost."""
    for place, text in SAMPLES[sample].items():
        for match in _VALUE.finditer(text):
            title, rest = text[: match.end(1)], text[match.end() :]
            others = {it: encoded(sample)[it] for it in SAMPLES[sample] if it != place}
            empty, blank, odd = (
                facts(read(sample, {**others, place: (title + value + rest).encode()}))
                for value in ("", " ", "qqq")
            )
            readable = {it for it in odd if "qqq" not in repr(it)}
            assert empty == blank, title[-80:]
            assert readable <= empty, (title[-80:], readable - empty)
            added = {it for it in empty - odd if it[-1] and str(it[-1]) in rest}
            assert not added, (title[-80:], added)


@pytest.mark.parametrize("sample", SAMPLES)
@given(data=st.data())
def test_damaged_benchmark_text_gives_results_or_refusals(sample: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(sorted(SAMPLES[sample])))
    text = SAMPLES[sample][place]
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(PIECES) + text[end:]
    read(sample, {**encoded(sample), place: text.encode("utf-8", "replace")})


@pytest.mark.parametrize("sample", SAMPLES)
@given(data=st.data())
def test_replaced_number_gives_results_or_refusals(sample: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(sorted(SAMPLES[sample])))
    text = SAMPLES[sample][place]
    digits = [at for at, it in enumerate(text) if it.isdigit() and not text[at - 1].isdigit()]
    start = data.draw(st.sampled_from(digits))
    end = start
    while end < len(text) and (text[end].isdigit() or text[end] == "."):
        end += 1
    text = text[:start] + data.draw(PIECES) + text[end:]
    read(sample, {**encoded(sample), place: text.encode("utf-8", "replace")})


@pytest.mark.parametrize("sample", SAMPLES)
@given(data=st.data())
def test_truncated_file_gives_results_or_refusals(sample: str, data: st.DataObject) -> None:
    contents = encoded(sample)
    place = data.draw(st.sampled_from(sorted(contents)))
    end = data.draw(st.integers(0, len(contents[place])))
    read(sample, {**contents, place: contents[place][:end]})


@pytest.mark.parametrize("sample", SAMPLES)
@given(data=st.data())
def test_permuted_lines_give_results_or_refusals(sample: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(sorted(SAMPLES[sample])))
    lines = data.draw(st.permutations(SAMPLES[sample][place].split("\n")))
    read(sample, {**encoded(sample), place: "\n".join(lines).encode()})


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("spelling", ["line ends", "byte order mark", "utf-16", "zeros"])
def test_line_ends_and_encodings_do_not_change_results(sample: str, spelling: str) -> None:
    contents = encoded(sample)
    expected = without_files(read(sample, contents))
    match spelling:
        case "line ends":
            spelled = {
                key: it.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
                for key, it in contents.items()
            }
        case "byte order mark":
            spelled = {key: codecs.BOM_UTF8 + it for key, it in contents.items()}
        case "utf-16":
            spelled = encoded(sample, "utf-16")
        case _:
            spelled = {key: it + b"\0" for key, it in contents.items()}
            if any(it.lstrip()[:1] in (b"{", b"[") for it in contents.values()):
                pytest.skip("a NUL character behind a JSON value refuses it")
    actual = without_files(read(sample, spelled))
    # Without a description, Ianvs takes the digest of the file as the name of the scenario.
    assert [it.value for it in actual] == [it.value for it in expected]
    assert [it.benchmark for it in actual] == [it.benchmark for it in expected]


@cache
def workbook() -> bytes:
    """A workbook, always the same: two of them differ in the time at which they were made."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Results FP32"
    for row in (
        ("Precision", "Single"),
        ("Dense Matrix Multiplication", "Application", "M", "N", "K", "A Transpose", "Time (msec)"),
        (None, "Speech", 1760, 16, 1760, "N", 0.038),
        (None, "Speech", 1760, 32, 1760, "N", "N/A*"),
        (None, "Speech", 1760, 64, 1760, "N", "#VALUE!"),
        (None, "Speech", 1760, 128, 1760, "N", 0),
    ):
        sheet.append(row)
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def test_workbook_cells_without_a_number_are_failed_results() -> None:
    results = read("deepbench", {"a.xlsx": workbook()})
    times = [it for it in results if it.metric.name == "time"]
    assert [it.value for it in times] == [0.038, None, None, None]
    assert [it.reason for it in times[1:]] == [
        "the cell is 'N/A*'", "the cell is '#VALUE!'", "the cell is '0'",
    ]  # fmt: skip


@given(data=st.data())
def test_a_damaged_workbook_gives_results_or_a_refusal(data: st.DataObject) -> None:
    content = workbook()
    start = data.draw(st.integers(0, len(content)))
    kept = data.draw(st.integers(start, len(content)))
    piece = data.draw(st.binary(max_size=9))
    read("deepbench", {"a.xlsx": b"PK\3\4" + (content[:start] + piece + content[kept:])[4:]})


@given(data=st.data())
def test_a_damaged_part_of_a_workbook_gives_results_or_a_refusal(data: st.DataObject) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook())) as source, zipfile.ZipFile(packed, "w") as damaged:
        chosen = data.draw(st.sampled_from(source.namelist()))
        for name in source.namelist():
            part = source.read(name)
            if name == chosen:
                start = data.draw(st.integers(0, len(part)))
                piece = data.draw(st.sampled_from([b"", b"<", b"&a;", b'"', b"9" * 9, b"\xff"]))
                part = part[:start] + piece + part[start + data.draw(st.integers(0, 30)) :]
            damaged.writestr(name, part)
    read("deepbench", {"a.xlsx": packed.getvalue()})


@given(data=st.data())
def test_a_damaged_table_gives_results_or_a_refusal(data: st.DataObject) -> None:
    contents = files.sample("aiconfigurator/collected")
    place = data.draw(st.sampled_from(sorted(contents)))
    content = contents[place]
    start = data.draw(st.integers(0, len(content)))
    kept = data.draw(st.integers(start, min(len(content), start + 9)))
    contents[place] = content[:start] + data.draw(st.binary(max_size=9)) + content[kept:]
    read("aiconfigurator", contents)
