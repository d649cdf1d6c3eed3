"""``pyproject.toml``: dependencies, extras, groups, tables of uv, Poetry and this project."""

import pytest

from adviser.advice_request import check_python, selected_requirements
from adviser.projects.parsing import parse_project
from adviser.projects.poetry_and_pdm import specifier_of
from adviser.projects.project import Project
from adviser.resolver.specifiers import admits
from model.errors import InvalidFile, Reason
from tests.factories.errors import raised


def read(text: str) -> Project:
    return parse_project({"pyproject.toml": text.encode()})


def texts(asked: object) -> list[str]:
    return [it.text for it in asked]  # type: ignore[attr-defined]


def chain(length: int) -> str:
    """Extras that each ask for the next under two conditions."""
    lines = "".join(
        f"e{i}=[\"me[e{i + 1}]; python_version > '3.{i}'\", "
        f"\"me[e{i + 1}]; python_version < '4.{i}'\"]\n"
        for i in range(length)
    )
    head = "[project]\nname='me'\n[project.optional-dependencies]\n"
    return f"{head}{lines}e{length}=['pad']\n"


def test_chain_of_extras_with_too_many_conditions_is_refused() -> None:
    assert len(read(chain(4)).extras["e0"]) == 16
    with raised(InvalidFile, reason=Reason.OUT_OF_RANGE, field="project.optional-dependencies"):
        read(chain(8))


def test_long_chains_of_dependency_groups_are_refused() -> None:
    def groups(length: int) -> str:
        lines = (f"g{i}=[{{include-group='g{i + 1}'}}]\n" for i in range(length))
        return f"[dependency-groups]\n{''.join(lines)}g{length}=['pad']\n"

    assert texts(read(groups(200)).groups["g0"]) == ["pad"]
    with raised(InvalidFile, reason=Reason.OUT_OF_RANGE, field="dependency-groups"):
        read(groups(2_000))


def test_exponentially_nested_dependency_groups_do_not_exhaust_memory() -> None:
    lines = [
        f"g{n} = [{{include-group='g{n + 1}'}}, {{include-group='g{n + 1}'}}]" for n in range(90)
    ]
    project = read("[dependency-groups]\n" + "\n".join(lines) + "\ng90 = ['a']\n")
    assert texts(project.groups["g0"]) == ["a"]


def test_request_selects_extras_and_dependency_groups() -> None:
    project = read(
        "[project]\ndependencies=['a']\n[project.optional-dependencies]\nX_1=['b', 'a']\n"
        "[dependency-groups]\ndev=['c']\nmore=['d']\n"
    )
    assert texts(selected_requirements(project)) == ["a"]
    assert texts(selected_requirements(project, dev=True, extras=["x.1"])) == ["a", "c", "b"]
    assert texts(selected_requirements(project, groups=["more"])) == ["a", "d"]
    assert (
        selected_requirements(project, extras=["x-1"])[0].origin
        == "pyproject.toml:project.dependencies[0]"
    )
    with raised(InvalidFile, reason=Reason.MISSING_FIELD, field="groups") as caught:
        selected_requirements(project, groups=["none"])
    assert caught.value.hint == "the project has dev, more"
    many = "".join(f"g{n:02}=[]\n" for n in range(22))
    with pytest.raises(InvalidFile) as caught:
        selected_requirements(read(f"[project]\n[dependency-groups]\n{many}"), groups=["none"])
    assert (caught.value.hint or "").endswith(", g18, g19 and 2 more")


GROUPS = """[dependency-groups]
dev=['pytest']
docs=['sphinx', {include-group='base'}]
base=['pytest']
[tool.uv]
default-groups=%s
[tool.uv.dependency-groups]
Base={requires-python='>=3.12'}
"""


@pytest.mark.parametrize(
    ("default", "dev", "pythons"),
    [
        ("['docs']", ["pytest", "sphinx"], {"--dev", "--group docs", "--group base"}),
        ("'all'", ["pytest", "sphinx"], {"--dev", "--group docs", "--group base"}),
        ("[]", ["pytest"], {"--group docs", "--group base"}),
    ],
)
def test_default_groups_are_development_requirements_with_their_own_python(
    default: str, dev: list[str], pythons: set[str]
) -> None:
    project = read(GROUPS % default)
    assert sorted(it.name for it in project.dev) == dev
    assert texts(project.groups["dev"]) == ["pytest"]
    assert project.option_pythons == dict.fromkeys(pythons, ">=3.12")
    check_python(project, {"python_full_version": "3.11.4"}, ["--group dev"])
    for option in pythons:
        check_python(project, {"python_full_version": "3.12.0"}, [option])
        with raised(InvalidFile, reason=Reason.CONFLICTING_FIELDS, field="requires-python"):
            check_python(project, {"python_full_version": "3.11.4"}, [option])


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
def test_poetry_constraints_have_their_documented_bounds(constraint: str, specifier: str) -> None:
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
def test_poetry_alternatives_admit_versions_of_each_range(
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
def test_python_of_any_poetry_alternative_is_accepted(python: str, expected: str | None) -> None:
    project = read(f"[tool.poetry.dependencies]\npython = '{python}'\na = '*'\n")
    assert (project.requires_python, project.warnings) == (expected, ())
    check_python(project, {"python_full_version": "3.11.4"})
    if python == "~2.7 || ^3.6":
        with raised(InvalidFile, reason=Reason.CONFLICTING_FIELDS, field="requires-python"):
            check_python(project, {"python_full_version": "3.5.2"})


@pytest.mark.parametrize(("python", "holds"), [("3.8.1", True), ("3.9.1", False), ("3.11.2", True)])
def test_poetry_dependency_for_some_pythons_gets_a_marker(python: str, holds: bool) -> None:
    table = "[tool.poetry.dependencies]\na = {version = '*', python = '<3.9 || ^3.10'}\n"
    markers = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    (requirement,) = read(table).requirements
    assert requirement.holds(markers) is holds
