"""Installers take the locks: pip and uv, for real, from an index of our own."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from uv import find_uv_bin

from adviser.locks.formats import LockablePackage, LockFormat, LockOptions, render_lock
from adviser.projects.parsing import parse_project
from adviser.projects.project import Project
from model.packages.environments import host_environment
from model.packages.releases import ReleaseFile, kind_of_file
from tests.requirements import needs
from tests.services.index import Index, package_index
from tests.services.waiting import DEADLINE_S

#: ``app`` needs ``lib`` and, with an extra, ``helper``; newer ones of each are there, too.
VERSIONS = {"app": ("1.0", "2.0"), "lib": ("1.5", "1.6"), "helper": ("0.1",)}
STACK = {"app": "1.0", "lib": "1.5", "helper": "0.1"}


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index(protected=False, json=True) as served:
        metadata = "Requires-Dist: lib>=1\nProvides-Extra: more\n"
        metadata += 'Requires-Dist: helper; extra == "more"\n'
        for name, versions in VERSIONS.items():
            for version in versions:
                told = metadata if name == "app" else ""
                # Without METADATA beside it, uv asks for headers, which this index does not answer.
                served.add_wheel(name, version, metadata=told, beside=True)
        served.add_source("lib", "1.5")
        yield served


@pytest.fixture
def project() -> Project:
    return parse_project({"requirements.in": b"app[more]\n"})


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter with nothing installed."""
    run(find_uv_bin(), "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    return tmp_path / "venv" / "bin" / "python"


def stack_of(index: Index) -> list[LockablePackage]:
    return [chosen_of(index, name, version) for name, version in STACK.items()]


def chosen_of(index: Index, name: str, version: str) -> LockablePackage:
    server = index.url.removesuffix("/simple")
    names = [it for it in index.files[name] if it.startswith(f"{name}-{version}")]
    return LockablePackage(
        name,
        version,
        files=tuple(
            ReleaseFile(it, hashlib.sha256(index.files[name][it]).hexdigest(), kind_of_file(it))
            for it in names
        ),
        extras=("more",) if name == "app" else (),
        dependencies=("helper", "lib") if name == "app" else (),
        urls={it: f"{server}/files/{name}/{it}" for it in names},
    )


def written(
    index: Index, project: Project, format: LockFormat, folder: Path, *stack: LockablePackage
) -> Path:
    options = LockOptions(host_environment(), {"pypi": index.url})
    lock = render_lock(format, stack or stack_of(index), project, options)
    path = folder / lock.name
    path.write_bytes(lock.data)
    return path


def run(*command: str, **further: str) -> subprocess.CompletedProcess[str]:
    """A command that no configuration of this machine reaches."""
    kept: Mapping[str, str] = {
        key: it for key, it in os.environ.items() if not key.startswith(("PIP_", "UV_"))
    }
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "NO_COLOR": "1"}
    environ |= further
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environ, timeout=DEADLINE_S
    )


def pip(index: Index, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(
        sys.executable, "-m", "pip", "install", "--isolated", "--disable-pip-version-check",
        "--no-cache-dir", "--ignore-installed", "--dry-run", "--index-url", index.url, *arguments,
    )  # fmt: skip


def uv(index: Index, python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    cache = str(python.parents[2] / "cache")
    return run(
        find_uv_bin(), "pip", *arguments, "--python", str(python), "--cache-dir", cache,
        "--default-index", index.url,
    )  # fmt: skip


def installed(python: Path) -> dict[str, str]:
    listed = run(find_uv_bin(), "pip", "list", "--format=freeze", "--python", str(python))
    return dict(line.split("==") for line in listed.stdout.split())


def test_pip_accepts_written_requirements_with_hashes(
    index: Index, project: Project, tmp_path: Path
) -> None:
    path = written(index, project, LockFormat.REQUIREMENTS, tmp_path)
    done = pip(index, "--require-hashes", "-r", str(path))
    assert done.returncode == 0, done.stderr
    assert "Would install app-1.0 helper-0.1 lib-1.5" in done.stdout


def test_pip_refuses_a_wrong_hash(index: Index, project: Project, tmp_path: Path) -> None:
    stack = stack_of(index)
    files = tuple(replace(it, sha256="0" * 64) for it in stack[1].files)
    stack[1] = replace(stack[1], files=files)
    path = written(index, project, LockFormat.REQUIREMENTS, tmp_path, *stack)
    done = pip(index, "--require-hashes", "-r", str(path))
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_uv_installs_written_requirements_with_hashes(
    index: Index, project: Project, tmp_path: Path, python: Path
) -> None:
    path = written(index, project, LockFormat.REQUIREMENTS, tmp_path)
    tried = uv(index, python, "install", "--require-hashes", "--dry-run", "-r", str(path))
    assert tried.returncode == 0, tried.stderr
    assert installed(python) == {}
    done = uv(index, python, "install", "--require-hashes", "-r", str(path))
    assert done.returncode == 0, done.stderr
    assert installed(python) == STACK


def test_uv_installs_a_written_pylock(
    index: Index, project: Project, tmp_path: Path, python: Path
) -> None:
    path = written(index, project, LockFormat.PYLOCK, tmp_path)
    tried = uv(index, python, "sync", "--dry-run", str(path))
    assert tried.returncode == 0, tried.stderr
    assert "Would install 3 packages" in tried.stderr
    done = uv(index, python, "sync", str(path))
    assert done.returncode == 0, done.stderr
    assert installed(python) == STACK


def test_uv_refuses_a_pylock_of_another_environment(
    index: Index, project: Project, tmp_path: Path, python: Path
) -> None:
    path = written(index, project, LockFormat.PYLOCK, tmp_path)
    marker = rf'python_version == \\"{host_environment().python_version}\\"'
    text, number = re.subn(marker, "python_version == '3.7'", path.read_text())
    assert number == 1
    path.write_text(text)
    done = uv(index, python, "sync", "--dry-run", str(path))
    assert done.returncode != 0
    assert "environment is not supported by the lockfile" in done.stderr


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installers_obey_constraints_written_by_thoth(
    installer: str, index: Index, project: Project, tmp_path: Path, python: Path
) -> None:
    path = written(index, project, LockFormat.CONSTRAINTS, tmp_path)
    if installer == "pip":
        done = pip(index, "app", "-c", str(path))
        assert "Would install app-1.0 lib-1.5" in done.stdout, done.stderr
    else:
        done = uv(index, python, "install", "app", "-c", str(path))
        assert installed(python) == {"app": "1.0", "lib": "1.5"}, done.stderr


@needs("pipenv")
def test_pipenv_installs_a_written_lock(index: Index, tmp_path: Path) -> None:
    manifest = f'[[source]]\nname = "main"\nurl = "{index.url}"\nverify_ssl = false\n'
    manifest += '[packages]\nApp = {version = "*", extras = ["more"]}\n'
    (tmp_path / "Pipfile").write_text(manifest)
    project = parse_project({"Pipfile": manifest.encode()})
    written(index, project, LockFormat.PIPFILE_LOCK, tmp_path)
    environ = {"PIPENV_PIPFILE": str(tmp_path / "Pipfile"), "PIPENV_VENV_IN_PROJECT": "1",
               "PIPENV_IGNORE_VIRTUALENVS": "1"}  # fmt: skip
    for command in ("verify", "sync"):
        done = run("pipenv", command, **environ)
        assert done.returncode == 0, done.stderr
    found = installed(tmp_path / ".venv" / "bin" / "python")
    assert {name: found.get(name) for name in STACK} == STACK
