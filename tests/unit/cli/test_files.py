"""Files that commands read and write: projects, locks by revision, locks of real projects."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from adviser.advice_request import check_paths
from adviser.answering.recorded_advice import read_report, unrepeated
from adviser.projects.project import Project
from cli.advise import format_of
from cli.export import export
from cli.fix import fix
from cli.guard import guard
from cli.pack import report as pack_report
from cli.pi import pin
from cli.project_files import (
    keep_manifest,
    keep_project_files,
    read_lock_file,
    read_project,
    write_file,
)
from cli.report import report
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.settings import Settings
from model.errors import InvalidArgument, InvalidDocument, InvalidFile, Reason
from model.packages.environments import environment
from tests.factories.errors import raised
from tests.factories.universes import ENVIRONMENT


@pytest.mark.parametrize(
    "name",
    [
        "Pipfile",
        "pyproject.toml",
        "uv.lock",
        "poetry.lock",
        "environment.yml",
        "setup.cfg",
        "requirements.in",
        "q.uv.lock",
        "main.py",
        "README.md",
        "out.json",
    ],
)
def test_lock_does_not_overwrite_a_manifest(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        InvalidArgument,
        match=r"a manifest|of a file of (uv|Poetry|conda|setuptools)|indicates a lock format",
    ):
        keep_manifest(tmp_path / name)


def test_lock_replaces_only_files_that_are_empty_or_a_lock(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    for text in ("core>=1\n", "-r missing.txt\n", "Notes of a meeting\n"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidArgument, match="is not a lock"):
            keep_manifest(file, any_name=True)
        with pytest.raises(InvalidArgument, match="is not a lock"):
            keep_manifest(file, like="pylock.toml")
    for text in ("", "core==1\n", "-e .\ncore==1\n"):
        file.write_text(text, encoding="utf-8")
        keep_manifest(file)
    keep_manifest(tmp_path / "other.txt")
    keep_manifest(tmp_path / "out.toml", any_name=True)
    keep_manifest(tmp_path / "q.uv.lock", like="uv.lock")
    for stream in ("-", "/dev/stdout", "/dev/null"):
        keep_manifest(Path(stream))


PACK = str(Path(__file__).parents[3] / "evidence")


@pytest.mark.parametrize("name", ["bom.txt", "old.uv.lock", "pyproject.toml"])
@pytest.mark.parametrize(
    ("command", "arguments", "option"),
    [
        (export, ["sbom", "bom.txt"], "-o"),
        (guard, ["bom.txt", "bom.txt", "--pack", PACK], "--comment"),
        (guard, ["bom.txt", "bom.txt", "--pack", PACK], "--sarif"),
        (fix, ["bom.txt", "--advisories", "none.zip"], "--comment"),
        (fix, ["bom.txt", "--advisories", "none.zip"], "--sarif"),
        (fix, ["bom.txt", "--advisories", "none.zip"], "--proof"),
        (report, ["0", "--baseline", "bom.txt"], "-o"),
        (pack_report, ["bom.txt"], "--html"),
        (pack_report, ["bom.txt"], "--markdown"),
        (pin, ["matmul", "bom.txt"], "-o"),
    ],
)
def test_documents_replace_no_input_manifest_or_lock(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: click.Command,
    arguments: list[str],
    option: str,
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for it in ("bom.txt", name):
        Path(it).write_text("core==1\n", encoding="utf-8")
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    for output, message in ((name, "would replace"), ("none/x", "there is no folder none")):
        done = CliRunner().invoke(command, [*arguments, option, output], obj=settings)
        assert isinstance(done.exception, InvalidArgument), done.output
        assert message in str(done.exception)
    assert Path(name).read_text("utf-8") == "core==1\n"


def test_documents_may_replace_documents_and_streams(tmp_path: Path) -> None:
    refused = "Pipfile", "pylock.dev.toml", "requirements-dev.txt", "app.in", "thoth.vex.json"
    for name in refused:
        with pytest.raises(InvalidArgument, match="would replace"):
            keep_project_files([tmp_path / name], [])
    names = ("uv.cdx.json", "comment.txt", "fix.sarif")
    for path in (*(tmp_path / it for it in names), Path("-"), Path("/dev/stdout"), None):
        keep_project_files([path], ["x" * 5000, "main:uv.lock"])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("constraints.txt", "constraints"),
        ("out-constraints.txt", "constraints"),
        ("requirements.txt", "requirements"),
        ("Pipfile.lock", "pipfile-lock"),
        ("requirements.lock", "requirements"),
        ("new.lock", "requirements"),
        ("pylock.dev.toml", "pylock"),
    ],
)
def test_file_name_determines_the_lock_format(name: str, form: str) -> None:
    assert format_of(Path(name), Project()) == form


def test_duplicate_key_in_a_json_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"a": {"version": "9.9.9", "version": "3.1.4"}}', encoding="utf-8")
    for read in (read_report, unrepeated):
        with raised(
            InvalidDocument, reason=Reason.DUPLICATE_KEY, field="$.a.version", place=str(path)
        ):
            read(path)
    path.write_text('{"a": 1, "b": {"a": 1}}', encoding="utf-8")
    assert unrepeated(path) == path.read_bytes()


def test_output_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path, folder = tmp_path / "lock.txt", tmp_path / "folder"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o400
    folder.mkdir()
    with pytest.raises(OSError, match="Is a directory") as caught:
        write_file(folder, b"three")
    assert caught.value.filename == str(folder)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["folder", "lock.txt"]
    with pytest.raises(OSError, match=r"'/proc/lock\.txt'$") as caught:
        write_file(Path("/proc/lock.txt"), b"")
    assert caught.value.filename == "/proc/lock.txt"


def test_output_follows_links_and_keeps_the_mode_of_a_file(tmp_path: Path) -> None:
    path, link = tmp_path / "lock.txt", tmp_path / "link.txt"
    path.write_bytes(b"one")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, b"two")
    assert (link.is_symlink(), path.read_bytes()) == (True, b"two")
    assert path.stat().st_mode & 0o777 == 0o640


def test_output_is_written_into_a_pipe_a_device_or_standard_output(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, b"one")
    assert os.read(reader, 9) == b"one"
    os.close(reader)
    write_file(Path("-"), b"two")
    write_file(Path("/dev/stdout"), b"three")
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"twothree"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_project_file_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "requirements.txt")
    with pytest.raises(InvalidArgument, match="a pipe or a device"):
        read_project(tmp_path / "requirements.txt")


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("requirements.txt", "a>1\n-e ./missing\n", "requirements.txt:2"),
        ("requirements.txt", "-e ./missing[extra]\na>1\n", "requirements.txt:1"),
        ("requirements.txt", "-e ~nobody-is-called-this/b\n", "requirements.txt:1"),
        ("requirements.txt", f"-e ./{'a' * 5000}\n", "requirements.txt:1"),
        ("requirements.txt", "a>1\n./missing.whl ; os_name == 'posix'\n", "requirements.txt:2"),
        ("requirements.txt", "a>1\n-e b @ file:///missing/b\n", "requirements.txt:2"),
        ("requirements.txt", "a>1\nb @ file:///missing/b.whl\n", "requirements.txt:2"),
        ("requirements.txt", "a>1\n-e b@file:///missing/b\n", "requirements.txt:2"),
        ("requirements.txt", "a>1\n-e ./missing ; os_name == 'posix'\n", "requirements.txt:2"),
        ("Pipfile", '[packages]\na = "*"\nb = {path = "missing", editable = true}\n',
         "Pipfile:packages.b"),
        ("pyproject.toml", '[tool.poetry.dependencies]\na = "*"\nb = {path = "../missing"}\n',
         "pyproject.toml:tool.poetry.dependencies.b"),
        ("pyproject.toml", '[project]\nname = "p"\ndependencies = ["b"]\n'
         '[tool.uv.sources]\nb = {path = "missing"}\n', "pyproject.toml:tool.uv.sources.b"),
    ],
)  # fmt: skip
def test_missing_local_path_is_refused(tmp_path: Path, name: str, text: str, field: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    project = read_project(tmp_path)
    with raised(InvalidFile, reason=Reason.INCLUDE_MISSING) as caught:
        check_paths(project, ENVIRONMENT.markers)
    assert caught.value.reason == Reason.INCLUDE_MISSING
    assert f"{caught.value.place}:{caught.value.field}" == field


_UNNEEDED = [
    ("requirements.txt", "a>1\n./missing.whl ; os_name == 'nt'\n"),
    ("requirements.txt", "a>1\n./missing.whl; os_name == 'nt'\n"),
    ("requirements.txt", "a>1\nb @ file:///missing/b.whl ; os_name == 'nt'\n"),
    ("requirements.txt", "a>1\n-e ./missing ; os_name == 'nt'\n"),
    ("requirements.txt", "a>1\n-e b @ file:///missing ; os_name == 'nt'\n"),
    ("requirements.txt", "a>1\n-e 'b @ file:///missing ; os_name == \"nt\"'\n"),
    ("Pipfile", '[packages]\na = "*"\nb = {path = "missing", os_name = "== \'nt\'"}\n'),
    ("Pipfile", '[packages]\na = "*"\n[dev-packages]\nb = {path = "missing"}\n'),
    ("pyproject.toml", '[tool.poetry.dependencies]\na = "*"\n'
     'b = {path = "missing", markers = "os_name == \'nt\'"}\n'),
    ("pyproject.toml", '[tool.poetry.dependencies]\na = "*"\nb = {path = "m", optional = true}\n'),
    ("pyproject.toml", '[project]\nname = "p"\ndependencies = ["a", "b; os_name==\'nt\'"]\n'
     '[tool.uv.sources]\nb = {path = "missing"}\n'),
    ("pyproject.toml", '[project]\nname = "p"\ndependencies = ["a"]\n'
     '[project.optional-dependencies]\nx = ["b @ file:///missing/b.whl"]\n'),
    ("pyproject.toml", '[project]\nname = "p"\ndependencies = ["a"]\n'
     '[dependency-groups]\nx = ["b"]\n[tool.uv.sources]\nb = {path = "missing"}\n'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), _UNNEEDED)
def test_missing_local_path_is_accepted_if_its_marker_excludes_it(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    project = read_project(tmp_path)
    check_paths(project, ENVIRONMENT.markers)
    assert [it.name for it in project.requirements] == ["a"]
    (missing,) = project.missing_paths
    assert missing.message.endswith("which does not exist")


def test_missing_local_paths_in_locks_and_constraints_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "requirements.in").write_text("a>1\n", encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("a==2\n./missing.whl\n", encoding="utf-8")
    (tmp_path / "constraints.txt").write_text("b @ file:///missing.whl\n", encoding="utf-8")
    (tmp_path / "requirements-dev.txt").write_text("-e ../missing\n", encoding="utf-8")
    project = read_project(tmp_path)
    check_paths(project, ENVIRONMENT.markers)
    origins = {it.origin for it in project.missing_paths}
    assert origins == {"requirements.txt:2", "constraints.txt:1", "requirements-dev.txt:1"}


@pytest.mark.parametrize(
    "line",
    ["-e .", "./here", "here/b-1.whl", "file:HERE/b-1.whl", "-e b @ file:HERE", "b@file:HERE",
     "-e b[x]@file:HERE", "--editable b @ ./here",
     "./${NAME}/b.whl", "-e git+https://h.example/r"],
)  # fmt: skip
def test_requirement_on_an_existing_local_path_is_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "b-1.whl").touch()
    text = f"a>1\n{line.replace('HERE', str(tmp_path / 'here'))}\n"
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    project = read_project(tmp_path)
    assert [it.name for it in project.requirements] == ["a"]
    assert [it.field for it in project.warnings] == ["requirements.txt:2"]


def test_folder_with_only_a_conda_recipe_is_refused_with_the_tool_named(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("name: a\n", encoding="utf-8")
    with raised(InvalidFile, reason=Reason.UNKNOWN_SCHEMA):
        read_project(tmp_path)
    (tmp_path / "requirements.txt").write_text("core\n", encoding="utf-8")
    (tmp_path / "uv.toml").write_text("index-url = ''\n", encoding="utf-8")
    (warning,) = read_project(tmp_path).warnings
    assert (warning.code, warning.field) == ("file_ignored", "uv.toml:$")


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
def test_manifest_is_read_from_the_revision_of_the_lock(repository: Path, named: str) -> None:
    assert {it.name: it.version for it in read_lock_file(Path(named)).entries} == {
        "web": "1.0", "tester": "1.0"
    }  # fmt: skip
    (lock,) = read_lock_file(Path("main:app/uv.lock")).entries
    assert (lock.name, lock.version) == ("web", "2.0")


def test_included_files_are_read_from_the_revision_of_the_lock(repository: Path) -> None:
    (repository / "all.txt").write_text("-r inner/more.txt\n", encoding="utf-8")
    (repository / "inner").mkdir()
    (repository / "inner" / "more.txt").write_text("web==1\n", encoding="utf-8")
    _git(repository, "add", ".")
    _git(repository, "commit", "-q", "-m", "more")
    (repository / "inner" / "more.txt").write_text("web==2\n", encoding="utf-8")
    assert [it.version for it in read_lock_file(Path("HEAD:./all.txt")).entries] == ["1"]


def test_lock_path_that_exists_on_disk_is_not_read_as_a_revision(repository: Path) -> None:
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
def test_missing_revision_or_file_is_named(repository: Path, named: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_lock_file(Path(named))
    assert message in str(caught.value)
    assert caught.value.hint


def test_reading_a_revision_runs_no_program_from_the_git_configuration(repository: Path) -> None:
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


def test_revision_is_refused_outside_a_git_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InvalidArgument, match="is not in a Git repository"):
        read_lock_file(Path("main:uv.lock"))


def test_unknown_uv_lock_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("version = 2\n", encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        read_lock_file(tmp_path / "uv.lock", DEFAULT_SELECTION)
    assert (caught.value.reason, caught.value.field) == ("unknown_schema", "version")


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
def test_locks_of_real_projects_give_the_packages_that_the_tool_installs(
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
    assert installed.items() <= lock.pins
    assert lock.left_out(where.markers).isdisjoint(installed.items())
    named = {f"{it.name} @ {it.target}" for it in lock.others if not it.local}
    assert named == {it for it in case.get("others", ()) if " @ " in it}
    beside = {f"-e ./{it.target}" for it in lock.others if it.local}
    assert beside == {it for it in case.get("others", ()) if it.startswith("-e ")}
