"""Environments from a package index: what is refused, what is kept, what nobody learns."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from filelock import FileLock

from common.formats.locks.entries import LockEntry
from common.settings import Settings
from model.measurements.job_stability import is_host_build
from pis.amun.environments import build_environment, find_interpreter, remove_environment
from pis.amun.installer import BuildLog
from pis.amun.launchers import BuildFailed
from pis.amun.locks import Lock
from tests.services.index import PASSWORD, Answer, Index, package_index, raw
from tests.services.waiting import DEADLINE_S


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index() as served:
        yield served


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No second try at an index that is not there, and nothing known of earlier tests."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def settings(tmp_path: Path, index: Index) -> Settings:
    """Settings in which ``index`` is called ``own``."""
    home = str(tmp_path / "home")
    return Settings.from_env({"THOTH_HOME": home, "PACKAGE_INDEXES": f"own={index.url}"})


def package(name: str, version: str, *hashes: str, marker: str | None = None) -> LockEntry:
    return LockEntry(name, version, hashes, marker, "own")


def refusal(lock: Lock, settings: Settings, python_version: str | None = None) -> BuildFailed:
    with pytest.raises(BuildFailed) as failed:
        build_environment(lock, settings, python_version)
    assert failed.value.log.endswith(f"[{failed.value.reason}]\n")
    assert not list((settings.home / "environments").glob("*.part"))
    assert PASSWORD not in failed.value.log + str(failed.value)
    return failed.value


def test_locked_wheels_are_installed_once_and_the_environment_is_reused(
    index: Index, settings: Settings
) -> None:
    lock = Lock((package("parrot", "1.2", index.add_wheel("parrot", "1.2", "WORD = 'hello'")),))
    lines: list[str] = []
    built = build_environment(lock, settings, on_line=lines.append)
    program = "import parrot; print(parrot.WORD)"
    said = subprocess.check_output([built.python, "-c", program], text=True)
    assert said == "hello\n"
    assert built.freeze == ("parrot==1.2",)
    assert "parrot==1.2" in lines
    index.files.clear()
    again = build_environment(lock, settings)
    assert (again.path, again.digest) == (built.path, built.digest)
    assert "already exists" not in built.log


def test_environment_build_writes_no_index_credentials(index: Index, settings: Settings) -> None:
    lock = Lock((package("parrot", "1.2", index.add_wheel("parrot", "1.2")),))
    built = build_environment(lock, settings)
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
    assert PASSWORD not in built.log


def test_wheel_with_a_hash_that_is_not_locked_is_refused(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.2", "WORD = 'forged'")
    other = f"sha256:{'0' * 64}"
    assert refusal(Lock((package("parrot", "1.2", other),)), settings).reason == "hash-mismatch"


def test_setup_py_does_not_run_during_installation(
    index: Index, settings: Settings, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    setup = f"open({str(marker)!r}, 'w')\nfrom setuptools import setup\nsetup(name='parrot')\n"
    lock = Lock((package("parrot", "1.2", index.add_source("parrot", "1.2", setup)),))
    assert refusal(lock, settings).reason == "no-wheel"
    assert not marker.exists()


WRITES = "import os; open({!r}, 'a').write('ran')"


def add_starter(index: Index, folder: Path, marker: Path) -> str:
    """Serve a wheel of which a ``.pth`` file and ``sitecustomize`` write ``marker``; its hash."""
    index.add_wheel("starter", "1.0")
    (name,) = index.files["starter"]
    wheel = folder / name
    wheel.write_bytes(index.files["starter"][name])
    with zipfile.ZipFile(wheel, "a") as archive:
        for member in ("starter.pth", "sitecustomize.py"):
            archive.writestr(member, WRITES.format(str(marker)) + "\n")
    index.files["starter"][name] = wheel.read_bytes()
    return f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def test_no_code_of_a_wheel_runs_during_installation(
    index: Index, settings: Settings, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    starter = package("starter", "1.0", add_starter(index, tmp_path, marker))
    with package_index() as second:
        parrot = LockEntry("parrot", "1.2", (second.add_wheel("parrot", "1.2"),), None, "two")
        both = f"own={index.url} two={second.url}"
        two = Settings.from_env({"THOTH_HOME": str(settings.home), "PACKAGE_INDEXES": both})
        built = build_environment(Lock((starter, parrot)), two)
    assert built.freeze == ("parrot==1.2", "starter==1.0")
    assert not marker.exists()
    subprocess.run([built.python, "-c", "import parrot"], check=True)
    assert marker.exists()


def test_installed_modules_are_compiled_for_the_target_interpreter(
    index: Index, settings: Settings
) -> None:
    lock = Lock((package("parrot", "1.2", index.add_wheel("parrot", "1.2")),))
    built = build_environment(lock, settings)
    said = subprocess.run(
        [built.python, "-v", "-c", "import parrot"], capture_output=True, text=True, check=True
    ).stderr
    (line,) = [it for it in said.splitlines() if "code object from" in it and "parrot." in it]
    assert line.endswith(".pyc'")


def test_all_indexes_of_pip_configuration_are_used_for_locked_releases(
    index: Index, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add_wheel("parrot", "1.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    for name in ("XDG_CONFIG_HOME", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with package_index() as extra:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", extra.url)
        served = extra.add_wheel("parrot", "1.2")
        lock = Lock((LockEntry("parrot", "1.2", (served,)),))
        assert build_environment(lock, settings).freeze == ("parrot==1.2",)


def test_locked_release_that_the_index_lacks_is_refused(index: Index, settings: Settings) -> None:
    served = index.add_wheel("parrot", "1.2")
    assert refusal(Lock((package("parrot", "9.9", served),)), settings).reason == "no-wheel"
    assert refusal(Lock((package("nobody", "1.0", served),)), settings).reason == "no-wheel"


def test_unreachable_index_is_reported_as_the_cause(settings: Settings, index: Index) -> None:
    nowhere = f"own={index.url.replace(str(index.port), '9')}"
    away = Settings.from_env({"THOTH_HOME": str(settings.home), "PACKAGE_INDEXES": nowhere})
    lock = Lock((package("parrot", "1.2", f"sha256:{'0' * 64}"),))
    failure = refusal(lock, away)
    assert failure.reason == "index-unreachable"
    assert failure.hint is not None


def stall(handler: BaseHTTPRequestHandler) -> None:
    """Send a part of a file, then keep the connection open without sending more."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\nPK")
    handler.served.closing.wait()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "answer",
    [stall, raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\nPK")],
    ids=["stalled", "broken-off"],
)
def test_stalled_download_is_reported_as_a_fault_of_the_index(
    index: Index, settings: Settings, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock((package("parrot", "1.2", index.add_wheel("parrot", "1.2")),))
    wheel = "/files/parrot/parrot-1.2-py3-none-any.whl"
    index.answers[wheel] = answer
    with monkeypatch.context() as patch:
        patch.setenv("UV_HTTP_TIMEOUT", "1")
        failure = refusal(lock, settings)
    assert (failure.reason, failure.host_problem) == ("index-unreachable", True)
    assert is_host_build("build-failed", str(failure)), "documents of earlier releases say so"
    del index.answers[wheel]
    assert build_environment(lock, settings).freeze == ("parrot==1.2",)


def test_wrong_password_is_reported_as_a_refusal_by_the_index(
    index: Index, settings: Settings
) -> None:
    served = index.add_wheel("parrot", "1.2")
    wrong = f"own={index.url.replace(PASSWORD, 'wrong')}"
    refused = Settings.from_env({"THOTH_HOME": str(settings.home), "PACKAGE_INDEXES": wrong})
    failure = refusal(Lock((package("parrot", "1.2", served),)), refused)
    assert failure.reason == "index-unreachable"


def test_missing_python_interpreter_is_not_downloaded(settings: Settings) -> None:
    failure = refusal(Lock(), settings, "3.99")
    assert failure.reason == "python-not-found"
    assert "3.99" in str(failure)


def test_interpreter_of_pyenv_is_found_if_no_folder_selects_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    for version in ("3.99.2", "3.99.10", "3.99.11t", "3.9.1"):
        python = tmp_path / "versions" / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    assert find_interpreter("3.99", BuildLog()).path.endswith("/3.99.10/bin/python")


def test_markers_are_evaluated_by_the_target_interpreter(index: Index, settings: Settings) -> None:
    wanted = package("parrot", "1.2", index.add_wheel("parrot", "1.2"), marker="os_name == 'posix'")
    other = package("crow", "1.0", f"sha256:{'0' * 64}", marker="os_name == 'nt'")
    built = build_environment(Lock((other, wanted)), settings)
    assert built.freeze == ("parrot==1.2",)
    assert "excluded by its marker: crow==1.0" in built.log


def test_leftovers_of_a_killed_build_are_removed(index: Index, settings: Settings) -> None:
    lock = Lock((package("parrot", "1.2", index.add_wheel("parrot", "1.2")),))
    built = build_environment(lock, settings)
    left_over = built.path.with_name(f"{built.path.name}.99999.part")
    built.path.rename(left_over)
    other, busy = (built.path.with_name(f"{word}.99999.part") for word in ("other", "busy"))
    for folder in (other, busy):
        (folder / "bin").mkdir(parents=True)
    with FileLock(busy.with_name("busy.lock")):
        assert build_environment(lock, settings).path == built.path
    assert not left_over.exists()
    assert not other.exists()
    assert busy.exists()


def test_two_processes_build_an_environment_only_once(index: Index, settings: Settings) -> None:
    served = index.add_wheel("parrot", "1.2")
    program = (
        "from common.settings import Settings\n"
        "from pis.amun.environments import build_environment\n"
        "from common.formats.locks.entries import LockEntry\n"
        "from pis.amun.locks import Lock\n"
        f"lock = Lock((LockEntry('parrot', '1.2', ({served!r},), None, 'own'),))\n"
        "lines = []\n"
        f"settings = Settings.from_env({{'THOTH_HOME': {str(settings.home)!r},"
        f" 'PACKAGE_INDEXES': 'own={index.url}'}})\n"
        "build_environment(lock, settings, on_line=lines.append)\n"
        "print(any('already exists' in line for line in lines))\n"
    )
    root = Path(__file__).parents[3]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root
        )
        for _ in range(2)
    ]
    assert sorted(process.communicate(timeout=DEADLINE_S)[0] for process in running) == [
        "False\n",
        "True\n",
    ]


def test_environment_is_removed_only_after_its_last_user(index: Index, settings: Settings) -> None:
    lock = Lock((package("parrot", "1.2", index.add_wheel("parrot", "1.2")),))
    with ExitStack() as first, ExitStack() as second:
        built = build_environment(lock, settings, uses=first)
        build_environment(lock, settings, uses=second)
        first.close()
        assert not remove_environment(built.path)
        assert built.python.exists()
    assert remove_environment(built.path)
    assert not list(built.path.parent.iterdir())


def test_unwritable_home_folder_is_reported_as_a_failed_build(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(BuildFailed) as failure:
        build_environment(Lock(), Settings.from_env({"THOTH_HOME": str(tmp_path / "home")}))
    assert failure.value.reason == "build-failed"
