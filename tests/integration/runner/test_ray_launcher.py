"""Inspections on a real Ray cluster of two nodes, each with a processor, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from common.settings import Settings
from pis.amun.inspect import InspectOptions, inspect
from pis.amun.launchers import BuildFailed, Inspection, Job, Script
from pis.amun.launchers import ray as ray_launcher
from pis.amun.launchers.ray import NodeLost, RayLauncher, RayUnavailable
from pis.amun.specification import Specification, load_specification
from tests.requirements import needs
from tests.services.ports import closed_port
from tests.services.waiting import DEADLINE_S, wait_until

pytest.importorskip("ray", reason="the extra `ray` is not installed")

# A cluster starts within half a minute, and a node that is lost is given up after as long.
pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A head and a second node."""
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


@pytest.fixture
def launcher(cluster: RayCluster) -> Iterator[RayLauncher]:
    launcher = RayLauncher(Settings.from_env({}), address=cluster.address)
    yield launcher
    launcher.close()


class Nobody:
    """Watches nothing."""

    def build_started(self, inspection: Inspection) -> None: ...

    def build_finished(self, inspection: Inspection, failure: BuildFailed | None) -> None: ...

    def jobs_started(self, jobs: int) -> None: ...

    def job_finished(self, job: Job, result: Any) -> None: ...


def specification(script: str = SCRIPT, **fields: Any) -> Specification:
    return load_specification({"script": script, **fields})


def inspection_of(asked: Specification) -> Inspection:
    text = asked.script or ""
    script = Script(text, None, sha256(text.encode()).hexdigest())
    return Inspection("inspection-test-00000000", asked, script)


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(it.read_text()) for it in sorted(folder.glob("results/*/result"))]


@needs("bwrap")
def test_each_block_runs_on_one_node_where_nothing_else_runs(
    launcher: RayLauncher, tmp_path: Path
) -> None:
    assert launcher.slots() == 2
    stacks = [specification(identifier=name) for name in ("a", "b")]
    outcomes = inspect(stacks, launcher, InspectOptions(tmp_path, jobs=4), Nobody())
    assert [outcome.state for outcome in outcomes] == ["measured", "measured"]
    jobs = [job for outcome in outcomes for job in results(outcome.folder)]
    assert len(jobs) == 8
    by_block: dict[int, list[dict[str, Any]]] = {}
    for job in jobs:
        said = job["stdout"]
        assert (job["launcher"], job["confined"]) == ("ray", True)
        assert (said["threads"], said["node"], said["secret"]) == (None, None, None)
        by_block.setdefault(job["schedule"]["block"], []).append(job)
    assert len(by_block) == 4
    for block in by_block.values():
        first, second = sorted(block, key=lambda job: job["schedule"]["turn"])
        assert first["inspection_id"] != second["inspection_id"]
        assert first["stdout"]["ended"] <= second["stdout"]["started"]
    starters = [by_block[number] for number in sorted(by_block)]
    assert len({frozenset(job["inspection_id"] for job in block) for block in starters}) == 1


def test_a_build_fails_if_no_node_has_the_hardware(
    launcher: RayLauncher,
) -> None:
    asked = specification(run={"requests": {"hardware": {"processor": "no such processor"}}})
    with pytest.raises(BuildFailed, match="no such processor") as refused:
        launcher.prepare(inspection_of(asked))
    assert refused.value.reason == "hardware-not-met"
    assert refused.value.message.count("was requested") == 2
    greedy = specification(run={"requests": {"memory": "900Ti"}})
    with pytest.raises(BuildFailed, match="bytes of memory"):
        launcher.prepare(inspection_of(greedy))


@needs("bwrap")
def test_a_failed_build_has_the_log_of_the_node(launcher: RayLauncher) -> None:
    lock = {"_meta": {}, "default": {
        "no-such-package-of-ours": {"version": "==1.0", "hashes": ["sha256:" + "0" * 64]},
    }}  # fmt: skip
    asked = specification(python={"requirements_locked": lock})
    with pytest.raises(BuildFailed) as refused:
        launcher.prepare(inspection_of(asked))
    assert "no-such-package-of-ours" in refused.value.log


@needs("bwrap")
def test_a_lost_node_costs_one_job(cluster: RayCluster) -> None:
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


def test_without_a_cluster_the_error_says_how_to_start_one() -> None:
    with pytest.raises(RayUnavailable, match="no Ray cluster answers") as refused:
        RayLauncher(Settings.from_env({}), address=f"127.0.0.1:{closed_port()}")
    assert "ray start --head" in str(refused.value.hint)


def test_a_node_with_another_release_is_not_used(
    cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_launcher, "__version__", "0.0.1")
    with pytest.raises(RayUnavailable, match=r"has Thoth .*, not 0\.0\.1"):
        RayLauncher(Settings.from_env({}), address=cluster.address)
