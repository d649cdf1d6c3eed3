"""Pinned stacks in environments of their own, built by the executor and kept between runs.

They lie in the user's cache folder: the first run downloads gigabytes, the next ones nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from common.settings import Settings
from pis.amun.environments import Environment, build_environment
from pis.amun.pinning import pinned_specification
from pis.amun.specification import load_specification

#: One stack a library; none has another one's library in it.
STACKS = {
    "numpy": ("numpy==2.4.6",),
    "torch": ("torch==2.15.0",),
    "tensorflow": ("tensorflow-cpu==2.21.0",),
}


def stack_environment(name: str) -> Environment:
    """The environment of one of :data:`STACKS`, from a lock with hashes."""
    lock = load_specification(_specification(STACKS[name])).lock
    return build_environment(lock, replace(Settings.from_env({}), home=_cache()))


def _specification(requirements: tuple[str, ...]) -> dict[str, Any]:
    """A specification with these requirements locked; locked once a machine."""
    text = "\n".join([f"{sys.version_info.major}.{sys.version_info.minor}", *requirements])
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = _cache() / "locks" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            pinned = pinned_specification("matmul", requirements)
            written = path.with_suffix(".part")
            written.write_text(json.dumps(pinned), encoding="utf-8")
            written.replace(path)
    pinned = json.loads(path.read_text(encoding="utf-8"))
    return dict(pinned)


def _cache() -> Path:
    return user_cache_path("thoth-tests")
