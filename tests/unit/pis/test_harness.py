"""An indicator from flags to its document, for real on NumPy."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pis.indicators import gemm, import_time, matmul, memory
from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from tests.services.json_schemas import check_schema, validate

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/reference/indicator-result.schema.json").read_text("utf-8")
)
QUICK = ["--reps=3", "--min-time=0.001", "--threads=1"]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness writes thread variables into the environment."""
    for name, value in os.environ.items():
        monkeypatch.setenv(name, value)


def document_of(
    capsys: pytest.CaptureFixture[str], indicator: Indicator, *argv: str
) -> dict[str, Any]:
    assert main(indicator, [*QUICK, *argv]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(document, SCHEMA)
    return document


def test_published_result_schema_is_a_valid_json_schema() -> None:
    check_schema(SCHEMA)


def test_matmul_rate_is_operations_per_second(capsys: pytest.CaptureFixture[str]) -> None:
    document = document_of(capsys, matmul.INDICATOR, "--matrix-size=32", "--batch=2", "--seed=5")
    assert document["@parameters"] == {
        "device": "cpu", "threads": 1, "seed": 5, "dtype": "float32", "matrix_size": 32, "batch": 2,
    }  # fmt: skip
    result = document["@result"]
    assert result["per_call"] == {"amount": 2 * (2 * 32**3 - 32**2), "unit": "FLOP"}
    assert len(result["repetitions"]) == 3
    rate = result["per_call"]["amount"] / (result["elapsed"] * 1e-3) / 1e9
    assert result["rate"] == pytest.approx(rate)


def test_integer_matmul_reports_integer_operations_and_a_single_thread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = document_of(capsys, matmul.INDICATOR, "--matrix-size=16", "--dtype=int8")
    assert document["@result"]["unit"] == "GOPS"
    flags = ["--matrix-size=16", "--dtype=float16", "--threads=2"]
    document = document_of(capsys, matmul.INDICATOR, *flags)
    assert document["@parameters"]["threads"] == 1
    assert document["threads"]["requested"] == 2


def test_indicator_gives_one_result_for_each_shape(capsys: pytest.CaptureFixture[str]) -> None:
    document = document_of(capsys, gemm.INDICATOR, "--shapes=8,4,2,n,t;3,5,7,tn")
    first, second = document["@results"]
    assert first["@parameters"]["transposes"] == "nt"
    assert first["@result"]["per_call"]["amount"] == 8 * 4 * 3
    assert [second["@parameters"][name] for name in "mnk"] == [3, 5, 7]


def test_memory_and_import_indicators_have_their_own_rate_units(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = document_of(capsys, memory.INDICATOR, "--array-mib=1", "--dtype=float32")
    assert document["@result"]["per_call"] == {"amount": 3 * 2**20, "unit": "B"}
    assert document["@result"]["unit"] == "GB/s"
    document = document_of(capsys, import_time.INDICATOR)
    assert document["@result"]["unit"] == "imports/s"
    assert document["@result"]["peak"] is None


def test_progress_is_printed_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(matmul.INDICATOR, [*QUICK, "--matrix-size=8"]) == 0
    told = capsys.readouterr().err
    assert "matmul: importing numpy" in told
    assert main(matmul.INDICATOR, [*QUICK, "--matrix-size=8", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("flags", "words"),
    [(["--dtype=bfloat16"], "numpy has no bfloat16"), (["--device=cuda"], "--device cpu")],
)
def test_unsupported_indicator_request_exits_with_2_and_one_line(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(matmul.INDICATOR, [*QUICK, "--quiet", *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_historic_device_variable_reaches_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MATMUL_DEVICE", "gpu")
    assert main(matmul.INDICATOR, ["--quiet"]) == 2
    assert "numpy computes on the CPU only" in capsys.readouterr().err


def indicator(
    call: Callable[[], Any], check: Callable[[Any], float], per_call: int = 1
) -> Indicator:
    def works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
        yield Work(call, per_call, "FLOP", {"dtype": "float32"}, check)

    return Indicator("mine", "PiMine", "Mine.", (), ("numpy",), works)


def wrong(output: Any) -> float:
    """Only the first output, which is 0, is right."""
    if output:
        raise WrongResult(f"it is {output}")
    return 0.0


def exhaust() -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


@pytest.mark.parametrize(
    ("call", "per_call", "words"),
    [
        (lambda: 41, 1, "it is 41\n"),
        (itertools.count().__next__, 1, "it is "),
        (lambda: 0, 10**15, "lies above the peak"),
        (exhaust, 1, "not enough memory"),
    ],
    ids=["wrong", "wrong later", "above the peak", "memory"],
)
def test_impossible_indicator_result_exits_with_1_and_one_line(
    call: Callable[[], Any], per_call: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(indicator(call, wrong, per_call), [*QUICK, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert words in captured.err


def test_unexpected_error_of_an_indicator_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        main(indicator(lambda: 1 // 0, lambda output: 0.0), [*QUICK, "--quiet"])


def test_library_output_does_not_enter_the_result_document(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def talk() -> None:
        print("from Python")  # noqa: T201
        os.write(1, b"from below\n")

    assert main(indicator(talk, lambda output: 0.0), [*QUICK, "--quiet"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out)["name"] == "PiMine"
    assert "from Python" in captured.err
    assert "from below" in captured.err


def test_memory_of_a_shape_is_freed_before_the_next_shape() -> None:
    alive: list[int] = []

    class Operand:
        def __init__(self) -> None:
            alive.append(1)
            self.most = len(alive)

        def __del__(self) -> None:
            alive.pop()

    most = []

    def works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
        for number in range(3):
            yield made(number)

    def made(number: int) -> Work:
        operand = Operand()
        most.append(operand.most)
        return Work(lambda: operand.most, 1, "FLOP", {"number": number}, float)

    several = Indicator("mine", "PiMine", "Mine.", (), ("numpy",), works)
    assert main(several, [*QUICK, "--quiet"]) == 0
    assert most == [1, 1, 1]


NOISY = """
import ctypes, sys
from pis.indicators.harness import Indicator, Work, main

def works(framework, values):
    ctypes.CDLL(None).printf(b"a library speaks\\n")
    yield Work(lambda: 1.0, 1, "FLOP", {}, lambda output: 1.0, kind="none")

noisy = Indicator("noisy", "PiNoisy", "", (), ("numpy",), works)
raise SystemExit(main(noisy, ["--min-time", "0.001", "--quiet"]))
"""


def test_native_output_of_a_library_goes_to_standard_error() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", NOISY],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["name"] == "PiNoisy", done.stderr
    assert "a library speaks" in done.stderr
