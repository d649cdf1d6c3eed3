"""What ``thoth clean`` removes, and what it leaves."""

import fcntl
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from filelock import FileLock

from cli.stores import clean
from common.settings import Settings
from tests.services.commands import run_here

DAY_S = 86_400


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home with an old and a new environment, measurements, and a cache beside other files."""
    for name, days in (("old", 40), ("new", 2)):
        folder = tmp_path / "environments" / name
        folder.mkdir(parents=True)
        (folder / "environment.json").write_text("{}")
        (folder / "wheel").write_bytes(bytes(2_000_000))
        (tmp_path / "environments" / f"{name}.lock").touch()
        used = time.time() - days * DAY_S
        os.utime(folder / "environment.json", (used, used))
    for name in ("inspections", "cache/indexes", "cache/other"):
        (tmp_path / name).mkdir(parents=True)
    return Settings.from_env({"THOTH_HOME": str(tmp_path), "INDEX_CACHE": str(tmp_path / "cache")})


def remaining(settings: Settings) -> set[str]:
    return {str(it.relative_to(settings.home)) for it in settings.home.glob("*/*")}


def test_clean_dry_run_shows_the_bytes_and_removes_nothing(settings: Settings) -> None:
    before = remaining(settings)
    shown = run_here(clean, settings, "--dry-run", "--cache")
    assert " 2 MB  " in shown.stdout
    assert "2 folders would be removed, 2 MB" in shown.stdout
    document = json.loads(run_here(clean, settings, "--dry-run", "--days", "1", "--json").stdout)
    assert (len(document["folders"]), document["bytes"]) == (2, 4_000_004)
    assert remaining(settings) == before


def test_clean_leaves_environments_that_an_inspection_uses_or_builds(settings: Settings) -> None:
    folder = settings.home / "environments"
    shutil.copytree(folder / "new", folder / "new.7.part")
    before = remaining(settings)
    with FileLock(folder / "old.lock"), (folder / "new" / "environment.json").open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        cleaned = run_here(clean, settings, "--days", "0", "--json")
    assert json.loads(cleaned.stdout)["folders"] == {}
    assert remaining(settings) == before


def test_clean_removes_only_old_folders_that_can_be_recreated(settings: Settings) -> None:
    assert run_here(clean, settings).exit_code == 0
    kept = {"environments/new", "environments/new.lock", "cache/indexes", "cache/other"}
    assert remaining(settings) == kept
    assert run_here(clean, settings, "--cache", "--days", "0").exit_code == 0
    assert remaining(settings) == {"cache/other"}
    assert (settings.home / "inspections").is_dir()
