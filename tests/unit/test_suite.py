"""The test suite itself: how it is started, and what it needs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import HIDDEN_VARIABLES, OPTIONAL_PROGRAMS, hide_programs, needs

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", ["demo", "test"])
@needs("make")
def test_make_targets_report_download_size_and_duration(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", target]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "MB to download" in shown
    assert "in $(($(date +%s) - began)) s" in shown
    assert ("--quiet" in shown) == (target == "demo")


def test_optional_programs_can_be_hidden_from_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, links = tmp_path / "programs", tmp_path / "links"
    programs.mkdir()
    links.mkdir()
    for name in (*OPTIONAL_PROGRAMS, "other"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{tmp_path}")
    for name in HIDDEN_VARIABLES:
        monkeypatch.setenv(name, str(programs))
    hide_programs(links)
    assert not [name for name in OPTIONAL_PROGRAMS if shutil.which(name)]
    assert shutil.which("other")
    assert not os.environ.keys() & set(HIDDEN_VARIABLES)


def test_signals_ignored_by_the_caller_are_restored_for_test_programs() -> None:
    """As in ``nohup make test``."""
    program = "import signal; print(*[signal.getsignal(it).name for it in (1, 15)])"
    tests = (
        "import subprocess, sys, tests.conftest; "
        f"subprocess.run([sys.executable, '-c', {program!r}], check=True)"
    )
    ignoring = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]
    done = subprocess.run(
        [*ignoring, sys.executable, "-c", tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["SIG_DFL", "SIG_DFL"]
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_no_test_module_imports_another_test_module() -> None:
    """What two of them share lies in ``tests/factories`` or ``tests/services``."""
    other = re.compile(r"^\s*(?:from|import) tests\.\S*\btest_\w+", re.MULTILINE)
    modules = sorted((ROOT / "tests").rglob("*.py"))
    assert not [str(it) for it in modules if other.search(it.read_text("utf-8"))]
