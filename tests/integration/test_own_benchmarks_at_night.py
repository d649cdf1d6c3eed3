"""A night measures a watched project's own benchmarks, if they were confirmed on this machine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from adviser.advice_request import StackRequest
from adviser.projects.parsing import parse_project
from adviser.resolver.worker import ResolverWorker
from adviser.scoring.criteria import RecommendationType
from common.settings import Settings
from graph.engine import Stores
from graph.record.loop import BatchState, LoopBatch, add_batch, batches_in, batches_of_night
from graph.record.watches import WatchSource, add_watch, watches
from graph.tables import WatchRow
from loop.measuring import measure_batches
from loop.night import run_night
from loop.watched_projects import confirm_commands, project_watch
from model.packages.environments import host_environment
from tests.services.index import Index, package_index

COMMAND = "python bench.py"
MANIFEST = f'[project]\nname = "demo"\nversion = "1"\ndependencies = ["app"]\n' \
           f'[tool.thoth.benchmarks]\nserve = "{COMMAND}"\n'  # fmt: skip


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index(protected=False, json=True) as served:
        served.add_wheel("app", "1.0", "def run(): pass\n")
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(MANIFEST)
    (folder / "requirements.txt").write_text("app==1.0\n")
    (folder / "bench.py").write_text("import app\napp.run()\n")
    return folder


@pytest.fixture
def watched(stores: Stores, index: Index, project: Path) -> Stores:
    settings = replace(
        stores.settings, package_indexes=(("pypi", index.url),), loop_busy_share=1.0,
        loop_blocks=5, loop_wait_s=600.0,
    )  # fmt: skip
    files = {it.name: it.read_bytes() for it in project.iterdir()}
    request = StackRequest(parse_project(files, None), host_environment(), RecommendationType.BEST)
    with stores.engine.begin() as connection:
        add_watch(connection, project_watch(str(project), request))
    return replace(stores, settings=settings)


def night(settings: Settings) -> int:
    with ResolverWorker() as worker:
        report = run_night(settings, worker.resolve)
    assert report.problem is None
    return report.night


@pytest.mark.parametrize("confirmed", [True, False])
def test_loop_measures_only_confirmed_benchmarks(
    confirmed: bool, watched: Stores, index: Index, project: Path
) -> None:
    if confirmed:
        confirm_commands(watched.settings, project, {"serve": COMMAND})
    night(watched.settings)
    index.add_wheel("app", "2.0", "import time\ndef run(): time.sleep(0.2)\n")
    number = night(watched.settings)
    with watched.engine.connect() as connection:
        batches = batches_of_night(connection, number)
    own = [it for it in batches if it.indicator == "benchmark serve"]
    assert [it.state for it in own] == [BatchState.INGESTED] * confirmed
    if confirmed:
        labels = [it["label"] for it in own[0].stacks]
        assert labels[:3] == ["reference", "reference again", "app==2.0"]
        # The stacks lock the public index, which has no such wheels: no environment can be built.
        measured = (own[0].report or {})["stacks"]
        assert all(it["inspection_id"].startswith("inspection-command-") for it in measured)


@pytest.mark.parametrize("case", ["changed", "another watcher"])
def test_planned_benchmark_waits_for_confirmation(
    case: str, watched: Stores, project: Path
) -> None:
    night(watched.settings)
    confirm_commands(watched.settings, project, {"serve": COMMAND})
    if case == "changed":
        (project / "pyproject.toml").write_text(MANIFEST.replace("bench.py", "other.py"))
    else:
        with watched.engine.begin() as connection:
            connection.execute(update(WatchRow).values(source=WatchSource.SERVICE.value))
    batch = planned(watched)
    measure_batches(watched, lambda done, jobs: None)
    with watched.engine.connect() as connection:
        (left,) = batches_in(connection, [BatchState.PLANNED])
    assert (left.batch_id, left.measured_jobs) == (batch.batch_id, 0)
    assert "nobody confirmed" in (left.reason or "")


def planned(stores: Stores) -> LoopBatch:
    """A batch as an earlier night stored it, with a script that must never run."""
    script = "raise SystemExit('ran')"
    stack = {
        "label": "reference",
        "releases": [],
        "specification": {"script": script, "python": {}},
    }
    with stores.engine.begin() as connection:
        (watch,) = watches(connection)
        add_batch(connection, 1, watch.watch_id, "benchmark serve", [stack, stack], 5)
        (batch,) = batches_in(connection, [BatchState.PLANNED])
    return batch
