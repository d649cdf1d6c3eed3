"""An occasion of measuring a plan: what fails is named, and the same command continues."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.evidence import main
from tests.services.stacks import STACKS, measures

_PLAN = """
jobs = 1

[parameters]
threads = 1
min_time = 0.01

[[library]]
name = "numpy"
indicator = "arrays"
releases = ["0.0.1", "{release}"]
python = ["{python}"]
"""


@pytest.mark.slow
@measures("numpy")
def test_evidence_run_names_releases_that_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    release = STACKS["numpy"][0].partition("==")[2]
    python = ".".join(map(str, sys.version_info[:2]))
    plan.write_text(_PLAN.format(release=release, python=python), encoding="utf-8")
    monkeypatch.setenv("LOOP_BUSY_SHARE", "1")
    arguments = ["--plan", str(plan), "--folder", str(tmp_path), "--occasion", "1"]
    with pytest.raises(SystemExit, match=r"not measured:\nnumpy-0\.0\.1"):
        main(arguments)
    (result,) = tmp_path.glob("occasion-1/inspection-arrays-*/results/0/result")
    operations = json.loads(result.read_text(encoding="utf-8"))["stdout"]["@results"]
    assert {it["@parameters"]["threads"] for it in operations} == {1}
    before = result.read_bytes()
    capsys.readouterr()
    with pytest.raises(SystemExit, match="numpy-0"):
        main(arguments)
    assert "numpy: 1 stacks, 0 jobs to run" in capsys.readouterr().out
    assert result.read_bytes() == before
    with pytest.raises(SystemExit, match="numpy-0"):
        main([*arguments[:-1], "2", "--dry-run"])
    assert "numpy: 1 stacks, 1 jobs to run" in capsys.readouterr().out
    assert not (tmp_path / "occasion-2").exists()
    assert len(list(tmp_path.glob("environments-2/environments/*/environment.json"))) == 1
