"""Pinned stacks in environments of their own, built by the executor and kept between runs.

They lie in the user's cache folder. PyTorch and TensorFlow are 6 GB to download: a thorough run
installs them, and any other run measures them where they are.
"""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from platformdirs import user_cache_path

from common.settings import Settings
from pis.amun.environments import BuiltEnvironment, build_environment
from pis.amun.pinned_specifications import pinned_specification
from pis.amun.specification import load_specification
from tests.effort import is_thorough

#: One stack a library; none has another one's library in it.
STACKS = {
    "numpy": ("numpy==2.4.6",),
    "torch": ("torch==2.15.0",),
    "tensorflow": ("tensorflow-cpu==2.21.0",),
}

#: What only a thorough run installs.
LARGE = ("torch", "tensorflow")


def measures(*frameworks: str) -> pytest.MarkDecorator:
    """Skip a test, with a reason, where one of these stacks is missing."""
    return pytest.mark.frameworks(*frameworks)


def missing(name: str) -> str | None:
    """Why the stack ``name`` cannot be measured here; None if it can, or will be installed."""
    requirements = STACKS[name]
    built = _built(requirements)
    if is_thorough() or (built.exists() and Path(built.read_text("utf-8")).exists()):
        return None
    return f"{' '.join(requirements)} is not in {_cache()}; `make test-all` installs it"


def stack_environment(name: str) -> BuiltEnvironment:
    """The environment of one of :data:`STACKS`, from a lock with hashes."""
    requirements = STACKS[name]
    lock = load_specification(_specification(requirements)).lock
    built = build_environment(lock, replace(Settings.from_env({}), home=_cache()))
    _built(requirements).write_text(str(built.python), encoding="utf-8")
    return built


def _specification(requirements: tuple[str, ...]) -> dict[str, Any]:
    """A specification with these requirements locked; locked once a machine."""
    path = _locked(requirements)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            pinned = pinned_specification("matmul", requirements)
            written = path.with_suffix(".part")
            written.write_text(json.dumps(pinned), encoding="utf-8")
            written.replace(path)
    pinned = json.loads(path.read_text(encoding="utf-8"))
    return dict(pinned)


def _locked(requirements: tuple[str, ...]) -> Path:
    """Where the lock of ``requirements`` for this Python is kept."""
    text = "\n".join([f"{sys.version_info.major}.{sys.version_info.minor}", *requirements])
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _cache() / "locks" / f"{name}.json"


def _built(requirements: tuple[str, ...]) -> Path:
    """The file that names the interpreter of their environment, once that is built."""
    return _locked(requirements).with_suffix(".python")


def _cache() -> Path:
    return user_cache_path("thoth-tests")
