"""Which tool keeps a lock, and what it is asked."""

import os
from pathlib import Path

import pytest

from cli.project_tools import ToolFailed, command_text, lock_again, tool_of
from common.formats.locks.entries import DEFAULT_SELECTION
from model.errors import InvalidArgument
from model.packages.identity import VersionChange
from tests.factories.universes import ENVIRONMENT

PINS = ["idna==3.6"]
CHANGES = [VersionChange("idna", "3.7", "3.6")]
UPGRADE = "--upgrade-package idna==3.6"


def lock_made_by(folder: Path, command: str) -> Path:
    lock = folder / "requirements.txt"
    lock.write_text(f"#\n#    {command}\n#\nidna==3.7\n", encoding="utf-8")
    return lock


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (
            "pip-compile --allow-unsafe --output-file=requirements.txt requirements.in",
            f"pip-compile --allow-unsafe --output-file requirements.txt requirements.in {UPGRADE}",
        ),
        (
            "uv pip compile requirements.in -o ../elsewhere.txt --python-version 3.11",
            f"uv pip compile requirements.in -o requirements.txt --python-version 3.11 {UPGRADE}",
        ),
        (
            "pip-compile --index-url=https://me:****@index.example/simple",
            f"pip-compile --output-file requirements.txt {UPGRADE}",
        ),
        (
            "uv pip compile --index-url https://me:hunter2@index.example/simple a.in",
            "uv pip compile --index-url https://…@index.example/simple a.in --output-file"
            f" requirements.txt {UPGRADE}",
        ),
    ],
)
def test_lock_is_written_with_the_command_that_it_records(
    tmp_path: Path, command: str, asked: str
) -> None:
    tool = tool_of(lock_made_by(tmp_path, command))
    assert tool is not None
    assert command_text(tool, PINS) == asked


def test_recorded_lock_command_with_unknown_options_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        tool_of(lock_made_by(tmp_path, "pip-compile --pip-args='--target /' requirements.in"))
    assert "--upgrade-package" in (caught.value.hint or "")
    for comment in ("made by hand", "pip-compiles requirements", "pip-compile doesn't know it"):
        assert tool_of(lock_made_by(tmp_path, comment)) is None
    assert tool_of(tmp_path / "pylock.toml") is None


def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> Path:
    """A lock of a ``pip-compile`` that breaks the lock, and then runs lines of a shell script."""
    script = tmp_path / "bin" / "pip-compile"
    script.parent.mkdir()
    script.write_text("\n".join(["#!/bin/sh", "echo broken > requirements.txt", *lines]), "utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return lock_made_by(tmp_path, "pip-compile requirements.in")


def test_file_changes_by_a_failing_lock_tool_are_reverted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = "echo 'no https://me:hunter2@index.example/simple' >&2"
    lock = compiler(tmp_path, monkeypatch, error, "exit 3")
    before = lock.read_bytes()
    tool = tool_of(lock)
    assert tool is not None
    with pytest.raises(ToolFailed) as caught:
        lock_again(tool, lock, CHANGES, DEFAULT_SELECTION, ENVIRONMENT)
    command = f"pip-compile requirements.in --output-file requirements.txt {UPGRADE}"
    assert capsys.readouterr().err == f"idna: 3.7 → 3.6\nruns: {command}\n"
    assert "exit code 3" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert lock.read_bytes() == before


@pytest.mark.filterwarnings("ignore:subprocess .* is still running")  # it was killed
def test_file_changes_by_a_lock_tool_are_reverted_after_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = compiler(tmp_path, monkeypatch, f"kill -TERM {os.getpid()}", "exec sleep 60")
    before = lock.read_bytes()
    tool = tool_of(lock)
    assert tool is not None
    with pytest.raises(KeyboardInterrupt):
        lock_again(tool, lock, CHANGES, DEFAULT_SELECTION, ENVIRONMENT)
    assert lock.read_bytes() == before
