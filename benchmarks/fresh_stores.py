"""Fresh embedded stores for a measurement, and the product's commands run against them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import psutil

from benchmarks.commands import FinishedCommand, run_command
from cli.start import socket_path
from common.settings import Settings
from graph.embedded.store_process import wait_for

THOTH, UV = (str(Path(sys.executable).with_name(name)) for name in ("thoth", "uv"))


@dataclass(frozen=True, slots=True)
class FreshHome:
    """A fresh, running, migrated pair of embedded stores."""

    path: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of commands that use it."""
        # As on a user's machine, Python keeps compiled modules.
        foreign = ("DATABASE_URL", "GRAPH_URL", "DOCUMENT_STORE_URL", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if name not in foreign}
        return kept | {"THOTH_HOME": str(self.path)}

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return Settings.from_env(self.environ)

    def store_cpu_s(self) -> dict[str, float]:
        """Processor time of each store so far, s, by name; with processes that have ended."""
        used = {}
        for record in (self.path / "run").glob("*.json"):
            store = psutil.Process(json.loads(record.read_text("utf-8"))["pid"])
            every = [store, *store.children(recursive=True)]
            used[record.stem] = sum(sum(it.cpu_times()[:4]) for it in every)
        return used

    def thoth(self, *arguments: str) -> Any:
        """Run a command with ``--json`` and return what it printed."""
        done = subprocess.run(
            [THOTH, *arguments, "--json"], env=self.environ, capture_output=True, check=False
        )
        if done.returncode not in {0, 1} or not done.stdout:
            raise RuntimeError(f"thoth {arguments}: {done.returncode} {done.stderr.decode()}")
        return json.loads(done.stdout)


@contextmanager
def fresh_home() -> Iterator[FreshHome]:
    """Start empty stores, apply the migrations, and remove everything afterwards."""
    path = Path(tempfile.mkdtemp(prefix="thoth-bench-"))
    home = FreshHome(path)
    # By default, SIGTERM ends Python without running what follows, and the stores keep running.
    former = signal.signal(signal.SIGTERM, _exit)
    try:
        home.thoth("migrate")
        # The command above has started it, as on a user's machine.
        wait_for(Path(socket_path(str(path))).exists, 60.0)
        yield home
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.run([THOTH, "down"], env=home.environ, capture_output=True, check=False)
        shutil.rmtree(path, ignore_errors=True)
        signal.signal(signal.SIGTERM, former)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def time_command(home: FreshHome, *arguments: str, before: Sequence[str] = ()) -> FinishedCommand:
    """Run one command that ends well.

    :param before: a command that runs it, such as ``nice``
    """
    done = run_command((*before, THOTH, *arguments), home.environ)
    if done.status != 0:
        raise RuntimeError(f"thoth {arguments}: {done.stderr}")
    return done
