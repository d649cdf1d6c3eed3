"""``thoth compare``: arguments that it rejects, and stacks that differ as little as possible."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from packaging.requirements import Requirement

from adviser.answering.index_stacks import NoValidStack
from cli.compare_stacks import (
    STATE_NAME,
    Subject,
    blocks_so_far,
    changed_series,
    held_equal,
    project_requirements,
    resolved_stacks,
)
from cli.main import run, thoth
from cli.measuring import StackPinner
from model.errors import InvalidArgument


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a==1", "--benchmark", "x", "--", "true"], "or --benchmark"),
        (["a==1", "a==2", "--benchmark", "x"], "no benchmark 'x'"),
        (["a==1", "--", "true"], "give two stacks or more"),
        (["a>>1", "a==2", "--", "true"], "no requirement"),
        (["a @ https://x/a.whl", "a==2", "--", "true"], "without an address"),
        (["none.lock", "a==2", "--", "true"], "none.lock"),
        (["none.json", "a==2", "--", "true"], "none.json"),
        (["a==1", "a==2", "--env-b", "X", "--", "true"], "NAME=VALUE"),
        (["a==1", "a==2", "--", "python 'x"], "quotation"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_runs(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run(thoth, ["compare", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


class Releases:
    """A tiny index: the newest release of each package that fits wins.

    :param needs: what a release needs, by ``name==version``
    """

    def __init__(self, versions: dict[str, list[str]], needs: dict[str, list[str]]) -> None:
        self.versions = versions
        self.needs = needs

    def best(self, requirements: Sequence[str]) -> dict[str, str]:
        chosen: dict[str, str] = {}
        wanted = list(requirements)
        while True:
            names = {Requirement(it).name for it in wanted} - chosen.keys()
            if not names:
                return chosen
            name = min(names)
            chosen[name] = next(
                (
                    it
                    for it in reversed(self.versions[name])
                    if all(
                        it in Requirement(want).specifier
                        for want in wanted
                        if Requirement(want).name == name
                    )
                ),
                "",
            )
            if not chosen[name]:
                raise NoValidStack(name)
            wanted += self.needs.get(f"{name}=={chosen[name]}", [])


def test_packages_left_open_by_two_requirements_are_held_equal() -> None:
    needs = {"a==1": ["b<2", "c"], "a==2": ["b", "c"]}
    releases = Releases({"a": ["1", "2"], "b": ["1", "2"], "c": ["1"]}, needs)
    stacks = held_equal(releases.best, [["a==2"], ["a==1"]], {"a"})
    assert stacks == [{"a": "2", "b": "1", "c": "1"}, {"a": "1", "b": "1", "c": "1"}]


def test_only_packages_that_must_differ_differ() -> None:
    needs = {"a==1": ["b<2", "c"], "a==2": ["b>=2", "c"]}
    releases = Releases({"a": ["1", "2"], "b": ["1", "2"], "c": ["1", "2"]}, needs)
    stacks = held_equal(releases.best, [["a==1", "c<2"], ["a==2"]], {"a"})
    assert stacks == [{"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "2", "c": "1"}]


def test_the_requirements_of_the_project_belong_to_every_stack(tmp_path: Path) -> None:
    assert project_requirements(tmp_path) == []
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy >=1", "six"]\n')
    assert project_requirements(tmp_path) == ["numpy>=1", "six"]
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = 3\n")
    with pytest.raises(InvalidArgument):
        project_requirements(tmp_path)


def test_a_stack_that_settled_early_does_not_lengthen_a_block() -> None:
    def jobs(count: int) -> dict[int, dict[str, str]]:
        moments = {"start_datetime": "2026-01-01T00:00:00Z", "end_datetime": "2026-01-01T00:00:01Z"}
        return dict.fromkeys(range(count), moments)

    measured = {"A0": jobs(100), "B0": jobs(99), "C0": jobs(6)}
    assert blocks_so_far(measured, {"A", "B"}) == (99, 2)


def test_empty_locks_are_one_stack_each() -> None:
    python = {"requirements_locked": {"default": {}}}

    class Pinner:
        @staticmethod
        def exact_specification(pins: dict[str, str]) -> tuple[dict[str, object], str]:
            assert not pins
            return {"python": python}, ""

    pinner, empty = cast("StackPinner", Pinner()), Subject("uv.lock")
    stacks, parts = resolved_stacks(pinner, [empty, empty], [], [{}, {"X": "1"}], {})
    assert ([it.pins for it in stacks], parts) == ([{}, {}], [python, python])


def test_only_a_comparison_with_other_files_is_named_as_an_earlier_one(tmp_path: Path) -> None:
    def keep(folder: str, content: str) -> None:
        (tmp_path / folder).mkdir()
        state = {"question": {"subjects": ["a"], "files": {"bench.py": content}}}
        (tmp_path / folder / STATE_NAME).write_text(json.dumps(state))

    question = {"subjects": ["a"], "files": {"bench.py": "new"}}
    keep("equal", "new")
    assert changed_series(tmp_path / "own", question) is None
    keep("older", "old")
    assert str(changed_series(tmp_path / "own", question)).startswith("bench.py changed since")
