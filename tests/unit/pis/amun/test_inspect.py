"""Inspections without real jobs: identity, resumption, what is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from common.errors import AlreadyRunning
from pis.amun.inspect import Order, inspect, inspections_of
from pis.amun.launchers import BuildFailed, Inspection, Job
from pis.amun.output import parsed_output
from pis.amun.specification import Specification, load_specification
from tests.factories.specifications import (
    SCRIPT,
    ScriptedLauncher,
    locked,
    measured,
    pipfile_lock,
    specification,
)


class Quiet:
    """An observer that looks away."""

    def building(self, inspection: Inspection) -> None: ...
    def built(self, inspection: Inspection, failure: BuildFailed | None) -> None: ...
    def measuring(self, jobs: int) -> None: ...
    def ran(self, job: Job, result: Mapping[str, Any]) -> None: ...


def stack(version: str = "2.2.6", **fields: Any) -> Specification:
    python = {"requirements_locked": pipfile_lock({"numpy": locked(f"=={version}")})}
    return load_specification(specification(python=python, **fields))


def names(*specifications: Specification, **order: Any) -> list[str]:
    made = inspections_of(specifications, "local", Order(Path(), **order))
    return [it.inspection_id for it in made]


def test_an_inspection_is_named_by_what_it_measures() -> None:
    first = names(stack())
    assert first == names(stack())
    assert first[0].startswith("inspection-matmul-")
    assert first != names(stack("2.3.5"))
    assert first != names(stack(parameters={"matrix_size": 9}))


def test_more_jobs_and_more_time_are_the_same_inspection() -> None:
    assert names(stack()) == names(stack(batch_size=9, timeout_s=3)) == names(stack(), jobs=5)


def test_a_specification_given_twice_makes_two_inspections() -> None:
    first, second = names(stack(), stack())
    assert first != second
    assert names(stack()) == [first]


def test_a_script_of_ones_own_is_named_so() -> None:
    assert names(load_specification(specification(script=SCRIPT)))[0].startswith(
        "inspection-script-"
    )
    assert names(stack(identifier="mine"))[0].startswith("inspection-mine-")


def run(launcher: Any, out: Path, *specifications: Specification, **order: Any) -> Any:
    return inspect(specifications, launcher, Order(out, **order), Quiet())


def test_documents_lie_in_the_layout_of_inspections(tmp_path: Path) -> None:
    (outcome,) = run(ScriptedLauncher(), tmp_path, stack(), jobs=2)
    files = {
        p.relative_to(outcome.folder).as_posix() for p in outcome.folder.rglob("*") if p.is_file()
    }
    jobs = {f"results/{n}/{name}" for n in (0, 1) for name in ("result", "hwinfo", "log")}
    assert files == {"build/specification", "build/log", "build/status"} | jobs
    written = json.loads((outcome.folder / "build/specification").read_text())
    assert written["batch_size"] == 2
    status = json.loads((outcome.folder / "build/status").read_text())
    assert (status["state"], status["reason"], status["exit_code"]) == ("succeeded", None, 0)


def test_what_is_complete_is_kept_and_what_is_missing_runs(tmp_path: Path) -> None:
    launcher = ScriptedLauncher([measured(), measured(), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        run(launcher, tmp_path, stack(), jobs=4)
    folder = tmp_path / names(stack())[0]
    before = (folder / "results/0/result").stat().st_mtime_ns
    (folder / "results/2.part").mkdir()
    (folder / "results/2.part/result").write_text("half")
    again = ScriptedLauncher()
    (outcome,) = run(again, tmp_path, stack(), jobs=4)
    assert [job.number for job in again.jobs] == [2, 3]
    assert (outcome.measured, outcome.state) == (4, "measured")
    assert (folder / "results/0/result").stat().st_mtime_ns == before
    assert not list(folder.rglob("*.part"))


def test_where_nothing_is_missing_nothing_is_built(tmp_path: Path) -> None:
    run(ScriptedLauncher(), tmp_path, stack(), jobs=2)
    again = ScriptedLauncher()
    (outcome,) = run(again, tmp_path, stack(), jobs=1)
    assert (again.prepared, again.jobs, outcome.measured) == ([], [], 1)


def test_a_job_that_failed_is_a_result_and_is_not_repeated(tmp_path: Path) -> None:
    crashed = {**measured(), "exit_code": 1, "stdout": {}, "stderr": "Traceback"}
    (outcome,) = run(ScriptedLauncher([measured(), crashed]), tmp_path, stack(), jobs=2)
    assert (outcome.state, outcome.measured, outcome.failed) == ("failed", 1, 1)
    again = ScriptedLauncher()
    run(again, tmp_path, stack(), jobs=2)
    assert again.jobs == []


def test_a_launcher_that_fails_leaves_a_result(tmp_path: Path) -> None:
    (outcome,) = run(ScriptedLauncher([OSError("node is gone")]), tmp_path, stack())
    result = json.loads((outcome.folder / "results/0/result").read_text())
    assert (result["ended"], result["exit_code"]) == ("launch-failed", 127)
    assert "node is gone" in result["stderr"]


class Unbuildable(ScriptedLauncher):
    def prepare(self, inspection: Inspection) -> Any:
        if inspection.specification.lock.version_of("numpy") == "2.3.5":
            raise BuildFailed("no-wheel", "there is none", log="all of it\n", exit_code=2)
        return super().prepare(inspection)


def test_a_build_that_fails_is_recorded_and_holds_nobody_up(tmp_path: Path) -> None:
    good, bad = run(Unbuildable(), tmp_path, stack(), stack("2.3.5"), jobs=1)
    assert (good.state, bad.state) == ("measured", "build_failed")
    status = json.loads((bad.folder / "build/status").read_text())
    assert (status["state"], status["reason"], status["exit_code"]) == ("failed", "no-wheel", 2)
    assert (bad.folder / "build/log").read_text() == "all of it\n"
    assert not (bad.folder / "results").exists()
    again = ScriptedLauncher()
    assert run(again, tmp_path, stack("2.3.5"))[0].state == "measured"


def test_a_build_that_fails_later_leaves_what_was_measured(tmp_path: Path) -> None:
    run(ScriptedLauncher(), tmp_path, stack("2.3.5"), jobs=1)
    (outcome,) = run(Unbuildable(), tmp_path, stack("2.3.5"), jobs=2)
    assert (outcome.state, outcome.measured) == ("build_failed", 1)
    assert json.loads((outcome.folder / "build/status").read_text())["state"] == "succeeded"


def test_a_second_process_on_the_same_folder_is_told_so(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"), pytest.raises(AlreadyRunning, match=str(tmp_path)):
        run(ScriptedLauncher(), tmp_path, stack())


def test_blocks_of_several_slots_are_all_run(tmp_path: Path) -> None:
    launcher = ScriptedLauncher(slots=3)
    outcomes = run(launcher, tmp_path, stack(), stack("2.3.5"), jobs=4)
    assert [outcome.measured for outcome in outcomes] == [4, 4]
    assert {job.slot for job in launcher.jobs} == {0, 1, 2}


def test_the_component_is_that_of_the_lock(tmp_path: Path) -> None:
    said = measured()
    said["stdout"]["component_version"] = "99"
    (outcome,) = run(ScriptedLauncher([said]), tmp_path, stack())
    assert (outcome.component, outcome.component_version) == ("numpy", "2.2.6")
    assert (outcome.median_rate, outcome.unit) == (100.0, "GFLOPS")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": [1]}\n', {"a": [1]}),
        (b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        (b'{"a": Infinity}', '{"a": Infinity}'),
        (b'{"a": 1e999}', '{"a": 1e999}'),
        (b'{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        (b'{"a": "\\u0000"}', '{"a": "\\u0000"}'),
        (b'{"a": 99999999999999999999}', '{"a": 99999999999999999999}'),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", '{"a": ' + "[" * 300 + "]" * 300 + "}"),
        (b"[1]", "[1]"),
        (b"a\xffb\0", "a\\xffb\\x00"),
        (b" \n", {}),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_output_is_parsed_only_where_all_parsers_agree(data: bytes, value: Any) -> None:
    assert parsed_output(data) == value


def test_output_that_was_cut_stays_text() -> None:
    assert parsed_output(b'{"a": 1}', truncated=True) == '{"a": 1}'
