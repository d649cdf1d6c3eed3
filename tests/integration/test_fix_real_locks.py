"""``thoth fix`` on locks of real projects: uv accepts each result, and what is fixed is not open.

The locks are not part of the repository. The advisories are made up: they are about some of the
locked versions and all older ones.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.project_files import read_lock_file
from common.formats.locks.entries import LockSelection
from graph.engine import Stores
from model.packages.environments import environment
from model.packages.identity import public_index_url, version_of
from tests.factories.advisories import HIGH, affected, osv, write_archive
from tests.requirements import needs
from tests.services.commands import ROOT, thoth

#: Folders with a lock each; the variable names another folder of such folders.
FOLDERS = [
    folder
    for place in (ROOT.parent / "shared" / "data" / "locks", os.environ.get("THOTH_REAL_LOCKS"))
    if place is not None
    for folder in sorted(Path(place).glob("*"))
    if folder.is_dir()
]
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "requirements.txt")
#: The host of the index in the copies that are shared.
NEUTRAL = "https://index.example/simple"
PYTHONS = ("3.11", "3.12", "3.10", "3.13", "3.8")
PLATFORM = "manylinux_2_28_x86_64"

pytestmark = [pytest.mark.slow, needs("uv")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda it: it.name)
def test_uv_accepts_the_fix_of_a_real_lock(stores: Stores, folder: Path, tmp_path: Path) -> None:
    name = next((it for it in LOCKS if (folder / it).is_file()), None)
    if name is None:
        pytest.skip("its format is not written here")
    project = tmp_path / "project"
    shutil.copytree(folder, project, ignore=shutil.ignore_patterns("expected.json"))
    for path in project.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(NEUTRAL, public_index_url()), encoding="utf-8")
    python, locked = versions_of(project / name)
    draw = random.Random(folder.name)
    chosen = draw.sample(sorted(locked), min(6, len(locked)))
    archive = write_archive(tmp_path / "all.zip", [
        osv(f"GHSA-{it}", vector=HIGH,
            affected=[affected(it, ("introduced", "0"), ("last_affected", locked[it]))])
        for it in chosen
    ])  # fmt: skip
    where = "--python", python, "--platform", PLATFORM
    options = *where, "--advisories", str(archive), "--time-limit", "300"
    done = thoth(
        stores.settings, "fix", str(project / name), "--json", *options, FETCH_MISSING="1",
        DATABASE_URL="postgresql://127.0.0.1:1/none", UV_PYTHON=sys.executable,
    )  # fmt: skip
    if done.returncode == 3:
        pytest.skip(f"no index answers here: {done.stderr.strip()[:200]}")
    assert done.returncode in {1, 4}, done.stderr
    document = json.loads(done.stdout)
    fix: dict[str, Any] = document["fixes"][0]
    assert fix["proof"]["status"] == "optimal"
    assert len(fix["fixed"]) + len(fix["remaining"]) == len(document["open"]) == len(chosen)
    for it in fix["fixed"]:
        new = version_of(fix["versions"].get(it["package"], "99999"))
        old = version_of(locked[it["package"]])
        assert new is not None
        assert old is not None
        assert new > old, it
    assert all(it["blocked_by"]["proven"] for it in fix["remaining"])
    if accepted_by_uv(locked, python, tmp_path):
        assert accepted_by_uv(fix["versions"], python, tmp_path), fix["changed"]


def versions_of(lock: Path) -> tuple[str, dict[str, str]]:
    """A Python for which a lock was made, and the versions that it installs there."""
    for python in PYTHONS:
        markers = environment(python, PLATFORM).markers
        try:
            packages = read_lock_file(lock, LockSelection(), markers).packages(markers)
        except Exception:  # noqa: S112 - the next Python
            continue
        return python, {name: it.version for name, it in packages.items()}
    pytest.skip("no Python is right for it")


def accepted_by_uv(versions: Mapping[str, str], python: str, folder: Path) -> bool:
    """Whether uv finds these versions compatible."""
    pins = folder / "pins.txt"
    pins.write_text("".join(f"{it}=={at}\n" for it, at in versions.items()), encoding="utf-8")
    command = [
        "uv", "pip", "compile", "--quiet", "--python-version", python, "--python-platform",
        "x86_64-manylinux_2_28", "--no-build-isolation", "--prerelease", "allow", str(pins),
    ]  # fmt: skip
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
