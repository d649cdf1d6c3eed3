"""Every indicator with every library that it measures, run for real as the script that travels.

The environments come from the executor, hash-checked; see ``tests.services.stacks``.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pis.bundle import script_of
from pis.catalogue import INDICATORS, LIBRARY_INDICATORS, indicator_of
from pis.indicators.gpu import gpu_of_cuda
from tests.services.json_schemas import validate
from tests.services.stacks import LARGE, STACKS, measures, stack_environment

# A thorough run downloads gigabytes once.
pytestmark = pytest.mark.timeout(1800)

needs_cuda = pytest.mark.skipif(gpu_of_cuda() is None, reason="no CUDA device")

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "indicator-result.schema.json"

#: Small sizes of each indicator, by a name for the test's own.
FLAGS = {
    "matmul": ("matmul", "--matrix-size", "64"),
    "gemm": ("gemm", "--shapes", "24,16,40,nt; 8,9,10,tn"),
    "conv1d": ("conv1d", "--input-width", "31"),
    "conv2d": (
        "conv2d", "--input-height", "14", "--input-width", "9", "--input-channels", "2",
        "--filter-height", "4", "--filter-width", "3", "--output-channels", "5",
    ),
    "rnn": ("rnn", "--cell", "gru", "--hidden-size", "24", "--layers", "2"),
    "lstm": ("lstm", "--hidden-size", "24", "--input-size", "16", "--batch", "3"),
    "memory": ("memory", "--array-mib", "8"),
    "import": ("import", "--reps", "1"),
    "train cnn": ("train", "--batch", "4", "--image-size", "16"),
    "train transformer": (
        "train", "--model", "transformer", "--hidden-size", "32", "--vocabulary", "50",
        "--sequence-length", "12",
    ),
    "infer cnn": ("infer", "--batch", "4", "--image-size", "16"),
    "infer transformer": (
        "infer", "--model", "transformer", "--hidden-size", "32", "--vocabulary", "50",
        "--sequence-length", "12",
    ),
    "deepbench-conv": (
        "deepbench-conv", "--pass", "all",
        "--shapes", "15,9,3,4,5,4,3,2,1,3,2; 8,8,4,2,3,3,3,1,1,1,1",
    ),
    "deepbench-rnn": ("deepbench-rnn", "--shapes", "rnn,16,2,9; gru,16,2,9; lstm,16,2,9"),
    "attention": ("attention", "--shapes", "2,3,17,17,8,causal; 2,3,1,40,8,full"),
    "generate": (
        "generate", "--batch", "2", "--sequence-length", "12", "--layers", "2",
        "--hidden-size", "32", "--heads", "4", "--vocabulary", "50",
    ),
    "cnn-throughput": ("cnn-throughput", "--batch", "4", "--image-size", "16", "--reps", "9"),
    "batch-latency": ("batch-latency", "--batch", "4", "--image-size", "16", "--reps", "9"),
    "batch-sweep": ("batch-sweep", "--most", "4", "--image-size", "16"),
    "frame-latency": ("frame-latency", "--image-size", "16", "--frames", "10", "--reps", "9"),
    "vips": ("vips", "--images", "50", "--reps", "2"),
    "time-to-accuracy": ("time-to-accuracy", "--reps", "1"),
    "automl": ("automl", "--reps", "1"),
    "loadgen": (
        "loadgen", "--image-size", "16", "--queries", "40", "--reps", "1",
        "--latency-bound-ms", "5000",
    ),
    "compile": ("compile", "--phase", "call", "--batch", "2", "--image-size", "16"),
}  # fmt: skip

#: TensorFlow runs these eagerly, too.
EAGER = ("matmul", "conv2d", "rnn", "train transformer")


#: With this one, `make test` measures large libraries, too; their other tests are slow.
QUICK = "matmul"


def needing(*case: Any, frameworks: Iterable[str], quick: bool = False) -> Any:
    """A case for ``parametrize`` that needs these frameworks."""
    large = [it for it in frameworks if it in LARGE]
    marks = [measures(*large), *([] if quick else [pytest.mark.slow])] if large else []
    return pytest.param(*case, marks=marks, id="-".join(map(str, case)))


CASES = [
    needing(name, framework, more, frameworks=[framework], quick=name == QUICK and not more)
    for name, framework, more in [
        *(
            (name, framework, ())
            for name, flags in FLAGS.items()
            for framework in indicator_of(flags[0]).frameworks
        ),
        *((name, "tensorflow", ("--mode", "eager")) for name in EAGER),
    ]
]


def run_script(
    framework: str, text: str, *arguments: str, device: str = "cpu"
) -> subprocess.CompletedProcess[str]:
    """Run a script in the library's environment, with nothing of this product around."""
    python = stack_environment(framework).python
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(text, encoding="utf-8")
        return subprocess.run(
            [str(python), "-I", str(script), *arguments],
            stdin=subprocess.DEVNULL,
            env={**kept, "CUDA_VISIBLE_DEVICES": "0" if device == "cuda" else ""},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


@cache
def measured(name: str, framework: str, more: tuple[str, ...], device: str = "cpu") -> Any:
    """The result document of one of :data:`FLAGS`."""
    indicator, *flags = FLAGS[name]
    chosen = ["--framework", framework, "--device", device, "--threads", "1"]
    done = run_script(
        framework, script_of(indicator), *flags, *chosen, "--min-time", "0.05", *more, device=device
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def results_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return document.get("@results") or [document]


def test_every_indicator_has_a_test_that_runs_it() -> None:
    assert {flags[0] for flags in FLAGS.values()} | LIBRARY_INDICATORS.keys() == set(INDICATORS)


@pytest.mark.parametrize(("name", "framework", "more"), CASES)
def test_indicator_measures_its_library(name: str, framework: str, more: tuple[str, ...]) -> None:
    document = measured(name, framework, more)
    validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    version = STACKS[framework][0].rpartition("==")[2]
    assert document["name"] == indicator_of(FLAGS[name][0]).title
    assert document["component"] == framework
    assert document["component_version"].partition("+")[0] == version
    for result in results_of(document):
        assert result["@parameters"]["device"] == "cpu"
        assert result["@result"]["rate"] > 0
        assert ("mode" in result["@parameters"]) == (framework == "tensorflow")


@pytest.mark.parametrize(
    "name",
    [
        needing(name, frameworks=indicator_of(flags[0]).frameworks, quick=name == QUICK)
        for name, flags in FLAGS.items()
        if len(indicator_of(flags[0]).frameworks) > 1
    ],
)
def test_indicator_counts_equal_work_for_all_libraries(name: str) -> None:
    frameworks = indicator_of(FLAGS[name][0]).frameworks
    documents = [measured(name, framework, ()) for framework in frameworks]
    amounts = [
        [result["@result"]["per_call"] for result in results_of(document)] for document in documents
    ]
    assert all(amount == amounts[0] for amount in amounts)


@pytest.mark.slow
@measures("tensorflow")
@pytest.mark.parametrize("name", EAGER)
def test_eager_and_compiled_tensorflow_give_equal_results(name: str) -> None:
    compiled, eager = (measured(name, "tensorflow", more) for more in ((), ("--mode", "eager")))
    assert eager["@parameters"]["mode"] == "eager"
    assert compiled["@parameters"]["mode"] == "function"
    checksums = [document["@result"]["checksum"] for document in (compiled, eager)]
    assert checksums[0] == pytest.approx(checksums[1], rel=1e-4, abs=1e-4)


#: Arrays of the same numbers in every library, for the scripts below.
DATA = """
import random
from math import prod

GENERATOR = random.Random(1)

def array_of(framework, shape, draw):
    numbers = [float(draw()) for _ in range(prod(shape))]
    make = {"numpy": "array", "torch": "tensor", "tensorflow": "constant"}[framework.name]
    flat = getattr(framework.module, make)(numbers, dtype=framework.dtype("float32"))
    return framework.module.reshape(flat, shape)
"""

#: Convolves whole numbers, whose sums are exact.
CONVOLVE = """
import os

# By default, TensorFlow uses oneDNN on some processors only; without it, images cannot have their
# channels first on a CPU.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"

def whole():
    return GENERATOR.randrange(-9, 10)

def main_of_test(name):
    framework, results = load_framework(name, "cpu", 1, "function"), []
    for spatial, window, stride, dilation, padding, last in [
        ((11, 8), (4, 3), 2, 1, "SAME", True),
        ((11, 8), (4, 3), 2, 1, "SAME", False),
        ((11, 8), (4, 2), 3, 1, "VALID", True),
        ((12, 9), (3, 4), 1, 2, "SAME", True),
        ((13,), (4,), 2, 1, "SAME", True),
        ((13,), (4,), 1, 1, "VALID", False),
        ((13,), (4,), 1, 3, "SAME", True),
    ]:
        convolution = Convolution(2, spatial, 3, window, 5, stride, dilation, padding, last)
        images = array_of(framework, convolution.input_shape, whole)
        kernels = array_of(framework, convolution.filter_shape, whole)
        output = convolution_call(framework, convolution, images, kernels)()
        if last and name == "torch":
            output = output.movedim(1, -1)
        results.append(framework.to_host(output))
    print(json.dumps(results))

main_of_test(sys.argv[1])
"""

RECUR = """
def part():
    return GENERATOR.uniform(-1, 1)

def main_of_test(name):
    framework, results = load_framework(name, "cpu", 1, "function"), []
    for cell in GATES:
        recurrence = Recurrence(cell, 2, 3, 4, 5, 2)
        inputs, width, weights = array_of(framework, (5, 2, 3), part), GATES[cell] * 4, []
        for size in recurrence.input_sizes:
            shapes = ((size, width), (4, width), (width,))
            weights.append([array_of(framework, shape, part) for shape in shapes])
        results.append(framework.to_host(recurrent_call(framework, recurrence, inputs, weights)()))
    print(json.dumps(results))

main_of_test(sys.argv[1])
"""

#: Counts the numbers that a training changes.
WEIGHTS = """
def main_of_test(name):
    framework = load_framework(name, "cpu", 1, "function")
    defaults = {parameter.name: parameter.default for parameter in INDICATOR.all_parameters()}
    counts = []
    for model in ("cnn", "transformer"):
        network = network_of(framework, {**defaults, "model": model})
        if name == "torch":
            counts.append(sum(weights.numel() for weights in network.model.parameters()))
        else:
            counts.append(sum(int(framework.module.size(weights)) for weights in network.model))
    print(json.dumps(counts))

main_of_test(sys.argv[1])
"""


def told_by(framework: str, indicator: str, driver: str) -> Any:
    """What ``driver`` prints when it runs after an indicator's functions."""
    functions = script_of(indicator).partition("if __name__ ==")[0]
    done = run_script(framework, functions + driver, framework)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@measures(*LARGE)
def test_convolution_results_of_all_libraries_are_equal() -> None:
    results = {framework: told_by(framework, "conv2d", DATA + CONVOLVE) for framework in STACKS}
    assert results["torch"] == results["numpy"]
    assert results["tensorflow"] == results["numpy"]


@pytest.mark.slow
@measures(*LARGE)
def test_torch_and_tensorflow_give_equal_recurrent_states() -> None:
    results = {it: told_by(it, "rnn", DATA + RECUR) for it in ("torch", "tensorflow")}
    flat = {it: _numbers(result) for it, result in results.items()}
    assert flat["torch"] == pytest.approx(flat["tensorflow"], abs=1e-5)


@pytest.mark.slow
@measures(*LARGE)
def test_torch_and_tensorflow_train_networks_of_equal_size() -> None:
    assert told_by("torch", "train", WEIGHTS) == told_by("tensorflow", "train", WEIGHTS)


@pytest.mark.slow
@measures("tensorflow")
def test_compilation_is_measured_in_separate_processes() -> None:
    document = measured("compile", "tensorflow", ("--phase", "cold", "--reps", "4"))
    result = document["@result"]
    assert (result["unit"], len(result["repetitions"])) == ("runs/s", 4)
    assert result["rate"] == pytest.approx(1000 / result["elapsed"])
    assert document["@parameters"]["phase"] == "cold"


def _numbers(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [value]


@pytest.mark.parametrize(
    ("framework", "indicator", "flags", "message"),
    [
        needing(*case, frameworks=[case[0]])
        for case in [
            ("numpy", "conv2d", ("--dtype", "bfloat16"), "numpy has no bfloat16"),
            ("numpy", "rnn", ("--framework", "torch"), "torch cannot be imported here"),
            ("numpy", "lstm", ("--framework", "numpy"), "'numpy' is none of torch, tensorflow"),
            (
                "torch",
                "train",
                ("--model", "transformer", "--heads", "3"),
                "not divisible by 3 heads",
            ),
            (
                "torch",
                "conv1d",
                ("--framework", "torch", "--device", "cuda"),
                "finds no CUDA device",
            ),
        ]
    ],
)
def test_unsupported_indicator_request_is_reported_in_one_line(
    framework: str, indicator: str, flags: tuple[str, ...], message: str
) -> None:
    done = run_script(framework, script_of(indicator), "--quiet", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.slow
@measures("torch")
@needs_cuda
@pytest.mark.parametrize("name", [name for name in FLAGS if name != "import"])
def test_indicators_measure_torch_on_a_gpu(name: str) -> None:
    document = measured(name, "torch", (), device="cuda")
    validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["clock"]["name"] == "cuda_event"
    assert document["gpu"]["name"]
    for result in results_of(document):
        assert result["@parameters"]["device"] == "cuda"


@pytest.mark.slow
@measures("torch")
@needs_cuda
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["conv2d", "lstm", "infer transformer"])
def test_gpu_results_are_correct_in_other_data_types(name: str, dtype: str) -> None:
    document = measured(name, "torch", ("--dtype", dtype), device="cuda")
    assert document["@parameters"]["dtype"] == dtype
