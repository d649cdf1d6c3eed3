"""Inspections without real jobs: identity, resumption, what is recorded."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from api.jobs.ingestion import options_of
from common.settings import Settings
from model.errors import AlreadyRunning, InvalidArgument
from pis.amun import nvidia
from pis.amun.inspect import InspectOptions, inspect, inspections_of
from pis.amun.inspection_folder import read_build, recover
from pis.amun.job_output import parsed_output
from pis.amun.launchers import BuildFailed, Inspection
from pis.amun.launchers.kubernetes import _ignoring_absence
from pis.amun.specification import Specification, load_specification
from tests.factories.case_files import described
from tests.factories.golden import compare_views
from tests.factories.specifications import (
    SCRIPT,
    Quiet,
    ScriptedLauncher,
    locked,
    measured,
    pipfile_lock,
    specification,
)


def stack(version: str = "2.2.6", **fields: Any) -> Specification:
    python = {"requirements_locked": pipfile_lock({"numpy": locked(f"=={version}")})}
    return load_specification(specification(python=python, **fields))


def names(*specifications: Specification, **order: Any) -> list[str]:
    made = inspections_of(specifications, "local", InspectOptions(Path(), **order))
    return [it.inspection_id for it in made]


def test_inspection_identifier_depends_on_what_is_measured() -> None:
    first = names(stack())
    assert first == names(stack())
    assert first[0].startswith("inspection-matmul-")
    assert first != names(stack("2.3.5"))
    assert first != names(stack(parameters={"matrix_size": 9}))

    assert names(stack(script=SCRIPT))[0].startswith("inspection-script-")
    assert names(stack(identifier="mine"))[0].startswith("inspection-mine-")


def test_repeated_specification_is_a_separate_inspection_and_more_jobs_are_not() -> None:
    assert names(stack()) == names(stack(batch_size=9, timeout_s=3)) == names(stack(), jobs=5)
    first, second = names(stack(), stack())
    assert first != second
    assert names(stack()) == [first]


def run(launcher: Any, out: Path, *specifications: Specification, **order: Any) -> Any:
    return inspect(specifications, launcher, InspectOptions(out, **order), Quiet())


def test_interrupted_inspection_is_resumed_with_its_missing_jobs(tmp_path: Path) -> None:
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


def test_resumed_inspection_keeps_its_block_size(tmp_path: Path) -> None:
    first, again = ScriptedLauncher([measured()] * 5 + [KeyboardInterrupt()]), ScriptedLauncher()
    with pytest.raises(KeyboardInterrupt):
        run(first, tmp_path, stack(), stack("2.3.5"), jobs=4, reference_jobs=2)
    outcomes = run(again, tmp_path, stack(), stack("2.3.5"), jobs=4, reference_jobs=3)
    assert [outcome.measured for outcome in outcomes] == [8, 4]
    (reference,) = names(stack())
    jobs = [job for job in first.jobs + again.jobs if job.inspection_id == reference]
    assert {job.number: job.block for job in jobs} == {number: number // 2 for number in range(8)}


class Unbuildable(ScriptedLauncher):
    def prepare(self, inspection: Inspection) -> Any:
        if inspection.specification.lock.version_of("numpy") == "2.3.5":
            raise BuildFailed("no-wheel", "there is none", log="all of it\n", exit_code=2)
        return super().prepare(inspection)


def test_second_process_in_an_inspection_folder_is_refused(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"), pytest.raises(AlreadyRunning, match=str(tmp_path)):
        run(ScriptedLauncher(), tmp_path, stack())


def in_unit(unit: str) -> Any:
    """A job that printed a rate in this unit."""
    job = measured()
    job["stdout"]["@result"]["unit"] = unit
    return job


def test_invalid_job_output_stops_the_remaining_jobs(tmp_path: Path) -> None:
    launcher = ScriptedLauncher([in_unit("rows/s")] * 6, slots=2)
    run(launcher, tmp_path, stack(script=SCRIPT), jobs=6)
    assert 1 <= len(launcher.jobs) <= 2


class Broken(ScriptedLauncher):
    def prepare(self, inspection: Inspection) -> Any:
        raise RuntimeError("lost")


def test_trusted_script_is_a_separate_inspection_with_the_local_launcher(tmp_path: Path) -> None:
    own = stack(script=SCRIPT)
    confined, trusted = (
        inspections_of([own], "local", InspectOptions(tmp_path, trust_script=it))[0]
        for it in (False, True)
    )
    assert (confined.script.confined, trusted.script.confined) == (True, False)
    assert confined.inspection_id != trusted.inspection_id
    bundled = [
        inspections_of([stack()], "local", InspectOptions(tmp_path, trust_script=it))[
            0
        ].inspection_id
        for it in (False, True)
    ]
    assert bundled[0] == bundled[1]
    elsewhere = ScriptedLauncher()
    elsewhere.name = "ray"
    with pytest.raises(InvalidArgument, match="`--launcher local` only"):
        inspect([own], elsewhere, InspectOptions(tmp_path, trust_script=True), Quiet())
    assert elsewhere.prepared == []


def test_service_requests_cannot_trust_a_script() -> None:
    order = options_of(Settings.from_env({}), "submission")
    assert order.trust_script is False
    assert order == InspectOptions(order.out, submission="submission")


class Elsewhere(ScriptedLauncher):
    def prepare(self, inspection: Inspection) -> Any:
        return replace(super().prepare(inspection), environment="sha256:other")


def test_resumed_inspection_is_refused_in_a_changed_environment(tmp_path: Path) -> None:
    (first,) = run(ScriptedLauncher(), tmp_path, stack(), jobs=1)
    before = tree(first.folder)
    launcher = Elsewhere()
    (outcome,) = run(launcher, tmp_path, stack(), jobs=2)
    assert outcome.failure.reason == "environment-changed"
    assert "--out" in (outcome.failure.hint or "")
    assert (launcher.jobs, tree(first.folder)) == ([], before)


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    files = (it for it in folder.rglob("*") if it.is_file())
    return {str(it): (it.stat().st_mtime_ns, it.read_text()) for it in files}


def test_leftovers_of_interrupted_writes_in_a_result_folder_are_removed(tmp_path: Path) -> None:
    for name in ("0", "0.old", "1.part"):
        (tmp_path / "results" / name).mkdir(parents=True)
    recover(tmp_path)
    assert [it.name for it in (tmp_path / "results").iterdir()] == ["0"]
    (outcome,) = run(ScriptedLauncher([measured(), OSError()]), tmp_path, stack(), jobs=2)
    before = tree(outcome.folder / "build")
    run(ScriptedLauncher(), tmp_path, stack(), jobs=2)
    assert tree(outcome.folder / "build") == before


def test_job_results_are_kept_if_the_build_folder_is_missing(tmp_path: Path) -> None:
    (outcome,) = run(ScriptedLauncher(), tmp_path, stack(), jobs=1)
    shutil.rmtree(outcome.folder / "build")
    again = ScriptedLauncher()
    run(again, tmp_path, stack(), jobs=2)
    assert [job.number for job in again.jobs] == [1]
    assert (outcome.folder / "build/status").is_file()


@pytest.mark.parametrize(("left", "kept"), [((), "old"), (("part",), "part")])
def test_interrupted_replacement_of_a_build_folder_is_completed(
    tmp_path: Path, left: Any, kept: str
) -> None:
    for name in ("old", *left):
        (tmp_path / f"build.{name}").mkdir()
        (tmp_path / f"build.{name}" / "status").write_text(json.dumps({"state": name}))
    recover(tmp_path)
    assert read_build(tmp_path) == {"state": kept}
    assert [it.name for it in tmp_path.iterdir()] == ["build"]


class LostGpu:
    """NVML after a GPU fell off the bus."""

    class NVMLError(Exception): ...

    def __getattr__(self, name: str) -> Any:
        def lost(*arguments: Any) -> Any:
            if name == "nvmlDeviceGetCount":
                return 1
            raise self.NVMLError(name)

        return lost


def test_gpu_that_stops_responding_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "_nvml", LostGpu)
    answers = nvidia.gpus(), nvidia.throttle_reasons(), nvidia.thermal_violations_ns()
    assert answers == ([], [], 0)


def test_deletion_ignores_a_missing_kubernetes_job() -> None:
    client = pytest.importorskip("kubernetes.client")
    with _ignoring_absence():
        raise client.ApiException(status=404)
    with pytest.raises(client.ApiException), _ignoring_absence():
        raise client.ApiException(status=500)


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
def test_job_output_is_parsed_only_if_it_is_unambiguous_json(data: bytes, value: Any) -> None:
    assert parsed_output(data) == value
    assert isinstance(parsed_output(data, truncated=True), str) or value == {}


Run = tuple[ScriptedLauncher, tuple[Specification, ...], int]


def scripted(*runs: list[Any] | None, jobs: int = 2, **fields: Any) -> list[Run]:
    """Runs of one specification, by what the launcher gives for each job."""
    return [(ScriptedLauncher(it), (stack(**fields),), jobs) for it in runs]


def runs() -> dict[str, list[Run]]:
    """Runs one after the other in the same folder."""
    crashed = {**measured(), "exit_code": 1, "stdout": {}, "stderr": "Traceback"}
    killed = {**measured(), "exit_code": -9, "ended": "signalled", "stdout": {}}
    faulty, other = {**killed, "exit_code": -11}, measured()
    other["stdout"]["component_version"] = "99"
    broken, lost = in_unit("rows/s"), OSError("node is gone")
    old, new, own = stack(), stack("2.3.5"), {"script": SCRIPT}
    return {
        "two jobs, and fewer": [(ScriptedLauncher(), (old,), 2), (ScriptedLauncher(), (old,), 1)],
        "a component that says another version": scripted([other], jobs=1),
        "a job that crashed is not repeated": scripted([measured(), crashed], None),
        "a job that never began is repeated": scripted([lost, measured()], None),
        "any error of a launcher costs one job": scripted([KeyError("gpu"), measured()]),
        "a job that the host ended is repeated": scripted([killed, measured()], [faulty], None),
        "several slots": [(ScriptedLauncher(slots=3), (old, new), 4)],
        "a build that fails holds nobody up, and is repeated": [
            (Unbuildable(), (old, new), 1), (ScriptedLauncher(), (new,), 1),
        ],
        "a build that fails later leaves what was measured": [
            (ScriptedLauncher(), (new,), 1), (Unbuildable(), (new,), 2),
        ],
        "any error of a build is recorded": [(Broken(), (old,), 1)],
        "a script that breaks the protocol stops all": [
            (ScriptedLauncher([broken]), (stack(**own), stack("2.3.5", **own)), 3)
        ],
        "a script that breaks the protocol once": [
            *scripted([measured(), broken, measured()], jobs=3, **own),
            *scripted([in_unit("rows/s"), measured()], jobs=5, **own),
        ],
        "a script that crashes": scripted([{**measured(), "exit_code": 1}] * 3, jobs=3, **own),
    }  # fmt: skip


def facts_of(file: Path) -> str:
    """What the document of a build or a job says of its end."""
    keys = ("state", "reason", "message", "ended", "exit_code", "stderr", "host_problem",
            "python_full_version")  # fmt: skip
    document = json.loads(file.read_text())
    said = {key: document.get(key) for key in keys} | {"environment": "environment" in document}
    return " ".join(f"{key}={it}" for key, it in said.items() if it or key == "exit_code")


def test_inspection_records_the_outcome_of_build_and_jobs(tmp_path: Path) -> None:
    views = {}
    for title, several in runs().items():
        folder, lines = tmp_path / title.replace(" ", "-"), []
        ids: list[str] = []
        for launcher, specifications, jobs in several:
            outcomes = run(launcher, folder, *specifications, jobs=jobs)
            ids += [it.inspection_id for it in outcomes if it.inspection_id not in ids]
            ran = sorted((ids.index(it.inspection_id), it.number) for it in launcher.jobs)
            slots = {it.slot for it in launcher.jobs}
            lines.append(f"{len(launcher.prepared)} builds, {len(slots)} slots, jobs {ran}")
            for outcome in outcomes:
                lines += described([replace(outcome, folder=Path("out"), noise=())], "outcome")
        files = [it for it in folder.rglob("*") if it.is_file()]
        ends = [it for it in files if it.name in ("status", "result")]
        lines += sorted(f"{it.relative_to(folder)} {facts_of(it)}" for it in ends)
        lines.append(f"other files: {sorted({it.name for it in files} - {'status', 'result'})}")
        text = "\n".join(lines)
        for number, name in enumerate(ids):
            text = text.replace(name, f"inspection {number}")
        # Identifiers are digests, which say nothing of an order.
        last = f"inspection {len(ids) - 1}/"
        views[title] = "\n".join(sorted(text.splitlines(), key=lambda it: it.startswith(last)))
    compare_views("runs_of_inspections", views)
