"""Inspections in an object store, over the real S3 protocol."""

from collections.abc import Iterator

import pytest
import s3fs

from ingest.inspections.parsing import parse_inspections
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SourceLimits
from model.errors import Reason
from model.measurements.inspection import InspectionDocument
from tests.factories.archives import tar_of
from tests.factories.documents import directory_files, document_2020_02, encoded
from tests.services.object_store import object_store


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3fs.S3FileSystem]:
    """An empty bucket ``knowledge``."""
    with object_store(monkeypatch) as system:
        yield system


def archive() -> bytes:
    return tar_of({f"inspection-packed/{it}": data for it, data in directory_files().items()})


def test_object_store_prefix_is_read_like_a_folder(bucket: s3fs.S3FileSystem) -> None:
    for name in ("inspection-a", "deep/inspection-b"):
        for part, data in directory_files().items():
            bucket.pipe_file(f"knowledge/prod/{name}/{part}", data)
    bucket.pipe_file("knowledge/prod/loose.json", encoded(document_2020_02()))
    bucket.pipe_file("knowledge/prod/large.json", b" " * 200_001)
    bucket.pipe_file("knowledge/prod/packed.tar.gz", archive())
    bucket.pipe_file("knowledge/prod/notes.txt", b"?")
    bucket.pipe_file("knowledge/other/loose.json", b"{}")
    found = list(documents_of("s3://knowledge/prod", SourceLimits(document_bytes=200_000)))
    assert [it.place for it in found] == [
        "deep/inspection-b",
        "inspection-a",
        "large.json",
        "loose.json",
        "packed.tar.gz/inspection-packed",
    ]
    (refusal,) = [it for it in found if isinstance(it, RefusedDocument)]
    assert (refusal.place, refusal.error.reason) == ("large.json", Reason.FILE_TOO_LARGE)
    documents = [
        document
        for it in found
        if isinstance(it, RawDocument)
        for document in parse_inspections(it)
    ]
    assert all(isinstance(document, InspectionDocument) for document in documents)
    # The two folders and the archive hold the same content.
    assert len({it.document_id for it in documents if isinstance(it, InspectionDocument)}) == 2


def test_single_object_can_be_a_source(bucket: s3fs.S3FileSystem) -> None:
    bucket.pipe_file("knowledge/loose.json", encoded(document_2020_02()))
    (found,) = documents_of("s3://knowledge/loose.json")
    assert isinstance(found, RawDocument)
    assert found.place == ""


def test_object_with_the_name_of_a_folder_is_read_beside_it(bucket: s3fs.S3FileSystem) -> None:
    for name in ("a.json", "a.json/b.json"):
        bucket.pipe_file(f"knowledge/prod/{name}", encoded(document_2020_02()))
    found = documents_of("s3://knowledge/prod")
    assert sorted(it.place for it in found) == ["a.json", "a.json/b.json"]


def test_missing_and_empty_object_store_buckets_are_reported(bucket: s3fs.S3FileSystem) -> None:
    (missing,) = documents_of("s3://no-such-bucket/prod")
    assert isinstance(missing, RefusedDocument)
    assert missing.error.reason == Reason.UNREADABLE
    (nothing,) = documents_of("s3://knowledge")
    assert isinstance(nothing, RefusedDocument)
    assert nothing.error.reason == Reason.EMPTY_FOLDER
