"""The documents that tests share, and the samples, come in whole."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ingest.inspections.parsing import parse_inspections
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument
from model.errors import Correction
from model.measurements.inspection import InspectionDocument, Outcome, SchemaVersion
from tests.factories.documents import GENERATIONS, SAMPLES
from tests.services.commands import ROOT


def documents(source: Path) -> list[InspectionDocument]:
    found = []
    for raw in documents_of(str(source), on_skipped=lambda skipped: pytest.fail(repr(skipped))):
        assert isinstance(raw, RawDocument), raw
        for document in parse_inspections(raw):
            assert isinstance(document, InspectionDocument), document
            found.append(document)
    return found


def test_every_generation_and_outcome_occurs() -> None:
    found = documents(GENERATIONS)
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


def test_the_samples_were_measured_by_our_own_indicators_in_turns() -> None:
    found = documents(SAMPLES)
    seen = [observation for document in found for observation in document.observations]
    outcomes = Counter(observation.outcome for observation in seen)
    assert len(found) == 22
    assert outcomes == {Outcome.MEASURED: 200, Outcome.CRASHED: 2, Outcome.BUILD_FAILED: 1}
    measured = [it for it in seen if it.outcome is Outcome.MEASURED]
    assert {it.indicator.name for it in measured} == {"PiMatmul", "PiConv2D"}
    assert {it.indicator.component for it in measured} == {"numpy", "torch", "tensorflow"}
    assert all(it.host and it.block and len(it.repetitions_s) >= 9 for it in measured)
    assert SAMPLES.stat().st_size < 500_000


def test_the_cookbooks_stacks_are_among_the_samples() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    asked = set(re.findall(r"sha256:[0-9a-f]{64}", text))
    assert asked
    assert asked <= {document.stack.digest for document in documents(SAMPLES) if document.stack}
