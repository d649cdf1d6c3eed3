"""Locks of three formats, and what is refused in them."""

import json
import platform
from collections.abc import Mapping
from typing import Any

import pytest

from common.formats.locks.entries import LockEntry
from pis.amun.locks import (
    Lock,
    environment_of,
    pipfile_lock_of,
    read_pipfile_lock,
    read_pylock,
    read_requirements,
)
from tests.factories.case_files import check_cases
from tests.factories.specifications import HASH, locked, pipfile_lock

OTHER = f"sha256:{'f' * 64}"

PYLOCK = f"""
lock-version = "1.0"
created-by = "a test"
[[packages]]
name = "numpy"
version = "2.2.6"
marker = "python_version >= '3.10'"
index = "https://me:secret@own.example/simple/"
[[packages.wheels]]
name = "numpy-2.2.6-py3-none-any.whl"
url = "https://elsewhere.example/numpy-2.2.6-py3-none-any.whl"
hashes = {{sha256 = "{HASH[7:]}"}}
[packages.sdist]
name = "numpy-2.2.6.tar.gz"
url = "https://elsewhere.example/numpy-2.2.6.tar.gz"
hashes = {{sha256 = "{OTHER[7:]}"}}
"""


def fields_of(read: tuple[Lock, list[Any]]) -> list[str]:
    return [problem.field for problem in read[1]]


def test_specification_pylock_installs_its_default_groups() -> None:
    groups = "default-groups = ['main']\ndependency-groups = ['main', 'dev']\n[[packages]]"
    for marker, names in (
        ('"main" in dependency_groups and "x" not in extras', ["numpy"]),
        ('"dev" in dependency_groups', []),
    ):
        text = PYLOCK.replace("[[packages]]", groups)
        text = text.replace("\"python_version >= '3.10'\"", f"'{marker}'")
        lock, problems = read_pylock(text, "p", {})
        assert [(it.name, it.marker) for it in lock.packages] == [(it, None) for it in names]
        assert not problems


def test_lock_is_unchanged_by_conversion_to_a_pipfile_lock() -> None:
    package = LockEntry("numpy", "2.0", (HASH,), "os_name == 'posix'", "own", ("a",))
    lock = Lock((LockEntry("abc", "1", (HASH, OTHER), None, "pypi"), package), "3.12")
    assert read_pipfile_lock(pipfile_lock_of(lock), "lock", "3.12") == (lock, [])


def test_incomplete_python_version_of_a_lock_means_the_running_patch_release() -> None:
    running = platform.python_version()
    short = running.rpartition(".")[0]
    assert environment_of(short) == {"python_version": short, "python_full_version": running}
    assert environment_of("3.1.4") == {"python_version": "3.1", "python_full_version": "3.1.4"}
    assert environment_of("3.1") == {"python_version": "3.1", "python_full_version": "3.1.0"}
    assert environment_of(None) == environment_of("no version") == {}


@pytest.mark.parametrize(
    ("lines", "python", "versions"),
    [
        (["numpy==1.0 ; python_version < '3.9'", "numpy==2.0 ; python_version >= '3.9'"], "3.11",
         {"numpy": "2.0"}),
        (["numpy==1.0 ; python_version < '3.9'", "numpy==2.0 ; python_version >= '3.9'"], "3.8",
         {"numpy": "1.0"}),
        (["numpy==1 ; python_version == '3.11'", "numpy==2 ; python_version != '3.11'"], "3.11.7",
         {"numpy": "1"}),
        (["numpy==2.0", "pywin32==1 ; os_name == 'none' and python_version < '3.9'",
          "pywin32==2 ; os_name == 'none' and python_version >= '3.9'"], "3.11",
         {"numpy": "2.0"}),
    ],
)  # fmt: skip
def test_requirements_lock_entry_is_selected_by_its_marker(
    lines: list[str], python: str, versions: dict[str, str]
) -> None:
    text = "".join(f"{line} --hash={HASH}\n" for line in lines)
    lock, problems = read_requirements(text, "txt", python)
    assert ({it.name: it.version for it in lock.packages}, problems) == (versions, [])


@pytest.mark.parametrize(
    ("configured", "index"),
    [({"own": "https://own.example/simple"}, "own"), ({}, "https://own.example/simple")],
)
def test_specification_pylock_gives_wheel_hashes_and_index_name(
    configured: dict[str, str], index: str
) -> None:
    lock, problems = read_pylock(PYLOCK, "pylock", configured)
    marker = 'python_version >= "3.10"'
    assert lock.packages == (LockEntry("numpy", "2.2.6", (HASH,), marker, index),)
    assert problems == []


def read_any(files: Mapping[str, bytes]) -> dict[str, object]:
    ((name, data),) = files.items()
    text = data.decode()
    if name == "Pipfile.lock":
        lock, problems = read_pipfile_lock(json.loads(text), "lock", "3.11")
    elif name == "pylock.toml":
        lock, problems = read_pylock(text, "pylock", {})
    else:
        lock, problems = read_requirements(text, "requirements", "3.11")
    return {"lock": lock, "problems": [str(it) for it in problems]}


def test_specification_lock_of_each_format_gives_packages_or_problems() -> None:
    check_cases("amun_locks.txt", read_any)


DEEP = "(" * 900 + "os_name == 'x'" + ")" * 900


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (read_pipfile_lock(pipfile_lock({"numpy": locked(f"=={'1' * 10_000}")}), "lock"),
         "lock.default.numpy.version"),
        (read_pipfile_lock(pipfile_lock({"numpy": locked(markers=DEEP)}), "lock"),
         "lock.default.numpy.markers"),
        *((read_requirements(f"numpy=={it} --hash={HASH}\n", "txt"), "txt:1")
          for it in ("1" * 1_000, f"2 ; {DEEP}", f"2 ; os_name=='{'x' * 2_000}'")),
        *((read_pylock(it, "pylock", {}), "pylock") for it in (
            f"a = {'[' * 5_000}", f"a = {'1' * 5_000}", PYLOCK.replace("2.2.6", "2" * 10_000),
            PYLOCK.replace("python_version >=", f"{'(' * 5_000}python_version >="),
        )),
    ],
)  # fmt: skip
def test_too_long_or_deep_lock_is_refused(read: tuple[Lock, list[Any]], field: str) -> None:
    (found,) = fields_of(read)
    assert found.startswith(field)
