"""A few of the interruptions that ``make bench`` makes in numbers."""

from pathlib import Path

import pytest

from benchmarks.documents import write_documents
from benchmarks.interruptions import interrupt

pytestmark = pytest.mark.faults

#: One during the ingest, one during the projection.
POINTS = 2


@pytest.mark.slow
def test_killed_and_resumed_ingest_equals_an_uninterrupted_ingest(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    write_documents(documents, 300, seed=3)
    assert interrupt(documents, POINTS, seed=5)["equal"] == POINTS
