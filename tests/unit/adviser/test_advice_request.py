"""From a project and options to the rules of the resolver: overrides, groups, exclusions."""

from dataclasses import replace
from typing import Any

import pytest

from adviser.advice_request import RequestIndex
from adviser.resolver.resolver_request import ResolverRequest
from model.errors import InvalidFile, Reason
from model.packages.candidates import Dependency
from model.packages.identity import Purl
from tests.factories.errors import raised
from tests.factories.requests import MAIN, advice_for, request_for
from tests.factories.universes import Index, dependency

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
    roots=(dependency("core"), dependency("web")), index_of={"core": "ours"}, inferred_bounds=True
)


def test_resolver_request_refuses_vulnerable_versions() -> None:
    refused = {Purl("pkg:pypi/core@2.0"): "it is vulnerable"}
    assert request_for("web\n").resolver_request(refused) == replace(PLAIN, refused=refused)


def test_direct_requirements_keep_their_declared_order() -> None:
    assert request_for("web\ncore\nalpha\n").resolver_request({}).direct == ("web", "core", "alpha")
    assert request_for(files={"Pipfile": PIPFILE}, indexes=(OURS, MAIN)).resolver_request(
        {}
    ).direct == ("web", "core")


def test_selected_group_that_requires_another_python_is_refused() -> None:
    settings = "[tool.uv.dependency-groups]\ndev = {requires-python = '>=3.99'}\n"
    files = {"pyproject.toml": PYPROJECT + settings}
    assert request_for(files=files, groups=("test",)).requirements
    options: dict[str, Any]
    for options in ({"dev": True}, {"groups": ("Dev",)}):
        with raised(InvalidFile, reason=Reason.CONFLICTING_FIELDS, field="requires-python"):
            _ = request_for(files=files, **options).requirements


def test_gaps_between_poetry_alternatives_are_excluded_if_the_marker_applies() -> None:
    table = "[tool.poetry.dependencies]\na = '^1 || ^3'\n"
    table += "b = {version = '1 || 3', python = '<3'}\n"
    table += "[tool.poetry.group.x.dependencies]\nc = '1 || 3'\n"
    exclusions = request_for(files={"pyproject.toml": table}).resolver_request({}).exclusions
    assert [(it.name, it.specifier) for it in exclusions] == [("a", ">=2.dev0,<=3,!=3")]


#: Text, options and rules of a project, by the name of its file.
PROJECTS: dict[str, tuple[str, dict[str, Any], ResolverRequest]] = {
    "Pipfile": (PIPFILE, {"indexes": (OURS, MAIN)}, FROM_PIPFILE),
    "pyproject.toml": (PYPROJECT, {}, FROM_PYPROJECT),
}


def roots(*names: str) -> dict[str, Any]:
    return {"roots": tuple(map(dependency, names))}


@pytest.mark.parametrize(
    ("name", "more", "options", "changes"),
    [
        ("Pipfile", "", {}, {}),
        ("Pipfile", "", {"dev": True}, roots("core", "lint", "web")),
        ("Pipfile", "\n[pipenv]\nallow_prereleases = true\n", {}, {"all_prereleases": True}),
        ("Pipfile", "\n[thoth.allow_prereleases]\nfar = true\n", {},
         {"prereleases": frozenset({"far"})}),
        ("pyproject.toml", "", {}, {}),
        ("pyproject.toml", "", {"extras": ("docs",)}, roots("sphinx", "web")),
        ("pyproject.toml", "", {"groups": ("test",)}, roots("check", "web")),
        ("pyproject.toml", "", {"dev": True}, roots("lint", "web")),
        ("pyproject.toml", "",
         {"constraints": (dependency("web<3"),), "overrides": {"tool": "==2"}},
         {"constraints": (dependency("core<2"), dependency("web<3")), "overrides": {"tool": "==2"},
          "bare": frozenset()}),
    ],
)  # fmt: skip
def test_project_settings_become_resolver_rules_if_their_markers_apply(
    name: str, more: str, options: dict[str, Any], changes: dict[str, Any]
) -> None:
    text, given, expected = PROJECTS[name]
    rules = request_for(files={name: text + more}, **given, **options).resolver_request({})
    assert sorted(rules.direct) == sorted({it.name for it in rules.roots or ()})
    assert replace(rules, direct=expected.direct) == replace(expected, **changes)


#: ``web`` asks ``http`` for an extra, which brings ``fast``.
INDEX: Index = {
    "web": {"1.0": {"requires": ["http[quick]>=1", "pad"]}},
    "http": {
        "2.0": {"requires": ["fast; extra == 'quick'"]},
        "1.5": {"requires": ["fast; extra == 'quick'"]},
        "0.9": {},
    },
    "fast": {"1.0": {}},
    "pad": {"1.0": {}},
}
NEWEST = {"web": "1.0", "http": "2.0", "fast": "1.0", "pad": "1.0"}


def chosen(uv: str, dependencies: str = "'web'") -> dict[str, str]:
    text = f"[project]\nname='me'\ndependencies=[{dependencies}]\n[tool.uv]\n{uv}\n"
    best = advice_for(request_for(files={"pyproject.toml": text}), INDEX).best
    return dict(best.versions())


@pytest.mark.parametrize(
    ("uv", "different"),
    [
        ("", {}),
        ("override-dependencies=['http[quick]<2']", {"http": "1.5"}),
        # All of several overrides count.
        ("override-dependencies=['http<2', 'http>1']", {"http": "1.5", "fast": None}),
        ("override-dependencies=['http<1']", {"http": "0.9", "fast": None}),
        # One that does not hold takes the requirement away.
        ("override-dependencies=['http; os_name == \"nt\"']", {"http": None, "fast": None}),
        ("override-dependencies=['http<2', 'http<1; os_name == \"nt\"']",
         {"http": "1.5", "fast": None}),
        ("exclude-dependencies=['pad']", {"pad": None}),
    ],
)  # fmt: skip
def test_overrides_give_the_stack_that_uv_gives(uv: str, different: dict[str, str | None]) -> None:
    expected = {**NEWEST, **different}
    assert chosen(uv) == {name: version for name, version in expected.items() if version}


def test_overrides_apply_to_direct_requirements() -> None:
    assert chosen("", "'http[quick]'") == {"http": "2.0", "fast": "1.0"}
    assert chosen("override-dependencies=['http<2']", "'http[quick]'") == {"http": "1.5"}
    assert chosen("override-dependencies=['http[quick]<2']", "'http'") == {
        "http": "1.5", "fast": "1.0"
    }  # fmt: skip
    assert chosen("exclude-dependencies=['http']", "'http', 'pad'") == {"pad": "1.0"}


def test_override_in_the_request_replaces_overrides_of_the_project() -> None:
    text = (
        "[project]\nname='me'\ndependencies=['web']\n[tool.uv]\n"
        "override-dependencies=['http; os_name == \"nt\"']\n"
    )
    request = request_for(files={"pyproject.toml": text}, overrides={"http": "<2"})
    assert request.roots == (Dependency("web"),)
    best = advice_for(request, INDEX).best
    assert dict(best.versions()) == {**NEWEST, "http": "1.5"}
