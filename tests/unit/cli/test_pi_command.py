"""``thoth pi`` as a person or a program calls it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pis.catalogue import INDICATORS
from pis.script_run import CannotStart, run_script
from tests.factories.benchmark_files import read_files
from tests.services.commands import program
from tests.services.waiting import DEADLINE_S, wait_until

ROOT = Path(__file__).parents[3]
QUICK = ["--matrix-size=16", "--reps=3", "--min-time=0.001", "--threads=1"]


def pi(command: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    shared = ["--share-machine"] if command == "run" else []
    variables = {**os.environ, "COLUMNS": "100", **environ}
    return program().run(("pi", command, *shared, *arguments), variables, ROOT)


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """An interpreter without any library."""
    import venv

    venv.create(tmp_path / "bare", with_pip=False)
    return str(tmp_path / "bare" / "bin" / "python")


def test_every_indicator_is_listed() -> None:
    listed = pi("list")
    assert listed.returncode == 0
    assert all(f"\n{name} " in listed.stdout for name in INDICATORS)
    names = [it["name"] for it in json.loads(pi("list", "--json").stdout)["indicators"]]
    assert names == list(INDICATORS)


def test_an_indicator_is_described_with_its_flags_and_variables() -> None:
    described = pi("describe", "matmul")
    assert described.returncode == 0
    for word in ("--matrix-size", "512", "MATMUL_MATRIX_SIZE", "bfloat16", "--threads"):
        assert word in described.stdout
    document = json.loads(pi("describe", "matmul", "--json").stdout)
    assert document["metrics"][0]["definition"] == "thoth-matmul-1"
    assert document["title"] == "PiMatmul"
    assert len(document["script_sha256"]) == 64
    size = next(it for it in document["parameters"] if it["name"] == "matrix_size")
    assert (size["type"], size["default"]) == ("int", 512)


def test_indicator_run_shows_sizes_rate_and_spread_in_a_table() -> None:
    ran = pi("run", "matmul", *QUICK)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("PiMatmul, numpy ")
    words = ("matrix_size 16", "GFLOPS", "median ms", "spread", "3 × ", "threads: 1", "build: ")
    assert all(word in ran.stdout for word in words)
    assert ran.stderr == ""


def test_several_indicator_results_are_rows_of_one_table() -> None:
    ran = pi("run", "gemm", "--shapes=8,4,2,nn;3,5,7,tn", *QUICK[1:])
    assert ran.returncode == 0, ran.stderr
    assert "\nm  n  k  transposes" in ran.stdout
    assert "\n3  5  7          tn" in ran.stdout
    ran = pi("run", "arrays", "--reps=2", "--mini-batch=1", "--threads=1")
    assert ran.returncode == 0, ran.stderr
    title = next(it for it in ran.stdout.splitlines() if it.startswith("operation "))
    assert title.split()[:5] == ["operation", "items", "points", "batch", "order"]
    assert "small" in ran.stdout


def test_indicator_run_prints_its_json_document_or_the_script_help() -> None:
    ran = pi("run", "matmul", "--json", *QUICK, MATMUL_DTYPE="float64")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["@parameters"]["dtype"] == "float64"
    helped = pi("run", "matmul", "--", "--help")
    assert helped.returncode == 0
    assert "--matrix-size" in helped.stdout


def test_missing_library_of_an_indicator_is_reported_with_a_remedy(bare_python: str) -> None:
    refused = pi("run", "matmul", "--framework", "torch", "--python", bare_python)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: torch cannot be imported here")
    assert "hint: install `torch`" in refused.stderr
    assert "thoth inspect" in refused.stderr


@pytest.mark.parametrize("said", ["", "words", "[]", "{}", '{"@results": []}', "[" * 100_000])
def test_indicator_that_prints_no_result_is_an_error(tmp_path: Path, said: str) -> None:
    program, words = tmp_path / "program", tmp_path / "words"
    words.write_text(said)
    program.write_text(f"#!/bin/sh\ncat {words}\n")
    program.chmod(0o755)
    refused = pi("run", "matmul", "--python", str(program))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: {program} printed no result of matmul\n")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_measuring_process_ends_with_the_command(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "cli", "pi", "run", "matmul", "--min-time=60"]
    command.append("--share-machine")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as process:
        script = started_by(process.pid)
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == code
    script.wait(DEADLINE_S)
    if number is signal.SIGKILL:
        assert pi("run", "matmul", *QUICK, TMPDIR=str(tmp_path)).returncode == 0
    assert not list(tmp_path.glob("thoth-*"))


def started_by(pid: int) -> psutil.Process:
    """The script that a command runs, when it is at work."""

    def script() -> psutil.Process | None:
        for child in psutil.Process(pid).children():
            # setpriv starts the script: until it has, both have its path in their arguments.
            program, *arguments = child.cmdline() or [""]
            if "setpriv" not in program and any(it.endswith("pi_matmul.py") for it in arguments):
                return child
        return None

    return wait_until(script, "the script runs")


def test_indicator_output_is_shown_during_the_run() -> None:
    lines: list[str] = []
    finished = run_script("matmul", sys.executable, QUICK, lines.append)
    assert finished.exit_code == 0
    assert lines[0] == "matmul: importing numpy"
    assert finished.errors == tuple(lines)


def test_indicator_that_cannot_be_started_is_reported_with_a_remedy() -> None:
    with pytest.raises(CannotStart) as refused:
        run_script("matmul", "/nonexistent", [], print)
    assert refused.value.hint is not None


def test_indicator_result_can_be_printed_in_perfzero_format(tmp_path: Path) -> None:
    done = pi("run", "matmul", *QUICK, "--perfzero")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    results, refusals = read_files(tmp_path, "perfzero", {"run.log": line})
    (result,) = (it for it in results if it.value is not None)
    (metric,) = json.loads(line)["benchmark_result"]["metrics"]
    assert refusals == []
    assert (result.benchmark, result.metric.name, result.value) == (
        "matmul", "rate", metric["value"],
    )  # fmt: skip
    assert metric["extra_info"]["definition"] == "thoth-matmul-1"
    samples = metric["extra_info"]["samples"]
    assert len(samples) == 3
    assert min(samples) <= metric["value"] <= max(samples)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("run matmul --device=cuda", "error: numpy computes on the CPU only: use --device cpu\n"),
        ("run matmul --matrix-size=none", "matrix_size: 'none' is no whole number"),
        ("run matmul --threads=100000", "threads: 100000 is not within 0 … 1024\n"),
        ("run matmul --threads=-1", "threads: -1 is not within 0 … 1024\n"),
        ("run matmul --threads -1", "threads: -1 is not within 0 … 1024\n"),
        ("run matmul --python /nonexistent/python", "/nonexistent/python: No such file"),
        ("run matmul --python /etc/passwd", "error: /etc/passwd: Permission denied\nhint: "),
        ("run matmul --python /tmp", "error: /tmp: Permission denied\nhint: "),
        ("run matmul --perfzero --json", "give one of them"),
        ("run nonsense", "use one of matmul, gemm"),
        ("describe nonsense", "hint: `thoth pi list`"),
        ("pin matmul six==1 -o /nonexistent/x", "error: there is no folder /nonexistent\n"),
        ("pin matmul six==1.17.0 --python abc", "error: --python: 'abc' is no version"),
    ],
)
def test_invalid_pi_command_exits_with_2_and_the_reason(arguments: str, error: str) -> None:
    command, *rest = arguments.split()
    refused = pi(command, *rest)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert error in refused.stderr
