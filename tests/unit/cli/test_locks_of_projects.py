"""Locks of real projects install what their tools install of them, for every recorded selection."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.project_files import read_lock_file
from common.formats.locks.entries import LockSelection
from model.errors import InvalidFile
from model.packages.environments import environment

#: See its README.
_DATA = os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[3].parent / "shared" / "data"
LOCKS = sorted(Path(_DATA, "locks").glob("*/expected.json"))
PLATFORMS = {
    "linux-x86_64": "linux_x86_64", "linux-aarch64": "linux_aarch64",
    "macos-arm64": "macosx_14_0_arm64", "win-amd64": "win_amd64",
}  # fmt: skip
FULL = {"3.10": "3.10.14", "3.11": "3.11.9", "3.12": "3.12.8", "3.13": "3.13.1"}


def _selections() -> list[Any]:
    return [
        pytest.param(path.with_name(expected["lock"]), selection, id=f"{path.parent.name}-{number}")
        for path in LOCKS
        for expected in [json.loads(path.read_text("utf-8"))]
        for number, selection in enumerate(expected["selections"])
    ]


@pytest.mark.skipif(not LOCKS, reason="the locks of real projects are not on this machine")
@pytest.mark.parametrize(("path", "case"), _selections())
def test_locks_of_real_projects_install_what_their_tool_installs(
    path: Path, case: dict[str, Any]
) -> None:
    where = environment(
        FULL[case.get("python", "3.12")], PLATFORMS[case.get("platform", "linux-x86_64")]
    )
    groups = {*case["groups"]} - {"main", "default"}
    if case.get("environment", "default") != "default":
        groups = {case["environment"]}
    if case.get("args", "").startswith("poetry install"):
        groups.add("typing")  # `poetry install` adds every group that is not optional
    selection = LockSelection(
        frozenset(case["extras"]), frozenset(groups),
        all_members="--all-packages" in case.get("args", ()),
        default_groups=case.get("default_groups", True),
    )  # fmt: skip
    if "packages" not in case:
        with pytest.raises(InvalidFile) as caught:
            read_lock_file(path, selection, where.markers)
        assert caught.value.field
        assert caught.value.hint
        return
    lock = read_lock_file(path, selection, where.markers)
    installed = {name: it.version for name, it in lock.packages(where.markers).items()}
    assert installed == case["packages"]
    named = {f"{it.name} @ {it.target}" for it in lock.others if not it.local}
    assert named == {it for it in case.get("others", ()) if " @ " in it}
    beside = {f"-e ./{it.target}" for it in lock.others if it.local}
    assert beside == {it for it in case.get("others", ()) if it.startswith("-e ")}
