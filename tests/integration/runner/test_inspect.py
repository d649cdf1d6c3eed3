"""``thoth inspect`` as a person runs it: real stacks, real jobs, real interruptions."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from platformdirs import user_cache_path

from adviser.answering.target_hardware import own_hardware
from common.settings import Settings
from pis.amun.pinned_specifications import pinned_specification
from tests.requirements import needs
from tests.services.commands import ROOT, THOTH, thoth, thoth_json, variables
from tests.services.waiting import DEADLINE_S, wait_until

#: The smallest indicator that there is.
QUICK = {"matrix_size": 32, "min_time": 0.05}
VERSIONS = ("2.2.6", "2.3.5")
PRINTS = """
import json, os, sys, time
print(open("data/word").read(), os.environ.get("AWS_SECRET_ACCESS_KEY"), file=sys.stderr)
if os.environ["HOW"] == "crash":
    raise SystemExit(3)
if os.environ["HOW"] == "sleep":
    time.sleep(60)
result = {"rate": 12.5, "elapsed": 1.0}
print(json.dumps({"name": "Mine", "component": "numpy", "@parameters": {}, "@result": result}))
"""


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A specification for each of two releases of NumPy."""
    folder = tmp_path_factory.mktemp("specifications")
    for version in VERSIONS:
        text = json.dumps(pinned_specification("matmul", [f"numpy=={version}"], None, QUICK))
        (folder / f"{version}.json").write_text(text)
    return [folder / f"{version}.json" for version in VERSIONS]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home of its own, but for its environments, which are kept between runs."""
    kept = user_cache_path("thoth-tests") / "environments"
    kept.mkdir(parents=True, exist_ok=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "environments").symlink_to(kept)
    yield tmp_path / "home"
    # --ingest starts the graph of this home.
    thoth(Settings.from_env({"THOTH_HOME": str(tmp_path / "home")}), "down")


@pytest.fixture
def at_home(home: Path) -> Settings:
    """Settings without stores: measuring needs none."""
    return Settings.from_env({"THOTH_HOME": str(home)})


def results(out: Path) -> dict[str, dict[str, Any]]:
    """Result documents by their path; what is half written has another name."""
    found = out.glob("inspection-*/results/*/result")
    whole = [path for path in found if path.parent.name.isdigit()]
    return {str(path.relative_to(out)): json.loads(path.read_text()) for path in whole}


@pytest.mark.slow
def test_two_inspected_stacks_are_interleaved_and_compared(
    settings: Settings, home: Path, pinned: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = ["inspect", *map(str, pinned), "--jobs", "5", "--out", str(out), "--ingest"]
    report = thoth_json(settings, *arguments, THOTH_HOME=str(home))
    assert [it["jobs_measured"] for it in report["inspections"]] == [5, 5]
    assert [it["component_version"] for it in report["inspections"]] == list(VERSIONS)
    written = sorted(results(out).values(), key=lambda it: str(it["start_datetime"]))
    ids = [it["inspection_id"] for it in report["inspections"]]
    turns = [ids.index(it["inspection_id"]) for it in written]
    assert turns == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]
    assert len({it["schedule"]["run"] for it in written}) == 1
    assert [it["schedule"]["block"] for it in written] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    (group,) = thoth_json(settings, "stacks", "--all")["groups"]
    assert sorted(it["component_version"] for it in group["stacks"]) == list(VERSIONS)
    # Whoever asks for advice on this machine asks about the very class that was recorded.
    assert group["hardware"]["digest"] == own_hardware().digest
    assert thoth_json(settings, "ingest", "inspections", str(out))["inspection"]["known"] == 2


def test_inspection_result_records_job_limits_and_machine(
    at_home: Settings, pinned: list[Path], tmp_path: Path
) -> None:
    value = json.loads(pinned[0].read_text())
    value["run"] = {"requests": {"cpu": "500m"}}
    spec = write(tmp_path, value)
    done = thoth(at_home, "inspect", spec, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "numpy 2.2.6" in done.stdout
    assert "next: thoth ingest inspections" in done.stderr
    (result,) = results(tmp_path / "out").values()
    assert (result["exit_code"], result["ended"], result["confined"]) == (0, "exited", False)
    assert result["stdout"]["@parameters"]["threads"] == 1
    assert result["limits"]["cpus"] == 1
    assert result["limits"]["threads"]["OMP_NUM_THREADS"] == "1"
    assert result["script"] == {"name": "matmul", "bundled": True}
    assert result["hwinfo"]["cpu_info"]["count"] == os.cpu_count()
    assert result["usage"]["ru_maxrss"] > 0
    assert result["start_datetime"].endswith("+00:00")
    assert result["conditions"]["before"]["load"]


def write(folder: Path, value: Any, name: str = "spec.json") -> str:
    path = folder / name
    path.write_text(json.dumps(value))
    return str(path)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGKILL, -9),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 130, marks=pytest.mark.slow),
    ],
)
def test_interrupted_inspection_continues_where_it_stopped(
    at_home: Settings, pinned: list[Path], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    arguments = ["inspect", *map(str, pinned), "--out", str(out), "--jobs"]
    folder = tmp_path / "temporary"
    folder.mkdir()
    # So many jobs that the run is still at them when it is ended; a later one has fewer to do.
    running = start(at_home, *arguments, "500", TMPDIR=str(folder))
    wait_until(lambda: len(results(out)) >= 3, "three jobs have ended")
    children = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(number)
    _, said = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == code, said
    psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not [it for it in children if it.is_running()]
    before = results(out)
    assert 3 <= len(before) < 1000
    jobs = len(before) // 2 + 2
    if number != signal.SIGKILL:
        assert not list(folder.glob("thoth-*"))
    done = thoth(at_home, *arguments, str(jobs), TMPDIR=str(folder))
    assert not list(folder.glob("thoth-*"))
    assert done.returncode == 0, done.stderr
    after = results(out)
    assert len(after) == 2 * jobs
    assert {place: after[place] for place in before} == before
    assert len({it["schedule"]["run"] for it in after.values()}) == 2
    assert not list(out.rglob("*.part"))
    if number != signal.SIGKILL:
        assert "run the same command again to continue" in said


def start(settings: Settings, *arguments: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [THOTH, *arguments],
        env={**os.environ, **variables(settings, **more)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_inspection_waits_for_a_quiet_machine(
    at_home: Settings, pinned: list[Path], tmp_path: Path
) -> None:
    arguments = ["inspect", str(pinned[0]), "--jobs", "1", "--out", str(tmp_path / "out")]
    busy = {"LOOP_BUSY_SHARE": "0.01"}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        refused = thoth(at_home, *arguments, "--wait", "0.1", **busy)
        shared = thoth(at_home, *arguments, "--share-machine", **busy)
        again = thoth(at_home, *arguments, "--wait", "0.1", **busy)
        other.kill()
    assert refused.returncode == 5, refused.stderr
    assert re.search(
        r"other processes use \d+% of the processors: waiting up to 0.1 s \(--wait S sets it, ",
        refused.stderr,
    )
    assert "--share-machine does not wait)" in refused.stderr
    assert (shared.returncode, again.returncode) == (0, 0), again.stderr


@pytest.fixture
def mine(pinned: list[Path], tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A specification of a script of one's own."""
    return {
        "identifier": "mine",
        "script": PRINTS,
        "python": json.loads(pinned[0].read_text())["python"],
        "files": [{"path": "data/word", "content": "a word"}],
        # The launcher's own programs do not depend on PATH.
        "environment": [{"name": "HOW", "value": "well"}, {"name": "PATH", "value": "/nowhere"}],
    }


def how(mine: dict[str, Any], ending: str, **fields: Any) -> dict[str, Any]:
    return {**mine, "environment": [{"name": "HOW", "value": ending}], **fields}


@needs("bwrap")
def test_user_scripts_run_in_the_sandbox_and_failures_are_recorded(
    at_home: Settings, mine: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-word")
    out = tmp_path / "out"
    specs = [
        write(tmp_path, mine, "well.json"),
        write(tmp_path, how(mine, "crash"), "crash.json"),
        write(tmp_path, how(mine, "sleep", timeout_s=1), "sleep.json"),
    ]
    done = thoth(at_home, "inspect", *specs, "--out", str(out), "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)["inspections"]
    assert [it["state"] for it in report] == ["measured", "failed", "failed"]
    assert report[0]["median_rate"] == 12.5
    ids = [it["inspection_id"] for it in report]
    well, crash, sleep = (json.loads((out / name / "results/0/result").read_text()) for name in ids)
    assert well["confined"]
    assert "a word None" in well["stderr"]
    assert (crash["exit_code"], crash["ended"]) == (3, "exited")
    assert sleep["ended"] == "timed-out"
    assert "a word" in (out / ids[1] / "results/0/log").read_text()
    texts = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(b"hidden-word" in text for text in texts)


@pytest.mark.slow
def test_trusted_script_runs_without_a_sandbox(
    settings: Settings, home: Path, mine: dict[str, Any], tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    out = tmp_path / "out"
    without_sandbox = {"THOTH_HOME": str(home), "PATH": str(programs)}
    specs = [write(tmp_path, mine, "well.json"), write(tmp_path, how(mine, "crash"), "crash.json")]
    arguments = ["inspect", *specs, "--out", str(out), "--ingest", "--json"]
    refused = thoth(settings, *arguments, **without_sandbox)
    assert "hint: --trust-script" in refused.stderr
    done = thoth(settings, *arguments, "--trust-script", **without_sandbox)
    assert "your own scripts run as" in done.stderr
    report = json.loads(done.stdout)["inspections"]
    assert [it["state"] for it in report] == ["measured", "failed"], done.stderr
    assert "1 crashed, 1 measured" in done.stderr
    ids = [it["inspection_id"] for it in report]
    well, crash = (json.loads((out / name / "results/0/result").read_text()) for name in ids)
    for result in (well, crash):
        assert (result["trusted_script"], result["confined"]) == (True, False)
        assert result["script"] == {"name": None, "bundled": False}
    assert "a word" in well["stderr"]
    assert crash["exit_code"] == 3
    assert "as the current user, without a sandbox" in (out / ids[0] / "build/log").read_text()
    assert not set(ids) & {it["inspection_id"] for it in json.loads(refused.stdout)["inspections"]}


def test_missing_sandbox_is_recorded_as_a_host_problem(
    settings: Settings, home: Path, mine: dict[str, Any], tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    out = tmp_path / "out"
    arguments = ["inspect", write(tmp_path, mine), "--out", str(out), "--ingest"]
    done = thoth(settings, *arguments, THOTH_HOME=str(home), PATH=str(programs))
    assert done.returncode == 1
    assert "bwrap is not installed [cannot-confine]" in done.stderr
    assert "a problem of this host; it says nothing about the stack" in done.stderr
    assert "1 host problem" in done.stdout
    (folder,) = out.glob("inspection-*")
    status = json.loads((folder / "build/status").read_text())
    assert (status["reason"], status["host_problem"]) == ("cannot-confine", True)


def test_all_specification_errors_are_reported_before_any_job_runs(
    at_home: Settings, pinned: list[Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"script":\n "matmul",}')
    wrong = write(tmp_path, {"script": "matmul", "batchsize": 1, "python": {}})
    out = tmp_path / "out"
    done = thoth(at_home, "inspect", str(pinned[0]), wrong, str(broken), "--out", str(out))
    assert done.returncode == 2
    for words in (f"{wrong}: batchsize", f"{wrong}: python", f"{broken}: the file: line 2, column"):
        assert words in done.stderr
    assert not out.exists()


def test_specification_written_by_pi_pin_can_be_measured(at_home: Settings, tmp_path: Path) -> None:
    spec = str(tmp_path / "spec.json")
    pin = ["pi", "pin", "matmul", "numpy==2.2.6", "-p", "matrix_size=32", "-o", spec]
    done = thoth(at_home, *pin)
    assert done.returncode == 0, done.stderr
    assert f"next: thoth inspect {spec}" in done.stderr
    value = json.loads(Path(spec).read_text())
    assert value["parameters"]["matrix_size"] == 32
    report = thoth_json(at_home, "inspect", spec, "--out", str(tmp_path / "out"))
    assert report["inspections"][0]["state"] == "measured"


def test_pi_pin_reports_requirements_that_cannot_be_pinned(at_home: Settings) -> None:
    done = thoth(at_home, "pi", "pin", "matmul", "numpy @ https://x.example/y", "not a thing")
    assert done.returncode == 2
    assert "not a thing" in done.stderr
    assert thoth(at_home, "pi", "pin", "matmul", "numpy==99.99").returncode == 1
    assert thoth(at_home, "pi", "pin", "nothing", "numpy==2.2.6").returncode == 2
    pin = ["pi", "pin", "matmul", "numpy==2.2.6", "-o", "/proc/x.json"]
    assert thoth(at_home, *pin).stderr.startswith("error: -o: /proc")
