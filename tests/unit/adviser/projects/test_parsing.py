"""Which of a folder's files is the manifest, which the lock, and what files mean case by case."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from adviser.projects.locks import read_lock
from adviser.projects.parsing import parse_project
from adviser.projects.project import Project, ProjectFormat, WarningCode
from common.formats import file_decoding
from model.errors import InvalidFile, Reason
from tests.factories.case_files import check_cases
from tests.factories.errors import raised
from tests.factories.golden import DATA
from tests.factories.projects import (
    BY_OLDER,
    BY_PIPENV,
    LINUX,
    PYLOCK,
    WHOLE,
    WINDOWS,
    pipfile_lock,
)

PIPFILE = b"[packages]\na = '*'\n"
PYPROJECT = b"[project]\ndependencies = ['b']\n"


def names(project: Project) -> list[str]:
    return [it.name for it in project.requirements]


def codes(project: Project) -> list[WarningCode]:
    return [it.code for it in project.warnings]


def test_manifest_is_chosen_by_the_documented_order_of_files() -> None:
    files = {"Pipfile": PIPFILE, "pyproject.toml": PYPROJECT, "requirements.in": b"c",
             "requirements.txt": b"d"}  # fmt: skip
    found = []
    for name in list(files):
        found.append(names(parse_project(files)))
        del files[name]
    assert found == [["a"], ["b"], ["c"], ["d"]]


def test_file_named_by_the_user_is_the_manifest() -> None:
    files = {"Pipfile": PIPFILE, "sub/reqs.txt": b"x\n"}
    project = parse_project(files, "sub/reqs.txt")
    assert (names(project), project.source) == (["x"], "sub/reqs.txt")
    assert names(parse_project({"any.txt": b"y"})) == ["y"]
    with raised(InvalidFile, reason=Reason.UNREADABLE):
        parse_project(files, "none.txt")


@pytest.mark.parametrize(
    "files", [{}, {"tox.ini": b""}, {"a.txt": b"", "b.txt": b""}, {"constraints.txt": b"a<2"}]
)
def test_missing_manifest_is_reported_with_the_supported_files(files: dict[str, bytes]) -> None:
    with pytest.raises(InvalidFile) as caught:
        parse_project(files)
    assert "requirements.txt" in (caught.value.hint or "")


def test_lock_of_the_manifests_own_tool_is_preferred() -> None:
    locks = {
        "Pipfile.lock": pipfile_lock(default={"x": {"version": "==1"}}),
        "pylock.toml": PYLOCK.replace("me:hidden@", "").encode(),
        "requirements.txt": b"x==3\n",
    }
    by_format = {
        ProjectFormat.PIPFILE: ({"Pipfile": PIPFILE}, "Pipfile.lock"),
        ProjectFormat.PYPROJECT: ({"pyproject.toml": PYPROJECT}, "pylock.toml"),
        ProjectFormat.REQUIREMENTS: ({"requirements.in": b"c"}, "requirements.txt"),
    }
    for format, (manifest, lock) in by_format.items():
        project = parse_project(manifest | locks)
        assert (project.format, project.lock_source) == (format, lock)
        assert codes(project).count(WarningCode.FILE_IGNORED) == 2


def test_locked_versions_depend_on_the_environment() -> None:
    project = parse_project({"pyproject.toml": PYPROJECT, "pylock.toml": PYLOCK.encode()})
    assert project.locked["numpy"].version == "2.2.6"
    here, there = project.locked_in(LINUX), project.locked_in(WINDOWS)
    assert (here["numpy"].version, there["numpy"].version) == ("2.2.6", "2.0")
    assert parse_project({"pyproject.toml": PYPROJECT}).locked_in(LINUX) is None


@pytest.mark.parametrize(
    ("digest", "told"), [(BY_PIPENV, False), (BY_OLDER, False), ("0" * 64, True)]
)
def test_a_lock_of_another_manifest_is_reported(digest: str, told: bool) -> None:
    lock = pipfile_lock().replace(b'"ab"', f'"{digest}"'.encode())
    project = parse_project({"Pipfile": WHOLE.encode(), "Pipfile.lock": lock})
    assert (WarningCode.LOCK_OUTDATED in codes(project)) is told


def test_number_and_size_of_project_files_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_decoding, "MAX_BYTES", 50)
    monkeypatch.setattr(file_decoding, "MAX_TOTAL_BYTES", 80)
    monkeypatch.setattr(file_decoding, "MAX_FILES", 3)
    for files in (
        {"requirements.txt": b" " * 51},
        {"requirements.txt": b" " * 50, "Pipfile": b" " * 50},
        {f"{n}.txt": b"" for n in range(4)},
    ):
        with pytest.raises(InvalidFile, match="the limit is"):
            parse_project(files)


def test_too_many_requirements_are_refused() -> None:
    lines = "\n".join(f"p{n}" for n in range(file_decoding.MAX_REQUIREMENTS + 1))
    with raised(InvalidFile, reason=Reason.OUT_OF_RANGE, field="10001"):
        parse_project({"requirements.txt": lines.encode()})


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 2_000_000 + " = 1",
        "a" + " . 'a'" * 500_000 + " = 1",
        "x = " + "[" * 100_000,
        "x = " + "{a = " * 100_000,
        "[" + "a." * 1_000_000 + "a]",
        "a" * 4_000_000,
    ],
)
def test_deeply_nested_documents_are_refused_quickly(text: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidFile):
        parse_project({"Pipfile": text.encode()})
    assert time.process_time() - began < 20


def test_message_about_a_whole_file_has_no_line_number() -> None:
    project = parse_project({"requirements.txt": b"a==1\n"})
    (warning,) = project.warnings
    assert warning.field == "requirements.txt:$"
    assert warning.text == f"requirements.txt: {warning.message}"
    with pytest.raises(InvalidFile) as caught:
        parse_project({})
    message = "project: no file lists requirements: no file [missing_field]"
    assert str(caught.value) == message


LISTED = b"python=3.9.7=h12debd9_1\n"


@pytest.mark.parametrize(
    ("name", "content", "tool"),
    [
        ("sub/meta.yaml", b"", "conda"),
        ("requirements.txt", b"# $ conda create --name x --file y\n", "conda"),
        ("requirements.txt", b"@EXPLICIT\nhttps://h.example/a.conda\n", "conda"),
        ("requirements.txt", LISTED, "conda"),
        ("requirements.txt", b"numpy=1.26\n", "conda"),
        ("requirements.in", b"# packages in environment at /opt/x:\n", "conda"),
        ("old.lock", b'version = 1\n\n[[package]]\nname = "numpy"\n', "uv"),
        ("old.txt", b"lock-version = '1.0'\n[[packages]]\nname = 'numpy'\n", "pylock"),
        ("sub/pixi.toml", b"[project]\nname = 'a'\n[dependencies]\npython = '*'\n", "pixi"),
        ("setup.cfg", b"[options]\ninstall_requires =\n    flask\n", "setuptools"),
        ("setup.py", b"from setuptools import setup\n", "setuptools"),
    ],
)
def test_unsupported_project_file_is_refused_with_its_tool_and_a_remedy(
    name: str, content: bytes, tool: str
) -> None:
    for read in (parse_project, lambda files, path: read_lock(path, files)):
        with raised(InvalidFile, reason=Reason.UNKNOWN_SCHEMA) as caught:
            read({name: content}, name)
        assert caught.value.hint


def test_requirements_file_is_never_mistaken_for_a_conda_file() -> None:
    text = "a==1 --hash=sha256:12\n--index-url=https://h.example/?a=b=c\n# dependencies:\nb\n"
    text += "dependencies" + "\n" * 100_000
    assert names(parse_project({"requirements.txt": text.encode()})) == ["a", "b", "dependencies"]


def test_folder_with_unsupported_project_files_only_is_refused_with_their_tools() -> None:
    with raised(InvalidFile, reason=Reason.UNKNOWN_SCHEMA):
        parse_project({"pyproject.toml": b"[tool.black]\n", "meta.yaml": b"package: a"})


def project_of(files: Mapping[str, bytes]) -> Project:
    """The project; a script is named, as the commands do."""
    name = next(iter(files))
    return parse_project(files, name if name.endswith(".py") else None)


@pytest.mark.parametrize("path", sorted(DATA.glob("projects/*.txt")), ids=lambda it: it.stem)
def test_each_project_format_gives_its_requirements_or_a_reason(path: Path) -> None:
    check_cases(str(path.relative_to(DATA)), project_of)
