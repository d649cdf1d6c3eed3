"""How errors and endings reach a person and a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from common.cli import RoomCommands, group, run, run_beside, thoth
from common.errors import (
    IndexFault,
    IndexProblem,
    InvalidArgument,
    InvalidDocument,
    InvalidFile,
    InvalidSettings,
    ProjectError,
    SchemaMismatch,
    ServiceFailed,
    StoreUnavailable,
)
from tests.services.waiting import DEADLINE_S


def failing_with(error: BaseException) -> click.Command:
    @click.command("fail")
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidDocument("truncated", "it ends early"), 1),
        (InvalidArgument("there is no such folder"), 2),
        (InvalidFile("invalid_toml", "it ends early"), 2),
        (InvalidSettings("GRAPH_URL: no"), 2),
        (IndexProblem(IndexFault.UNREACHABLE, "refused"), 3),
        (StoreUnavailable("PostgreSQL", "refused", "run `thoth up`"), 3),
        (ServiceFailed("PostgreSQL", "ended", "see the log"), 3),
        (SchemaMismatch("too new", "upgrade thoth"), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert run(failing_with(error), []) == code


def test_an_error_is_told_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    run(failing_with(StoreUnavailable("PostgreSQL", "refused", "run `thoth up`")), [])
    captured = capsys.readouterr()
    assert captured.err == "error: PostgreSQL is unavailable: refused\nhint: run `thoth up`\n"
    assert captured.out == ""


def test_an_error_without_a_remedy_has_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    run(failing_with(ProjectError("odd")), [])
    assert capsys.readouterr().err == "error: odd\n"


def test_a_bug_surfaces() -> None:
    with pytest.raises(ZeroDivisionError):
        run(failing_with(ZeroDivisionError()), [])


def test_a_command_that_does_not_exist_is_a_usage_error() -> None:
    assert run(thoth, ["nonsense"]) == 2


def test_a_command_can_choose_its_exit_code() -> None:
    @click.command()
    @click.pass_context
    def choosy(ctx: click.Context) -> None:
        ctx.exit(3)

    assert run(choosy, []) == 3


def test_a_room_that_cannot_be_loaded_leaves_the_others_in_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib.metadata import EntryPoint

    broken = EntryPoint("broken", "no.such.module:command", "thoth.commands")
    monkeypatch.setattr("common.cli._offered", lambda: {"broken": broken})
    commands = RoomCommands("thoth", commands={"fine": click.Command("fine", help="Works.")})
    assert run(commands, ["--help"]) == 0
    assert "Works." in capsys.readouterr().out
    assert run(commands, ["broken", "--any", "thing"]) == 1
    assert "no.such.module" not in capsys.readouterr().out


def test_a_setting_that_cannot_be_used_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://user:hidden@host/db")
    assert run(group("graph", "", click.Command("fine", callback=lambda: None)), ["fine"]) == 2
    captured = capsys.readouterr()
    assert "DATABASE_URL" in captured.err
    assert "hidden" not in captured.err


def test_a_reader_that_leaves_early_ends_the_command_quietly(tmp_path: Path) -> None:
    program = (
        "import click, sys; from common.cli import run\n"
        "@click.command()\n"
        "def talk():\n"
        "    for _ in range(100000): click.echo('word')\n"
        "sys.exit(run(talk, []))\n"
    )
    error_file = tmp_path / "stderr"
    with error_file.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(DEADLINE_S) == 141
    assert error_file.read_text() == ""


@pytest.mark.parametrize(
    ("redirection", "words"),
    [(">/dev/full", "No space left on device"), (">&-", "standard output is closed")],
)
@pytest.mark.parametrize("arguments", ["pi list", "pi list --json", "--help", "--version"])
def test_an_output_that_cannot_be_written_is_told_in_a_line(
    arguments: str, redirection: str, words: str
) -> None:
    program = f"{sys.executable} -c 'from common.cli import main; main()' {arguments}"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{program} {redirection}"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (1, f"error: {words}\n")


def test_errors_that_nobody_reads_stop_nothing() -> None:
    program = f"{sys.executable} -c 'from common.cli import main; main()' pi list"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.check_output(["/bin/sh", "-c", f"{program} 2>&-"], env=environment)
    assert b"matmul" in said


def test_a_command_run_beside_another_leaves_standard_output_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with click.Context(thoth) as context:
        assert run_beside(context, "packages", "watch", "--help") == 0
        with pytest.raises(click.UsageError):
            run_beside(context, "packages", "no-such-command")
        with pytest.raises(click.ClickException, match="not installed"):
            run_beside(context, "no-such-room")
    written = capsys.readouterr()
    assert written.out == ""
    assert "Usage: packages watch" in written.err
