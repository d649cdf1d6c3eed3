"""``thoth pi`` as a person or a program calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pis.catalogue import INDICATORS
from pis.scripts import CannotStart, run_script

ROOT = Path(__file__).parents[3]
QUICK = ["--matrix-size=16", "--reps=3", "--min-time=0.001", "--threads=1"]


def pi(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pis", "pi", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environ},
    )


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
    assert document["title"] == "PiMatmul"
    assert len(document["script_sha256"]) == 64
    size = next(it for it in document["parameters"] if it["name"] == "matrix_size")
    assert (size["type"], size["default"]) == ("int", 512)


def test_a_run_shows_a_table() -> None:
    ran = pi("run", "matmul", *QUICK)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("PiMatmul, numpy ")
    for word in (
        "matrix_size 16",
        "GFLOPS",
        "median ms",
        "spread",
        "3 × ",
        "threads: 1",
        "build: ",
    ):
        assert word in ran.stdout
    assert ran.stderr == ""


def test_several_results_are_rows() -> None:
    ran = pi("run", "gemm", "--shapes=8,4,2,nn;3,5,7,tn", *QUICK[1:])
    assert ran.returncode == 0, ran.stderr
    assert "\nm  n  k  transposes" in ran.stdout
    assert "\n3  5  7          tn" in ran.stdout


def test_a_run_gives_one_document() -> None:
    ran = pi("run", "matmul", "--json", *QUICK, MATMUL_DTYPE="float64")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["@parameters"]["dtype"] == "float64"


def test_the_exit_code_is_the_scripts() -> None:
    refused = pi("run", "matmul", "--device=cuda")
    assert refused.returncode == 2
    assert refused.stderr == "error: numpy computes on the CPU only: use --device cpu\n"
    assert pi("run", "matmul", "--matrix-size=none").returncode == 2


def test_an_unknown_indicator_is_told_what_there_is() -> None:
    refused = pi("run", "nonsense")
    assert refused.returncode == 1
    assert "there are matmul, gemm" in refused.stderr
    assert "hint: `thoth pi list`" in refused.stderr


def test_a_missing_library_is_told_with_its_remedy(bare_python: str) -> None:
    refused = pi("run", "matmul", "--framework", "torch", "--python", bare_python)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: torch cannot be imported here")
    assert "hint: install the extra `torch`" in refused.stderr
    assert "thoth inspect" in refused.stderr


def test_a_python_that_is_none_is_told() -> None:
    refused = pi("run", "matmul", "--python", "/nonexistent/python")
    assert refused.returncode == 1
    assert "/nonexistent/python: No such file" in refused.stderr


def test_a_warning_reaches_the_person() -> None:
    ran = pi("run", "memory", "--array-mib=1", *QUICK[1:])
    assert ran.returncode == 0
    if ran.stderr:  # a machine may hide its caches
        assert ran.stderr.startswith("warning: the last cache has")


def test_lines_come_while_the_script_runs() -> None:
    lines: list[str] = []
    finished = run_script("matmul", sys.executable, QUICK, lines.append)
    assert finished.exit_code == 0
    assert lines[0] == "matmul: importing numpy"
    assert finished.errors == tuple(lines)


def test_a_script_that_cannot_be_started_is_an_error_with_a_remedy() -> None:
    with pytest.raises(CannotStart) as refused:
        run_script("matmul", "/nonexistent", [], print)
    assert refused.value.hint is not None
