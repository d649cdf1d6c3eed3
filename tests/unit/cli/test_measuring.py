"""``thoth bisect`` and ``compare``: arguments that they reject, folders, stacks and messages."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from packaging.requirements import Requirement

from adviser.answering.index_stacks import NoValidStack
from adviser.bisect.search import SearchStopped, StopReason, find_step
from adviser.bisect.series import StackSeries
from cli.bisect import command_line, measured_script, print_searches, question_of
from cli.compare_stacks import (
    STATE_NAME,
    Subject,
    blocks_so_far,
    changed_series,
    project_requirements,
    resolve_alike,
    resolved_stacks,
)
from cli.main import run, thoth
from cli.measuring import MachineGuard, SearchFolder, StackPinner
from model.errors import InvalidArgument
from pis.amun.launchers import BuildFailed
from tests.factories.golden import compare_views
from tests.factories.planted_steps import PlantedMeasurer, step_levels

SERIES = StackSeries("releases", [f"numpy {n}" for n in range(16)], lambda _: (None, ""), "numpy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bisect", "numpy", "--pi", "nothing"], "nothing"),
        (["bisect", "a", "b", "c", "--pi", "matmul"], "one requirement, or two locks"),
        (["bisect", "numpy>>1", "--pi", "matmul"], "numpy>>1"),
        (["bisect", "numpy[x]", "--pi", "matmul"], "a name and versions only"),
        (["bisect", "numpy[x]==1", "numpy[x]==2", "--pi", "matmul"], "a name and versions only"),
        (["bisect", "no.txt", "none.txt", "--pi", "matmul"], "no.txt"),
        (["bisect", "numpy", "--pi", "matmul", "-p", "size"], "NAME=VALUE"),
        (["bisect", "a.txt", "b.txt", "--with", "c", "--pi", "matmul"], "--with"),
        (["bisect", "numpy", "--pi", "matmul", "--max-jobs", "3"], "--max-jobs"),
        (["bisect", "numpy"], "--pi, a command behind --, or a script"),
        (["bisect", "numpy", "--pi", "matmul", "--", "python", "mine.py"], "--pi, a command"),
        (["bisect", "numpy", "--script", "none.py"], "none.py"),
        (["bisect", "numpy", "--script", "mine.py", "--", "python", "mine.py"], "or a script"),
        (["bisect", "numpy", "-p", "size=3", "--", "python", "mine.py"], "-p is for --pi"),
        (["bisect", "numpy", "--pi", "matmul", "--env", "A=1"], "--env needs a command"),
        (["bisect", "numpy", "--pi", "matmul", "--trust-script"], "--trust-script"),
        (["compare", "a==1", "--benchmark", "x", "--", "true"], "or --benchmark"),
        (["compare", "a==1", "a==2", "--benchmark", "x"], "no benchmark 'x'"),
        (["compare", "a==1", "--", "true"], "give two stacks or more"),
        (["compare", "a>>1", "a==2", "--", "true"], "neither a file nor a requirement"),
        (["compare", "a @ https://x/a.whl", "a==2", "--", "true"], "without a URL"),
        (["compare", "none.lock", "a==2", "--", "true"], "none.lock"),
        (["compare", "none.json", "a==2", "--", "true"], "none.json"),
        (["compare", "a==1", "a==2", "--env-b", "X", "--", "true"], "NAME=VALUE"),
        (["compare", "a==1", "a==2", "--", "python 'x"], "quotation"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_runs(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("THOTH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert run(thoth, arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_measurement_folder_of_other_arguments_is_refused(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path / "search")
    state = folder.state({"subjects": ["numpy"]})
    folder.write_state({**state, "held": {"a": "1"}})
    assert folder.state({"subjects": ["numpy"]})["held"] == {"a": "1"}
    with pytest.raises(InvalidArgument, match="other arguments"):
        folder.state({"subjects": ["pandas"]})

    (tmp_path / "bisect.json").write_text("{")
    with pytest.raises(InvalidArgument, match=r"bisect\.json"):
        SearchFolder(tmp_path).state({})


def test_locked_or_refused_stack_is_remembered_and_index_failure_is_not(tmp_path: Path) -> None:
    folder, calls = SearchFolder(tmp_path), []

    def refuse() -> dict[str, object]:
        calls.append(1)
        raise BuildFailed("no-wheel", "no wheel for this Python")

    for _ in range(2):
        assert folder.stack(["a==1"], refuse) == {"refusal": "no wheel for this Python"}
    assert len(calls) == 1

    def fail() -> dict[str, object]:
        raise BuildFailed("index-unreachable", "no answer")

    with pytest.raises(BuildFailed):
        SearchFolder(tmp_path / "silent").stack(["a==1"], fail)
    assert not list(tmp_path.glob("silent/**/*.json"))


def test_bisect_answer_states_result_and_uncertainty(capsys: pytest.CaptureFixture[str]) -> None:
    step, many = step_levels(16, {9: -0.2}), [f"numpy {n}" for n in range(64)]
    wide = StackSeries("releases", many, SERIES.specification_of, "numpy")
    skipped = PlantedMeasurer(step, 1, missing=frozenset({15}))
    limited = find_step(PlantedMeasurer(step, 1), 16, max_jobs=8)
    searches = {
        "a step, and a release that was skipped": (SERIES, find_step(skipped, 16)),
        "no step": (SERIES, find_step(PlantedMeasurer(step_levels(16, {}), 1), 16)),
        "dips that would not have been seen": (
            wide, find_step(PlantedMeasurer(step_levels(64, {}), 3), 64),
        ),
        "a limit on jobs": (SERIES, limited),
        **{
            f"a search that was stopped: {reason.value}": (
                SERIES, replace(limited, stopped=SearchStopped(reason, "this is why")),
            )
            for reason in StopReason
        },
    }  # fmt: skip
    views = {}
    for title, search in searches.items():
        print_searches([search], Path("out"), as_json=False)
        views[title] = capsys.readouterr().out
        print_searches([search], Path("out"), as_json=True)
        (document,) = json.loads(capsys.readouterr().out)["searches"]
        assert views[title].startswith(document["sentence"])
        assert document["jobs"] == document["search_jobs"] + document["confirming_jobs"]
        stopped = search[1].stopped
        assert document["stopped"] == (
            stopped and {"reason": stopped.reason.value, "message": str(stopped)}
        )
    compare_views("bisect", views)


def test_measurement_waits_for_a_quiet_machine_and_stops_if_it_stays_busy() -> None:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        guard = MachineGuard(0, 0.2, print)
        guard.jobs_started(0)  # nothing to run: a finished search needs no quiet machine
        with pytest.raises(SearchStopped, match="other processes use") as stopped:
            guard.jobs_started(1)
        MachineGuard(None, 0.2, print).jobs_started(1)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert stopped.value.reason is StopReason.BUSY


def test_measurement_stops_if_most_of_its_jobs_are_unusable() -> None:
    guard = MachineGuard(None, 0.2, print)
    for _ in range(20):
        guard.job_finished(None, {"exit_code": 1})
    with pytest.raises(SearchStopped, match="20 of 20 jobs failed or were unstable") as stopped:
        guard.jobs_started(1)
    assert stopped.value.reason is StopReason.UNSTABLE


def test_recorded_command_has_all_options_and_no_secrets() -> None:
    command = command_line(["a.txt", "b.txt"], {"--max-jobs": 30}, ["python", "my script.py"])
    assert command == "thoth bisect a.txt b.txt --max-jobs 30 -- python 'my script.py'"
    secret = command_line(["a"], {"--env": ["API_KEY=1"]}, ["mine", "--token", "a b"])
    assert secret == "thoth bisect a --env API_KEY=*** -- mine --token ***"


def test_changed_script_or_trust_starts_a_new_measurement(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    questions = []
    for text, trusted in (("print(1)", False), ("print(2)", False), ("print(2)", True)):
        script.write_text(text)
        measured = measured_script(None, (), str(script), None, trusted)
        assert (measured.label, measured.script) == ("mine.py", text)
        questions.append(question_of(["numpy"], measured, (), (), None, None))
    assert all(first != second for first, second in itertools.combinations(questions, 2))


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


def test_compared_stacks_share_all_versions_that_requirements_leave_open() -> None:
    needs = {"a==1": ["b<2", "c"], "a==2": ["b", "c"]}
    releases = Releases({"a": ["1", "2"], "b": ["1", "2"], "c": ["1"]}, needs)
    stacks = resolve_alike(releases.best, [["a==2"], ["a==1"]], {"a"})
    assert stacks == [{"a": "2", "b": "1", "c": "1"}, {"a": "1", "b": "1", "c": "1"}]
    needs = {"a==1": ["b<2", "c"], "a==2": ["b>=2", "c"]}
    releases = Releases({"a": ["1", "2"], "b": ["1", "2"], "c": ["1", "2"]}, needs)
    stacks = resolve_alike(releases.best, [["a==1", "c<2"], ["a==2"]], {"a"})
    assert stacks == [{"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "2", "c": "1"}]


def test_every_measured_stack_includes_the_requirements_of_the_project(tmp_path: Path) -> None:
    assert project_requirements(tmp_path) == []
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy >=1", "six"]\n')
    assert project_requirements(tmp_path) == ["numpy>=1", "six"]
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = 3\n")
    with pytest.raises(InvalidArgument):
        project_requirements(tmp_path)


def test_block_duration_counts_only_stacks_that_are_still_measured() -> None:
    def jobs(count: int) -> dict[int, dict[str, str]]:
        moments = {"start_datetime": "2026-01-01T00:00:00Z", "end_datetime": "2026-01-01T00:00:01Z"}
        return dict.fromkeys(range(count), moments)

    measured = {"A0": jobs(100), "B0": jobs(99), "C0": jobs(6)}
    assert blocks_so_far(measured, {"A", "B"}) == (99, 2)


def test_each_lock_without_packages_is_a_stack_of_its_own() -> None:
    python = {"requirements_locked": {"default": {}}}

    class Pinner:
        @staticmethod
        def exact_specification(pins: dict[str, str]) -> tuple[dict[str, object], str]:
            assert not pins
            return {"python": python}, ""

    pinner, empty = cast("StackPinner", Pinner()), Subject("uv.lock")
    stacks, parts = resolved_stacks(pinner, [empty, empty], [], [{}, {"X": "1"}], {})
    assert ([it.pins for it in stacks], parts) == ([{}, {}], [python, python])


def test_earlier_comparison_is_mentioned_only_if_its_files_changed(tmp_path: Path) -> None:
    def keep(folder: str, content: str) -> None:
        (tmp_path / folder).mkdir()
        state = {"question": {"subjects": ["a"], "files": {"bench.py": content}}}
        (tmp_path / folder / STATE_NAME).write_text(json.dumps(state))

    question = {"subjects": ["a"], "files": {"bench.py": "new"}}
    keep("equal", "new")
    assert changed_series(tmp_path / "own", question) is None
    keep("older", "old")
    assert str(changed_series(tmp_path / "own", question)).startswith("bench.py changed since")
