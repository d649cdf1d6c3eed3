"""Advisories of an archive without a store: none is lost without a word."""

import json
from pathlib import Path

import pytest

from ingest.advisories.sources import AdvisoryArchive
from model.errors import InvalidArgument
from tests.factories.advisories import affected, osv
from tests.factories.archives import zip_of


def test_unreadable_advisories_in_an_archive_are_named_and_others_read(tmp_path: Path) -> None:
    commits = {"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}
    documents = {
        "good.json": json.dumps(osv("X-1", commits, affected(versions=["1.0"]))),
        "half.json": json.dumps(osv("X-2"))[:-10],
        "list.json": "[]",
        "dateless.json": json.dumps({**osv("X-3"), "modified": None}),
        "elsewhere.json": json.dumps(osv("X-4", affected("left-pad", ecosystem="npm"))),
    }
    (tmp_path / "all.zip").write_bytes(zip_of(documents))

    advisories = AdvisoryArchive(str(tmp_path / "all.zip"))

    assert [it.vulnerability_id for it, _ in advisories.about("flask")] == ["X-1"]
    assert sorted(advisories.refused) == ["dateless.json", "half.json", "list.json"]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("half.zip", zip_of({"a.json": json.dumps(osv("X-1"))})[:60], "archive_broken"),
        ("empty.zip", b"", "archive_broken"),
        ("half.json", b"{", "truncated_json"),
        ("other.json", b"{}", "no advisory about a package"),
    ],
    ids=["half.zip", "empty.zip", "half.json", "other.json"],
)
def test_broken_archive_of_advisories_is_said_to_be_broken(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidArgument, match=why):
        AdvisoryArchive(str(tmp_path / name))
