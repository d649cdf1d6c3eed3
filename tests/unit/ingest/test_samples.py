"""The bundled samples are what their generator writes, and all of them can be taken in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from common.inspection import InspectionDocument, Outcome, SchemaVersion
from common.reasons import Correction
from ingest.documents import RawDocument
from ingest.parsers.inspection import parse_inspections
from ingest.sources import documents_of
from samples import generate


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def documents() -> list[InspectionDocument]:
    found = []
    for raw in documents_of(str(generate.FOLDER)):
        assert isinstance(raw, RawDocument), raw
        for document in parse_inspections(raw):
            assert isinstance(document, InspectionDocument), document
            found.append(document)
    return found


def test_the_samples_are_those_the_generator_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = contents(generate.FOLDER)
    assert sum(map(len, committed.values())) < 600_000
    monkeypatch.setattr(generate, "FOLDER", tmp_path / "inspections")
    generate.main()
    assert contents(tmp_path / "inspections") == committed


def test_every_generation_and_outcome_occurs() -> None:
    found = documents()
    assert {document.schema_version for document in found} == set(SchemaVersion)
    seen = [observation for document in found for observation in document.observations]
    assert Counter(it.outcome for it in seen)[Outcome.CRASHED] == 2
    assert [it.correction for it in seen if it.correction] == [
        Correction.TENSORFLOW_MATMUL_MINI_BATCH
    ]
    assert [it.name for it in found if it.stack is None] == [
        "inspection-conv2d-unknown-xeon-3325a194"
    ]
    assert not [it.unstable_reason for it in seen if it.unstable_reason]
