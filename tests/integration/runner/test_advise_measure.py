"""``thoth advise --measure`` with a project's own benchmark, on real environments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.engine import Stores
from tests.services.commands import thoth
from tests.services.index import Index, package_index

pytestmark = pytest.mark.slow

PAUSES = {"1.0": 0.02, "2.0": 0.2}
BENCHMARKS = '[tool.thoth.benchmarks]\nserve = "python bench.py"\n'
PROJECT = '[project]\nname = "demo"\nversion = "1"\ndependencies = ["pause"]\n'


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index() as index:
        index.protected, index.json = False, True
        for version, seconds in PAUSES.items():
            index.add_wheel("pause", version, f"import time\ndef now(): time.sleep({seconds})\n")
        yield index


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT + BENCHMARKS)
    (folder / "bench.py").write_text("import pause\npause.now()\n")
    return folder


def advise(stores: Stores, index: Index, project: Path, *more: str) -> Any:
    return thoth(
        stores.settings, "advise", str(project), "--index", "own", "--share-machine", *more,
        PACKAGE_INDEXES=f"own={index.url}",
    )  # fmt: skip


def test_the_own_benchmark_is_measured_and_decides(
    stores: Stores, index: Index, project: Path
) -> None:
    measured = ("--measure", "40s", "--json")
    refused = advise(stores, index, project, *measured)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert not (stores.settings.home / "measure").exists()
    done = advise(stores, index, project, *measured, "--yes")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["result"]
    (product,) = report["report"]["products"]
    assert product["project"]["requirements_locked"]["default"]["pause"]["version"] == "==1.0"
    assert report["parameters"]["benchmarks"] == {"serve": "python bench.py"}
    # Confirmed once; the same advice rests on what is known now.
    again = advise(stores, index, project)
    assert again.returncode == 0, again.stderr
    assert "serve is your project's own benchmark" in again.stdout
    assert "as fast as 2.0 in `python bench.py`" in again.stdout


def test_a_command_that_fails_on_the_reference_ends_with_its_error(
    stores: Stores, index: Index, project: Path
) -> None:
    (project / "bench.py").write_text("raise SystemExit('no database')\n")
    done = advise(stores, index, project, "--measure", "30s", "--yes")
    assert done.returncode == 1, done.stderr
    assert "no database" in done.stderr
