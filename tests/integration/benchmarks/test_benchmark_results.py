"""Results of other benchmark systems in the record: stored once, listed, without personal data."""

import csv
import io
import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from api.app import create_app
from api.store_access import EXTENSION
from common.settings import Settings
from graph.engine import Stores
from graph.record import benchmark_results
from graph.record.benchmark_results import (
    BenchmarkFilter,
    ListedResult,
    count_foreign,
    foreign_results,
)
from ingest.benchmarks.pipeline import ingest_benchmarks
from ingest.record import open_record
from ingest.runs import list_quarantine
from ingest.sources.source_items import SourceLimits
from tests.factories.benchmark_files import sample, sample_text, write_files
from tests.factories.inspections import measured, printed, write_stack
from tests.services.commands import thoth, thoth_json

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[3].parent / "shared" / "data"
)
REAL = pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)
DLBS = sample_text("hpe-dlcookbook/plain")
ENTRY, TABLE = (it.decode() for it in sample("dawnbench/plain").values())
FILES = {
    "dlbs/a.log": DLBS,
    "dawn/CIFAR10/train/a.json": ENTRY,
    "dawn/CIFAR10/train/a.tsv": TABLE,
    "tf/1": sample_text("tf_cnn_benchmarks/plain"),
    "notes.md": "nothing of interest\n",
}


def ingest(settings: Settings, *paths: Path) -> dict[str, object]:
    return thoth_json(settings, "ingest", "benchmarks", *map(str, paths))


def listed(settings: Settings, *options: str) -> list[dict[str, object]]:
    done = thoth(settings, "benchmarks", "--json", *options)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def test_benchmark_files_are_stored_once_at_any_path(stores: Stores, tmp_path: Path) -> None:
    write_files(tmp_path / "one", FILES)
    first = ingest(stores.settings, tmp_path / "one")
    assert first["results"] == {"hpe-dlcookbook": 2, "dawnbench": 2, "tf_cnn_benchmarks": 4}
    assert (first["new"], first["known"], first["quarantined"]) == (8, 0, 0)
    assert first["skipped"] == {"not a result of a known benchmark": 1}
    with tarfile.open(tmp_path / "copy.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "one", "elsewhere")
    again = ingest(stores.settings, tmp_path / "copy.tar.gz")
    assert (again["new"], again["known"]) == (0, 8)
    assert len(listed(stores.settings)) == 8


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"notes.txt": "Nothing was measured."}, "not a result of a known benchmark: 1"),
        (
            {"a.log": ":::MLL 1560400998.76 other: {}"},
            "file of MLPerf Training that contains no result: 1",
        ),
    ],
)
def test_source_without_benchmark_results_is_refused(
    files: dict[str, str], reason: str, stores: Stores, tmp_path: Path
) -> None:
    write_files(tmp_path / "none", files)
    write_files(tmp_path / "some", FILES)
    folders = [str(tmp_path / it) for it in ("none", "some")]
    done = thoth(stores.settings, "ingest", "benchmarks", *folders, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["reasons"]) == (1, {"empty_folder": 1})
    (refusal,) = list_quarantine(stores.settings)
    assert reason in refusal.message


def test_archives_in_a_folder_are_read_like_folders(stores: Stores, tmp_path: Path) -> None:
    """Of three archives, one is broken and one is a bomb; links and other archives stay closed."""
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    write_files(plain / "logs.tar.gz", FILES)
    write_files(
        packed, {"a.log": DLBS.replace("96.3", "97.3"), "cut.zip": b"PK\x03\x04 and no more"}
    )
    with tarfile.open(packed / "logs.tar.gz", "w:gz") as archive:
        for place in FILES:
            archive.add(plain / "logs.tar.gz" / place, place)
        link = tarfile.TarInfo("link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
        for name in ("../leaving.log", "inner.tar.gz"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with zipfile.ZipFile(packed / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("zeros.log", bytes(32 * 2**20))
    (packed / "link.zip").symlink_to(packed / "cut.zip")
    done = thoth(stores.settings, "ingest", "benchmarks", str(packed), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["new"]) == (1, 10), done.stderr
    assert report["reasons"] == {"archive_broken": 1, "archive_bomb": 1}
    assert report["files"] == 8
    assert report["skipped"] == {
        "not a result of a known benchmark": 2, "link that leads elsewhere, pipe or device": 1
    }  # fmt: skip
    places = {it.place: it.reason for it in list_quarantine(stores.settings)}
    assert places == {"bomb.zip": "archive_bomb", "cut.zip": "archive_broken"}
    sources = {str(it["source"]) for it in listed(stores.settings)}
    assert {"a.log", "logs.tar.gz/dlbs/a.log", "logs.tar.gz/tf/1"} <= sources
    again = ingest(stores.settings, plain)
    assert (again["new"], again["known"]) == (0, 8)


def test_archives_in_a_source_share_one_size_limit(tmp_path: Path, settings: Settings) -> None:
    for name in ("a.zip", "b.zip", "c.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.log", DLBS)
    limits = SourceLimits(archive_bytes=2 * len(DLBS))
    with open_record(settings) as engine:
        report = ingest_benchmarks(settings, engine, [str(tmp_path)], limits)
    assert (report.files, dict(report.reasons)) == (2, {"archive_bomb": 1})


def test_benchmark_results_are_filtered_by_each_option(stores: Stores, tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    ingest(stores.settings, tmp_path)
    (row,) = listed(stores.settings, "--system", "dawnbench", "--metric", "time_to_accuracy")
    assert (row["value"], row["unit"], row["direction"]) == (1.5, "hours", "lower")
    assert row["hardware"] == {"description": "1 K80 / 30 GB / 8 CPU", "accelerator": "K80"}
    assert {it["system"] for it in listed(stores.settings, "--hardware", "k80")} == {"dawnbench"}
    assert listed(stores.settings, "--hardware", "%") == []
    assert len(listed(stores.settings, "--benchmark", "RESNET50")) == 6


def test_benchmark_results_are_paged_alike_with_any_filter(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, FILES)
    ingest(stores.settings, tmp_path)
    chosen = [
        BenchmarkFilter(),
        BenchmarkFilter(benchmark="RESNET50", metric="results.time"),
        BenchmarkFilter(system="hpe-dlcookbook", benchmark="resnet50"),
        BenchmarkFilter(system="dawnbench", benchmark="resnet50"),
        BenchmarkFilter(metric="results.time", hardware="k80"),
    ]
    with stores.engine.connect() as connection:
        for wanted in chosen:
            every = list(foreign_results(connection, wanted))
            assert len(every) == count_foreign(connection, wanted, 100)
            for few in (1, 1000):  # with the limit of 1, every match counts as many
                monkeypatch.setattr(benchmark_results, "_FEW", few)
                paged: list[ListedResult] = []
                while page := list(
                    foreign_results(
                        connection,
                        wanted,
                        after=(paged[-1].entry_id, paged[-1].position) if paged else None,
                        limit=2,
                    )
                ):
                    paged += page
                assert paged == every
        assert [len(list(foreign_results(connection, it))) for it in chosen] == [8, 1, 2, 0, 0]


def test_refused_benchmark_file_is_quarantined_and_other_files_are_read(
    stores: Stores, tmp_path: Path
) -> None:
    write_files(tmp_path, {**FILES, "broken.log": "__exp.framework__=1\n"})
    done = thoth(stores.settings, "ingest", "benchmarks", str(tmp_path))
    assert done.returncode == 1
    assert "1 missing_field; see `thoth ingest quarantine`" in done.stdout
    (entry,) = thoth_json(stores.settings, "ingest", "quarantine")
    assert (entry["place"], entry["field"]) == ("broken.log", "exp.model")
    assert len(listed(stores.settings)) == 8


def test_benchmark_paths_that_are_not_utf_8_are_escaped(stores: Stores, tmp_path: Path) -> None:
    summary = sample_text("mlperf-inference/summary")
    summary += f"samples_per_query : {10**20}\nmin_query_count : 7\n"
    write_files(tmp_path, {os.fsdecode(b"caf\xe9/mlperf_log_summary.txt"): summary})
    assert thoth(stores.settings, "ingest", "benchmarks", str(tmp_path)).returncode == 0
    (row,) = listed(stores.settings)
    assert row["source"] == r"caf\udce9/mlperf_log_summary.txt"
    assert row["parameters"] == {"scenario": "Server", "min_query_count": 7}


def test_benchmark_source_url_is_refused_with_a_remedy(settings: Settings) -> None:
    done = thoth(settings, "ingest", "benchmarks", "https://runs.example/a.log?signature=0a1b")
    assert done.returncode == 1
    (refused,) = list_quarantine(settings)
    assert (refused.reason, refused.source) == ("unreadable", "https://runs.example/a.log?…")
    assert "download it first" in refused.message


def test_inspections_are_listed_with_results_of_other_benchmark_systems(
    stores: Stores, tmp_path: Path
) -> None:
    write_files(tmp_path / "others", FILES)
    ingest(stores.settings, tmp_path / "others")
    name = "inspection-matmul-00000001"
    write_stack(tmp_path / "own", name, [100.0, 300.0, 200.0], {"numpy": "2.1.0"})
    thoth_json(stores.settings, "ingest", "inspections", str(tmp_path / "own"))
    everything = listed(stores.settings)
    own = listed(stores.settings, "--system", "thoth")
    assert len(everything) == 8 + len(own)
    assert everything[8:] == own
    assert [it["metric"] for it in own] == ["median_elapsed", "median_rate"]
    rate = own[1]
    assert (rate["unit"], rate["direction"], rate["aggregate"]) == ("GFLOPS", "higher", "median")
    assert rate["value"] == pytest.approx(200.0, rel=0.01)
    assert [round(it) for it in rate["samples"]] == [100, 300, 200]
    assert (rate["validity"], rate["benchmark"], rate["source"]) == ("valid", "PiMatmul", name)
    assert rate["software"]["numpy"] == "2.1.0"
    assert rate["hardware"]["cpu"] == "Example CPU"
    assert rate["accelerators"] == 0
    assert listed(stores.settings, "--software", "NumPy", "--hardware", "example") == own
    assert listed(stores.settings, "--software", "numpy", "--metric", "median_rate") == [rate]
    assert listed(stores.settings, "--benchmark", "pimatmul", "--validity", "failed") == []


def test_inspections_are_found_by_a_metric_shared_with_another_system(
    stores: Stores, tmp_path: Path
) -> None:
    write_files(tmp_path / "others", {"gemm.txt": sample_text("deepbench/plain")})
    ingest(stores.settings, tmp_path / "others")
    theirs = listed(stores.settings, "--benchmark", "gemm")
    name = "inspection-gemm-00000001"
    outputs = [{**printed(measured(rate)), "name": "PiGemm"} for rate in (100.0, 300.0)]
    write_stack(tmp_path / "own", name, outputs, {"numpy": "2.1.0"})
    thoth_json(stores.settings, "ingest", "inspections", str(tmp_path / "own"))
    assert listed(stores.settings, "--benchmark", "gemm", "--system", "deepbench") == theirs
    (own,) = listed(stores.settings, "--benchmark", "gemm", "--system", "thoth")
    named = ("metric", "unit", "direction", "definition")
    shared = [it for it in theirs if it["metric"] == "time"]
    assert {tuple(it[key] for key in named) for it in (own, *shared)} == {
        ("time", "ms", "lower", "deepbench-1")
    }
    assert (own["value"], own["samples"], own["source"]) == (1.0, [1.0, 1.0], name)
    every = [it["metric"] for it in listed(stores.settings, "--system", "thoth")]
    assert every == ["median_elapsed", "median_rate", "time"]
    assert listed(stores.settings, "--metric", "time", "--software", "numpy") == [own]
    # Like those of other systems, parts are found however they are spelled.
    assert len(listed(stores.settings, "--hardware", "Intel(R) example-CPU @ 2.0GHz")) == 3
    assert listed(stores.settings, "--hardware", "example 2") == []


def test_api_pages_through_the_benchmark_rows_that_the_command_prints(
    stores: Stores, tmp_path: Path
) -> None:
    write_files(tmp_path / "others", FILES)
    ingest(stores.settings, tmp_path / "others")
    name = "inspection-matmul-00000001"
    write_stack(tmp_path / "own", name, [100.0, 300.0], {"numpy": "2.1.0"})
    thoth_json(stores.settings, "ingest", "inspections", str(tmp_path / "own"))
    app = create_app(stores.settings)
    try:
        client = app.test_client()
        for options in ({}, {"hardware": "K80"}, {"software": "tensorflow"}, {"system": "thoth"}):
            flags = [it for name, value in options.items() for it in (f"--{name}", value)]
            rows: list[Any] = []
            url: str | None = f"/api/v2/benchmarks?{urlencode({**options, 'limit': 3})}"
            while url is not None:
                response = client.get(url)
                assert response.status_code == 200, response.json
                rows += response.json["items"]
                url = response.json["next"]
            expected = listed(stores.settings, *flags)
            assert rows == expected
            assert rows
        refused = client.get("/api/v2/benchmarks?validity=perhaps")
        assert refused.status_code == 400
        assert "validity" in refused.json["errors"]["query"]
        assert client.get("/api/v2/benchmarks?after=x").status_code == 400
    finally:
        app.extensions[EXTENSION].close()


def test_lock_and_metadata_options_describe_an_unlabelled_benchmark_file(
    stores: Stores, tmp_path: Path
) -> None:
    write_files(tmp_path / "runs", sample("vllm-bench/without-identity"))
    lock = tmp_path / "requirements.txt"
    lock.write_text("vllm==0.11.2\ntorch==2.9.0\nflask==3.1.2\n")
    command = ("ingest", "benchmarks", str(tmp_path / "runs"), "--lock", str(lock))
    assert thoth(stores.settings, *command).returncode == 1
    (refusal,) = list_quarantine(stores.settings)
    assert (refusal.reason, refusal.field) == ("missing_field", "$.accelerator")
    unknown = thoth(stores.settings, *command, "--metadata", "owner=me")
    assert (unknown.returncode, "owner=me" in unknown.stderr) == (2, True)
    done = thoth(stores.settings, *command, "--metadata", "gpu=NVIDIA L4", "--metadata", "gpus=2")
    assert done.returncode == 0, done.stderr
    rows = listed(stores.settings, "--software", "vllm")
    assert len(rows) == 12
    for row in rows:
        assert (row["accelerators"], row["hardware"]) == (2, {"accelerator": "NVIDIA L4"})
        assert row["software"] == {"torch": "2.9.0", "vllm": "0.11.2"}
    page = create_app(stores.settings).test_client().get("/benchmarks?system=vllm-bench")
    assert "NVIDIA L4" in page.text
    assert "median_ttft_ms" in page.text


@REAL
def test_values_of_real_benchmark_files_equal_independent_computations(
    stores: Stores, tmp_path: Path
) -> None:
    # Its large tables have tests of their own.
    copy = shutil.copytree(DATA, tmp_path / "data", ignore=shutil.ignore_patterns("sources"))
    done = thoth(stores.settings, "ingest", "benchmarks", str(copy))
    assert done.returncode == 1  # a submission in another form is refused
    rows = {(it["source"], it["metric"]): it for it in listed(stores.settings)}
    wrong = []
    with (DATA / "golden.csv").open() as stream:
        golden = [it for it in csv.DictReader(stream) if it["system"] != "thoth"]
    for line in golden:
        row = rows.get((line["path"], line["metric"]))
        value = None if row is None else row["value"]
        if not line["value"]:
            wrong += [line] if value is not None else []
        elif (
            row is None
            or value != pytest.approx(float(line["value"]), rel=1e-4)
            or row["system"] != line["system"]
        ):
            wrong.append(line)
    assert len(golden) == 216
    assert wrong == []


@REAL
def test_inspection_metrics_equal_independently_computed_values(stores: Stores) -> None:
    source = str(DATA / "thoth" / "inspections")
    thoth_json(stores.settings, "ingest", "inspections", source)
    rows = {(it["source"], it["metric"]): it for it in listed(stores.settings)}
    with (DATA / "golden.csv").open() as stream:
        golden = [it for it in csv.DictReader(stream) if it["system"] == "thoth"]
    assert len(golden) == len(rows) == 6
    for line in golden:
        row: dict[str, Any] = rows[line["path"].rpartition("/")[2], line["metric"]]
        assert row["value"] == pytest.approx(float(line["value"]), rel=1e-9)
        assert (row["system"], row["unit"], row["benchmark"]) == (
            "thoth", line["unit"], line["note"],
        )  # fmt: skip
        assert len(row["samples"]) == int(line["n"])
