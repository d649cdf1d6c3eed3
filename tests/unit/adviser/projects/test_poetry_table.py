"""``[tool.poetry]``: dependencies, groups, extras and sources."""

from __future__ import annotations

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.poetry_table import specifier_of
from adviser.projects.project import Project, WarningCode
from adviser.resolver.specifiers import admits
from adviser.stack_request import check_python
from model.errors import InvalidFile


def read(text: str) -> Project:
    return parse_project({"pyproject.toml": text.encode()})


def texts(asked: object) -> list[str]:
    return [it.text for it in asked]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("constraint", "specifier"),
    [
        ("*", ""),
        ("^1.2.3", "<2,>=1.2.3"),
        ("^0.2.3", "<0.3,>=0.2.3"),
        ("^0.0.3", "<0.0.4,>=0.0.3"),
        ("^0.0", "<0.1,>=0.0"),
        ("^0", "<1,>=0"),
        ("~1.2.3", "<1.3,>=1.2.3"),
        ("~1", "<2,>=1"),
        ("~=1.2", "~=1.2"),
        ("1.2.*", "==1.2.*"),
        ("1.2", "==1.2"),
        ("=1.2", "==1.2"),
        (">= 1.2, < 2", "<2,>=1.2"),
        (">=1.2 <2 !=1.5", "!=1.5,<2,>=1.2"),
        ("^2.0.0b1", "<3,>=2.0.0b1"),
        ("^2.1 || ^3.0", "<4,>=2.1"),
        ("^1.1|^2|^3", "<4,>=1.1"),
        ("<2 || *", ""),
        (">=2 || ^1.4", ">=1.4"),
        ("1.* || 3.*", "!=0.*,!=2.*,<4"),
    ],
)
def test_a_constraint_has_the_bounds_that_poetry_documents(constraint: str, specifier: str) -> None:
    assert specifier_of(constraint, "pyproject.toml:a") == (specifier, ())


@pytest.mark.parametrize(
    ("constraint", "admitted", "others"),
    [
        ("^1 || ^3", "1 1.9 3 3.1.2", "0.9 2 2.9 3.0rc1 4"),
        (">=1.10,<1.13 || >=1.15,<1.16", "1.10 1.12.9 1.15.3", "1.9 1.13 1.14.8 1.15rc1 1.16"),
        ("1.2.3 || 1.4.0 | 2.1", "1.2.3 1.4 2.1.0", "1.2.2 1.2.3.post1 1.2.200 1.3 1.4.1 2 2.1.1"),
        ("<1 || >2,!=2.5", "0.9 2.0.1 3", "1 1.5 2 2.5"),
        ("<3 || >3", "2.9 3.1", "3 3.0.0"),
        (">=1,!=1.5 || >=3,<4", "1.4 1.6 3.5 9", "1.5"),
        (">3,<4 || 1.2.* || ~=2.1.2", "1.2 1.2.9 2.1.3 3.5", "1.1 1.3 2.1.1 2.2 3 4"),
        ("<=2.0 || ^2.0.5 || 7", "1 2 2.0.5 2.9 7", "2.0.1 3 6.9 7.1"),
    ],
)
def test_alternatives_admit_what_one_of_them_admits(
    constraint: str, admitted: str, others: str
) -> None:
    (requirement,) = read(f"[tool.poetry.dependencies]\na = {constraint!r}\n").requirements
    for versions, holds in ((admitted, True), (others, False)):
        for version in versions.split():
            excluded = any(admits(gap, version) for gap in requirement.excluded)
            assert (admits(requirement.specifier, version) and not excluded) is holds, version


@pytest.mark.parametrize(
    "constraint", ["^1 ||", "|| ^1", "latest", "^", ">=1,,<", "^x", "1.2 and 3", "1 || ===2"]
)
def test_a_constraint_without_a_specifier_is_refused_with_its_place(constraint: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(f"[tool.poetry.dependencies]\na = {constraint!r}\n")
    assert caught.value.field == "tool.poetry.dependencies.a.version"
    assert caught.value.hint


def test_dependencies_groups_and_extras_are_read() -> None:
    project = read(
        "[tool.poetry]\nname = 'demo'\nversion = '1'\n"
        "[tool.poetry.dependencies]\npython = '^3.10'\n"
        "Flask = {version = '^3', extras = ['async']}\n"
        "pad = {version = '*', platform = 'win32'}\norjson = {version = '^3', optional = true}\n"
        "numpy = [{version = '<2', python = '<3.12'}, {version = '^2', python = '>=3.12'}]\n"
        "early = {version = '*', allow-prereleases = true}\n"
        "[tool.poetry.extras]\nfast = ['orjson']\n"
        "[tool.poetry.group.test.dependencies]\npytest = '<9'\n"
        "[tool.poetry.dev-dependencies]\nruff = '~0.11'\n"
    )
    assert texts(project.requirements) == [
        "flask[async]<4,>=3", 'pad ; sys_platform == "win32"',
        'numpy<2 ; python_version < "3.12"', 'numpy<3,>=2 ; python_version >= "3.12"', "early",
    ]  # fmt: skip
    assert [it.prereleases for it in project.requirements] == [None, None, None, None, True]
    assert texts(project.extras["fast"]) == ["orjson<4,>=3"]
    assert texts(project.groups["test"]) == ["pytest<9"]
    assert texts(project.dev) == ["ruff<0.12,>=0.11"]
    assert project.requires_python == "<4,>=3.10"


def test_dependencies_of_the_project_table_come_first_and_keep_their_source() -> None:
    project = read(
        "[project]\nname = 'demo'\nrequires-python = '>=3.11'\ndependencies = ['torch>=2', 'own']\n"
        "[tool.poetry.dependencies]\npython = '^3.9'\ntorch = {source = 'wheels'}\nother = '*'\n"
        "own = {allow-prereleases = true}\n"
        "[tool.poetry.group.dev.dependencies]\npytest = '*'\n"
        "[[tool.poetry.source]]\nname = 'wheels'\nurl = 'https://example.org/cpu'\n"
        "priority = 'explicit'\n"
    )
    assert texts(project.requirements) == ["torch>=2", "own"]
    assert [it.index for it in project.requirements] == ["wheels", None]
    assert [it.prereleases for it in project.requirements] == [None, True]
    assert [(it.name, it.explicit, it.default) for it in project.indexes] == [
        ("wheels", True, False)
    ]
    assert texts(project.dev) == ["pytest"]
    assert project.requires_python == ">=3.11"


def test_requirements_that_poetry_lists_are_not_computed_by_the_build() -> None:
    project = read(
        "[project]\nname = 'demo'\ndynamic = ['dependencies']\n"
        "[tool.poetry.dependencies]\nflask = '*'\n"
    )
    assert texts(project.requirements) == ["flask"]
    assert not project.warnings


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        ("", ["own"]),
        ("[[tool.poetry.source]]\nname = 'PyPI'\n", ["own", "pypi"]),
    ],
)
def test_a_primary_source_replaces_the_public_index_unless_that_is_named(
    sources: str, names: list[str]
) -> None:
    project = read(
        "[tool.poetry.dependencies]\nflask = '*'\n"
        f"[[tool.poetry.source]]\nname = 'own'\nurl = 'https://example.org/own'\n{sources}"
    )
    assert [it.name for it in project.indexes if not it.explicit] == names
    assert all(it.default for it in project.indexes)


def test_the_public_index_has_its_name_in_any_case_and_may_be_explicit() -> None:
    project = read(
        "[tool.poetry.dependencies]\nflask = {version = '*', source = 'PyPI'}\n"
        "[[tool.poetry.source]]\nname = 'PyPI'\npriority = 'explicit'\n"
    )
    (index,) = project.indexes
    assert (index.name, index.explicit, index.default) == ("pypi", True, True)
    assert project.requirements[0].index == "pypi"


def test_what_comes_from_elsewhere_is_left_out() -> None:
    project = read(
        "[tool.poetry.dependencies]\na = {git = 'https://user:word@example.org/a.git'}\n"
        "b = {path = '../b', develop = true}\nc = {url = 'https://example.org/c.whl'}\nd = '*'\n"
    )
    assert texts(project.requirements) == ["d"]
    assert {it.code for it in project.warnings} == {
        WarningCode.REPOSITORY, WarningCode.LOCAL_PATH, WarningCode.ADDRESS,
        WarningCode.CREDENTIALS_REMOVED,
    }  # fmt: skip
    assert not any("word@" in it.message for it in project.warnings)


@pytest.mark.parametrize(
    ("python", "expected"),
    [("^3.10 || ^4.0", "<5,>=3.10"), ("~2.7 || ^3.6", "<2.8,>=2.7 || <4,>=3.6"), ("*", None)],
)
def test_every_alternative_of_python_counts(python: str, expected: str | None) -> None:
    project = read(f"[tool.poetry.dependencies]\npython = '{python}'\na = '*'\n")
    assert (project.requires_python, project.warnings) == (expected, ())
    check_python(project, {"python_full_version": "3.11.4"})
    if python == "~2.7 || ^3.6":
        with pytest.raises(InvalidFile, match=r"requires <2.8,>=2.7 \|\| <4,>=3.6"):
            check_python(project, {"python_full_version": "3.5.2"})


@pytest.mark.parametrize(("python", "holds"), [("3.8.1", True), ("3.9.1", False), ("3.11.2", True)])
def test_a_dependency_for_some_pythons_has_a_marker_with_alternatives(
    python: str, holds: bool
) -> None:
    table = "[tool.poetry.dependencies]\na = {version = '*', python = '<3.9 || ^3.10'}\n"
    markers = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    (requirement,) = read(table).requirements
    assert requirement.holds(markers) is holds
