"""Scripts behind the walls, and what became of them."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from pis.amun.jobs import FinishedJob, run_job
from pis.amun.limit_watch import Watch
from pis.amun.processes import MEBIBYTE, JobLimits
from pis.amun.sandbox import interpreter_folders, sandbox_command

ROOT = Path(__file__).parents[2]

LIMITS = JobLimits(
    wall_s=60,
    output_bytes=4 * MEBIBYTE,
    memory_bytes=256 * MEBIBYTE,
    processes=48,
    file_bytes=16 * MEBIBYTE,
    disk_bytes=64 * MEBIBYTE,
)

#: What the attempts begin with: each prints what it was refused, or that it came through.
ATTEMPT = """
import os, sys
def attempt(what, act):
    try:
        print(what, "CAME THROUGH", act())
    except OSError as error:
        print(what, type(error).__name__)
"""


def with_word(word: str) -> list[str]:
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line and int(process.name) != os.getpid():
            processes.append(f"{process.name}: {line!r}")
    return processes


def run(
    text: str,
    tmp_path: Path,
    *arguments: str,
    limits: JobLimits = LIMITS,
    environment: dict[str, str] | None = None,
) -> FinishedJob:
    """What becomes of the script ``text``, called with ``words``."""
    folder = tmp_path / f"job-{uuid.uuid4()}"
    workdir = folder / "outside"
    workdir.mkdir(parents=True)
    script = folder / "script.py"
    script.write_text(ATTEMPT + text, encoding="utf-8")
    command = sandbox_command(
        [sys.executable, "-u", str(script), *arguments],
        workdir=workdir,
        readable=[*interpreter_folders(Path(sys.executable)), script],
        limits=limits,
        environment=environment,
    )
    return run_job(command, environment={}, limits=limits, workdir=workdir, watch=Watch)


def refusals(finished: FinishedJob) -> dict[str, str]:
    """What each attempt ended in."""
    assert finished.exit_code == 0, finished
    return dict(line.split(" ", 1) for line in finished.stdout.decode().splitlines())


class Listener:
    """A server on the loopback that counts who reaches it."""

    def __init__(self) -> None:
        self._arrivals: list[object] = []
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(b"\0" + uuid.uuid4().hex.encode())
        self.abstract.listen()
        self.ports = [self.stream.getsockname()[1], self.datagrams.getsockname()[1]]
        for one in (self.stream, self.datagrams, self.abstract):
            one.settimeout(0.05)
        self.stopping = threading.Event()
        self.threads = [
            threading.Thread(target=self._count, args=(act,))
            for act in (self.stream.accept, lambda: self.datagrams.recv(10), self.abstract.accept)
        ]

    @property
    def reached(self) -> int:
        """Connections and datagrams that arrived."""
        return len(self._arrivals)

    def _count(self, act: Callable[[], object]) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                arrived = act()
                self._arrivals.append(arrived)
                if isinstance(arrived, tuple):
                    arrived[0].close()

    def reach(self) -> None:
        """Reach each of the three sockets once, from outside."""
        socket.create_connection(self.stream.getsockname()).close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", self.datagrams.getsockname())
        with socket.socket(socket.AF_UNIX) as sender:
            sender.connect(self.abstract.getsockname())

    def __enter__(self) -> Listener:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for one in (self.stream, self.datagrams, self.abstract):
            one.close()
