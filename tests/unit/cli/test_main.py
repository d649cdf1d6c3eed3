"""How errors and endings reach a person and a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.main import COMMANDS, FIRST_COMMANDS, PURPOSES, run, thoth
from model.errors import (
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


def test_command_error_is_printed_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    for error, text in (
        (StoreUnavailable("PostgreSQL", "refused", "run `thoth up`"),
         "error: PostgreSQL is unavailable: refused\nhint: run `thoth up`\n"),
        (ProjectError("odd"), "error: odd\n"),
    ):  # fmt: skip
        run(failing_with(error), [])
        assert capsys.readouterr() == ("", text)


def test_unexpected_error_of_a_command_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run(failing_with(ZeroDivisionError()), [])


def test_unknown_command_exits_with_2() -> None:
    assert run(thoth, ["nonsense"]) == 2


def test_command_list_shows_the_first_sentence_of_each_commands_help() -> None:
    assert list(COMMANDS) == sorted(COMMANDS)
    with click.Context(thoth) as context:
        for name, (_, summary) in COMMANDS.items():
            command = thoth.get_command(context, name)
            assert (command.name, command.get_short_help_str(1000)) == (name, summary)


def test_command_list_starts_with_six_commands_and_names_each_once() -> None:
    tail = [name for names in PURPOSES.values() for name in names]
    assert sorted((*FIRST_COMMANDS, *tail)) == sorted({*COMMANDS, "compare"})
    shown = CliRunner().invoke(thoth, ["--help"]).stdout
    sections = re.findall(r"(?m)^(?:(\S.*):|  (\S+)  )", shown.partition("Start here:")[2])
    names = [name for _, name in sections if name]
    assert names == [*(it for it in FIRST_COMMANDS if it in COMMANDS), *PURPOSES]
    assert all(re.search(rf"\b{re.escape(it)}\b", shown) for it in tail)


def test_help_all_and_help_of_each_command_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(thoth, ["help", "all"]) == 0
    explained = " ".join(capsys.readouterr().out.split())
    assert all(f" {name} {summary}" in explained for name, (_, summary) in COMMANDS.items())
    for command in ("", "advise", "loop run"):
        assert run(thoth, ["help", *command.split()]) == 0
        helped = capsys.readouterr().out
        assert run(thoth, [*command.split(), "--help"]) == 0
        assert capsys.readouterr().out == helped
    assert run(thoth, ["help", "loop", "walk"]) == 2
    assert "thoth loop has no command 'walk'" in capsys.readouterr().err


def test_invalid_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://user:hidden@host/db")
    assert run(thoth, ["status"]) == 2
    captured = capsys.readouterr()
    assert "DATABASE_URL" in captured.err
    assert "hidden" not in captured.err


def test_closed_output_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    program = (
        "import click, sys; from cli.main import run\n"
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
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(DEADLINE_S) == 141
    assert error_file.read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "redirection", "words"),
    [
        ("pi list", ">/dev/full", "No space left on device"),
        ("pi list --json", ">&-", "standard output is closed"),
        ("--help", ">&-", "standard output is closed"),
        ("--version", ">/dev/full", "No space left on device"),
    ],
)
def test_unwritable_output_is_reported_in_one_line(
    arguments: str, redirection: str, words: str
) -> None:
    program = f"{sys.executable} -c 'from cli.main import main; main()' {arguments}"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{program} {redirection}"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (1, f"error: {words}\n")


def test_a_closed_standard_error_does_not_stop_a_command() -> None:
    program = f"{sys.executable} -c 'from cli.main import main; main()' pi list"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.check_output(["/bin/sh", "-c", f"{program} 2>&-"], env=environment)
    assert b"matmul" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("advise", ""),
        ("why", "numpy", "--project", ""),
        ("guard", "", "requirements.txt"),
        ("guard", "requirements.txt", ""),
        ("provenance", ""),
    ],
)
def test_empty_path_argument_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))
    result = CliRunner().invoke(thoth, arguments)
    assert result.exit_code == 2
    assert "the path is empty" in result.output
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("arguments", [("provenance",), ("provenance", ".")])
def test_provenance_requires_a_lock_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))
    (tmp_path / "requirements.txt").write_text("flask>=3\n", encoding="utf-8")
    result = CliRunner().invoke(thoth, arguments)
    assert isinstance(result.exception, InvalidArgument)
    assert str(result.exception) == "the project has no lock whose packages are all pinned"
