"""Commands of a person: what identifies them, and who may run them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from common.formats.job_results import measurements_of
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.json_fields import ROOT
from model.measurements.units import Unit
from model.redaction import shown_variables
from pis.amun.inspect import script_to_run
from pis.amun.launchers import Inspection, Job, PreparedInspection
from pis.amun.launchers.local import run_here, shell_variables
from pis.amun.specification import load_specification
from pis.command_specifications import (
    Command,
    CommandChanged,
    command_of,
    results_document,
    script_text,
)
from tests.factories.specifications import pipfile_lock

PYTHON = {"requirements_locked": pipfile_lock({})}


def test_command_identity_includes_the_files_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "suite" / "__pycache__").mkdir(parents=True)
    for name in ("bench.py", "suite/test_a.py", "suite/__pycache__/x.pyc", "data.csv", "other.py"):
        (tmp_path / name).write_text(name)
    words = ["python", "bench.py", "suite::test", "--data=data.csv", "absent.py", "--out={results}"]
    command = command_of(words, tmp_path)
    assert sorted(command.files) == ["bench.py", "data.csv", "suite/test_a.py"]
    before = command.identity["files_sha256"]
    (tmp_path / "bench.py").write_text("changed")
    assert command_of(words, tmp_path).identity["files_sha256"] != before
    (tmp_path / "other.py").write_text("changed")
    assert str(command_of(["python bench.py | cat"], tmp_path)) == "python bench.py | cat"


def test_command_identity_ignores_inline_programs_and_resolves_links(tmp_path: Path) -> None:
    folder, link = tmp_path / "real", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (folder / "bench.py").write_text("")
    text = f"print({'1' * 5000})"
    assert command_of(["python", "-c", text], folder).files == {}
    assert list(command_of(["python", str(link / "bench.py")], folder).files) == ["bench.py"]


def test_invalid_command_and_oversized_result_file_are_refused(tmp_path: Path) -> None:
    for words in ([""], ["python 'bench"], []):
        with pytest.raises(InvalidArgument):
            command_of(words, tmp_path)
    command = command_of(["truncate", "--size=1T", "{results}"], tmp_path)
    result = ran([command], command.specification(PYTHON, {}, 60))
    assert "[file_too_large]" in str(result)


def test_submitted_command_specification_runs_nothing_outside_the_sandbox(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    command = command_of(["touch", str(marker)], tmp_path)
    document = command.specification(PYTHON, {"A": "1"}, 60)
    assert script_to_run(load_specification(document)).confined
    (tmp_path / "command.json").write_text(document["files"][0]["content"])
    (tmp_path / "script.py").write_text(script_text())
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env={}, capture_output=True, check=False
    )
    assert (done.returncode, marker.exists()) == (2, False)


def test_measured_command_gets_shell_variables_but_no_service_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.setenv("OWN", "kept")
    secrets = {"DATABASE_URL", "GRAPH_PASSWORD", "WEBHOOK_SECRETS"}
    for name in secrets:
        monkeypatch.setenv(name, "a secret of the installation")
    monkeypatch.setenv("PYTHONPATH", "/own")
    monkeypatch.setenv("PATH", "/usr/bin")
    for project, path in ((True, f"{tmp_path}/src:{tmp_path}:/own"), (False, "/own")):
        command = command_of(["true"], tmp_path, project=project)
        document = command.specification(PYTHON, {"SET": "1"}, 60)
        found = shell_variables(load_specification(document), Path("/env/bin/python"), command)
        assert (found["OWN"], found["SET"], found["VIRTUAL_ENV"]) == ("kept", "1", "/env")
        assert secrets.isdisjoint(found)
        assert (found["PATH"], found["PYTHONPATH"]) == ("/env/bin:/usr/bin", path)


def test_command_result_states_time_and_memory(tmp_path: Path) -> None:
    command = command_of(["sleep 0.2; exit $CODE"], tmp_path)
    document = command.specification(PYTHON, {}, 60)
    place = tmp_path / "command.json"
    place.write_text(document["files"][0]["content"])
    runs = [
        subprocess.run(
            [sys.executable, "-I", "-c", script_text()], capture_output=True, check=False,
            env={"THOTH_COMMAND": str(place), "CODE": code, "PATH": "/usr/bin:/bin"},
        )
        for code in ("0", "3")
    ]  # fmt: skip
    assert [it.returncode for it in runs] == [0, 3]
    printed = json.loads(runs[0].stdout)
    assert printed["@parameters"]["command"] == "sleep 0.2; exit $CODE"
    result = printed["@result"]
    assert result["elapsed"] >= 200
    assert result["user_s"] + result["system_s"] < 0.2
    assert result["memory_bytes"] > 100_000


def ran(
    commands: Sequence[Command], document: dict[str, Any], concealed: dict[str, str] | None = None
) -> dict[str, Any]:
    specification = load_specification(document)
    inspection = Inspection("inspection-a", specification, script_to_run(specification, trust=True))
    prepared = PreparedInspection(inspection, None, sys.executable, "")
    job = Job("inspection-a", 0, "run", 0, 1, interleaved=False)
    return dict(run_here(prepared, job, "local", commands, concealed or {}).result)


def test_secret_variables_reach_the_measured_command_but_no_document(tmp_path: Path) -> None:
    shown, concealed = shown_variables({"API_KEY": "1234", "OMP_NUM_THREADS": "2"})
    seen = tmp_path / "seen"
    script = f"import os, sys; open({str(seen)!r}, 'w').write(os.environ['API_KEY'] + sys.argv[2])"
    (tmp_path / "bench.py").write_text(script)
    words = ["python", "bench.py", "--hub-token", "hunter2"]
    command = command_of([sys.executable, *words[1:]], tmp_path)
    document = command.specification(PYTHON, shown, 60)
    assert "1234" not in json.dumps(document)
    assert "hunter2" not in json.dumps(document)
    assert "OMP_NUM_THREADS=2" in document["files"][0]["content"]
    other = command_of([sys.executable, *words[1:-1], "other"], tmp_path)
    assert str(other) == str(command)
    assert other.identity != command.identity
    result = ran([other, command], document, concealed)
    assert result["exit_code"] == 0, result["stderr"]
    assert seen.read_text() == "1234hunter2"
    assert "hunter2" not in json.dumps(result["stdout"])


@pytest.mark.parametrize("when", ["before", "during"])
def test_job_is_discarded_if_the_files_of_its_command_change(when: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("old")
    change = "echo new > data" if when == "during" else "true"
    command = command_of([f"{change}; cat data"], tmp_path)
    if when == "before":
        (tmp_path / "data").write_text("new")
    with pytest.raises(CommandChanged, match="data: changed while it was measured"):
        ran([command], command.specification(PYTHON, {}, 60))


def test_benchmarks_in_a_result_file_keep_repetitions_and_direction() -> None:
    printed = {"name": "command", "@parameters": {"command": "x"}, "@result": {"user_s": 1.0}}
    results = [
        {"benchmark": "load", "unit": "ms", "direction": "lower", "samples": [2, 4, 3], "first": 9},
        {"benchmark": "size", "unit": "bytes", "direction": "lower", "samples": [100]},
        {"benchmark": "rate", "unit": "tokens/s", "direction": "higher", "samples": [50, 60]},
        {"benchmark": "odd", "unit": "", "samples": [1]},
    ]
    document = results_document(printed, json.dumps({"results": results}).encode())
    assert document["excluded"] == {"odd": "the file does not say which values are better"}
    assert document["process"] == {"user_s": 1.0}
    load, size, rate = document["@results"]
    assert load["@parameters"] == {"command": "x", "benchmark": "load"}
    assert load["@result"]["repetitions"] == [2, 4, 3]
    assert (load["@result"]["elapsed"], load["@result"]["first_ms"]) == (3, 9)
    assert size["@parameters"]["value"] == "bytes, lower is better"
    assert (rate["@result"]["rate"], rate["@result"]["unit"]) == (55, "tokens/s")
    units = [it.unit for it in measurements_of(document, "", ROOT)]
    assert units == [Unit.RUNS_PER_SECOND, Unit.RUNS_PER_SECOND, Unit.TOKENS_PER_SECOND]
    with pytest.raises(InvalidDocument) as refused:
        results_document(printed, json.dumps({"results": results[3:]}).encode())
    assert (refused.value.reason, refused.value.field) == (Reason.MISSING_FIELD, "$")
