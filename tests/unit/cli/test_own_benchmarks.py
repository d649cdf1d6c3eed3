"""Commands of a project's files run only after a person has confirmed them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from cli.own_benchmarks import (
    chosen_benchmarks,
    confirm_own_benchmarks,
    of_these_files,
    program_of_benchmark,
)
from common.settings import Settings
from loop.watched_projects import benchmarks_of
from model.errors import InvalidArgument
from pis.command_specifications import command_of
from tests.factories.evidence import Bench, jobs, series


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"THOTH_HOME": str(tmp_path / "home")})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    name_benchmarks(project, train="python bench.py", serve="./load.sh")
    return project


def name_benchmarks(folder: Path, **commands: str) -> None:
    lines = "".join(f'{name} = "{command}"\n' for name, command in commands.items())
    (folder / "thoth.toml").write_text(f"[benchmarks]\n{lines}")


def answer(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Sit at the terminal and type ``text``, or be no terminal."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: text is not None))
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: text)


def test_benchmark_command_is_shown_for_confirmation_only_once(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    answer(monkeypatch, "n")
    with pytest.raises(click.Abort):
        chosen_benchmarks(settings, folder, ["train"], confirmed=False)
    assert "train: python bench.py" in capsys.readouterr().err
    answer(monkeypatch, "y")
    chosen = chosen_benchmarks(settings, folder, ["train"], confirmed=False)
    assert chosen == {"train": "python bench.py"}
    answer(monkeypatch, None)
    capsys.readouterr()
    assert chosen_benchmarks(settings, folder, ["train"], confirmed=False) == chosen
    assert capsys.readouterr().err == ""


def test_unconfirmed_benchmark_needs_the_yes_option_without_a_terminal(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, None)
    with pytest.raises(InvalidArgument) as refused:
        chosen_benchmarks(settings, folder, [], confirmed=False)
    assert "--yes" in str(refused.value.hint)
    assert chosen_benchmarks(settings, folder, [], confirmed=True) == benchmarks_of(folder)
    assert chosen_benchmarks(settings, folder, [], confirmed=False) == benchmarks_of(folder)


@pytest.mark.parametrize("change", ["command", "folder"])
def test_changed_benchmark_command_or_folder_needs_new_confirmation(
    change: str, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, None)
    chosen_benchmarks(settings, folder, [], confirmed=True)
    if change == "command":
        name_benchmarks(folder, train="python other.py")
    else:
        folder = folder.rename(folder.with_name("moved"))
    with pytest.raises(InvalidArgument):
        chosen_benchmarks(settings, folder, ["train"], confirmed=False)


def test_unknown_benchmark_is_reported_with_the_known_ones(
    settings: Settings, folder: Path
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        chosen_benchmarks(settings, folder, ["trian"], confirmed=True)
    assert "trian" in str(refused.value)
    assert "train" in str(refused.value.hint)


def test_bisect_takes_exactly_one_benchmark(settings: Settings, folder: Path) -> None:
    def program(*names: str) -> tuple[str, ...]:
        return program_of_benchmark(settings, folder, names, confirmed=True)

    assert program("train") == ("python bench.py",)
    for names in ((), ("train", "serve")):
        with pytest.raises(InvalidArgument):
            program(*names)
    name_benchmarks(folder, serve="./load.sh")
    assert program() == ("./load.sh",)
    (folder / "thoth.toml").unlink()
    assert program() == ()


def test_watch_names_unconfirmed_benchmarks_without_a_terminal(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    answer(monkeypatch, None)
    confirm_own_benchmarks(settings, folder, confirmed=False)
    assert "train" in capsys.readouterr().err
    confirm_own_benchmarks(settings, folder, confirmed=True)
    capsys.readouterr()
    confirm_own_benchmarks(settings, folder, confirmed=False)
    assert capsys.readouterr().err == ""


def test_measurements_with_other_benchmark_files_do_not_count(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bench.py").write_text("print(1)")
    here = command_of(["python", "bench.py"], folder)
    bench = Bench()
    stack = bench.stack("app==1.0")
    bench.measure(stack, jobs(), series("command", parameters=here.identity))
    bench.measure(stack, jobs(), series("PiMatmul"))
    evidence = bench.evidence()
    assert of_these_files(evidence, [tmp_path, folder]) == evidence
    assert capsys.readouterr().err == ""
    (folder / "bench.py").write_text("print(2)")
    left = of_these_files(evidence, [tmp_path, folder])
    assert {evidence.series[it.series].indicator for it in left.readings} == {"PiMatmul"}
    assert "`python bench.py`" in capsys.readouterr().err
