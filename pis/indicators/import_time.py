"""How long importing a library takes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main

#: A new interpreter, with the parent's path to modules, measures the time itself, so that its own
#: start is not included. What the library prints comes before the last line.
_CHILD = """
import importlib, json, sys, time
name, sys.path[:] = sys.argv[1], json.loads(sys.argv[2])
began = time.perf_counter()
module = importlib.import_module(name)
seconds = time.perf_counter() - began
print("\\n" + json.dumps([seconds, module.__version__]))
"""


def import_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    once = partial(import_once, framework.name)
    yield Work(
        once,
        1,
        "imports",
        {"module": framework.name},
        partial(_check_import, framework.version),
        "none",
        partial(_timed_imports, framework.name),
    )


def import_once(module: str) -> tuple[float, str]:
    """Import ``module`` in a new process that has imported nothing yet.

    After the first import, the module's files are in the system's cache, and the bytecode is on
    disk if the module's folder is writable.

    :returns: seconds, and the version that was imported
    :raises WrongResult: if it cannot be imported there
    """
    command = [sys.executable, "-c", _CHILD, module, json.dumps(sys.path)]
    child = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if child.returncode:
        last = child.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise WrongResult(f"a new process cannot import {module}: {''.join(last)}")
    seconds, version = json.loads(child.stdout.splitlines()[-1])
    return seconds, version


def _timed_imports(module: str, calls: int) -> tuple[float, Any]:
    done = [import_once(module) for _ in range(calls)]
    return sum(seconds for seconds, _ in done), done[-1]


def _check_import(version: str, output: tuple[float, str]) -> float:
    if output[1] != version:
        raise WrongResult(f"a new process imports version {output[1]}, this one has {version}")
    return 0.0


INDICATOR = Indicator(
    "import",
    "PiImport",
    "Import the library in a fresh process.",
    (),
    ("numpy", "torch", "tensorflow"),
    import_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
