"""JSON lines as a source: streamed, numbered, and refused line by line."""

import gzip
import tracemalloc
import zipfile
from pathlib import Path

import fsspec

from ingest.sources.reader import count_hint, documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SourceLimits
from model.errors import Reason

LINES = b'{"a": 1}\n\n{"b": 2}\r\n{"c": 3}'
READ = SourceLimits(lines=True)


def places(source: object, limits: SourceLimits = READ) -> dict[str, bytes | None]:
    found = documents_of(str(source), limits)
    return {it.place: it.data for it in found if isinstance(it, RawDocument)}


def refusals(source: object, limits: SourceLimits = READ) -> list[tuple[str, str]]:
    found = documents_of(str(source), limits)
    return [(it.error.reason, it.place) for it in found if isinstance(it, RefusedDocument)]


def write(path: Path, data: bytes = LINES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


NUMBERED = {"line 1": b'{"a": 1}', "line 3": b'{"b": 2}', "line 4": b'{"c": 3}'}


def test_every_json_line_is_a_document_with_its_line_number(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.gz", "a.NDJSON", "a.ndjson.gz"):
        assert places(write(tmp_path / name)) == NUMBERED
    assert count_hint(str(tmp_path / "a.jsonl")) is None
    # Lines are read only on request.
    assert refusals(tmp_path, SourceLimits()) == [(Reason.EMPTY_FOLDER, "")]


def test_json_lines_are_read_from_folders_archives_and_object_stores(tmp_path: Path) -> None:
    write(tmp_path / "tree" / "sub" / "a.jsonl.gz")
    inside = {f"sub/a.jsonl.gz {place}": data for place, data in NUMBERED.items()}
    assert places(tmp_path / "tree") == inside
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "tree" / "sub" / "a.jsonl.gz", "sub/a.jsonl.gz")
    assert places(tmp_path / "a.zip") == inside
    memory = fsspec.filesystem("memory")
    memory.pipe({"/lines/sub/a.jsonl.gz": gzip.compress(LINES), "/lines/b.jsonl": LINES})
    assert places("memory://lines/b.jsonl") == NUMBERED
    assert places("memory://lines/sub") == {
        place.removeprefix("sub/"): data for place, data in inside.items()
    }
    memory.rm("/lines", recursive=True)


def test_only_the_json_line_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", b'{"a": "' + b"x" * 500_000 + b'"}\n{"b": 2}\n')
    limits = SourceLimits(document_bytes=1_000, lines=True)
    assert refusals(source, limits) == [(Reason.FILE_TOO_LARGE, "line 1")]
    assert places(source, limits) == {"line 2": b'{"b": 2}'}


def test_truncated_json_lines_file_is_read_up_to_its_end(tmp_path: Path) -> None:
    lines = b"".join(b'{"a": "%064x"}\n' % (number * 7**80) for number in range(4_000))
    whole = gzip.compress(lines)
    source = tmp_path / "a.jsonl.gz"
    source.write_bytes(whole[: len(whole) // 2])
    assert 0 < len(places(source)) < 4_000
    assert refusals(source) == [(Reason.ARCHIVE_BROKEN, "")]
    source.write_bytes(b"no gzip at all")
    assert refusals(source) == [(Reason.ARCHIVE_BROKEN, "")]


def test_empty_or_missing_json_lines_file_is_refused(tmp_path: Path) -> None:
    assert refusals(write(tmp_path / "a.jsonl", b"")) == [(Reason.EMPTY_FILE, "")]
    assert refusals(write(tmp_path / "a.jsonl.gz", b"")) == [(Reason.EMPTY_FILE, "")]
    assert refusals(tmp_path / "missing.jsonl") == [(Reason.UNREADABLE, "")]


def test_decompression_bomb_of_json_lines_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl.gz", (b" " * 999 + b"\n") * 40_000)
    assert refusals(source) == [(Reason.ARCHIVE_BOMB, "")]
    limits = SourceLimits(lines=True, archive_bytes=10_000)
    source = write(tmp_path / "b.jsonl", LINES * 1_000)
    assert refusals(source, limits) == [(Reason.ARCHIVE_BOMB, "")]


def test_json_lines_are_read_with_bounded_memory(tmp_path: Path) -> None:
    line = b'{"a": "%s"}\n' % (b"x" * 1_000)
    source = str(write(tmp_path / "a.jsonl.gz", line * 50_000))
    limits = SourceLimits(lines=True, ratio=1e9)
    tracemalloc.start()
    count = sum(1 for _ in documents_of(source, limits))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 50_000
    assert peak < 4 * 2**20
