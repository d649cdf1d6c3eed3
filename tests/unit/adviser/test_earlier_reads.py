"""What a resolution read is kept for a while, without secrets, and damage does no harm."""

import os
import time
from pathlib import Path

import pytest

from adviser.answering.index_memory import EarlierReads, PackageReads
from common.index.release_metadata import NO_FILES
from model.packages.import_names import ImportNames, ImportSource
from model.packages.releases import ReleaseMetadata

DAY_S = 86_400.0

READ = ReleaseMetadata(
    requires_dist=("flask>=2 ; extra == 'web'", "lib"),
    requires_python=">=3.8",
    provides_extra=("web",),
    license="MIT",
    metadata_source="wheel-range",
    metadata_file="app-1.0-py3-none-any.whl",
    imports=ImportNames(("app", "app.cli"), ImportSource.DIRECTORY),
)
READS = {
    "app": PackageReads("pypi", "ab" * 32, {"1.0": READ, "1.1": NO_FILES}),
    "lib": PackageReads("pypi", "cd" * 32, {}),
}


def kept(root: Path) -> Path:
    (path,) = (root / "requests").iterdir()
    return path


def test_equal_request_reuses_the_reads_of_an_earlier_run(tmp_path: Path) -> None:
    EarlierReads(tmp_path, "app").keep(READS)
    assert EarlierReads(tmp_path, "app").load() == READS
    assert EarlierReads(tmp_path, "app,lib").load() == {}
    assert kept(tmp_path).stat().st_mode & 0o077 == 0


def test_secrets_in_requirements_are_not_stored_with_earlier_reads(tmp_path: Path) -> None:
    line = "lib @ https://me:word@host.example/lib.whl?sig=f00"
    reads = {"app": PackageReads("pypi", "ab", {"1.0": ReleaseMetadata(requires_dist=(line,))})}
    EarlierReads(tmp_path, "app").keep(reads)
    (package,) = EarlierReads(tmp_path, "app").load().values()
    assert package.metadata["1.0"].requires_dist == ("lib @ https://host.example/lib.whl",)


def test_earlier_reads_are_rewritten_only_after_new_reads(tmp_path: Path) -> None:
    EarlierReads(tmp_path, "app").keep(READS)
    os.utime(kept(tmp_path), (0, 0))
    again = EarlierReads(tmp_path, "app")
    again.keep(again.load())
    assert kept(tmp_path).stat().st_mtime == 0
    again.keep({**READS, "lib": PackageReads("pypi", "ef" * 32, {})})
    assert kept(tmp_path).stat().st_mtime > 0
    assert EarlierReads(tmp_path, "app").load()["lib"].page == "ef" * 32


@pytest.mark.parametrize("damage", [b"", b"thoth-index-1\n", None])
def test_damaged_file_of_earlier_reads_is_ignored(tmp_path: Path, damage: bytes | None) -> None:
    EarlierReads(tmp_path, "app").keep(READS)
    path = kept(tmp_path)
    path.write_bytes(path.read_bytes()[:-3] if damage is None else damage)
    assert EarlierReads(tmp_path, "app").load() == {}


def test_earlier_reads_expire_after_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.time()
    EarlierReads(tmp_path, "app").keep(READS)
    EarlierReads(tmp_path, "old").keep(READS)
    monkeypatch.setattr(time, "time", lambda: began + 6 * DAY_S)
    later = EarlierReads(tmp_path, "app")
    assert later.load() == READS
    # Further reads do not make the others younger.
    later.keep({**READS, "more": PackageReads("pypi", "ef", {"1.0": READ})})
    monkeypatch.setattr(time, "time", lambda: began + 8 * DAY_S)
    assert EarlierReads(tmp_path, "app").load() == {}


def test_unused_files_of_earlier_reads_are_removed(tmp_path: Path) -> None:
    EarlierReads(tmp_path, "old").keep(READS)
    os.utime(kept(tmp_path), (0, 0))
    EarlierReads(tmp_path, "app").keep(READS)
    assert kept(tmp_path) == EarlierReads(tmp_path, "app")._path


def test_unwritable_folder_of_earlier_reads_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "requests").write_text("no folder", encoding="utf-8")
    EarlierReads(tmp_path, "app").keep(READS)
    assert EarlierReads(tmp_path, "app").load() == {}
