"""Advice on measured stacks, from inspections to the first line of ``thoth advise``."""

import json
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from sqlalchemy import select

from graph.engine import Stores
from graph.tables import HardwareRow
from ingest.advisories.sync import sync_source
from tests.factories.advisories import affected, osv, write_archive
from tests.factories.releases import release
from tests.services.commands import WHERE, thoth
from tests.services.projection import deliver, measure

#: ``frames`` 3 no longer requires ``zone``; 3.0.6 and 3.2.0 are never measured.
RELEASES = [
    release("frames", "3.2.0"),
    release("frames", "3.1.1"),
    release("frames", "3.0.6"),
    release("frames", "2.2.3", ["zone"]),
    release("zone", "1.0"),
    release("kept", "1.0", ["zone"]),
]


def measured(stores: Stores, folder: Path, stacks: Mapping[float, Mapping[str, str]]) -> None:
    """Ten jobs of each stack, given by its speed, in turns."""
    rates = {
        speed: [200.0 * speed * (1 + 0.04 * (-1) ** (block + turn)) for block in range(10)]
        for turn, speed in enumerate(stacks)
    }
    measure(stores, folder, *((rates[speed], it) for speed, it in stacks.items()))


def run(stores: Stores, *arguments: str) -> CompletedProcess[str]:
    with stores.engine.connect() as connection:
        hardware = connection.scalars(select(HardwareRow.digest)).one()
    return thoth(stores.settings, *arguments, *WHERE, "--hardware", hardware)


def versions_in(done: CompletedProcess[str]) -> dict[str, str]:
    report: dict[str, Any] = json.loads(done.stdout)["result"]["report"]
    return {it["name"]: it["version"] for it in report["products"][0]["packages"]}


def project_in(folder: Path, requirements: str, lock: Mapping[str, str] | None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "requirements.in").write_text(requirements, encoding="utf-8")
    if lock is not None:
        text = "".join(f"{name}=={version}\n" for name, version in lock.items())
        (folder / "requirements.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("pinned", "locked", "kind"), [(True, True, "best"), (False, False, "performance")]
)
def test_advice_keeps_a_measured_version_and_names_unmeasured_versions(
    stores: Stores, tmp_path: Path, pinned: bool, locked: bool, kind: str
) -> None:
    """pandas 2.2.3, 3.1.1 and 3.0.6, with and without pytz."""
    deliver(stores, RELEASES)
    kept = {"kept": "1.0", "zone": "1.0"} if pinned else {}
    old = {"frames": "2.2.3", "zone": "1.0", **kept}
    measured(stores, tmp_path / "inspections", {3.2: old, 1.0: {"frames": "3.1.1", **kept}})
    requirements = "frames\nkept\n" if pinned else "frames\n"
    project = project_in(tmp_path / "project", requirements, old if locked else None)
    done = run(stores, "advise", str(project), "--type", kind, "--offline")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"{'Keep' if locked else 'Use'} frames 2.2.3: it is 3.2 times as fast")
    assert "3.1.1 in PiMatmul (95 % interval" in first
    text = " ".join(done.stdout.split())
    assert "3.2.0 and 3.0.6 were not compared here: `thoth pi pin matmul 'frames==3.2.0'`" in text
    assert "settle it in about" in text


@pytest.mark.parametrize("kind", ["best", "latest"])
def test_guard_accepts_every_advised_stack(stores: Stores, tmp_path: Path, kind: str) -> None:
    deliver(stores, RELEASES)
    lock = {"frames": "2.2.3", "zone": "1.0"}
    measured(stores, tmp_path / "inspections", {3.2: lock, 1.0: {"frames": "3.1.1"}})
    bad = osv("GHSA-aaaa-bbbb-cccc", affected("frames", ("introduced", "3.2.0")))
    archive = write_archive(tmp_path / "all.zip", [bad])
    sync_source(stores.settings, stores.engine, str(archive))
    project = project_in(tmp_path / "project", "frames\n", lock)
    output = tmp_path / "advised.txt"
    done = run(stores, "advise", str(project), "--type", kind, "--offline", "--json",
               "-o", str(output))  # fmt: skip
    assert done.returncode == 0, done.stderr
    advised = versions_in(done)
    assert advised["frames"] == ("2.2.3" if kind == "best" else "3.0.6")
    guarded = run(stores, "guard", str(project / "requirements.txt"), str(output), "--json")
    assert json.loads(guarded.stdout)["outcome"] != "harm"
    newest = tmp_path / "newest.txt"
    newest.write_text("frames==3.2.0\n", encoding="utf-8")
    locks = ("guard", str(output), str(newest))
    assert run(stores, *locks).returncode == 1
    assert run(stores, *locks, "--allow-vulnerability", "GHSA-AAAA-bbbb-cccc").returncode != 1
    accepted = run(stores, "advise", str(project), "--type", "latest", "--offline", "--json",
                   "--allow-vulnerability", "GHSA-aaaa-bbbb-cccc")  # fmt: skip
    assert versions_in(accepted)["frames"] == "3.2.0"
    why_not = run(stores, "why-not", "frames==3.1.1", str(project), "--offline")
    assert "frames 3.1.1" in why_not.stdout
