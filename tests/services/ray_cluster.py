"""A real Ray cluster of two nodes, each with a processor, on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

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
