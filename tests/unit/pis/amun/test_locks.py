"""Locks of three formats, and what is refused in them."""

from __future__ import annotations

import platform
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


def test_a_pipfile_lock_is_read_with_markers_extras_and_python() -> None:
    entry = locked("==2.0.0RC1", markers="python_version > '3.8'", extras=["b", "a"], index="pypi")
    lock, problems = read_pipfile_lock(pipfile_lock({"Num.Py": entry}), "lock", "3.11")
    assert problems == []
    assert lock == Lock(
        (LockEntry("num-py", "2.0.0rc1", (HASH,), "python_version > '3.8'", "pypi", ("a", "b")),),
        "3.11",
    )


def test_development_packages_are_not_installed() -> None:
    lock, problems = read_pipfile_lock({**pipfile_lock(), "develop": {"x": {"git": "y"}}}, "lock")
    assert (len(lock.packages), problems) == (1, [])


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"version": "==1.0"}, "hashes"),
        ({"version": "==1.0", "hashes": []}, "hashes"),
        ({"version": "==1.0", "hashes": ["md5:00"]}, "hashes"),
        ({"version": "==1.0", "hashes": ["sha256:12"]}, "hashes"),
        ({"version": "==1.0", "hashes": [f"{HASH}\n--index-url=http://x"]}, "hashes"),
        ({"version": "==1.0", "hashes": HASH}, "hashes"),
        (locked(">=1.0"), "version"),
        (locked("*"), "version"),
        (locked("==1.*"), "version"),
        (locked("==not a version"), "version"),
        (locked(git="https://code.example/x"), "git"),
        (locked(path="../x"), "path"),
        (locked(file="https://x.example/y.whl"), "file"),
        (locked(markers="python_version"), "markers"),
        (locked(markers="os_name == 'x\n--index-url http://x'"), "markers"),
        (locked(markers=3), "markers"),
        (locked(markers="platform_system ~= 'Linux'"), "markers"),
        (locked(markers="os_name == 'x' or extra == 'y'"), "markers"),
        (locked(markers="'x' in dependency_groups"), "markers"),
        (locked(markers=f"{'(' * 5_000}os_name == 'x'{')' * 5_000}"), "markers"),
        (locked(markers=f"{'(' * 900}os_name == 'x'{')' * 900}"), "markers"),
        (locked(f"=={'1' * 10_000}"), "version"),
        (locked(index="http://[x"), "index"),
        (locked(extras=["a]\n--index-url http://x"]), "extras"),
        (locked(index=5), "index"),
    ],
)
def test_an_entry_that_pins_no_release_is_refused_by_its_path(
    entry: dict[str, Any], field: str
) -> None:
    read = read_pipfile_lock(pipfile_lock({"numpy": entry}), "python.requirements_locked")
    assert fields_of(read) == [f"python.requirements_locked.default.numpy.{field}"]
    assert read[0].packages == ()


def test_a_missing_hash_is_reported_with_its_remedy() -> None:
    _, problems = read_pipfile_lock(pipfile_lock({"numpy": {"version": "==1"}}), "lock")
    assert "thoth pi pin" in problems[0].message


def test_all_problems_are_reported_at_once() -> None:
    lock = pipfile_lock({"a": locked(git="x"), "b": locked(), "c": locked(">1"), "-d": locked()})
    assert fields_of(read_pipfile_lock(lock, "lock")) == [
        "lock.default.a.git",
        "lock.default.c.version",
        "lock.default.-d",
    ]


def test_one_package_in_two_spellings_is_refused() -> None:
    lock = pipfile_lock({"numpy": locked(), "NumPy": locked("==1.0")})
    assert fields_of(read_pipfile_lock(lock, "lock")) == ["lock.default.NumPy"]


def test_requirements_are_read_over_continued_lines_and_comments() -> None:
    text = (
        "# a comment \\\n"
        "numpy==2.2.6 ; python_version >= '3.10' \\\n"
        f"    --hash={HASH} \\\n"
        f"    --hash={OTHER}  # both\n"
        "    # via nothing\n"
        "\n"
        f"Pillow[extra]==11.0 --hash {HASH}\n"
    )
    lock, problems = read_requirements(text, "txt", "3.11")
    assert problems == []
    assert lock.packages == (
        LockEntry("numpy", "2.2.6", (HASH, OTHER), 'python_version >= "3.10"', "pypi"),
        LockEntry("pillow", "11.0", (HASH,), None, "pypi", ("extra",)),
    )
    assert lock.python_version == "3.11"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-r other.txt", "-r"),
        ("--requirement=other.txt", "--requirement"),
        ("-e .", "-e"),
        ("--index-url https://me:secret@own.example/simple", "--index-url"),
        ("--extra-index-url=https://own.example/simple", "--extra-index-url"),
        (f"numpy @ https://x.example/numpy.whl --hash={HASH}", "not a URL"),
        (f"https://x.example/numpy.whl --hash={HASH}", "requirement"),
        (f"./numpy.whl --hash={HASH}", "requirement"),
        (f"numpy>=2 --hash={HASH}", "does not pin"),
        (f"numpy==2.* --hash={HASH}", "does not pin"),
        (f"numpy --hash={HASH}", "give `==`"),
        ("numpy==2", "missing"),
        (f"numpy==2 ; {'(' * 900}os_name=='x'{')' * 900} --hash={HASH}", "brackets"),
        (f"numpy==2 ; os_name=='{'x' * 2_000}' --hash={HASH}", "over 2000"),
        (f"numpy==2 ; platform_system ~= 'Linux' --hash={HASH}", "marker"),
        (f"numpy=={'1' * 1_000} --hash={HASH}", "version"),
        (f"numpy==2 --no-binary --hash={HASH}", "--no-binary is not supported"),
        (f"numpy==2 --config-settings=a=b --hash={HASH}", "only --hash"),
        (f"numpy==2 --hash={HASH} -i https://a:secret@x.example", "--index-url is not supported"),
        (f"numpy==2 --hash={HASH} ; os_name == 'nt'", "; is not supported"),
    ],
)
def test_a_line_that_pins_no_release_is_refused_by_its_number(line: str, said: str) -> None:
    text = f"scipy==1.0 \\\n  --hash={HASH}\n\n{line}\n"
    lock, problems = read_requirements(text, "python.requirements_txt")
    assert len(problems) == 1
    assert problems[0].field == "python.requirements_txt:4"
    assert said in str(problems[0])
    assert "secret" not in str(problems[0])
    assert [package.name for package in lock.packages] == ["scipy"]


def test_of_a_package_locked_for_several_platforms_the_entry_of_this_one_counts() -> None:
    text = (
        f"numpy==1.0 ; python_version < '3.9' --hash={HASH}\n"
        f"numpy==2.0 ; python_version >= '3.9' --hash={HASH}\n"
    )
    lock, problems = read_requirements(text, "txt", "3.11")
    assert (lock.version_of("numpy"), problems) == ("2.0", [])
    lock, _ = read_requirements(text, "txt", "3.8")
    assert lock.version_of("numpy") == "1.0"


def test_a_pylock_is_read_by_the_hashes_of_its_wheels() -> None:
    lock, problems = read_pylock(PYLOCK, "pylock", {"own": "https://own.example/simple"})
    assert problems == []
    marker = 'python_version >= "3.10"'
    assert lock.packages == (LockEntry("numpy", "2.2.6", (HASH,), marker, "own"),)


def test_an_index_that_is_not_configured_is_no_address_to_fetch_from() -> None:
    lock, _ = read_pylock(PYLOCK, "pylock", {})
    assert [package.index for package in lock.packages] == ["https://own.example/simple"]


def test_groups_of_a_pylock_count_as_its_default_groups_say() -> None:
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


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "lock-version = '1.0'",
        "lock-version = '9'",
        f"a = {'[' * 5_000}",
        f"a = {'1' * 5_000}",
        PYLOCK.replace("2.2.6", "2" * 10_000),
        PYLOCK.replace("python_version >=", f"{'(' * 5_000}python_version >="),
    ],
    ids=range(7),
)
def test_what_is_not_a_pylock_is_refused(text: str) -> None:
    (field,) = fields_of(read_pylock(text, "python.pylock_toml", {}))
    assert field.partition(":")[0] == "python.pylock_toml"


def test_a_pylock_of_a_repository_is_refused() -> None:
    text = (
        'lock-version = "1.0"\ncreated-by = "a test"\n[[packages]]\nname = "numpy"\n'
        '[packages.vcs]\ntype = "git"\nurl = "https://x.example/numpy"\ncommit-id = "00"\n'
    )
    assert fields_of(read_pylock(text, "p", {})) == ["p:packages[0]"]


def test_every_lock_can_be_written_as_a_pipfile_lock_and_read_again() -> None:
    package = LockEntry("numpy", "2.0", (HASH,), "os_name == 'posix'", "own", ("a",))
    lock = Lock((LockEntry("abc", "1", (HASH, OTHER), None, "pypi"), package), "3.12")
    assert read_pipfile_lock(pipfile_lock_of(lock), "lock", "3.12") == (lock, [])


def test_an_address_that_cannot_be_split_is_no_index() -> None:
    text = PYLOCK.replace("https://me:secret@own.example/simple/", "http://[x")
    assert fields_of(read_pylock(text, "p", {})) == ["p:packages[0].index"]


def test_the_word_extra_may_be_quoted() -> None:
    lock = pipfile_lock({"numpy": locked(markers="platform_release != 'extra'")})
    assert read_pipfile_lock(lock, "lock")[1] == []


def test_a_package_of_other_platforms_only_is_left_out() -> None:
    text = (
        f"numpy==2.0 --hash={HASH}\n"
        f"pywin32==1 ; os_name == 'none' and python_version < '3.9' --hash={HASH}\n"
        f"pywin32==2 ; os_name == 'none' and python_version >= '3.9' --hash={HASH}\n"
    )
    lock, problems = read_requirements(text, "txt", "3.11")
    assert ([package.name for package in lock.packages], problems) == (["numpy"], [])


def test_several_entries_that_hold_are_refused() -> None:
    text = f"numpy==1 --hash={HASH}\nnumpy==2 ; python_version > '3' --hash={HASH}\n"
    assert fields_of(read_requirements(text, "txt", "3.11")) == ["txt:2"]


def test_a_full_version_chooses_by_its_first_two_parts() -> None:
    text = (
        f"numpy==1 ; python_version == '3.11' --hash={HASH}\n"
        f"numpy==2 ; python_version != '3.11' --hash={HASH}\n"
    )
    assert read_requirements(text, "txt", "3.11.7")[0].version_of("numpy") == "1"


def test_what_is_not_known_of_a_version_is_that_of_the_running_interpreter() -> None:
    running = platform.python_version()
    short = running.rpartition(".")[0]
    assert environment_of(short) == {"python_version": short, "python_full_version": running}
    assert environment_of("3.1.4") == {"python_version": "3.1", "python_full_version": "3.1.4"}
    assert environment_of("3.1") == {"python_version": "3.1", "python_full_version": "3.1.0"}
    assert environment_of(None) == environment_of("no version") == {}
