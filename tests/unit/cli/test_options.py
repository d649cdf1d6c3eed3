"""What options make of a request, all the way to the stack, and which indexes a project means."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from adviser.advice_request import RequestIndex, RequestOptions, StackRequest
from adviser.advise import advise as advice_of
from adviser.answering.index_selection import called_indexes, indexes_to_search
from adviser.locks.formats import LockFormat
from adviser.projects.parsing import parse_project
from adviser.projects.project import Project, ProjectFormat, ProjectIndex
from adviser.scoring.criteria import RecommendationType
from cli.advise import advise
from cli.project_files import read_lock_file, read_project
from cli.request_options import (
    advice_request_of,
    dependencies,
    labels,
    moment,
    project_path,
    requested_environment,
)
from common.index.configuration import Index as ConfiguredIndex
from common.settings import Settings
from model.errors import InvalidArgument, InvalidFile, Reason
from model.packages.candidates import Dependency
from model.packages.environments import environment, host_environment
from model.packages.identity import index_identity, public_index_url
from pis.command_specifications import command_of
from tests.factories.errors import raised
from tests.factories.requests import GIVEN, NOTHING
from tests.factories.universes import Index, snapshot_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MIRROR, OURS = "https://mirror.example/simple", "https://ours.example/simple"
MOVED, ELSE = "https://moved.example/simple", "https://else.example/simple"
LIB = "[project]\nname='me'\ndependencies=['lib']\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two configured indexes, whatever this machine has."""
    found = {it.name: it for it in (ConfiguredIndex("pypi", MIRROR), ConfiguredIndex("ours", OURS))}
    monkeypatch.setattr("adviser.answering.index_selection.configured_indexes", lambda *_: found)
    return Settings.from_env({"THOTH_HOME": str(tmp_path)})


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return tmp_path


def test_advise_accepts_every_recommendation_type_and_lock_format() -> None:
    chosen = {it.name: it.type for it in advise.params}
    for name, values in (("kind", RecommendationType), ("lock_format", LockFormat)):
        choice = chosen[name]
        assert isinstance(choice, click.Choice)
        assert tuple(choice.choices) == tuple(values)


def test_project_is_given_as_argument_or_option() -> None:
    seen = []

    @click.command()
    @project_path
    def show(path: Path | None) -> None:
        seen.append(path)

    for arguments in ([], ["one"], ["--project", "two"]):
        assert CliRunner().invoke(show, arguments).exit_code == 0
    assert seen == [None, Path("one"), Path("two")]


def test_advise_options_become_fields_of_the_request(settings: Settings, tmp_path: Path) -> None:
    path = folder(tmp_path, requirements__in="flask\n")
    given = GIVEN | {
        "kind": "stable", "constraints": ("NumPy<2",), "overrides": ("jinja2>=3", "jinja2<4"),
        "prereleases": ("Flask_X",), "allowed": ("CVE-1",), "labels": "team=blue",
    }  # fmt: skip
    found = advice_request_of(settings, path, given, count=3)
    options = found.options
    assert (found.kind, found.roots) == (RecommendationType.STABLE, (Dependency("flask"),))
    assert (options.count, options.memory_bytes) == (3, 2**30)
    assert options.constraints == (Dependency("numpy", "<2"),)
    assert options.overrides == {"jinja2": "<4,>=3"}
    assert (options.prereleases, options.labels) == ({"flask-x"}, {"team": "blue"})


def test_python_option_overrides_the_projects_python(settings: Settings, tmp_path: Path) -> None:
    pipfile = '[packages]\nflask = "*"\n[requires]\npython_version = "3.12"\n'
    project = read_project(folder(tmp_path, Pipfile=pipfile))
    assert requested_environment(project, GIVEN | {"python": None}).python_version == "3.12"
    assert requested_environment(project, GIVEN).python_version == "3.11"
    text = "[project]\nname='me'\nrequires-python='>=3.12'\ndependencies=['flask']\n"
    (tmp_path / "Pipfile").unlink()
    path = folder(tmp_path, pyproject__toml=text)
    with raised(InvalidFile, reason=Reason.CONFLICTING_FIELDS, field="requires-python") as caught:
        advice_request_of(settings, path, GIVEN)
    assert "--python" in (caught.value.hint or "")
    assert advice_request_of(settings, path, GIVEN | {"python": "3.12"}).roots


def test_minor_python_version_of_a_project_means_the_python_of_this_host() -> None:
    host = host_environment()
    named = Project("Pipfile", ProjectFormat.PIPFILE, python=host.python_version)
    here = GIVEN | {"python": None, "platform": None}
    assert requested_environment(named, here) == host
    first = f"{host.python_version}.0"
    assert requested_environment(named, GIVEN | {"python": None}).python_full_version == first
    exact = replace(named, python=first)
    assert requested_environment(exact, here).python_full_version == first
    other = replace(named, python="3.8")
    assert requested_environment(other, here).python_full_version == "3.8.0"


def test_age_option_in_days_counts_back_from_now() -> None:
    assert moment("30d", NOW, "") == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert moment(None, NOW, "") is None


@pytest.mark.parametrize("option", ["constraints", "exclusions", "overrides"])
def test_constraint_with_extras_is_refused(settings: Settings, tmp_path: Path, option: str) -> None:
    path = folder(tmp_path, requirements__in="flask\n")
    with pytest.raises(InvalidArgument, match="has extras"):
        advice_request_of(settings, path, GIVEN | {option: ("numpy[x]<2",)})


def test_request_contains_current_digests_of_benchmark_files(
    settings: Settings, tmp_path: Path
) -> None:
    table = '[benchmarks]\nserve = "python bench.py"\n'
    path = folder(tmp_path, requirements__in="flask\n", thoth__toml=table, bench__py="one\n")
    for text in ("one\n", "two\n"):
        (path / "bench.py").write_text(text, encoding="utf-8")
        command = command_of(["python bench.py"], path)
        (benchmark,) = advice_request_of(settings, path, GIVEN).target.benchmarks
        assert benchmark == ("serve", str(command), command.identity["files_sha256"])


def test_project_setting_limits_how_new_releases_may_be(settings: Settings, tmp_path: Path) -> None:
    text = "[project]\nname='me'\ndependencies=['flask']\n[tool.uv]\nexclude-newer='2024-01-31'\n"
    path = folder(tmp_path, pyproject__toml=text)
    found = advice_request_of(settings, path, GIVEN).options.published_before
    assert found == datetime(2024, 2, 1, tzinfo=UTC)
    found = advice_request_of(
        settings, path, GIVEN | {"older_than": "2025-01-01"}
    ).options.published_before
    assert found == datetime(2025, 1, 1, tzinfo=UTC)


def test_index_of_a_project_is_matched_by_url_and_not_by_name(settings: Settings) -> None:
    project = Project(
        indexes=(
            ProjectIndex("main", "https://mirror.example/simple/", default=True),
            ProjectIndex("ours", "https://moved.example/simple", explicit=True),
            ProjectIndex("else", "https://else.example/simple"),
        )
    )
    assert indexes_to_search(settings, project) == (
        RequestIndex(MOVED, "ours", MOVED, explicit=True, known=False),
        RequestIndex(ELSE, "else", ELSE, known=False),
        RequestIndex("pypi", "main", "https://mirror.example/simple"),
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("Pipfile", "[[source]]\nname='pypi'\nurl='{}'\n[packages]\nlib='*'\n"),
        ("requirements.in", "-i {}\nlib\n"),
        ("requirements.in", "--extra-index-url {}\nlib\n"),
        ("pyproject.toml", f"{LIB}[[tool.uv.index]]\nname='pypi'\nurl='{{}}'\n"),
        ("pyproject.toml", f"{LIB}[[tool.uv.index]]\nname='pypi'\nurl='{{}}'\ndefault=true\n"),
        ("pyproject.toml", f"{LIB}[tool.uv.sources]\nlib={{{{index='pypi'}}}}\n"
         "[[tool.uv.index]]\nname='pypi'\nurl='{}'\nexplicit=true\n"),
        ("pyproject.toml", f"{LIB}[[tool.poetry.source]]\nname='pypi'\nurl='{{}}'\n"),
        ("pyproject.toml", f"{LIB}[tool.uv.sources]\n"
         "lib={{index='own', marker='os_name != \"nt\"'}}\n"
         "[[tool.uv.index]]\nname='own'\nurl='{}'\nexplicit=true\n"),
        ("pyproject.toml", f"{LIB}[tool.uv]\noverride-dependencies=['lib==1']\n[tool.uv.sources]\n"
         "lib=[{{index='none', marker='os_name == \"nt\"'}}, "
         "{{index='own', marker='os_name == \"posix\"'}}]\n"
         "[[tool.uv.index]]\nname='own'\nurl='{}'\nexplicit=true\n"),
        ("Pipfile", "[[source]]\nname='pypi'\nurl='{}'\n[[source]]\nname='public'\n"
         f"url='{public_index_url()}'\n[packages]\nlib='*'\n"),
        ("pylock.toml", "lock-version='1.0'\ncreated-by='me'\n[[packages]]\nname='lib'\n"
         "version='1'\nindex='{}'\nwheels=[{{url='https://h.example/lib-1-py3-none-any.whl',"
         f"hashes={{{{sha256='{'0' * 64}'}}}}}}}}]\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("names", [(), ("pypi",)])
def test_package_assigned_to_an_unconfigured_index_is_taken_from_no_other(
    settings: Settings, file: str, text: str, names: tuple[str, ...]
) -> None:
    project = parse_project({file: text.format(MOVED).encode()})
    options = RequestOptions(indexes=indexes_to_search(settings, project, names))
    request = StackRequest(project, environment("3.11"), RecommendationType.LATEST, options)
    first, *_ = request.resolver_request({}).indexes_of("lib")
    named = any(it.index for it in request.requirements)
    # Only a person may choose another index, and only for packages that name none.
    assert first == ("pypi" if names and not named else MOVED)


POETRY = "[[tool.poetry.source]]\nname='own'\nurl='https://moved.example/simple'\n"


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("pyproject.toml", f"{LIB}{POETRY}priority='supplemental'\n", ["pypi", MOVED]),
        ("pyproject.toml", f"{LIB}{POETRY}priority='secondary'\n", ["pypi", MOVED]),
        ("pyproject.toml", f"{LIB}{POETRY}secondary=true\n", ["pypi", MOVED]),
        ("pyproject.toml", f"{LIB}{POETRY}[[tool.poetry.source]]\nname='PyPI'\n"
         "priority='supplemental'\n", [MOVED, "pypi"]),
        ("pyproject.toml", f"{LIB}{POETRY}priority='supplemental'\n[[tool.poetry.source]]\n"
         "name='else'\nurl='https://else.example/simple'\n", [ELSE, MOVED]),
        ("Pipfile", f"[[source]]\nname='public'\nurl='{public_index_url()}'\n"
         f"[[source]]\nname='own'\nurl='{MOVED}'\n[packages]\nlib='*'\n", ["pypi"]),
        ("pyproject.toml", f"{LIB}[tool.uv.sources]\n"
         "lib={index='own', marker='os_name == \"nt\"'}\n"
         f"[[tool.uv.index]]\nname='own'\nurl='{MOVED}'\nexplicit=true\n", ["pypi"]),
        ("pyproject.toml", f"{LIB}[tool.uv.sources]\nlib={{index='own', extra='gpu'}}\n"
         f"[[tool.uv.index]]\nname='own'\nurl='{MOVED}'\nexplicit=true\n", ["pypi"]),
        ("pyproject.toml", f"{LIB}[tool.poetry.dependencies]\nlib=["
         "{source='own', markers='os_name == \"posix\"'}, "
         "{source='pypi', markers='os_name == \"nt\"'}]\n"
         f"{POETRY}priority='explicit'\n", [MOVED]),
        ("pyproject.toml", f"{LIB}[tool.uv.sources]\nlib={{index='pypi'}}\n",
         ["'tool.uv.index.pypi'"]),
        ("Pipfile", f"[[source]]\nurl='{MOVED}'\n[packages]\n"
         "lib={version='*',index='pypi'}\n", ["'pypi'"]),
        ("pyproject.toml", f"{LIB}[tool.uv.sources]\nlib={{git='https://h.example/l', "
         "marker='os_name != \"nt\"'}\n", ["'tool.uv.sources.lib (git)'"]),
    ],
)  # fmt: skip
def test_index_order_follows_the_tool_of_the_project(
    settings: Settings, file: str, text: str, expected: list[str]
) -> None:
    project = parse_project({file: text.encode()})
    options = RequestOptions(indexes=indexes_to_search(settings, project))
    request = StackRequest(project, environment("3.11"), RecommendationType.LATEST, options)
    assert list(request.resolver_request({}).indexes_of("lib")) == expected


def test_index_named_again_by_a_project_serves_only_packages_that_name_it(
    settings: Settings,
) -> None:
    project = Project(
        indexes=(ProjectIndex("again", "HTTPS://Mirror.example:443/simple/", explicit=True),)
    )
    indexes = indexes_to_search(settings, project)
    assert [(it.name, it.called, it.explicit) for it in indexes] == [
        ("pypi", "again", True), ("pypi", "pypi", False),
    ]  # fmt: skip


def test_former_pypi_url_means_the_public_index() -> None:
    host = public_index_url().split("/")[2]
    name, _, domain = host.rpartition(".")
    old = public_index_url().replace(host, f"{name}.python.{domain}")
    assert index_identity(f"{old}/") == index_identity(public_index_url())
    assert index_identity(old.replace(domain, f"{domain}.example")) != index_identity(old)


def test_configured_index_is_recognised_by_url_under_any_name(settings: Settings) -> None:
    project = Project(
        indexes=(
            ProjectIndex("main", "HTTP://Mirror.example/simple/"),
            ProjectIndex("ours", "https://${TOKEN}.example/simple"),
        ),
        lock_indexes=(ProjectIndex("pypi", "https://else.example/simple"),),
    )
    assert called_indexes(settings, project) == {
        "HTTP://Mirror.example/simple/": "pypi", "main": "pypi",
        "https://${TOKEN}.example/simple": "https://${TOKEN}.example/simple",
        "ours": "https://${TOKEN}.example/simple",
        "https://else.example/simple": "https://else.example/simple",
        "pypi": "https://else.example/simple",
    }  # fmt: skip


def test_every_request_includes_indexes_that_own_package_names(settings: Settings) -> None:
    owners = replace(settings, index_namespaces=(("acme-*", "ours"), ("lib", "gone")))
    assert indexes_to_search(owners, Project(), ["pypi"])[1:] == (
        RequestIndex(
            "ours", "ours", "https://ours.example/simple", explicit=True, owns=("acme-*",)
        ),
        RequestIndex("gone", "gone", "", explicit=True, known=False, owns=("lib",)),
    )


def test_only_files_of_the_project_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("flask\n", encoding="utf-8")
    inner = tmp_path / "project"
    inner.mkdir()
    (inner / "requirements.in").write_text("-r more.txt\nclick\n", encoding="utf-8")
    (inner / "more.txt").write_text("flask\n", encoding="utf-8")
    assert {it.name for it in read_project(inner).requirements} == {"click", "flask"}
    (inner / "more.txt").unlink()
    (inner / "more.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(InvalidArgument, match="leads out"):
        read_project(inner)
    (inner / "requirements.in").write_text("-r ../secret.txt\n", encoding="utf-8")
    with pytest.raises(InvalidFile):
        read_project(inner)


def test_missing_path_folder_or_unpinned_file_is_refused_as_a_lock(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no such file or folder"):
        read_project(tmp_path / "nowhere")
    with pytest.raises(InvalidArgument, match="is a folder"):
        read_lock_file(tmp_path)
    lock = tmp_path / "lock.txt"
    lock.write_text("flask==3.1.3\nclick>=8\n", encoding="utf-8")
    with raised(InvalidFile, reason=Reason.INVALID_REQUIREMENT, field="2"):
        read_lock_file(lock)
    lock.write_text("flask==3.1.3\n-e ./here\n", encoding="utf-8")
    assert [it.name for it in read_lock_file(lock).entries] == ["flask"]


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        (
            "flask @ git+https://example.org/flask.git\nhttps://example.org/a-1-py3-none-any.whl\n",
            "no requirement of the project comes from a package index, so there is nothing to"
            " choose; left out: requirements.in:1 is a repository, requirements.in:2 is a URL",
            "require a release instead",
        ),
        (
            "pywin32; sys_platform == 'win32'\n",
            "no requirement of the project applies to Python 3.11, manylinux_2_28_x86_64",
            "choose another environment",
        ),
        ("# none\n", "the project has no requirements on Python 3.11", "check the file"),
    ],
)
def test_error_without_usable_requirements_names_what_was_left_out(
    settings: Settings, tmp_path: Path, lines: str, message: str, hint: str
) -> None:
    path = folder(tmp_path, requirements__in=lines)
    environment = {"python": "3.11", "platform": "manylinux_2_28_x86_64"}
    with pytest.raises(InvalidFile) as caught:
        advice_request_of(settings, path, GIVEN | environment)
    assert message in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((lambda it: moment(it, NOW, "--older-than"), it)
          for it in ("", "7 weeks", "2026-13-01", "d")),
        *((lambda it: dependencies([it], "--constraint"), it)
          for it in ("numpy @ https://a.example/x.whl", "numpy<2; python_version<'3'", "no such")),
        (labels, "team"),
    ],
)  # fmt: skip
def test_unreadable_option_value_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(InvalidArgument):
        read(text)


UV_INDEXES = "".join(
    f"[[tool.uv.index]]\nname='{name}'\nurl='https://{name}.example/simple'\n"
    for name in ("mirror", "ours")
)


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("requirements.in", f"-i {MIRROR}\n--extra-index-url {OURS}\nlib\n", ["ours", "pypi"]),
        ("requirements.in", f"-i {OURS}\n--extra-index-url {MIRROR}\nlib\n", ["ours", "pypi"]),
        ("requirements.in", f"--extra-index-url {OURS}\nlib\n", ["ours", "pypi"]),
        ("requirements.in", "lib\n", ["pypi"]),
        ("pyproject.toml", f"{LIB}{UV_INDEXES}", ["pypi", "ours"]),
    ],
)
def test_public_index_is_searched_last_unless_uv_orders_otherwise(
    settings: Settings, file: str, text: str, names: list[str]
) -> None:
    project = parse_project({file: text.encode()})
    assert [it.name for it in indexes_to_search(settings, project)] == names


INDEXES = "pypi=https://mirror.example/simple ours=https://ours.example/simple"

NEW, OLD = {"uploaded_at": "2025-06-01T00:00:00Z"}, {"uploaded_at": "2024-06-01T00:00:00Z"}

#: The newer ``lib`` came out before the older one was mended.
INDEX: Index = {
    "app": {
        "3.0rc1": {"requires": ["lib"], **NEW},
        "2.0": {"requires": ["lib"], **NEW},
        "1.0": {"requires": ["lib"], **OLD},
    },
    "lib": {"2.0": OLD, "1.0": NEW},
    "twin": {"2.0": NEW, "1.0 ours": NEW, "0.9": OLD},
    "docs": {"1.0": NEW},
    "check": {"1.0": NEW},
    "lint": {"1.0": NEW},
}
PYPROJECT = """
[project]
name = "it"
version = "1"
dependencies = ["app", "twin"]
optional-dependencies = {more = ["docs"]}

[dependency-groups]
dev = ["lint"]
test = ["check"]
"""
PLAIN = {"app": "2.0", "lib": "2.0", "twin": "2.0"}


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ({}, {}),
        ({"constraints": ("lib<2",)}, {"lib": "1.0"}),
        ({"exclusions": ("app==2.0",)}, {"app": "1.0"}),
        ({"overrides": ("lib==1.0",)}, {"lib": "1.0"}),
        ({"older_than": "2025-01-01"}, {"app": "1.0", "twin": "0.9"}),
        ({"newer_than": "2025-01-01"}, {"lib": "1.0"}),
        ({"prereleases": ("App",)}, {"app": "3.0rc1"}),
        ({"kind": "testing"}, {"app": "3.0rc1"}),
        ({"indexes": ("ours", "pypi")}, {"twin": "1.0"}),
        ({"extras": ("more",)}, {"docs": "1.0"}),
        ({"groups": ("test",)}, {"check": "1.0"}),
        ({"dev": True}, {"lint": "1.0"}),
    ],
    ids=str,
)
def test_advise_options_change_the_advised_stack(
    given: dict[str, Any], changes: dict[str, str], tmp_path: Path
) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path), "PACKAGE_INDEXES": INDEXES})
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    asked = advice_request_of(settings, tmp_path, GIVEN | given)
    requirements = (it.text for it in asked.requirements)
    advice = advice_of(asked, snapshot_of(INDEX, requirements, asked.environment), NOTHING)
    assert advice.best.versions() == PLAIN | changes
