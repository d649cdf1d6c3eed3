"""``thoth compare`` as a person runs it: real environments of small wheels."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.settings import Settings
from tests.services.commands import program, variables
from tests.services.index import Index, package_index

pytestmark = pytest.mark.slow

PAUSES = {"1.0": 0.02, "2.0": 0.12}
BENCH = "import os, pause, mine\npause.now(float(os.environ.get('MORE', '0')))\n"


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index() as index:
        index.protected = False
        for version, seconds in PAUSES.items():
            text = f"import time\ndef now(more): time.sleep({seconds} + more)\n"
            index.add_wheel("pause", version, text, metadata="Requires-Dist: helper\n")
        for version in ("1.0", "1.1"):
            index.add_wheel("helper", version)
        yield index


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "mine.py").write_text("")
    (folder / "bench.py").write_text(BENCH)
    return folder


@pytest.fixture
def compare(index: Index, project: Path, tmp_path: Path) -> Any:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path / "home")})
    environment = os.environ | variables(settings, PACKAGE_INDEXES=f"own={index.url}")
    environment.pop("OMP_NUM_THREADS", None)

    def run(
        *arguments: str, name: str = "compare", command: Sequence[str] = ("python", "bench.py")
    ) -> subprocess.CompletedProcess[str]:
        options = ["--index", "own", "--share-machine", *(["--", *command] if command else [])]
        return program().run([name, *arguments, *options], environment, project)

    return run


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode in {0, 4}, done.stderr
    return json.loads(done.stdout)


def test_compare_names_a_slower_release_and_keeps_the_answer(
    compare: Any, project: Path, tmp_path: Path
) -> None:
    done = compare("pause==1.0", "pause==2.0", "--json")
    document = answer(done)
    assert (done.returncode, document["settled"]) == (0, True)
    verdict, cause = document["sentences"]
    assert verdict.startswith("pause 2.0 is ")
    assert "times as slow as pause 1.0 (" in verdict
    assert "for `python bench.py` on this machine" in verdict
    assert cause == "Only pause 1.0 → 2.0 differs."
    # What the subjects leave open is held equal, also where it is not the newest that fits.
    assert [it["packages"]["helper"] for it in document["stacks"]] == ["1.1", "1.1"]
    assert "runs as you, as in a shell" in done.stderr
    results = sorted(Path(document["out"]).glob("inspection-compared-*/results/*/result"))
    again = compare("pause==1.0", "pause==2.0")
    assert again.returncode == 0, again.stderr
    assert verdict in again.stdout
    assert sorted(Path(document["out"]).glob("inspection-compared-*/results/*/result")) == results
    result = json.loads(results[0].read_text())
    assert (result["trusted_script"], result["confined"]) == (True, False)
    # A changed script is another series, and the answer says so.
    (project / "bench.py").write_text(f"{BENCH}# changed\n")
    changed = compare("pause==1.0", "pause==2.0")
    assert "bench.py changed since an earlier comparison" in changed.stderr


def test_compare_attributes_a_difference_of_equal_locks_to_variables(
    compare: Any, project: Path
) -> None:
    (project / "requirements.txt").write_text("pause==1.0\nhelper==1.0\n")
    lock = ("requirements.txt", "requirements.txt")
    document = answer(compare(*lock, "--env-b", "MORE=0.1", "--json"))
    assert [it["attribution"] for it in document["stacks"]] == ["nothing", "setting"]
    assert "times as slow as" in document["sentences"][0]
    assert document["sentences"][1].endswith("due to the setting, MORE unset → 0.1.")
    assert document["stacks"][1]["packages"] == {"pause": "1.0", "helper": "1.0"}


def test_compare_runs_the_project_benchmarks_without_a_command(compare: Any, project: Path) -> None:
    (project / "thoth.toml").write_text('[benchmarks]\npause = "python bench.py"\n')
    refused = compare("pause==1.0", "pause==2.0", command=())
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    done = compare("pause==1.0", "pause==2.0", "--yes", command=())
    assert done.returncode == 0, done.stderr
    assert "times as slow as pause 1.0" in done.stdout
    assert "for `python bench.py` on this machine" in done.stdout
    (project / "thoth.toml").unlink()
    none = compare("pause==1.0", "pause==2.0", command=())
    assert none.returncode == 2
    assert "no indicator measures pause: give a command behind --" in none.stderr


def test_compare_ends_with_the_error_of_a_failing_command(compare: Any, project: Path) -> None:
    (project / "bench.py").write_text("import pause\nassert pause.__name__ == 'other', 'wrong'\n")
    done = compare("pause==1.0", "pause==2.0")
    assert done.returncode == 1
    assert "pause 1.0: no measurement: exit code 1" in done.stderr
    assert "AssertionError: wrong" in done.stderr
    done = compare("pause==1.0", "pause==9.0")
    assert done.returncode == 1
    assert "pause==9.0" in done.stderr


def test_comparison_stopped_by_its_time_limit_is_continued_later(
    compare: Any, project: Path
) -> None:
    arguments = ("pause==1.0", "pause==1.0", "--json")
    first = compare(*arguments, "--max-minutes", "0.001")
    assert first.returncode == 4
    document = answer(first)
    assert document["stopped"]["reason"] == "time"
    assert document["jobs_each"] < 6
    second = answer(compare(*arguments, "--max-minutes", "0.05"))
    assert second["jobs_each"] >= 1
    assert second["sentences"][-1] == "Versions and settings are equal: this measures only noise."


def test_bisect_finds_the_slow_release_with_the_command_of_compare(
    compare: Any, index: Index, project: Path
) -> None:
    (project / "bench.py").write_text(f"open('data').close()\n{BENCH}")
    for minor in range(1, 9):
        text = f"import time\ndef now(more): time.sleep({0.02 if minor < 6 else 0.12} + more)\n"
        index.add_wheel("pause", f"1.{minor}", text, metadata="Requires-Dist: helper\n")
    failed = compare("pause==1.0", "pause==2.0", "--no-record", name="bisect")
    assert failed.returncode == 2
    assert "the command failed: exit code 1: FileNotFoundError" in failed.stderr
    (project / "data").touch()
    done = compare("pause==1.0", "pause==2.0", "--no-record", "--json", name="bisect")
    assert done.returncode == 0, done.stderr
    (search,) = json.loads(done.stdout)["searches"]
    assert (search["state"], search["before"], search["after"]) == (
        "step",
        "pause 1.5",
        "pause 1.6",
    )
    (index.files["pause"]).clear()
    again = compare("pause==1.0", "pause==2.0", "--no-record", "--json", name="bisect")
    assert json.loads(again.stdout)["searches"] == [search]


def test_compare_judges_each_benchmark_in_the_results_of_a_command(
    compare: Any, project: Path
) -> None:
    (project / "bench.py").write_text(
        "import json, pathlib, random, sys, time, pause\n"
        "began = time.perf_counter(); pause.now(0); slow = time.perf_counter() - began\n"
        "results = [\n"
        "    {'command': 'slow', 'times': [slow, slow, slow]},\n"
        "    {'command': 'same', 'times': [random.uniform(1, 1.001) for _ in range(3)]},\n"
        "    {'command': 'none', 'times': []},\n"
        "]\n"
        "pathlib.Path(sys.argv[1]).write_text(json.dumps({'results': results}))\n"
    )
    done = compare("pause==1.0", "pause==2.0", command=["python", "bench.py", "{results}"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pause 2.0 is as fast as pause 1.0 for `same` on this machine" in done.stdout
    assert "times as slow as pause 1.0" in done.stdout
    assert "not compared: none: " in done.stderr
    assert "among these 2 comparisons" in done.stderr
    (project / "bench.py").write_text("import pause\n")
    done = compare("pause==1.0", "pause==2.0", command=["python", "bench.py", "{results}"])
    assert done.returncode == 1
    assert "its file {results} cannot be read: No such file" in done.stderr


def test_compare_refuses_a_program_of_another_python(compare: Any, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"#!{tmp_path}/other/bin/python\n")
    tool.chmod(0o755)
    done = compare("pause==1.0", "pause==2.0", command=(str(tool), "--fast"))
    assert done.returncode == 1
    assert f"{tool} belongs to another Python than the stack" in done.stderr


def test_compared_stacks_include_development_dependencies_of_the_project(
    compare: Any, project: Path
) -> None:
    manifest = (
        '[project]\nname = "mine"\nversion = "1"\n[dependency-groups]\ndev = ["helper<1.1"]\n'
    )
    (project / "pyproject.toml").write_text(manifest)
    document = answer(compare("pause==1.0", "pause==1.0", "--max-minutes", "0.001", "--json"))
    assert document["stacks"][0]["packages"] == {"helper": "1.0", "pause": "1.0"}
