"""The description of an export is valid Croissant, and leads to its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from adviser.exports.croissant import CROISSANT_FILE
from adviser.exports.tables import TABLES
from common.settings import Settings
from tests.requirements import needs
from tests.services.commands import thoth_json


@pytest.mark.slow
@needs("notebooks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inside mlcroissant's own libraries
def test_the_description_is_valid_and_leads_to_the_rows(filled: Settings, tmp_path: Path) -> None:
    from mlcroissant import Dataset

    report = thoth_json(filled, "export", "parquet", str(tmp_path / "export"))
    dataset = Dataset(jsonld=tmp_path / "export" / CROISSANT_FILE)
    assert not dataset.metadata.ctx.issues.errors
    for written in report["tables"]:
        name = written["name"]
        records = list(dataset.records(name))
        assert len(records) == written["rows"]
        if records:
            columns = {f"{name}/{column.name}" for column in TABLES[name].columns}
            assert records[0].keys() == columns
