"""``[tool.poetry]``: dependencies, groups, extras and sources."""

from __future__ import annotations

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.poetry_and_pdm import specifier_of
from adviser.projects.project import Project
from adviser.resolver.specifiers import admits
from adviser.stack_request import check_python
from model.errors import InvalidFile, Reason
from tests.factories.errors import raised


def read(text: str) -> Project:
    return parse_project({"pyproject.toml": text.encode()})


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
    ("python", "expected"),
    [("^3.10 || ^4.0", "<5,>=3.10"), ("~2.7 || ^3.6", "<2.8,>=2.7 || <4,>=3.6"), ("*", None)],
)
def test_every_alternative_of_python_counts(python: str, expected: str | None) -> None:
    project = read(f"[tool.poetry.dependencies]\npython = '{python}'\na = '*'\n")
    assert (project.requires_python, project.warnings) == (expected, ())
    check_python(project, {"python_full_version": "3.11.4"})
    if python == "~2.7 || ^3.6":
        with raised(InvalidFile, reason=Reason.CONFLICTING_FIELDS, field="requires-python"):
            check_python(project, {"python_full_version": "3.5.2"})


@pytest.mark.parametrize(("python", "holds"), [("3.8.1", True), ("3.9.1", False), ("3.11.2", True)])
def test_a_dependency_for_some_pythons_has_a_marker_with_alternatives(
    python: str, holds: bool
) -> None:
    table = "[tool.poetry.dependencies]\na = {version = '*', python = '<3.9 || ^3.10'}\n"
    markers = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    (requirement,) = read(table).requirements
    assert requirement.holds(markers) is holds
