"""Fresh embedded stores for a measurement, and the product's commands run against them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.settings import Settings

THOTH = str(Path(sys.executable).with_name("thoth"))


@dataclass(frozen=True, slots=True)
class Home:
    """A fresh, running, migrated pair of embedded stores."""

    path: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of commands that use it."""
        stores = ("DATABASE_URL", "GRAPH_URL", "DOCUMENT_STORE_URL")
        kept = {name: value for name, value in os.environ.items() if name not in stores}
        return kept | {"THOTH_HOME": str(self.path)}

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return Settings.from_env(self.environ)

    def thoth(self, *arguments: str) -> Any:
        """Run a command with ``--json`` and return what it printed."""
        done = subprocess.run(
            [THOTH, *arguments, "--json"], env=self.environ, capture_output=True, check=False
        )
        if done.returncode not in {0, 1} or not done.stdout:
            raise RuntimeError(f"thoth {arguments}: {done.returncode} {done.stderr.decode()}")
        return json.loads(done.stdout)


@contextmanager
def fresh_home() -> Iterator[Home]:
    """Start empty stores, apply the migrations, and remove everything afterwards."""
    path = Path(tempfile.mkdtemp(prefix="thoth-bench-"))
    home = Home(path)
    try:
        home.thoth("migrate")
        yield home
    finally:
        subprocess.run([THOTH, "down"], env=home.environ, capture_output=True, check=False)
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Timed:
    """A command as a whole process: wall-clock seconds and peak resident bytes."""

    seconds: float
    peak_bytes: int


def time_command(home: Home, *arguments: str) -> Timed:
    """Run one command to its end; the operating system accounts for its memory."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [THOTH, *arguments], env=home.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        message = process.stderr.read().decode() if process.stderr else ""
        raise RuntimeError(f"thoth {arguments}: {message}")
    process.returncode = 0
    if process.stderr:
        process.stderr.close()
    assert isinstance(usage, resource.struct_rusage)
    return Timed(seconds, usage.ru_maxrss * 1024)
