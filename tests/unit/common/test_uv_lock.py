"""``uv.lock``: what it installs."""

import pytest

from adviser.projects.locks import ProjectLock, read_lock
from adviser.projects.parsing import parse_project
from adviser.projects.project import WarningCode
from common.formats.locks.entries import LockSelection
from model.errors import InvalidFile
from tests.factories.projects import LINUX, WINDOWS

INDEX = 'source = { registry = "https://me:hidden@index.example/simple" }'
HASH = "sha256:" + "a" * 64
LOCK = f"""
version = 1
requires-python = ">=3.11"
[[package]]
name = "app"
source = {{ editable = "." }}
dependencies = [
    {{ name = "web", extra = ["tls"] }},
    {{ name = "old", marker = "os_name == 'nt'" }},
    {{ name = "forked", version = "1.0", marker = "os_name == 'nt'" }},
    {{ name = "forked", version = "2.0", marker = "os_name != 'nt'" }},
    {{ name = "beside" }},
]
[package.dev-dependencies]
dev = [{{ name = "old" }}, {{ name = "tester" }}]
[[package]]
name = "web"
version = "3.0"
{INDEX}
wheels = [
    {{ url = "https://me:hidden@f.example/web-3.0-py3-none-any.whl", size = 9, hash = "{HASH}" }}
]
[package.optional-dependencies]
tls = [{{ name = "crypto", marker = "python_version < '3.13'" }}]
""" + "".join(
    f'[[package]]\nname = "{name}"\nversion = "{version}"\n{source}\n'
    for name, version, source in (
        ("crypto", "1.0", INDEX), ("old", "1.0", INDEX), ("forked", "1.0", INDEX),
        ("forked", "2.0", INDEX), ("tester", "1.0", INDEX), ("unneeded", "1.0", INDEX),
        ("beside", "0.1", 'source = { directory = "lib" }'),
    )
)  # fmt: skip


def read(text: str = LOCK) -> ProjectLock:
    return read_lock("uv.lock", {"uv.lock": text.encode()})


def test_uv_lock_gives_the_packages_needed_in_an_environment() -> None:
    lock = read()
    versions = {name: it.version for name, it in lock.packages(LINUX).items()}
    assert versions == {
        "web": "3.0", "crypto": "1.0", "forked": "2.0", "old": "1.0", "tester": "1.0"
    }  # fmt: skip
    assert set(lock.packages(LINUX, dev=False)) == {"web", "crypto", "forked"}
    assert lock.packages(WINDOWS, dev=False)["forked"].version == "1.0"
    assert "old" in lock.packages(WINDOWS, dev=False)
    assert "crypto" not in lock.packages(LINUX | {"python_version": "3.13"})
    assert lock.requires_python == ">=3.11"


def test_uv_lock_with_exponentially_many_conditions_is_refused() -> None:
    edges = ", ".join(
        f"{{ name = 'p{other}', marker = \"os_name == '{other}'\" }}" for other in range(40)
    )
    names = "".join(
        f"[[package]]\nname = 'p{it}'\nversion = '1'\n{INDEX}\ndependencies = [{edges}]\n"
        for it in range(40)
    )
    root = f"[[package]]\nname = 'a'\nsource = {{ virtual = '.' }}\ndependencies = [{edges}]\n"
    with pytest.raises(InvalidFile, match="too many combinations of conditions"):
        read(f"version = 1\n{root}{names}")


def test_uv_lock_is_preferred_as_the_lock_of_a_pyproject() -> None:
    pyproject = b'[project]\nname = "app"\ndependencies = ["web[tls]"]\n'
    files = {"pyproject.toml": pyproject, "uv.lock": LOCK.encode(), "requirements.txt": b"web==1"}
    project = parse_project(files)
    assert (project.lock_source, (project.locked_in(LINUX) or {})["web"].version) == (
        "uv.lock", "3.0"
    )  # fmt: skip
    alone = parse_project({"uv.lock": LOCK.encode()})
    assert {it.name for it in alone.requirements} >= {"web"}


def test_baseline_from_a_uv_lock_has_the_selected_extras_and_groups() -> None:
    pyproject = (
        b'[project]\nname = "app"\ndependencies = ["web"]\n'
        b'[project.optional-dependencies]\nmore = ["unneeded"]\nnew = ["other"]\n'
    )
    optional = '[package.optional-dependencies]\nmore = [{ name = "unneeded" }]\n'
    groups = "[package.dev-dependencies]"
    lock = "revision = 3\n" + LOCK.replace(groups, optional + groups)
    files = {"pyproject.toml": pyproject, "uv.lock": lock.encode()}
    project = parse_project(files, selection=LockSelection.of(extras=["more"]))
    assert "unneeded" in (project.locked_in(LINUX) or {})
    outdated = parse_project(files, selection=LockSelection.of(extras=["new"]))
    assert "web" in (outdated.locked_in(LINUX) or {})
    assert [it.code for it in outdated.warnings if "extra" in it.message] == [
        WarningCode.LOCK_OUTDATED
    ]
