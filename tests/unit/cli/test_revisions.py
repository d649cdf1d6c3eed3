"""Locks that are named by revision, such as ``main:uv.lock``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.project_files import read_lock_file
from common.formats.locks.entries import DEFAULT_SELECTION
from model.errors import InvalidArgument, InvalidFile

LOCK = """version = 1
[[package]]
name = "app"
source = {{ virtual = "." }}
dependencies = [{{ name = "web" }}]
[package.dev-dependencies]
dev = [{{ name = "tester" }}]
[[package]]
name = "web"
version = "{version}"
source = {{ registry = "https://index.example/simple" }}
[[package]]
name = "tester"
version = "1.0"
source = {{ registry = "https://index.example/simple" }}
"""


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *arguments],  # noqa: S607
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits, whose folder ``app`` has a lock."""
    app = tmp_path / "app"
    app.mkdir()
    _git(tmp_path, "init", "-q", "-b", "main")
    for version, groups in (("1.0", '["dev"]'), ("2.0", "[]")):
        (app / "uv.lock").write_text(LOCK.format(version=version), encoding="utf-8")
        settings = f"[tool.uv]\ndefault-groups = {groups}\n"
        (app / "pyproject.toml").write_text(settings, encoding="utf-8")
        _git(tmp_path, "add", ".")
        _git(tmp_path, "commit", "-q", "-m", version)
    monkeypatch.chdir(app)
    return app


@pytest.mark.parametrize("named", ["HEAD~1:app/uv.lock", "main^:./uv.lock"])
def test_a_lock_and_its_manifest_come_from_the_same_revision(repository: Path, named: str) -> None:
    assert {it.name: it.version for it in read_lock_file(Path(named)).entries} == {
        "web": "1.0", "tester": "1.0"
    }  # fmt: skip
    (lock,) = read_lock_file(Path("main:app/uv.lock")).entries
    assert (lock.name, lock.version) == ("web", "2.0")


def test_included_files_come_from_the_same_revision(repository: Path) -> None:
    (repository / "all.txt").write_text("-r inner/more.txt\n", encoding="utf-8")
    (repository / "inner").mkdir()
    (repository / "inner" / "more.txt").write_text("web==1\n", encoding="utf-8")
    _git(repository, "add", ".")
    _git(repository, "commit", "-q", "-m", "more")
    (repository / "inner" / "more.txt").write_text("web==2\n", encoding="utf-8")
    assert [it.version for it in read_lock_file(Path("HEAD:./all.txt")).entries] == ["1"]


def test_a_file_on_disk_wins(repository: Path) -> None:
    (repository / "main:app").mkdir()
    (repository / "main:app" / "uv.lock").write_text(LOCK.format(version="9.0"), encoding="utf-8")
    versions = {it.version for it in read_lock_file(Path("main:app/uv.lock")).entries}
    assert "9.0" in versions


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("nowhere:app/uv.lock", "invalid object name 'nowhere'"),
        ("main:uv.lock", "main:uv.lock: path 'uv.lock' does not exist in 'main'"),
        ("main:app/other.lock", "does not exist in 'main'"),
        ("main:app", "is a folder"),
        ("-x:app/uv.lock", "does not begin with a dash"),
    ],
)
def test_what_a_repository_does_not_have_is_named(
    repository: Path, named: str, message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_lock_file(Path(named))
    assert message in str(caught.value)
    assert caught.value.hint


def test_no_program_of_a_partial_clone_runs(repository: Path) -> None:
    marker, objects = repository / "ran", repository.parent / ".git" / "objects"
    for setting in (
        "extensions.partialClone=origin", "remote.origin.promisor=true",
        "remote.origin.url=ssh://host.example/app", f"core.sshCommand=touch {marker} #",
    ):  # fmt: skip
        _git(repository, "config", *setting.split("=", 1))
    blob = subprocess.check_output(
        ["git", "rev-parse", "HEAD:./uv.lock"], text=True, cwd=repository  # noqa: S607
    ).strip()  # fmt: skip
    (objects / blob[:2] / blob[2:]).unlink()
    with pytest.raises(InvalidArgument):
        read_lock_file(Path("main:app/uv.lock"))
    assert not marker.exists()


def test_outside_a_repository_a_revision_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InvalidArgument, match="is not in a Git repository"):
        read_lock_file(Path("main:uv.lock"))


def test_a_lock_of_an_unknown_version_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("version = 2\n", encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        read_lock_file(tmp_path / "uv.lock", DEFAULT_SELECTION)
    assert (caught.value.reason, caught.value.field) == ("unknown_schema", "version")
