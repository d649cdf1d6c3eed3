"""Guides run from top to bottom as they are written, on a fresh machine with real stores."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import needs
from tests.services.commands import ROOT
from tests.services.guides import SHELL, blocks_of, commands_of, follow
from tests.services.index import Index, package_index
from tests.services.installation import EXTERNAL
from tests.services.ports import closed_port

_SAMPLES = ROOT / "samples" / "packages.jsonl.gz"
#: Keys of a file's entry on a page, by those of a release document.
_ENTRY = {"size": "size", "requires_python": "requires-python", "upload_time": "upload-time"}


@contextmanager
def recorded_index() -> Iterator[Index]:
    """An index on loopback with the releases of the samples, whose files cannot be downloaded."""
    with (
        package_index(protected=False, json=True, validators=True) as index,
        gzip.open(_SAMPLES, "rt", encoding="utf-8") as lines,
    ):
        for line in lines:
            _add(index, json.loads(line))
        yield index


def _add(index: Index, release: dict[str, Any]) -> None:
    metadata = _metadata(release).encode()
    for file in release["files"]:
        entry = {name: file[key] for key, name in _ENTRY.items() if file.get(key) is not None}
        hashes = {"sha256": file["sha256"]}
        index.add_file(release["name"], file["filename"], b"", hashes=hashes, **entry)
        if file["filename"].endswith(".whl"):
            index.offer_metadata(file["filename"], metadata)


def _metadata(release: dict[str, Any]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {release['name']}", f"Version: {release['version']}"]
    if release.get("requires_python"):
        lines.append(f"Requires-Python: {release['requires_python']}")
    lines += [f"Provides-Extra: {extra}" for extra in release["provides_extra"]]
    lines += [f"Requires-Dist: {raw}" for raw in release["requires_dist"]]
    return "\n".join(lines) + "\n"


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages with commands that run here.
GUIDES = [page for page in PAGES if any(commands_of(page.read_text(encoding="utf-8")))]
#: Programs that the commands of a guide need.
PROGRAMS = {
    "api.md": ("curl", "bwrap"),
    "ci.md": ("git",),
    "export.md": ("notebooks",),
    "measure.md": ("bwrap",),
    "service.md": ("curl",),
}
#: Guides that read wheels, from the index that this machine is configured with.
REAL_INDEX = ("native.md",)
#: Guides that lock with uv; the recorded index has metadata, but no whole wheels to install.
LOCKING = ("ci.md",)


def cases() -> Iterator[object]:
    for page in GUIDES:
        marks = [needs(*PROGRAMS[page.name])] if page.name in PROGRAMS else []
        yield pytest.param(page, id=page.name, marks=marks)


@pytest.fixture
def machine() -> Iterator[Path]:
    """The home of a user who has never used Thoth; short, for the sockets below it."""
    home = Path(tempfile.mkdtemp(prefix="thoth-guide-"))
    try:
        yield home
    finally:
        subprocess.run(
            [_thoth(), "down"],
            env=_environment(home),
            capture_output=True,
            timeout=120,
            check=False,
        )
        shutil.rmtree(home, ignore_errors=True)


def _thoth() -> str:
    return str(Path(sys.executable).with_name("thoth"))


def _environment(home: Path) -> dict[str, str]:
    """Variables of a fresh user; only caches of installers are shared."""
    kept = {name: value for name, value in os.environ.items() if name not in EXTERNAL}
    real = Path.home()
    shared = {
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(real / ".cache" / "uv")),
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME", str(real / ".config")),
    }
    own = {
        "HOME": str(home),
        "THOTH_HOME": str(home / ".local" / "share" / "thoth"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "160",
    }
    return kept | shared | own


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", list(cases()))
def test_commands_of_a_guide_run_from_top_to_bottom(page: Path, machine: Path) -> None:
    clone = machine / "thoth"
    clone.mkdir()
    (clone / "samples").symlink_to(ROOT / "samples")
    environment = _environment(machine)
    with recorded_index() as index:
        if page.name not in REAL_INDEX:
            environment["PACKAGE_INDEXES"] = f"pypi={index.url}"
        if page.name in LOCKING:
            environment["UV_DEFAULT_INDEX"] = index.url
        printed = follow(page, clone, environment, closed_port())
    assert "Traceback" not in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_documented_command_is_run_or_says_why_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(text):
        is_shown = re.search(r"(?m)^\$ ", block.text) is not None
        assert not is_shown or block.language in SHELL, f"commands without language:\n{block.text}"
        if block.kind == "not run":
            assert block.language in SHELL
            assert len(block.value.split()) > 2, f"no reason why this is not run:\n{block.text}"
    unknown = [it for it in re.findall(r"<!-- (.*?) -->", text) if not re.match(KNOWN, it)]
    assert unknown == []


KNOWN = r"(not run: \S|exit code \d+$|server$|file: \S|generated: \w+$|end$)"
