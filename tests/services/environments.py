"""Virtual environments for programs that the tests run beside the product."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path
from uv import find_uv_bin

from tests.services.waiting import DEADLINE_S

_PINS = Path(__file__).parents[1] / "data"


def pinned_environment(name: str) -> Path:
    """The environment with the pins in ``tests/data/NAME.txt``, made once on a machine."""
    pins = _PINS / f"{name}.txt"
    digest = hashlib.sha256(f"{sys.version}\n{pins.read_text('utf-8')}".encode()).hexdigest()[:16]
    folder = user_cache_path("thoth-tests") / name / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    complete = folder / "complete"
    with FileLock(f"{folder}.lock"):
        if not complete.exists():
            _uv("venv", "--clear", "--seed", "--python", sys.executable, str(folder))
            python = str(folder / "bin" / "python")
            _uv("pip", "install", "--python", python, "--requirement", str(pins))
            complete.touch()
    return folder


def virtual_environment(folder: Path) -> str:
    """A new virtual environment with pip; the search path of whoever activated it."""
    _uv("venv", "--seed", "--python", sys.executable, str(folder))
    return f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def _uv(*arguments: str) -> None:
    command = [find_uv_bin(), "--no-progress", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
