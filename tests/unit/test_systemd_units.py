"""What the units in ``deploy/systemd`` promise."""

import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from cli.main import thoth

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
SERVICES = sorted(FOLDER.glob("*.service"))
PROGRAM = "/opt/thoth/.venv/bin/thoth"
ANALYZE = shutil.which("systemd-analyze") or ""
#: Of ten, as `systemd-analyze security` counts; workers need namespaces for their sandbox.
EXPOSURE = {"thoth-worker.service": 5.0}


def test_each_systemd_service_is_enabled_or_started_by_its_timer() -> None:
    assert len(SERVICES) == 4
    for service in SERVICES:
        unit = service.with_suffix(".timer")
        unit = unit if unit.exists() else service
        assert "[Install]\nWantedBy=" in unit.read_text("utf-8"), service


@pytest.mark.parametrize("service", SERVICES, ids=lambda it: it.name)
def test_systemd_service_runs_an_existing_command_in_private_folders(service: Path) -> None:
    lines = service.read_text("utf-8").splitlines()
    assert {"UMask=0077", "StateDirectoryMode=0700", "ProtectSystem=strict"} <= set(lines)
    (start,) = (it for it in lines if it.startswith("ExecStart="))
    options = shlex.split(start.partition(PROGRAM)[2].strip("'"))
    command: click.Command | None = thoth
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), options.pop(0))
    known = {it for parameter in command.params for it in parameter.opts}
    assert {it for it in options if it.startswith("--")} <= known


@pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is missing")
def test_systemd_accepts_all_unit_files(tmp_path: Path) -> None:
    for unit in FOLDER.iterdir():
        text = unit.read_text("utf-8").replace(PROGRAM, "/bin/true")
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    units = sorted(map(str, tmp_path.iterdir()))
    verified = subprocess.run(
        [ANALYZE, "verify", *units], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    for service in SERVICES:
        limit = EXPOSURE.get(service.name, 2.0)
        subprocess.run(
            [ANALYZE, "security", "--offline=true", f"--threshold={limit * 10:.0f}",
             tmp_path / service.name],
            check=True, capture_output=True,
        )  # fmt: skip
