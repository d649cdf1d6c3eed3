"""Files, folders and archives give the same documents, and refuse what is made to harm."""

import gzip
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from graph.backup_archive import new_file, size_of
from graph.record.document_store import write_object
from ingest.inspections.parsing import parse_inspections
from ingest.sources.content_detection import parsed_inspection
from ingest.sources.reader import count_hint, documents_of
from ingest.sources.source_items import (
    RawDocument,
    RefusedDocument,
    SkippedFile,
    SourceLimits,
    source_argument,
    stored_source,
)
from model.errors import InvalidArgument, Reason, StoreUnavailable
from model.measurements.inspection import InspectionDocument
from tests.factories.archives import tar_of, zip_of
from tests.factories.documents import (
    directory_files,
    document_2019,
    document_2020_02,
    document_with_job_logs,
    encoded,
)
from tests.factories.golden import compare_views
from tests.factories.inspections import inspection_files, job_document

SMALL = SourceLimits(document_bytes=100_000)
LOOSE = encoded(document_2020_02())


def tree() -> dict[str, bytes]:
    """Two inspections, a loose document and a file of no interest."""
    files = {"notes.txt": b"?", "loose/one.json": LOOSE, "loose/two.json.gz": gzip.compress(LOOSE)}
    for name in ("inspection-a", "deep/inspection-b"):
        files |= {f"{name}/{part}": data for part, data in directory_files().items()}
    return files


PLACES = {"deep/inspection-b", "inspection-a", "loose/one.json", "loose/two.json.gz"}


def write_tree(folder: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(folder)


def write_tar(path: Path, files: Iterable[tuple[str, bytes]], mode: str = "w:gz") -> str:
    path.write_bytes(tar_of(files, mode))
    return str(path)


def write_zip(path: Path, files: Iterable[tuple[str, bytes]]) -> str:
    path.write_bytes(zip_of(files))
    return str(path)


def refusals(source: str, limits: SourceLimits = SMALL) -> list[tuple[str, str]]:
    return [
        (str(found.error.reason), found.place)
        for found in documents_of(source, limits)
        if isinstance(found, RefusedDocument)
    ]


def documents(source: str, limits: SourceLimits = SMALL) -> dict[str, RawDocument]:
    found = list(documents_of(source, limits))
    return {raw.place: raw for raw in found if isinstance(raw, RawDocument)}


def identities(source: str) -> set[str]:
    return {
        document.document_id
        for raw in documents_of(source)
        if isinstance(raw, RawDocument)
        for document in parse_inspections(raw)
        if isinstance(document, InspectionDocument)
    }


def test_folders_archives_and_urls_give_the_same_documents(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "tree", tree())
    mixed = sorted(tree().items(), key=lambda item: item[0][::-1])  # files of folders interleaved
    sources = [
        folder,
        f"file://{folder}",
        write_tar(tmp_path / "a.tar.gz", mixed),
        write_tar(tmp_path / "a.tar", [(f"./{name}", data) for name, data in mixed], "w"),
        write_zip(tmp_path / "a.zip", mixed),
        "memory://bucket/tree",
    ]
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/bucket/tree/{name}": data for name, data in tree().items()})
    for source in sources:
        assert documents(source).keys() == PLACES, source
        assert refusals(source) == [], source
        assert identities(source) == identities(folder), source
    memory.rm("/bucket", recursive=True)


def test_source_folder_is_read_in_order_and_counted_without_opening_files(tmp_path: Path) -> None:
    folder = write_tree(tmp_path, tree())
    assert [found.place for found in documents_of(folder)] == sorted(PLACES)
    assert count_hint(folder) == 4
    assert count_hint(str(tmp_path / "loose" / "one.json")) == 1
    assert count_hint("s3://bucket/x") is None


def test_build_folder_with_only_a_status_is_ingested(tmp_path: Path) -> None:
    files = {f"inspection-x/{part}": data for part, data in inspection_files().items()}
    folder = write_tree(tmp_path / "tree", files)
    packed = write_zip(tmp_path / "a.zip", files.items())
    for source in (folder, packed):
        (raw,) = documents(source).values()
        assert "build/status" in raw.files
        assert raw.folder_name == "inspection-x"
        assert count_hint(source) == 1


def test_result_folders_still_being_written_are_skipped(tmp_path: Path) -> None:
    files = dict(inspection_files([job_document(0)]))
    files |= {"results/1.part/result": b"{", "build.part/status": b"{"}
    (raw,) = documents(write_tree(tmp_path, files)).values()
    assert raw.files.keys() == inspection_files([job_document(0)]).keys()


def test_documents_of_a_zip_are_counted_from_its_directory(tmp_path: Path) -> None:
    assert count_hint(write_zip(tmp_path / "a.zip", tree().items())) == 4
    assert count_hint(write_tar(tmp_path / "a.tgz", tree().items())) is None


def test_source_path_may_be_an_inspection_folder(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "inspection-x", directory_files())
    ((place, raw),) = documents(folder).items()
    assert (place, raw.folder_name) == ("", "inspection-x")
    assert set(raw.files) == {"build/specification", "build/log", "results/0/result"}


def test_file_of_200_mb_is_refused_without_reading_it(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as stream:
        stream.truncate(200 * 1024 * 1024)
    assert refusals(str(large), SourceLimits()) == [(Reason.FILE_TOO_LARGE, "")]
    folder = write_tree(tmp_path / "i", {**directory_files(), "results/1/log": b"x" * 100_001})
    assert refusals(folder) == [(Reason.FILE_TOO_LARGE, "")]
    parts = {f"results/{n}/log": b"x" * 60_000 for n in range(2)}
    folder = write_tree(tmp_path / "j", {**directory_files(), **parts})
    assert refusals(folder) == [(Reason.FILE_TOO_LARGE, "")]
    archive = write_zip(tmp_path / "a.zip", [("a.json", os.urandom(100_001)), ("b.json", LOOSE)])
    assert refusals(archive) == [(Reason.FILE_TOO_LARGE, "a.json")]
    assert documents(archive).keys() == {"b.json"}


def test_broken_and_outward_links_are_refused_with_their_reason(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_bytes(LOOSE)
    folder = tmp_path / "folder"
    write_tree(folder, {"inspection-a/" + name: data for name, data in directory_files().items()})
    (folder / "dangling.json").symlink_to("missing")
    (folder / "outside.json").symlink_to(outside)
    (folder / "outside").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    (folder / "circle.json").symlink_to("circle.log")
    (folder / "circle.log").symlink_to("circle.json")
    (folder / "inspection-a" / "results" / "0" / "log").symlink_to(outside)
    os.mkfifo(folder / "pipe.json")
    # None is left out without a word: somebody may miss what it leads to.
    assert refusals(str(folder)) == [
        (Reason.UNREADABLE, name)
        for name in ("circle.json", "dangling.json", "outside.json", "pipe.json")
    ]
    ((place, raw),) = documents(str(folder)).items()
    assert place == "inspection-a"
    assert "results/0/log" not in raw.files
    (folder / "inspection-a" / "build" / "log").unlink()
    (folder / "inspection-a" / "build" / "log").symlink_to("missing")
    assert (Reason.UNREADABLE, "inspection-a") in refusals(str(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_without_permission_to_read_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"closed/a.json": LOOSE, "b.json": LOOSE})
    (tmp_path / "closed").chmod(0)
    try:
        assert refusals(str(tmp_path)) == [(Reason.UNREADABLE, "closed")]
        assert documents(str(tmp_path)).keys() == {"b.json"}
    finally:
        (tmp_path / "closed").chmod(stat.S_IRWXU)


def test_archive_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    zeros = [("a.json", bytes(20 * 1024 * 1024))]
    for source in (write_zip(tmp_path / "a.zip", zeros), write_tar(tmp_path / "a.tar.gz", zeros)):
        assert refusals(source, SourceLimits()) == [(Reason.ARCHIVE_BOMB, "")]
        assert documents(source, SourceLimits()) == {}
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(bytes(20 * 1024 * 1024)))
    assert refusals(str(packed), SourceLimits()) == [(Reason.ARCHIVE_BOMB, "")]
    many = [(f"{number}.json", b"{}") for number in range(11)]
    for source in (
        write_zip(tmp_path / "many.zip", many),
        write_tar(tmp_path / "many.tar", many, "w"),
    ):
        assert refusals(source, SourceLimits(members=10)) == [(Reason.ARCHIVE_BOMB, "")]
        assert refusals(source, SourceLimits(archive_bytes=20)) == [(Reason.ARCHIVE_BOMB, "")]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_stored_and_deflated_members_are_read(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", LOOSE, compress_type=method)
        archive.writestr("b.json", LOOSE)
    whole = path.read_bytes()
    at = whole.index(b"a.json") + len("a.json")
    for damaged in (whole, whole[: at + 9] + bytes(40) + whole[at + 49 :]):
        path.write_bytes(damaged)
        (refusal,) = [it for it in documents_of(str(path)) if isinstance(it, RefusedDocument)]
        assert (refusal.error.reason, refusal.place) == (Reason.ARCHIVE_BROKEN, "a.json")
        assert ("bzip2" if method == zipfile.ZIP_BZIP2 else "lzma") in refusal.error.message
        assert documents(str(path)).keys() == {"b.json"}


def test_refusal_names_the_folder_and_file_of_the_refused_part(tmp_path: Path) -> None:
    files = {f"i-1/{name}": data for name, data in directory_files().items()}
    files["i-1/results/0/result"] = b" " * 100_001
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/bucket/{name}": data for name, data in files.items()})
    folder = write_tree(tmp_path / "tree", files)
    for source in (
        folder,
        write_tar(tmp_path / "a.tar.gz", files.items()),
        write_zip(tmp_path / "a.zip", files.items()),
    ):
        (refusal,) = documents_of(source, SMALL)
        assert isinstance(refusal, RefusedDocument)
        assert (refusal.place, refusal.error.field) == ("i-1", "results/0/result:$"), source
        assert refusal.error.reason == Reason.FILE_TOO_LARGE
    assert refusals("memory://bucket") == [(Reason.FILE_TOO_LARGE, "i-1")]
    memory.rm("/bucket", recursive=True)


def test_too_many_interleaved_inspections_in_an_archive_are_refused(tmp_path: Path) -> None:
    half = b" " * 60_000
    parts = [(f"i-{n}/results/0/{part}", half) for part in ("log", "result") for n in range(9)]
    apart = [(f"j-{n}/results/0/{part}", half) for n in range(9) for part in ("log", "result")]
    limits = SourceLimits(document_bytes=130_000)
    found = list(documents_of(write_zip(tmp_path / "a.zip", [*parts, *apart]), limits))
    bombs = [it for it in found if isinstance(it, RefusedDocument)]
    assert {it.error.reason for it in bombs} == {Reason.ARCHIVE_BOMB}
    assert {it.place for it in found} - {it.place for it in bombs} >= {f"j-{n}" for n in range(9)}


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[Path]:
    """A folder emptied by ``rm``: pytest's own removal, three runs later, recurses and fails."""
    yield tmp_path
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)  # noqa: S607


def test_too_deeply_nested_folders_are_refused_and_others_read(emptied: Path) -> None:
    tmp_path = emptied
    (tmp_path / "a.json").write_bytes(LOOSE)
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(1500):  # longer than a path may be, so step by step
            os.mkdir("d", dir_fd=here)
            here, outer = os.open("d", os.O_RDONLY, dir_fd=here), here
            os.close(outer)
    finally:
        os.close(here)
    place = "/".join("d" * 65)
    assert refusals(str(tmp_path)) == [(Reason.NESTED_TOO_DEEP, place)]
    assert refusals(f"file://{tmp_path}") == [(Reason.NESTED_TOO_DEEP, place)]
    assert documents(str(tmp_path)).keys() == {"a.json"}
    assert count_hint(str(tmp_path)) == 1


def test_too_deeply_nested_object_prefixes_are_refused() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/" + "d/" * 70 + "a.json": LOOSE, "/bucket/b.json": LOOSE})
    assert refusals("memory://bucket") == [(Reason.NESTED_TOO_DEEP, "/".join("d" * 65))]
    assert documents("memory://bucket").keys() == {"b.json"}
    memory.rm("/bucket", recursive=True)


def test_links_below_a_file_url_are_treated_as_below_a_path(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_bytes(LOOSE)
    folder = tmp_path / "folder"
    write_tree(folder, {"ok.json": LOOSE})
    (folder / "outside.json").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    assert documents(f"file://{folder}").keys() == {"ok.json"}
    assert count_hint(f"file://{folder}") == count_hint(str(folder))


WITH_CREDENTIALS = [
    "https://jo:s3cr3t@host.example/a.json",
    "https://s3cr3t@host.example/a.json",
    "https://jo:s3cr3t/x@host.example/a.json",
    "https://jo:s3cr3t?x@host.example/a.json",
    "s3://key:s3cr3t@bucket/prefix",
    "abfs://key:s3cr3t@account.example/prefix",
    "zip://a.json::https://jo:s3cr3t@host.example/a.zip",
    "ftp://jo:s3cr3t@host.example/",
]


@pytest.mark.parametrize("url", WITH_CREDENTIALS)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    (refusal,) = documents_of(url, SourceLimits(allow_http=True))
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.UNREADABLE
    assert "s3cr3t" not in f"{refusal.source} {refusal.error}"
    if url.startswith(("https", "s3", "abfs")):
        assert "environment" in refusal.error.message


def test_query_of_a_source_url_is_used_but_not_stored() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/a.json?signature=s3cr3t": LOOSE})
    (raw,) = documents_of("memory://bucket/a.json?signature=s3cr3t")
    assert isinstance(raw, RawDocument)
    assert (raw.source, raw.place, raw.data) == ("memory://bucket/a.json?…", "", LOOSE)
    memory.rm("/bucket", recursive=True)
    (refusal,) = documents_of("memory://bucket/a.json?signature=s3cr3t")
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.UNREADABLE
    assert "s3cr3t" not in f"{refusal.source} {refusal.error}"
    (again,) = documents_of(raw.source)
    assert isinstance(again, RefusedDocument)
    assert "not stored" in again.error.message


@pytest.mark.parametrize(
    "source",
    ["s3://bucket/a@b/c:d.json", "abfs://container@account.example/p", "/data/a?b.json",
     "https://host.example:8080/a.json", "https://[::1]:80/a.json", "file:///data/a?b@c.json"],
)  # fmt: skip
def test_source_name_without_secrets_is_stored_unchanged(source: str) -> None:
    assert stored_source(source) == source


def test_empty_inspection_file_is_refused_and_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"")
    ((_, raw),) = documents(str(tmp_path)).items()
    (refusal,) = parse_inspections(raw)
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.EMPTY_FILE
    assert refusal.place == "a.json"


JOB_LOGS = encoded(document_with_job_logs())
SUMMARY = b"""================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Offline
Samples per second: 5540.1
"""
DAWN = b'{"version": "v1.0", "codeURL": "https://code.example/models", "latency": 24.9}'


def by_content(
    source: str, limits: SourceLimits = SMALL
) -> tuple[dict[str, RawDocument], dict[str, str], list[str]]:
    """Documents and the reasons of skipped files, by their places, and the reasons of refusals."""
    skipped: list[SkippedFile] = []
    found = list(documents_of(source, limits, skipped.append))
    return (
        {raw.place: raw for raw in found if isinstance(raw, RawDocument)},
        {it.place: it.reason for it in skipped},
        [
            f"{it.error.reason}: {it.error.message}"
            for it in found
            if isinstance(it, RefusedDocument)
        ],
    )


def untidy_tree() -> dict[str, bytes]:
    """Inspections with and without file extension among files of all kinds."""
    return {
        **{f"inspection-a/{part}": data for part, data in directory_files().items()},
        "inspection-a/results/0/trace": b"?",
        "inspection-a/results/0/deeper/trace": b"?",
        "inspection-b/results/0.part/result": encoded(document_2020_02()),
        "inspection-test-e666815e": JOB_LOGS,
        "with-mark": b"\xef\xbb\xbf\n " + JOB_LOGS,
        "loose.json": LOOSE,
        "mlperf_log_summary.txt": SUMMARY,
        "renamed": SUMMARY,
        "dawn.json": DAWN,
        "solver": b'{"metadata": {}, "result": {}}',
        "notes.txt": b"?",
        "nothing": b"",
    }


def test_damaged_or_oversized_inspection_is_refused_and_not_skipped(tmp_path: Path) -> None:
    files = {"cut": JOB_LOGS[:-100], "large": JOB_LOGS + b" " * 100_000}
    documents, skipped, refused = by_content(write_tree(tmp_path, files))
    assert (documents.keys(), skipped) == ({"cut"}, {})
    (refusal,) = parse_inspections(documents["cut"])
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.TRUNCATED_JSON
    assert [it.partition(":")[0] for it in refused] == [Reason.FILE_TOO_LARGE]


@pytest.mark.parametrize(
    "document",
    [
        document_with_job_logs(20),
        dict(sorted(document_with_job_logs(20).items())),
        {"inspection-a": [document_2020_02()] * 20},
    ],
)
def test_inspection_truncated_before_its_jobs_is_refused_and_not_skipped(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    cut = re.split(rb'"(?:job_logs|stdout)"', encoded(document))[0]
    (tmp_path / "insp1").write_bytes(cut)
    (tmp_path / "insp2").write_bytes(JOB_LOGS)
    documents, skipped, refused = by_content(str(tmp_path))
    assert (documents.keys(), skipped, refused) == ({"insp1", "insp2"}, {}, [])
    (refusal,) = parse_inspections(documents["insp1"])
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.TRUNCATED_JSON
    assert refusal.error.message == "the text ends in line 1, before the document does"


@pytest.mark.parametrize("protocol", ["http", "s3"])
def test_missing_protocol_library_is_reported_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    # Another test of this process may have loaded the client: fsspec would hand it out again.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, protocol, raising=False)
    loaded = [name for name in sys.modules if name.partition(".")[0] in ("aiohttp", "s3fs")]
    for module in (*loaded, "aiohttp", "s3fs", "fsspec.implementations.http"):
        monkeypatch.setitem(sys.modules, module, None)
    (refusal,) = documents_of(f"{protocol}://bucket/a.json", SourceLimits(allow_http=True))
    assert isinstance(refusal, RefusedDocument)
    assert f"{protocol}:// needs the extra `server`, which is not" in refusal.error.message


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("gs://bucket/a.json", "gs:// needs the package gcsfs, which is not installed"),
        ("az://container/a.json", "az:// needs the package adlfs, which is not installed"),
    ],
)
def test_missing_object_store_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, message: str
) -> None:
    for module in ("gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, module, None)
    (refusal,) = documents_of(url, SourceLimits())
    assert isinstance(refusal, RefusedDocument)
    assert message in refusal.error.message
    with pytest.raises(InvalidArgument, match=f"{url}: cannot be read: {message}"):
        size_of(url)
    with pytest.raises(InvalidArgument, match=f"cannot be written: {message}"), new_file(url):
        pass
    with pytest.raises(StoreUnavailable, match=message):
        write_object(url, b"")


@pytest.mark.parametrize("source", ["", " ", "nosuch.zip", "/nosuch/folder"])
def test_missing_source_argument_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgument):
        source_argument(source)


def test_source_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_argument(".") == str(tmp_path)
    assert source_argument("s3://bucket/prefix") == "s3://bucket/prefix"


@pytest.mark.parametrize(
    "document",
    [
        document_2019(),
        document_2020_02(),
        {"inspection-a": [document_2020_02()]},
        document_with_job_logs(),
    ],
)
def test_each_inspection_generation_is_recognised(document: dict[str, Any]) -> None:
    data = encoded(document)
    assert parsed_inspection(data)
    cut_off = parsed_inspection(data[:-1])
    assert cut_off is not None, "a document that is cut off is for the parser to refuse"


def test_other_document_readers_take_files_by_name_only(tmp_path: Path) -> None:
    folder = write_tree(tmp_path, {"inspection": JOB_LOGS, "dawn.json": DAWN})
    assert documents(folder).keys() == {"dawn.json"}


def with_link(folder: Path, kind: bytes) -> str:
    """An archive in which a file is a link or a device."""
    info = tarfile.TarInfo("results/0/result")
    info.type, info.linkname = kind, "/etc/passwd"
    with tarfile.open(folder / "a.tar", "w") as archive:
        archive.addfile(info)
    return str(folder / "a.tar")


def zip_with_link(folder: Path) -> str:
    info = zipfile.ZipInfo("a.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return str(folder / "a.zip")


def tar_with_large_header(folder: Path) -> str:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**33
    return write(folder, "a.tar", info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))


def write(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def half(path: str) -> str:
    """The first half of a file instead of all of it."""
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    return path


def nested_archives(folder: Path) -> str:
    inner = Path(write_zip(folder / "inner.zip", [("x.json", LOOSE)]))
    write_tar(folder / "outer.tar", [("inner.zip", inner.read_bytes()), ("y.json", LOOSE)], "w")
    return str(folder)


def in_memory(files: dict[str, bytes]) -> str:
    fsspec.filesystem("memory").pipe({f"/golden/{name}": data for name, data in files.items()})
    return "memory://golden"


def unopenable(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    (folder / "broken").symlink_to(folder / "nowhere")
    (folder / "outside").symlink_to("/etc/hostname")
    return write_tree(folder, {"inspection": JOB_LOGS})


ABOUT_INSPECTIONS: list[dict[str, Any]] = [
    {"columns": ["exit_code", "stdout"]},
    {"exit_code": 0, "printed": "stdout"},
    {"process": {"exit_code": 0, "stdout": ""}},
    {"example": {"job_log": {}}},
    {"message": 'a document has the key "job_logs": and a list'},
    {"runs": [{"name": "exit_code"}, {"name": "stdout"}]},
    {"inspection_id": "inspection-a", "notes": []},
]
OTHERS = {"a.txt": SUMMARY, "b.json": DAWN, "c": SUMMARY, "d": b"?"}
HOSTILE = ["../evil.json", "/etc/evil.json", "a/../../evil.json", "..\\evil.json", "C:/evil.json"]
#: Sources, made in a folder of their own.
SOURCES: dict[str, Callable[[Path], str]] = {
    "an empty folder": str,
    "a folder of other files": lambda it: write_tree(it, {"notes.txt": b"?"}),
    "an archive of other files": lambda it: write_zip(it / "a.zip", [("notes.txt", b"?")]),
    "a missing file": lambda it: str(it / "missing.json"),
    "a prefix that does not exist": lambda _: "memory://nothing/here",
    **{
        f"the URL {url}": lambda _, url=url: url
        for url in (
            "http://host.example/a.json", "ftp://host.example/a", "simplecache::s3://b/a", "x://y",
        )
    },
    "archives in folders and in archives": nested_archives,
    **{
        f"a tar with {name}": lambda it, name=name: write_tar(
            it / "a.tar.gz", [(name, LOOSE), ("ok.json", LOOSE)]
        )
        for name in HOSTILE
    },
    **{
        f"a zip with {name}": lambda it, name=name: write_zip(
            it / "a.zip", [(name, LOOSE), ("ok.json", LOOSE)]
        )
        for name in HOSTILE
    },
    "a tar with a symbolic link": lambda it: with_link(it, tarfile.SYMTYPE),
    "a tar with a hard link": lambda it: with_link(it, tarfile.LNKTYPE),
    "a tar with a device": lambda it: with_link(it, tarfile.CHRTYPE),
    "a tar with a pipe": lambda it: with_link(it, tarfile.FIFOTYPE),
    "a zip with a link": zip_with_link,
    "a tar with a header that claims gigabytes": tar_with_large_header,
    "half a packed tar": lambda it: half(write_tar(it / "a.tar.gz", tree().items())),
    "half a zip": lambda it: half(write_zip(it / "a.zip", tree().items())),
    "a tar that is none": lambda it: write(it, "a.tar", b"not an archive" * 100),
    "a zip without content": lambda it: write(it, "a.zip", b""),
    "a packed file that is cut": lambda it: write(it, "a.json.gz", gzip.compress(LOOSE)[:-20]),
    "a packed file that is none": lambda it: write(it, "a.json.gz", b"not packed"),
    "a tar packed by xz": lambda it: write_tar(it / "a.tar", [("a.json", LOOSE)], "w:xz"),
    "a tar packed by bzip2": lambda it: write_tar(it / "a.tar", [("a.json", LOOSE)], "w:bz2"),
    "files of all kinds": lambda it: write_tree(it, untidy_tree()),
    "files of all kinds in a zip": lambda it: write_zip(it / "a.zip", untidy_tree().items()),
    "files of all kinds in a tar": lambda it: write_tar(it / "a.tgz", untidy_tree().items()),
    "files of all kinds in a store": lambda _: in_memory(untidy_tree()),
    "a result of MLPerf": lambda it: write(it, "summary.txt", SUMMARY),
    "a result of DAWNBench": lambda it: write(it, "entry.json", DAWN),
    "only other files": lambda it: write_tree(it, OTHERS),
    "only other files in a zip": lambda it: write_zip(it / "a.zip", OTHERS.items()),
    "files that mention the keys of inspections": lambda it: write_tree(
        it,
        {"inspection": JOB_LOGS}
        | {f"other {n}": json.dumps(one).encode() for n, one in enumerate(ABOUT_INSPECTIONS)},
    ),
    "files that cannot be opened": unopenable,
}  # fmt: skip


def test_each_source_gives_its_documents_skipped_and_refused_files(tmp_path: Path) -> None:
    views = {}
    for number, (title, made) in enumerate(SOURCES.items()):
        (tmp_path / str(number)).mkdir()
        skipped: list[SkippedFile] = []
        found = [*documents_of(made(tmp_path / str(number)), SMALL, skipped.append)]
        lines = [
            f"document {it.place}" if isinstance(it, RawDocument)
            else f"refused {it.place}: {it.error.reason}: {it.error.message}"
            for it in found
        ]  # fmt: skip
        lines += [f"skipped {it.place}: {it.reason}" for it in skipped]
        views[title] = "\n".join(lines).replace(str(tmp_path), "…")
    fsspec.filesystem("memory").rm("/golden", recursive=True)
    compare_views("sources", views)
