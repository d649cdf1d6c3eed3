"""From a project and options to the rules of the resolver, field by field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adviser.resolver.resolver_request import ResolverRequest
from adviser.scoring.criteria import RecommendationType
from adviser.stack_request import RequestIndex
from model.errors import InvalidFile, Reason
from model.packages.identity import Purl
from tests.factories.errors import raised
from tests.factories.requests import MAIN, request_for
from tests.factories.universes import dependency

DAY = datetime(2025, 1, 1, tzinfo=UTC)
OURS = RequestIndex("ours", "private", "https://ours.example/simple", explicit=True)
PLAIN = ResolverRequest(roots=(dependency("web"),), direct=("web",), inferred_bounds=True)

PIPFILE = """
[[source]]
name = "private"
url = "https://ours.example/simple"
verify_ssl = true

[packages]
web = "*"
core = {version = "*", index = "private", markers = "python_version >= '3'"}
gone = {version = "*", index = "private", markers = "python_version < '3'"}

[dev-packages]
lint = "*"
"""
PYPROJECT = """
[project]
name = "it"
version = "1"
dependencies = ["web"]
optional-dependencies = {docs = ["sphinx"]}

[dependency-groups]
dev = ["lint"]
test = ["check"]

[tool.uv]
constraint-dependencies = ["core<2", "core<1; python_version < '3'"]
override-dependencies = ["tool==1", "side==1; python_version < '3'"]
"""
FROM_PYPROJECT = replace(
    PLAIN,
    constraints=(dependency("core<2"),),
    overrides={"tool": "==1"},
    removed=frozenset({"side"}),
    bare=frozenset({"tool"}),
)
FROM_PIPFILE = ResolverRequest(
    roots=(dependency("core"), dependency("web")),
    index_of={"core": "ours"},
    inferred_bounds=True,
)


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        (
            {"constraints": (dependency("core<2"),)},
            {"constraints": (dependency("core<2"),)},
        ),
        (
            {"exclusions": (dependency("core"),)},
            {"exclusions": (dependency("core"),)},
        ),
        ({"overrides": {"core": "<2"}}, {"overrides": {"core": "<2"}}),
        ({"prereleases": frozenset({"core"})}, {"prereleases": frozenset({"core"})}),
        ({"published_before": DAY}, {"published_before": DAY}),
        ({"published_after": DAY}, {"published_after": DAY}),
        ({"indexes": (RequestIndex("fast"), MAIN)}, {"indexes": ("fast", "pypi")}),
        ({"indexes": (OURS, MAIN)}, {"indexes": ("pypi",)}),
        ({"kind": RecommendationType.TESTING}, {"all_prereleases": True}),
        ({"kind": RecommendationType.SECURITY}, {}),
    ],
)
def test_every_option_is_a_rule(options: dict[str, Any], changes: dict[str, Any]) -> None:
    assert request_for("web\n", **options).resolver_request({}) == replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ({"Pipfile": PIPFILE}, {"indexes": (OURS, MAIN)}, FROM_PIPFILE),
        (
            {"Pipfile": PIPFILE},
            {"indexes": (OURS, MAIN), "dev": True},
            replace(FROM_PIPFILE, roots=tuple(map(dependency, ("core", "lint", "web")))),
        ),
        (
            {"Pipfile": f"{PIPFILE}\n[pipenv]\nallow_prereleases = true\n"},
            {"indexes": (OURS, MAIN)},
            replace(FROM_PIPFILE, all_prereleases=True),
        ),
        (
            {"Pipfile": f"{PIPFILE}\n[thoth.allow_prereleases]\nfar = true\n"},
            {"indexes": (OURS, MAIN)},
            replace(FROM_PIPFILE, prereleases=frozenset({"far"})),
        ),
        ({"pyproject.toml": PYPROJECT}, {}, FROM_PYPROJECT),
        (
            {"pyproject.toml": PYPROJECT},
            {"extras": ("docs",)},
            replace(FROM_PYPROJECT, roots=(dependency("sphinx"), dependency("web"))),
        ),
        (
            {"pyproject.toml": PYPROJECT},
            {"groups": ("test",)},
            replace(FROM_PYPROJECT, roots=(dependency("check"), dependency("web"))),
        ),
        (
            {"pyproject.toml": PYPROJECT},
            {"dev": True},
            replace(FROM_PYPROJECT, roots=(dependency("lint"), dependency("web"))),
        ),
        (
            {"pyproject.toml": PYPROJECT},
            {"constraints": (dependency("web<3"),), "overrides": {"tool": "==2"}},
            replace(
                FROM_PYPROJECT,
                constraints=(dependency("core<2"), dependency("web<3")),
                overrides={"tool": "==2"},
                bare=frozenset(),
            ),
        ),
    ],
)
def test_what_the_project_says_is_a_rule_where_it_holds(
    files: dict[str, str], options: dict[str, Any], expected: ResolverRequest
) -> None:
    rules = request_for(files=files, **options).resolver_request({})
    assert sorted(rules.direct) == sorted({it.name for it in rules.roots or ()})
    assert replace(rules, direct=expected.direct) == expected


def test_what_the_recommendation_type_refuses_is_a_rule() -> None:
    refused = {Purl("pkg:pypi/core@2.0"): "it is vulnerable"}
    assert request_for("web\n").resolver_request(refused) == replace(PLAIN, refused=refused)


def test_direct_requirements_are_in_declared_order() -> None:
    assert request_for("web\ncore\nalpha\n").resolver_request({}).direct == ("web", "core", "alpha")
    assert request_for(files={"Pipfile": PIPFILE}, indexes=(OURS, MAIN)).resolver_request(
        {}
    ).direct == (
        "web",
        "core",
    )


def test_a_group_that_needs_another_python_is_refused_if_it_is_selected() -> None:
    settings = "[tool.uv.dependency-groups]\ndev = {requires-python = '>=3.99'}\n"
    files = {"pyproject.toml": PYPROJECT + settings}
    assert request_for(files=files, groups=("test",)).requirements
    options: dict[str, Any]
    for options in ({"dev": True}, {"groups": ("Dev",)}):
        with raised(InvalidFile, reason=Reason.CONFLICTING_FIELDS, field="requires-python"):
            _ = request_for(files=files, **options).requirements


def test_gaps_between_alternatives_are_excluded_where_the_requirement_holds() -> None:
    table = "[tool.poetry.dependencies]\na = '^1 || ^3'\n"
    table += "b = {version = '1 || 3', python = '<3'}\n"
    table += "[tool.poetry.group.x.dependencies]\nc = '1 || 3'\n"
    exclusions = request_for(files={"pyproject.toml": table}).resolver_request({}).exclusions
    assert [(it.name, it.specifier) for it in exclusions] == [("a", ">=2.dev0,<=3,!=3")]
