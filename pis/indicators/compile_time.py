"""The indicator ``compile``: how long compiling a network takes, and how fast it then runs.

PyTorch compiles with ``torch.compile``, TensorFlow with XLA. Each compilation runs in a process of
its own, which is this script again: a process keeps compiled code in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.infer import AnswerCheck
from pis.indicators.libraries import load_framework
from pis.indicators.long_runs import RUNS, LongRuns, long_run_parameters
from pis.indicators.networks import Network, network_of, network_parameters
from pis.indicators.parameters import Parameter

#: First argument of the process that compiles; the second one has the parameters as JSON.
_CHILD = "--compile-once"

#: Compiling takes seconds; the median of three is enough to see a change of some per cent.
_REPETITIONS = 3

_PHASES = ("cold", "warm", "call")

#: Caches of compiled code on disk, which are empty in a cold start.
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


def compile_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Compilation without and with a filled cache on disk, then calls of the compiled network.

    :raises Unsupported: if the library has no compiler, or keeps no compiled code on disk
    """
    if framework.name == "torch" and not hasattr(framework.module, "compile"):
        raise Unsupported(f"torch {framework.version} has no torch.compile: it came with 2.0")
    warm = framework.name == "torch"
    if values["phase"] == "warm" and not warm:
        raise Unsupported("tensorflow keeps no compiled code between processes: use --phase cold")
    phases = [it for it in _PHASES if values["phase"] in (it, "all") and (warm or it != "warm")]
    for phase in phases:
        if phase == "call":
            yield _call(framework, values)
        else:
            with tempfile.TemporaryDirectory() as folder:
                yield _compilation(framework, values, phase, Path(folder))


def _call(framework: Framework, values: dict[str, Any]) -> Work:
    """Calls of the compiled network, in this process."""
    network = network_of(framework, values)
    return Work(
        call=compiled_call(framework, network),
        per_call=network.items,
        unit=network.unit,
        parameters={"phase": "call", **network.parameters},
        check=AnswerCheck(framework, network, values["dtype"]),
        kind="none",
    )


def _compilation(framework: Framework, values: dict[str, Any], phase: str, folder: Path) -> Work:
    network = network_of(framework, values)
    return Work(
        call=_no_call,
        per_call=1,
        unit=RUNS,
        parameters={"phase": phase, **network.parameters},
        check=partial(_check_version, framework.version),
        kind="none",
        timed=LongRuns(partial(compilation, values, phase, folder)),
    )


def _no_call() -> None:
    """Compilations are timed in their own process."""


def _check_version(version: str, output: str) -> float:
    if output != version:
        raise WrongResult(f"a new process imports version {output}, this one has {version}")
    return 0.0


def compilation(values: dict[str, Any], phase: str, folder: Path) -> tuple[float, str]:
    """Seconds of one compilation, and the library's version in its process.

    :param folder: an empty folder; a warm start finds the caches of the start before in it
    """
    if phase == "warm":
        if not any(folder.iterdir()):
            compile_in_process(values, folder)
        return compile_in_process(values, folder)
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        return compile_in_process(values, Path(empty))


def compile_in_process(values: dict[str, Any], folder: Path) -> tuple[float, str]:
    """Compile in a new process.

    :param folder: for the caches
    :returns: seconds, and the version of the library
    :raises Unsupported: if there is no C++ compiler, which ``torch.compile`` needs on a CPU
    """
    caches = {variable: str(folder / name) for variable, name in _CACHES.items()}
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": str(values["threads"])}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(Path(__file__).resolve()), _CHILD, json.dumps(values)]
    child = subprocess.run(
        command,
        env={**os.environ, **path, **threads, **caches},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if child.returncode:
        errors = child.stderr.decode("utf-8", "replace")
        if "InvalidCxxCompiler" in errors or "No working C++ compiler" in errors:
            raise Unsupported("torch.compile needs a C++ compiler: install g++ or clang")
        last = errors.strip().splitlines()[-1:]
        raise WrongResult(f"a new process cannot compile the network: {''.join(last)}")
    seconds, version = json.loads(child.stdout.splitlines()[-1])
    return seconds, version


def compile_once(values: dict[str, Any]) -> None:
    """Print the seconds from compiling to the end of the first call, and the library's version."""
    framework = load_framework(
        values["framework"], values["device"], values["threads"], values["mode"]
    )
    with framework.device_scope():
        network = network_of(framework, values)
        check = AnswerCheck(framework, network, values["dtype"])
        framework.synchronize()
        began = time.perf_counter()
        output = compiled_call(framework, network)()
        framework.synchronize(output)
        seconds = time.perf_counter() - began
        check(output)
    sys.stdout.write("\n" + json.dumps([seconds, framework.version]) + "\n")


def compiled_call(framework: Framework, network: Network) -> Callable[[], Any]:
    """The compiled network on its batch; compilation happens in the first call."""
    if framework.name == "tensorflow":
        function = partial(network.logits, network.model)
        compiled = framework.module.function(function, jit_compile=True)
        return partial(compiled, network.inputs)
    torch = framework.module
    network.model.eval()
    compiled = torch.compile(partial(network.logits, network.model))

    def logits() -> Any:
        with torch.no_grad():
            return compiled(network.inputs)

    return logits


INDICATOR = Indicator(
    name="compile",
    title="PiCompile",
    summary="Compile a small network: time without and with a cache on disk, and rate afterwards.",
    parameters=(
        Parameter("phase", "all", "what to measure", ("all", *_PHASES)),
        *network_parameters(("float32", "bfloat16", "float64")),
        *long_run_parameters(_REPETITIONS),
    ),
    frameworks=("torch", "tensorflow"),
    works=compile_works,
)

if __name__ == "__main__":
    if sys.argv[1:2] == [_CHILD]:
        compile_once(json.loads(sys.argv[2]))
    else:
        raise SystemExit(main(INDICATOR))
