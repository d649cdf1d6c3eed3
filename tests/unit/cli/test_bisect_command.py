"""``thoth bisect``: arguments that it rejects, its folder and its messages."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from adviser.bisect.search import SearchStopped, StopReason, find_step
from adviser.bisect.series import StackSeries
from cli.bisect import command_line, measured_script, print_searches, question_of
from cli.main import run, thoth
from cli.measuring import MachineGuard, SearchFolder
from model.errors import InvalidArgument
from pis.amun.launchers import BuildFailed
from tests.factories.golden import compare_views
from tests.factories.planted_steps import PlantedMeasurer, step_levels

SERIES = StackSeries("releases", [f"numpy {n}" for n in range(16)], lambda _: (None, ""), "numpy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["numpy", "--pi", "nothing"], "nothing"),
        (["a", "b", "c", "--pi", "matmul"], "one requirement, or two locks"),
        (["numpy>>1", "--pi", "matmul"], "numpy>>1"),
        (["numpy[x]", "--pi", "matmul"], "a name and versions only"),
        (["numpy[x]==1", "numpy[x]==2", "--pi", "matmul"], "a name and versions only"),
        (["no.txt", "none.txt", "--pi", "matmul"], "no.txt"),
        (["numpy", "--pi", "matmul", "-p", "size"], "NAME=VALUE"),
        (["a.txt", "b.txt", "--with", "c", "--pi", "matmul"], "--with"),
        (["numpy", "--pi", "matmul", "--max-jobs", "3"], "--max-jobs"),
        (["numpy"], "--pi, a command behind --, or a script"),
        (["numpy", "--pi", "matmul", "--", "python", "mine.py"], "--pi, a command"),
        (["numpy", "--script", "none.py"], "none.py"),
        (["numpy", "--script", "mine.py", "--", "python", "mine.py"], "or a script"),
        (["numpy", "-p", "size=3", "--", "python", "mine.py"], "-p is for --pi"),
        (["numpy", "--pi", "matmul", "--env", "A=1"], "--env is for a command"),
        (["numpy", "--pi", "matmul", "--trust-script"], "--trust-script"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_runs(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("THOTH_HOME", str(tmp_path))
    assert run(thoth, ["bisect", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_folder_of_another_search_is_refused(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path / "search")
    state = folder.state({"subjects": ["numpy"]})
    folder.write_state({**state, "held": {"a": "1"}})
    assert folder.state({"subjects": ["numpy"]})["held"] == {"a": "1"}
    with pytest.raises(InvalidArgument, match="another question"):
        folder.state({"subjects": ["pandas"]})


def test_a_broken_state_is_named(tmp_path: Path) -> None:
    (tmp_path / "bisect.json").write_text("{")
    with pytest.raises(InvalidArgument, match=r"bisect\.json"):
        SearchFolder(tmp_path).state({})


def test_refusal_to_lock_a_stack_is_stored(tmp_path: Path) -> None:
    folder, calls = SearchFolder(tmp_path), []

    def refuse() -> dict[str, object]:
        calls.append(1)
        raise BuildFailed("no-wheel", "no wheel for this Python")

    for _ in range(2):
        assert folder.stack(["a==1"], refuse) == {"refusal": "no wheel for this Python"}
    assert len(calls) == 1


def test_unreachable_index_is_not_stored_as_a_refusal(tmp_path: Path) -> None:
    def fail() -> dict[str, object]:
        raise BuildFailed("index-unreachable", "no answer")

    with pytest.raises(BuildFailed):
        SearchFolder(tmp_path).stack(["a==1"], fail)
    assert not list(tmp_path.rglob("*.json"))


def test_searches_are_printed_as_in_the_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_search_stops_if_the_machine_stays_busy() -> None:
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


def test_a_run_stops_when_most_of_its_jobs_cannot_be_used() -> None:
    guard = MachineGuard(None, 0.2, print)
    for _ in range(20):
        guard.job_finished(None, {"exit_code": 1})
    with pytest.raises(SearchStopped, match="20 of 20 jobs failed or were unstable") as stopped:
        guard.jobs_started(1)
    assert stopped.value.reason is StopReason.UNSTABLE


def test_the_recorded_command_ends_with_the_program() -> None:
    command = command_line(["a.txt", "b.txt"], {"--max-jobs": 30}, ["python", "my script.py"])
    assert command == "thoth bisect a.txt b.txt --max-jobs 30 -- python 'my script.py'"
    secret = command_line(["a"], {"--env": ["API_KEY=1"]}, ["mine", "--token", "a b"])
    assert secret == "thoth bisect a --env API_KEY=*** -- mine --token ***"


def test_changed_script_makes_a_new_search(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    questions = []
    for text, trusted in (("print(1)", False), ("print(2)", False), ("print(2)", True)):
        script.write_text(text)
        measured = measured_script(None, (), str(script), None, trusted)
        assert (measured.label, measured.script) == ("mine.py", text)
        questions.append(question_of(["numpy"], measured, (), (), None, None))
    assert all(first != second for first, second in itertools.combinations(questions, 2))
