"""A real dependency closure and real solvers' results, against what is published about them."""

import gzip
import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from graph.engine import Stores
from graph.tables import PackageRow, PackageVersionRow, ReleaseFileRow, RequirementRow
from ingest.releases.pipeline import (
    ReleaseReport,
    ReleaseSourceOptions,
    import_releases,
    read_releases,
)
from model.packages.releases import Release

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[2].parent / "shared" / "data"
)
CLOSURE = DATA / "pypi-closure" / "pypi-closure.jsonl.gz"
SOLVER = DATA / "thoth" / "solver"
pytestmark = pytest.mark.skipif(
    not (CLOSURE.is_file() and SOLVER.is_dir()),
    reason="no real releases here; THOTH_REAL_DATA names a folder that has them",
)


def parsed(source: Path) -> list[Release]:
    return [
        delivery.release
        for batch in read_releases(str(source), ReleaseSourceOptions())
        for delivery in batch.deliveries
    ]


def rows() -> list[dict[str, Any]]:
    with gzip.open(CLOSURE, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_imported_releases_have_the_documented_counts(stores: Stores) -> None:
    report = import_releases(stores.settings, stores.engine, [str(CLOSURE)], ReleaseSourceOptions())
    assert (report.read, report.new, report.quarantined) == (2_081, 2_081, 0)
    assert report.states == {"solved": 2_014, "unsolvable": 67}
    assert report.problems == {"not_recorded": 67}
    with stores.engine.connect() as connection:

        def count(query: Any) -> int:
            return connection.execute(query).scalar_one()  # type: ignore[no-any-return]

        version = PackageVersionRow
        assert count(select(func.count(version.purl))) == 2_081
        assert count(select(func.count(version.name.distinct()))) == 137
        assert count(select(func.count(version.purl)).where(version.yanked)) == 41
        assert count(select(func.count(RequirementRow.purl))) == 21_368
        unread = RequirementRow.name.is_(None)
        assert count(select(func.count(RequirementRow.purl)).where(unread)) == 0
        files = {(row["name"], file["filename"]) for row in rows() for file in row["files"]}
        assert count(select(func.count(ReleaseFileRow.purl))) == len(files)
        newest = connection.execute(select(func.max(version.uploaded_at))).scalar_one()
        assert newest is not None
        assert str(newest).startswith("2026-11-18")
        # Packages that are only required are there too, and have nothing to say.
        assert (
            count(select(func.count(PackageRow.name)).where(PackageRow.revision.is_not(None)))
            == 137
        )


def test_imported_releases_keep_every_field_of_their_rows() -> None:
    for row, found in zip(rows(), parsed(CLOSURE), strict=True):
        body = json.loads(found.body)
        assert body["requires_dist"] == row["requires_dist"]
        assert body.get("requires_python") == row["requires_python"]
        assert body["yanked"] == row["yanked"]
        assert sorted(file["sha256"] for file in body["files"]) == sorted(
            file["sha256"] for file in row["files"]
        )
        assert datetime.fromisoformat(body["upload_time"]) == found.uploaded_at
        assert found.uploaded_at == datetime.fromisoformat(row["upload_time"])
        assert body["name"] == row["name"]


def test_real_solver_results_are_imported(stores: Stores) -> None:
    report: ReleaseReport = import_releases(
        stores.settings, stores.engine, [str(SOLVER)], ReleaseSourceOptions()
    )
    assert report.new == report.read - report.quarantined == 1_017
    assert report.reasons == {"unresolved": 18, "invalid_requirement": 1}
    assert report.states == {"solved": 481, "unsolvable": 532, "unparsable": 4}
    releases = parsed(SOLVER)
    assert Counter(it.index for it in releases) == {"pypi": 855, "index-example": 162}
    flask = next(it for it in releases if (it.name, it.version) == ("flask", "1.0.2"))
    assert sorted(asked.raw for asked in flask.requirements) == [
        "Jinja2>=2.10",
        "Werkzeug>=0.14",
        "click>=5.1",
        "itsdangerous>=0.24",
    ]
    again = import_releases(stores.settings, stores.engine, [str(SOLVER)], ReleaseSourceOptions())
    assert (again.new, again.changed) == (0, 0)
