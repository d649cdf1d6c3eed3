"""Locks as a baseline: each format, what is left out of it, and what is refused."""

from adviser.projects.locks import ProjectLock, read_lock
from adviser.projects.parsing import parse_project
from model.packages.releases import parse_requirement
from tests.factories.case_files import check_cases
from tests.factories.projects import LINUX, PYLOCK, WINDOWS, pipfile_lock


def read(data: bytes | str, name: str = "Pipfile.lock") -> ProjectLock:
    return read_lock(name, {name: data if isinstance(data, bytes) else data.encode()})


def test_each_lock_format_gives_its_packages_or_a_reason() -> None:
    check_cases("locks.txt", lambda files: read_lock(next(iter(files)), files))


def test_pipfile_lock_packages_depend_on_markers_and_development() -> None:
    entry = {"version": "==1", "markers": "os_name == 'posix'"}
    develop = {"my-pkg": entry, "t": {"version": "==2"}}
    lock = read(pipfile_lock(default={"My_Pkg": entry}, develop=develop))
    assert set(lock.packages(LINUX)) == {"my-pkg", "t"}
    assert set(lock.packages(LINUX, dev=False)) == {"my-pkg"}
    assert set(lock.packages(WINDOWS)) == {"t"}
    assert lock.left_out(WINDOWS) == {("my-pkg", "1")}


def test_pylock_packages_include_its_default_groups() -> None:
    lock = read('default-groups = ["dev"]\n' + PYLOCK, "pylock.toml")
    assert set(lock.packages(LINUX)) == {"numpy", "tool"}


def test_fully_pinned_requirements_file_is_a_lock() -> None:
    assert read(f"a==1 --hash=sha256:{'a' * 64}\nb==2\n", "requirements.txt").complete
    assert not read("a==1\nb>1\n", "requirements.txt").complete
    assert not read("", "requirements.txt").complete


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


def test_pylock_markers_are_evaluated_with_default_groups_and_no_extra() -> None:
    lock = read(GROUPED, "pylock.toml")
    assert sorted(lock.packages(LINUX)) == ["a", "d"]
    assert sorted(lock.packages(WINDOWS)) == ["a", "c", "d"]
    assert sorted(lock.left_out(LINUX)) == [("b", "1"), ("c", "1")]
    assert [it.name for it in lock.entries] == ["a", "b", "c", "d"]
    (warning,) = lock.warnings
    assert warning.message.startswith("b: only for extras or groups")
    project = parse_project({"pylock.toml": GROUPED.encode()})
    assert [it.name for it in project.requirements] == ["a", "c", "d"]
    assert all(parse_requirement(it.text).name for it in project.requirements)


def test_first_of_two_contradicting_pins_counts_with_a_warning() -> None:
    lines = b"flask==3.0\nflask==3.1\nnumpy==1.0\nnumpy==1\nsix==1; python_version < '3'\nsix==2\n"
    lock = read_lock("lock.txt", {"lock.txt": lines})
    assert [it.text for it in lock.warnings] == [
        "lock.txt:2: pins flask==3.0 and flask==3.1: 3.0 counts"
    ]
    assert lock.left_out(LINUX) == {("six", "1")}  # not what the warning is about
