"""``thoth advise --measure`` with a project's own benchmark, on real environments."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from graph.engine import Stores
from graph.tables import InspectionRow
from tests.services.commands import THOTH, thoth, variables
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


def states_of(stores: Stores, project: Path) -> list[Path]:
    places = (stores.settings.home / "measure").glob("*/measure.json")
    return [it for it in places if str(project) in it.read_text()]


def test_project_benchmark_is_measured_and_decides_the_advice(
    stores: Stores, index: Index, project: Path
) -> None:
    measured = ("--measure", "40s", "--json")
    refused = advise(stores, index, project, *measured)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert states_of(stores, project) == []
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


def interrupted(
    stores: Stores, index: Index, project: Path, number: signal.Signals
) -> tuple[int, str, Path]:
    """Exit code, messages and state of a measurement that got a signal at its second job."""
    environment = os.environ | variables(stores.settings, PACKAGE_INDEXES=f"own={index.url}")
    command = [
        THOTH, "advise", str(project), "--index", "own", "--share-machine", "--yes",
        "--measure", "10m",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "job 2: measured" in line:
                running.send_signal(number)
                break
        messages = running.stderr.read()
    (state,) = states_of(stores, project)
    return running.returncode, messages, state


def test_interrupted_measurement_of_advice_continues_in_the_remaining_time(
    stores: Stores, index: Index, project: Path
) -> None:
    code, messages, state = interrupted(stores, index, project, signal.SIGINT)
    assert code == 130
    assert "run the same command again to continue" in messages
    kept = json.loads(state.read_text())
    assert 0 < kept["left_s"] < 600
    assert kept["plan"]["stacks"]
    # The rest of the budget is cut short, so that the test ends.
    state.write_text(json.dumps(kept | {"left_s": 25.0}))
    done = advise(stores, index, project, "--measure", "10m")
    assert done.returncode == 0, done.stderr
    assert "continues, 25 seconds of 10 minutes left" in done.stderr
    assert "left_s" not in json.loads(state.read_text())


def test_jobs_of_a_killed_measurement_count_in_a_later_run(
    stores: Stores, index: Index, project: Path
) -> None:
    code, _, state = interrupted(stores, index, project, signal.SIGKILL)
    assert code == -signal.SIGKILL
    kept = json.loads(state.read_text())
    assert kept["left_s"] > 0
    done = advise(stores, index, project, "--measure", "1s")
    assert done.returncode == 0, done.stderr
    assert "continues" not in done.stderr
    with stores.engine.connect() as connection:
        known = set(connection.scalars(select(InspectionRow.name)))
    measured = {it.name for it in map(Path, kept["folders"]) if any(it.glob("results/*"))}
    assert measured
    assert measured <= known
    # No advice follows if the record refuses what was measured.
    state.write_text(json.dumps(kept))
    for folder in map(Path, kept["folders"]):
        (folder / "build" / "specification").write_text("{")
    done = advise(stores, index, project, "--measure", "1s")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "the measurements are in quarantine" in done.stderr


def test_benchmark_that_fails_on_the_reference_stops_the_measurement(
    stores: Stores, index: Index, project: Path
) -> None:
    (project / "bench.py").write_text(
        "import os\nif not os.path.exists('ready'): raise SystemExit('no database')\n"
    )
    done = advise(stores, index, project, "--measure", "8s", "--yes")
    assert done.returncode == 1, done.stderr
    assert "no database" in done.stderr
    (project / "ready").touch()
    done = advise(stores, index, project, "--measure", "8s")
    assert done.returncode == 0, done.stderr


def test_failing_reference_during_a_measurement_prevents_advice(
    stores: Stores, index: Index, project: Path
) -> None:
    # The first run says how long a job takes.
    (project / "bench.py").write_text(
        "import pause, pathlib\nruns = pathlib.Path('runs')\nruns.open('a').write('x')\n"
        "pause.now()\nassert runs.stat().st_size <= 1\n"
    )
    done = advise(stores, index, project, "--measure", "30s", "--yes")
    assert done.returncode == 1, done.stderr
    assert "not measured: the reference: serve fails on it" in done.stderr
    assert done.stdout == ""
