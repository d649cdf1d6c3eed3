"""The embedded stores' folder, its files, and what they say after a crash."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from common.files import private_folder
from common.settings import Settings
from graph.embedded import store_process
from graph.embedded.arcadedb import ArcadeDB, groups_of
from graph.embedded.home import Home, Passwords
from graph.embedded.start_stop import EmbeddedStores
from graph.embedded.store_process import (
    RunRecord,
    alive,
    last_lines,
    living,
    read_record,
    spawn,
    stop,
)
from graph.record.document_store import write_object
from model.errors import ServiceFailed
from tests.services.waiting import DEADLINE_S, wait_until


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_home_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "new" / "home")
    home.prepare()
    assert {mode_of(p) for p in (home.root, home.graph, home.logs, home.run)} == {0o700}


def test_existing_home_folder_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    tmp_path.chmod(0o755)
    Home(tmp_path).prepare()
    assert mode_of(tmp_path) == 0o755
    assert mode_of(tmp_path / "run") == 0o700


def test_home_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path / "file" / "home")})
    with pytest.raises(ServiceFailed, match="file/home") as caught:
        EmbeddedStores(settings).start()
    assert "THOTH_HOME" in (caught.value.hint or "")


def test_passwords_are_created_once_and_private(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert Passwords.load(home) is None
    passwords = Passwords.load_or_create(home)
    assert Passwords.load_or_create(home) == passwords
    assert mode_of(home.secrets) == 0o600
    assert passwords.graph not in repr(passwords)
    assert len({passwords.graph, passwords.postgresql, passwords.analyst}) == 3


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"port": 1, "x": 2}'])
def test_damaged_run_record_counts_as_missing(tmp_path: Path, content: str) -> None:
    home = Home(tmp_path)
    home.prepare()
    (home.run / "graph.json").write_text(content)
    assert read_record(home, "graph") is None


def test_recycled_pid_is_not_mistaken_for_a_running_store() -> None:
    me = psutil.Process()
    assert living(RunRecord(1, me.pid, me.create_time())) is not None
    assert living(RunRecord(1, me.pid, me.create_time() - 60)) is None
    assert living(RunRecord(1)) is None


def test_started_store_outlives_the_command_and_leaves_no_zombie(tmp_path: Path) -> None:
    process = psutil.Process(spawn(["/bin/sleep", "600"], tmp_path / "log", tmp_path))
    assert alive(process.pid, process.create_time())
    assert process.ppid() != os.getpid()
    assert stop(process, stop_signal=signal.SIGTERM, timeout_s=DEADLINE_S)
    assert process.pid not in {child.pid for child in psutil.Process().children()}


@pytest.mark.parametrize(
    ("cause", "tries"), [("no memory", 1), ("BindException: Address already in use", 2)]
)
def test_store_that_ends_before_it_is_registered_is_reported(
    cause: str, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its port was taken for a moment, another one is tried."""
    ports: list[int] = []
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()

    def spawn(_argv: list[str], log: Path, _folder: Path) -> int:
        log.write_text(cause)
        return ended.pid

    monkeypatch.setattr(store_process, "spawn", spawn)
    monkeypatch.setattr(store_process, "free_port", lambda: ports.append(1) or len(ports))
    monkeypatch.setattr(store_process, "is_free", lambda _: True)
    monkeypatch.setattr(ArcadeDB, "command", lambda *_: [])
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path), "DATABASE_URL": "postgresql://x/y"})
    with pytest.raises(ServiceFailed, match=f"ended while starting\\n *{cause}"):
        EmbeddedStores(settings).start()
    assert len(ports) == tries


def test_store_that_is_being_stopped_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that stops it has the lock until the store is marked as stopped."""
    stores = EmbeddedStores(Settings.from_env({"THOTH_HOME": str(tmp_path)}))
    stores.home.prepare()
    record = stores.home.run / "graph.json"
    record.write_text('{"port": 1, "pid": 1, "created": 0.0, "ready": true}')
    assert stores.has_died(ArcadeDB)

    @contextmanager
    def locked(_: EmbeddedStores) -> Iterator[None]:
        record.write_text('{"port": 1}')
        yield

    monkeypatch.setattr(EmbeddedStores, "_locked", locked)
    assert not stores.start_again(ArcadeDB)
    assert stores.passwords() is None


def test_store_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    deaf = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN)\n"
            "print('deaf', flush=True); time.sleep(60)"]  # fmt: skip
    log = tmp_path / "log"
    process = psutil.Process(spawn(deaf, log, tmp_path))
    wait_until(lambda: log.exists() and "deaf" in log.read_text(), "the process ignores SIGTERM")
    created = process.create_time()
    assert not stop(process, stop_signal=signal.SIGTERM, timeout_s=0.2)
    assert alive(process.pid, created) is None


def test_store_output_is_logged_and_the_last_lines_can_be_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    spawn(["/bin/sh", "-c", "seq 1 9; echo odd >&2"], log, tmp_path)
    wait_until(lambda: log.exists() and "odd" in log.read_text(), "the output is in the log")
    assert last_lines(log, 2) == "  9\n  odd"
    assert last_lines(tmp_path / "none") == ""


def test_graph_analyst_can_only_read_within_limits() -> None:
    groups = groups_of(timeout_s=2.5)["databases"]["*"]["groups"]
    assert groups["readonly"] == {
        "resultSetLimit": -1,
        "readTimeout": 2500,
        "access": [],
        "types": {"*": {"access": ["readRecord"]}},
    }
    assert groups["*"]["types"]["*"]["access"] == []


def test_home_folders_and_documents_are_private_with_any_umask(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir(mode=0o755)
    mask = os.umask(0)
    try:
        private_folder(old)
        write_object((tmp_path / "home/documents/ab/body").as_uri(), b"body")
    finally:
        os.umask(mask)
    assert mode_of(old) == 0o700
    for folder in ("home", "home/documents", "home/documents/ab"):
        assert mode_of(tmp_path / folder) == 0o700
    assert mode_of(tmp_path / "home/documents/ab/body") == 0o600
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    write_object((shared / "ab/body").as_uri(), b"body")
    assert mode_of(shared) == 0o755
