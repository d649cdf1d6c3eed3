"""``pyproject.toml``: dependencies, extras, groups, and uv's table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.project import Project, WarningCode
from adviser.stack_request import check_python, selected_requirements
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


def test_conditions_of_extras_are_bounded() -> None:
    assert len(read(chain(4)).extras["e0"]) == 16
    with raised(InvalidFile, reason=Reason.OUT_OF_RANGE, field="project.optional-dependencies"):
        read(chain(8))


def test_long_chains_of_groups_are_refused_rather_than_followed() -> None:
    def groups(length: int) -> str:
        lines = (f"g{i}=[{{include-group='g{i + 1}'}}]\n" for i in range(length))
        return f"[dependency-groups]\n{''.join(lines)}g{length}=['pad']\n"

    assert texts(read(groups(200)).groups["g0"]) == ["pad"]
    with raised(InvalidFile, reason=Reason.OUT_OF_RANGE, field="dependency-groups"):
        read(groups(2_000))


def uv(text: str) -> Project:
    return read(f"[project]\nname='me'\ndependencies=['base']\n[tool.uv]\n{text}")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2024-01-31T12:00:00Z", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("2024-01-31T12:00:00+02:00", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("2024-01-31", datetime(2024, 2, 1, tzinfo=UTC)),
        ("1 week", None),
    ],
)
def test_exclude_newer_bounds_the_age_of_releases(said: str, meant: datetime | None) -> None:
    project = uv(f"exclude-newer='{said}'\n")
    assert project.published_before == meant
    assert (WarningCode.OPTION_IGNORED in {it.code for it in project.warnings}) is (meant is None)


def test_groups_that_double_each_other_do_not_fill_the_memory() -> None:
    lines = [
        f"g{n} = [{{include-group='g{n + 1}'}}, {{include-group='g{n + 1}'}}]" for n in range(90)
    ]
    project = read("[dependency-groups]\n" + "\n".join(lines) + "\ng90 = ['a']\n")
    assert texts(project.groups["g0"]) == ["a"]


def test_requests_choose_extras_and_groups() -> None:
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


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[project]\ndependencies=['a b']", "project.dependencies[0]"),
        ("[project]\ndependencies='a'", "project.dependencies"),
        ("[project]\nrequires-python='3.11'", "project.requires-python"),
        ("project=1", "project"),
        ("[project.optional-dependencies]\na=[1]", "project.optional-dependencies.a[0]"),
        ("[dependency-groups]\na='b'", "dependency-groups.a"),
        ("[dependency-groups]\na=[{include='b'}]", "dependency-groups.a[0]"),
        ("[dependency-groups]\na=[1]", "dependency-groups.a[0]"),
        ("[dependency-groups]\na_b=[]\nA-b=[]", "dependency-groups"),
        ("[project]\n[tool.uv]\nsources=1", "tool.uv.sources"),
        ("[project]\n[[tool.uv.index]]\nname='a'", "tool.uv.index[0]"),
        ("[tool.black]\nline-length=1", "$"),
    ],
)
def test_an_error_is_reported_with_its_field_and_a_remedy(text: str, field: str) -> None:
    with raised(InvalidFile, place="pyproject.toml", field=field) as caught:
        read(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("table", "field"),
    [
        ("[tool.pdm.options]\nlock=['-G','a']", "tool.pdm.options"),
        ("[tool.pdm.resolution]\nstrategy='x'", "tool.pdm.resolution.strategy"),
        ("[tool.pdm.resolution.overrides]\na='https://h.example/a.whl'",
         "tool.pdm.resolution.overrides.a"),
        ("[[tool.pdm.source]]\nname='a'\ntype='find_links'\nurl='/w'", "tool.pdm.source[0]"),
        ("[[tool.pdm.source]]\nurl='https://h.example/s'\nexclude_packages=['a']",
         "tool.pdm.source[0].exclude_packages"),
        ("[[tool.pdm.source]]\nurl='https://h.example/s'\ninclude_packages=['a*']",
         "tool.pdm.source[0].include_packages"),
        ("[tool.uv]\nno-build=true", "tool.uv.no-build"),
        ("[tool.uv]\ndefault-groups=['docs']", "tool.uv.default-groups"),
        ("[tool.poetry.group.a]\ninclude-groups=['b']", "tool.poetry.group.a.include-groups"),
        ("[tool.pixi.pypi-dependencies]\na='*'", "tool.pixi.pypi-dependencies"),
        ("[tool.rye]\ndev-dependencies=['a']", "tool.rye.dev-dependencies"),
        ("[tool.hatch.envs.test]\ndependencies=['a']", "tool.hatch.envs"),
    ],
)  # fmt: skip
def test_a_setting_of_another_tool_that_is_not_honoured_is_named(table: str, field: str) -> None:
    (warning,) = read(f"[project]\nname='mine'\n{table}\n").warnings
    assert (warning.code, warning.field) == (WarningCode.OPTION_IGNORED, f"pyproject.toml:{field}")


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
def test_default_groups_are_development_and_groups_may_need_another_python(
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
