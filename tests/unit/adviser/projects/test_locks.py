"""Locks as a baseline: each format, what is left out of it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adviser.projects.locks import ProjectLock, read_lock
from adviser.projects.parsing import parse_project
from adviser.projects.project import WarningCode
from common.formats.locks.entries import LockEntry
from model.errors import InvalidFile
from model.packages.releases import parse_requirement
from tests.factories.errors import raised
from tests.factories.projects import (
    LINUX,
    PYLOCK,
    WINDOWS,
    pipfile_lock,
)

HASH, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def read(data: bytes | str, name: str = "Pipfile.lock") -> ProjectLock:
    return read_lock(name, {name: data if isinstance(data, bytes) else data.encode()})


def codes(lock: ProjectLock) -> list[WarningCode]:
    return [it.code for it in lock.warnings]


def test_a_pipfile_lock_is_read_whole() -> None:
    entry = {"version": "==1.0RC1", "hashes": [OTHER, HASH], "markers": "os_name == 'posix'",
             "index": "main", "extras": ["B", "a"]}  # fmt: skip
    lock = read(
        pipfile_lock(default={"My_Pkg": entry}, develop={"my-pkg": entry, "t": {"version": "==2"}})
    )
    assert lock.entries == (
        LockEntry(
            "my-pkg", "1.0rc1", (HASH, OTHER), 'os_name == "posix"', "main", ("a", "b"),
            origin="Pipfile.lock:default.My_Pkg",
        ),
        LockEntry(
            "my-pkg", "1.0rc1", (HASH, OTHER), 'os_name == "posix"', "main", ("a", "b"), dev=True,
            origin="Pipfile.lock:develop.my-pkg",
        ),
        LockEntry("t", "2", dev=True, origin="Pipfile.lock:develop.t"),
    )  # fmt: skip
    assert (lock.manifest_hash, lock.python, lock.complete) == ("ab", "3.11", True)
    assert lock.indexes[0].url == "https://h.example/simple"
    assert set(lock.packages(LINUX)) == {"my-pkg", "t"}
    assert set(lock.packages(LINUX, dev=False)) == {"my-pkg"}
    assert set(lock.packages(WINDOWS)) == {"t"}


def test_a_pylock_is_read_for_each_environment() -> None:
    lock = read(PYLOCK, "pylock.toml")
    assert lock.warnings[0].code is WarningCode.CREDENTIALS_REMOVED
    assert lock.requires_python == ">=3.11"
    first = lock.entries[0]
    assert (first.hashes, first.index, first.dependencies) == (
        (HASH, OTHER), "https://h.example/simple", ("pad",)
    )  # fmt: skip
    assert {name: it.version for name, it in lock.packages(LINUX).items()} == {"numpy": "2.2.6"}
    assert {name: it.version for name, it in lock.packages(WINDOWS).items()} == {"numpy": "2.0"}


def test_groups_that_a_pylock_installs_by_default_count() -> None:
    lock = read('default-groups = ["dev"]\n' + PYLOCK, "pylock.toml")
    assert set(lock.packages(LINUX)) == {"numpy", "tool"}


def test_a_requirements_file_is_a_lock_if_all_of_it_is_pinned() -> None:
    assert read(f"a==1 --hash={HASH}\nb==2\n", "requirements.txt").complete
    assert not read("a==1\nb>1\n", "requirements.txt").complete
    assert not read("", "requirements.txt").complete


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"git": "https://h.example/r", "ref": "x"}, WarningCode.REPOSITORY),
        ({"path": "."}, WarningCode.LOCAL_PATH),
        ({"editable": True, "path": "."}, WarningCode.EDITABLE),
        ({"file": "https://h.example/a.whl"}, WarningCode.ADDRESS),
        ({"version": "*"}, WarningCode.LOCK_INCOMPLETE),
    ],
)
def test_what_pins_nothing_is_left_out_and_reported(
    entry: dict[str, Any], code: WarningCode
) -> None:
    lock = read(pipfile_lock(default={"a": entry, "b": {"version": "==1"}}))
    assert [it.name for it in lock.entries] == ["b"]
    assert not lock.complete
    assert code in codes(lock)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ('vcs = {type="git", url="https://h.example/r", commit-id="1"}', WarningCode.REPOSITORY),
        ('directory = {path="."}', WarningCode.LOCAL_PATH),
        ('directory = {path=".", editable=true}', WarningCode.EDITABLE),
        ('archive = {url="https://h.example/a.zip", hashes={sha256="aa"}}', WarningCode.ADDRESS),
    ],
)
def test_what_is_not_a_release_is_left_out_of_a_pylock(source: str, code: WarningCode) -> None:
    lock = read(
        f'lock-version="1.0"\ncreated-by="x"\n[[packages]]\nname="a"\n{source}\n', "pylock.x.toml"
    )
    assert (lock.entries, lock.complete, codes(lock)) == ((), False, [code])


@pytest.mark.parametrize(
    ("data", "name", "field"),
    [
        (b"{", "Pipfile.lock", "$"),
        (b"[]", "Pipfile.lock", "$"),
        (pipfile_lock(default=[]), "Pipfile.lock", "default"),
        (pipfile_lock(default={"a": 1}), "Pipfile.lock", "default.a"),
        (pipfile_lock(default={"a": {"version": "==x y"}}), "Pipfile.lock", "default.a.version"),
        (pipfile_lock(default={"a b": {"version": "==1"}}), "Pipfile.lock", "default['a b']"),
        (
            pipfile_lock(default={"a": {"version": "==1", "hashes": ["x"]}}),
            "Pipfile.lock",
            "default.a.hashes",
        ),
        (
            pipfile_lock(default={"a": {"version": "==1", "markers": "os_name ~= 'x'"}}),
            "Pipfile.lock",
            "default.a.markers",
        ),
        (b"a = ", "pylock.toml", "$"),
        (b'lock-version="2.0"\ncreated-by="x"\npackages=[]', "pylock.toml", "$"),
        (b'lock-version="1.0"\ncreated-by="x"\npackages=[{}]', "pylock.toml", "packages[0].name"),
        (b"a==1 --hash=x\n", "requirements.txt", "1"),
    ],
)
def test_an_error_is_reported_with_file_field_and_remedy(
    data: bytes, name: str, field: str
) -> None:
    with raised(InvalidFile, place=name, field=field) as caught:
        read(data, name)
    assert caught.value.hint


def test_a_pylock_names_its_indexes_and_a_lock_its_own_certificates() -> None:
    assert [(it.name, it.url) for it in read(PYLOCK, "pylock.toml").indexes] == [
        ("https://h.example/simple", "https://h.example/simple")
    ]
    source = {"name": "main", "url": "https://h.example/simple", "verify_ssl": False}
    text = json.dumps({"_meta": {"sources": [source]}, "default": {"a": {"version": "==1"}}})
    assert not read(text, "Pipfile.lock").indexes[0].verify_ssl


@pytest.mark.parametrize(
    ("entry", "local"),
    [
        ({"path": "."}, True),
        ({"file": "file:///w/a.whl"}, True),
        ({"file": "https://h.example/a.whl"}, False),
        ({"git": "https://me:hidden@h.example/r", "path": ".", "editable": True}, False),
        ({"editable": True}, False),
    ],
)
def test_what_lies_beside_a_lock_is_distinguished(entry: dict[str, Any], local: bool) -> None:
    (found,) = read(pipfile_lock(default={"a": entry, "b": {"version": "==1"}})).elsewhere
    assert found.local is local
    assert "hidden" not in found.what


_MARKERS = {
    "a": '"default" in dependency_groups or "dev" in dependency_groups',
    "b": '"dev" in dependency_groups or "gui" in extras',
    "c": 'os_name == "nt" and ("default" in dependency_groups and "gui" not in extras)',
    "d": 'platform_release != "x" and platform_version != "y" and "z" not in dependency_groups',
}
GROUPED = """lock-version='1.0'
created-by='x'
extras=['gui']
dependency-groups=['default','dev']
default-groups=['Default']
""" + "".join(
    f"[[packages]]\nname='{name}'\nversion='1'\nmarker='{marker}'\n"
    f"wheels=[{{url='https://h.example/{name}-1-py3-none-any.whl', hashes={{sha256='aa'}}}}]\n"
    for name, marker in _MARKERS.items()
)


def test_markers_of_a_pylock_hold_with_its_default_groups_and_no_extra() -> None:
    lock = read(GROUPED, "pylock.toml")
    assert sorted(lock.packages(LINUX)) == ["a", "d"]
    assert sorted(lock.packages(WINDOWS)) == ["a", "c", "d"]
    assert [it.name for it in lock.entries] == ["a", "b", "c", "d"]
    (warning,) = lock.warnings
    assert warning.message.startswith("b: only for extras or groups")
    project = parse_project({"pylock.toml": GROUPED.encode()})
    assert [it.name for it in project.requirements] == ["a", "c", "d"]
    assert all(parse_requirement(it.text).name for it in project.requirements)
