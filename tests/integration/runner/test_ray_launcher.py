"""Inspections on a real Ray cluster of two nodes, each with a processor, on this machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from common.settings import Settings
from graph.engine import Stores
from graph.record.loop import BatchState, add_batch, batches_in, open_night
from graph.record.watches import NewWatch, WatchKind, add_watch
from loop.measuring import measure_batches
from pis.amun.inspect import InspectOptions, inspect
from pis.amun.launchers import BuildFailed, Inspection, Job, Script
from pis.amun.launchers.ray import NodeLost, RayLauncher, RayUnavailable
from pis.amun.specification import Specification, load_specification
from tests.factories.specifications import Quiet
from tests.requirements import needs
from tests.services.ports import closed_port
from tests.services.waiting import DEADLINE_S, wait_until

#: Starts of a node before a test gives up.
_STARTS = 5


class RayCluster:
    """Nodes started by ``ray start``, each in a process group that ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = closed_port()
        self.nodes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *words: str, cpus: int = 1, **variables: str) -> subprocess.Popen[bytes]:
        """Start a node, again if it gives up after the 30 s that Ray allows on a busy machine."""
        log = self.folder / f"node-{len(self.nodes)}.log"

        def ended_or_started(node: subprocess.Popen[bytes]) -> bool:
            return node.poll() is not None or b"Ray runtime started" in log.read_bytes()

        for _ in range(_STARTS):
            node = self._start(log, *words, cpus=cpus, **variables)
            wait_until(partial(ended_or_started, node), "the node has started")
            if node.poll() is None:
                self.nodes.append(node)
                return node
            assert b"timed out during startup" in log.read_bytes(), self.logs()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
        raise AssertionError(self.logs())

    def _start(
        self, log: Path, *words: str, cpus: int, **variables: str
    ) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", *words, "--block"),
            *("--node-ip-address", "127.0.0.1", "--num-cpus", str(cpus), "--num-gpus", "0"),
            *("--object-store-memory", str(80 * 10**6), "--disable-usage-stats"),
            *("--temp-dir", str(self.folder / f"ray{len(self.nodes)}")),
        ]
        environment = {
            **os.environ,
            "THOTH_HOME": str(self.folder / "home"),
            "SECRET": "the node's own",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "3",
            **variables,
        }
        with log.open("wb") as output:
            return subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def wait(self, count: int) -> None:
        """Until ``count`` nodes answer."""
        ask = (
            "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False);"
            "sys.exit(sum(it['Alive'] for it in ray.nodes()) != int(sys.argv[2]))"
        )
        command = [sys.executable, "-c", ask, self.address, str(count)]

        def answer() -> bool:
            assert all(node.poll() is None for node in self.nodes), self.logs()
            return subprocess.run(command, capture_output=True, check=False).returncode == 0

        wait_until(answer, f"{count} nodes answer")

    def logs(self) -> str:
        return "".join(it.read_text(errors="replace") for it in self.folder.glob("node-*.log"))

    def stop(self) -> None:
        for node in self.nodes[::-1]:
            stop(node)


def stop(node: subprocess.Popen[bytes]) -> None:
    """End a node and all that it started, by their group."""
    if node.returncode is not None:
        return
    node.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        node.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait(DEADLINE_S)


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head and a second node, for the length of the block."""
    # Ray's sockets have long names, and a socket's name may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        made = RayCluster(Path(folder))
        try:
            made.start("--head", "--port", str(made.port), "--include-dashboard", "false")
            made.wait(1)
            made.start("--address", made.address)
            made.wait(2)
            yield made
        finally:
            made.stop()


pytestmark = [
    # Ray takes seconds to load, in every process that collects tests.
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed"),
    # A cluster starts within half a minute, and a node that is lost is given up after as long.
    pytest.mark.slow,
]

#: Says who runs it and when, and takes long enough for two to overlap if they could.
SCRIPT = """
import json, os, sys, time
started = time.time()
time.sleep(0.3)
print(json.dumps({
    "@parameters": {}, "@result": {"rate": 1.5, "elapsed": 1.0}, "component": "numpy",
    "name": "PiTest", "started": started, "ended": time.time(),
    "threads": os.environ.get("OMP_NUM_THREADS"), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "node": os.environ.get("RAY_RAYLET_PID"), "secret": os.environ.get("SECRET"),
}))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as made:
        yield made


@pytest.fixture
def launcher(cluster: RayCluster) -> Iterator[RayLauncher]:
    launcher = RayLauncher(Settings.from_env({}), address=cluster.address)
    yield launcher
    launcher.close()


def specification(script: str = SCRIPT, **fields: Any) -> Specification:
    return load_specification({"script": script, **fields})


def inspection_of(asked: Specification) -> Inspection:
    text = asked.script or ""
    script = Script(text, None, sha256(text.encode()).hexdigest())
    return Inspection("inspection-test-00000000", asked, script)


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(it.read_text()) for it in sorted(folder.glob("results/*/result"))]


@needs("bwrap")
def test_ray_runs_a_block_alone_on_one_node(launcher: RayLauncher, tmp_path: Path) -> None:
    assert launcher.slots() == 2
    stacks = [specification(identifier=name) for name in ("a", "b")]
    outcomes = inspect(stacks, launcher, InspectOptions(tmp_path, jobs=4), Quiet())
    assert [outcome.state for outcome in outcomes] == ["measured", "measured"]
    jobs = [job for outcome in outcomes for job in results(outcome.folder)]
    assert len(jobs) == 8
    by_block: dict[int, list[dict[str, Any]]] = {}
    for job in jobs:
        assert (job["launcher"], job["confined"]) == ("ray", True)
        by_block.setdefault(job["schedule"]["block"], []).append(job)
    assert len(by_block) == 4
    for block in by_block.values():
        first, second = sorted(block, key=lambda job: job["schedule"]["turn"])
        assert first["inspection_id"] != second["inspection_id"]
        assert first["stdout"]["ended"] <= second["stdout"]["started"]
    starters = [by_block[number] for number in sorted(by_block)]
    assert len({frozenset(job["inspection_id"] for job in block) for block in starters}) == 1


@needs("bwrap")
def test_ray_node_runs_one_job_at_a_time(launcher: RayLauncher) -> None:
    prepared = launcher.prepare(inspection_of(specification()))
    assert prepared.log.count("Python ") >= 2
    from concurrent.futures import ThreadPoolExecutor

    jobs = [Job("inspection-test-00000000", n, "run", n, 1, True, slot=n % 2) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        said = [
            it.result["stdout"] for it in pool.map(lambda job: launcher.run(prepared, job), jobs)
        ]
    spans = [(it["started"], it["ended"]) for it in said]
    for slot in (0, 1):
        earlier, later = sorted(spans[slot::2])
        assert earlier[1] <= later[0]


@needs("bwrap")
def test_ray_job_gets_neither_variables_of_ray_nor_of_the_node(launcher: RayLauncher) -> None:
    prepared = launcher.prepare(inspection_of(specification()))
    job = Job("inspection-test-00000000", 0, "run", 0, 1, False)
    said = launcher.run(prepared, job).result["stdout"]
    assert (said["threads"], said["node"], said["secret"]) == (None, None, None)


def test_missing_hardware_in_the_ray_cluster_is_a_failed_build(launcher: RayLauncher) -> None:
    asked = specification(run={"requests": {"hardware": {"processor": "no such processor"}}})
    with pytest.raises(BuildFailed) as refused:
        launcher.prepare(inspection_of(asked))
    assert refused.value.reason == "hardware-not-met"
    assert refused.value.message.count("was requested") == 2
    greedy = specification(run={"requests": {"memory": "900Ti"}})
    with pytest.raises(BuildFailed, match="bytes of memory"):
        launcher.prepare(inspection_of(greedy))


@needs("bwrap")
def test_failed_build_on_a_ray_node_reports_the_log_of_the_node(launcher: RayLauncher) -> None:
    lock = {"_meta": {}, "default": {
        "no-such-package-of-ours": {"version": "==1.0", "hashes": ["sha256:" + "0" * 64]},
    }}  # fmt: skip
    asked = specification(python={"requirements_locked": lock})
    with pytest.raises(BuildFailed) as refused:
        launcher.prepare(inspection_of(asked))
    assert "no-such-package-of-ours" in refused.value.log


#: A driver with nothing of ours on its own path, which Ray would hand on to workers.
DRIVER = """
import json, sys
from hashlib import sha256
import ray
from common.settings import Settings
from pis.amun.launchers import Inspection, Job, Script
from pis.amun.launchers.ray import RayLauncher
from pis.amun.specification import load_specification
launcher = RayLauncher(Settings.from_env({}), address=sys.argv[1])
places = ray.get([node.actor.ready.remote() for node in launcher._nodes])
text = "print(1)\\n"
script = Script(text, None, sha256(text.encode()).hexdigest())
inspection = Inspection("inspection-x-00000000", load_specification({"script": text}), script)
prepared = launcher.prepare(inspection)
jobs = [Job(inspection.inspection_id, n, "run", n, 1, True, n) for n in range(launcher.slots())]
codes = [launcher.run(prepared, job).result["exit_code"] for job in jobs]
launcher.close()
print(json.dumps([places, codes]))
"""


@needs("bwrap")
def test_ray_nodes_run_the_code_of_the_driver(cluster: RayCluster) -> None:
    other = cluster.folder / "other"
    described = other / "thoth-0.0.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: thoth\nVersion: 0.0.0\n")
    node = cluster.start("--address", cluster.address, PYTHONPATH=str(other))
    try:
        cluster.wait(3)
        words = [sys.executable, "-c", DRIVER, cluster.address]
        driver = subprocess.run(
            words, cwd=cluster.folder, capture_output=True, text=True, check=False
        )
        assert driver.returncode == 0, driver.stderr
        places, codes = json.loads(driver.stdout)
        assert all("py_modules" in place for place in places), places
        assert codes == [0, 0, 0]
    finally:
        stop(node)
        cluster.nodes.remove(node)


@needs("bwrap")
def test_lost_ray_node_loses_only_the_running_job(cluster: RayCluster) -> None:
    node = cluster.start("--address", cluster.address)
    try:
        cluster.wait(3)
        launcher = RayLauncher(Settings.from_env({}), address=cluster.address)
        try:
            assert launcher.slots() == 3
            prepared = launcher.prepare(inspection_of(specification()))
            stop(node)
            cluster.nodes.remove(node)
            cluster.wait(2)
            ended = []
            for number in range(6):
                job = Job(
                    prepared.inspection.inspection_id, number, "run", number, 1, True, number % 3
                )
                try:
                    ended.append(launcher.run(prepared, job).result["ended"])
                except NodeLost as error:
                    ended.append(type(error).__name__)
            assert sorted(ended) == ["NodeLost", *["exited"] * 5]
        finally:
            launcher.close()
    finally:
        stop(node)


def test_missing_ray_cluster_is_reported_with_the_start_command() -> None:
    with pytest.raises(RayUnavailable) as refused:
        RayLauncher(Settings.from_env({}), address=f"127.0.0.1:{closed_port()}")
    assert "ray start --head" in str(refused.value.hint)


@needs("bwrap")
def test_loop_measures_a_batch_on_the_ray_cluster(
    cluster: RayCluster, stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    new = NewWatch(WatchKind.PACKAGE, "numpy", {})
    labels = ("reference", "reference again", "numpy==2.0")
    stacks = [{"label": it, "releases": [], "specification": {"script": SCRIPT}} for it in labels]
    with stores.engine.begin() as connection:
        add_watch(connection, new)
        night = open_night(connection).night
        add_batch(connection, night, new.watch_id, "matmul", stacks, 5)
    settings = replace(stores.settings, home=tmp_path, loop_runner="ray")
    seen: list[tuple[int, int]] = []
    counts = measure_batches(
        replace(stores, settings=settings), lambda done, jobs: seen.append((done, jobs))
    )
    assert counts == {"measured": 1, "jobs": 15, "postponed": 0}
    assert seen[-1] == (15, 15)
    with stores.engine.connect() as connection:
        (batch,) = batches_in(connection, [BatchState.MEASURED])
    assert batch.report is not None
    assert (batch.report["measured"], batch.report["failed"]) == (15, 0)
