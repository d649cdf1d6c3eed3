"""Commands in the preloaded program: they do what they would do in a process of their own."""

import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cli.start import socket_path
from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.migrate import migrated_stores
from tests.factories.releases import release
from tests.services.commands import ROOT, WHERE
from tests.services.projection import deliver
from tests.services.waiting import wait_until

#: Runs a command in the preloaded program only; 99 if it refuses.
ONLY_THERE = """
import sys
from cli import start
status = start._run_in_preloaded_program()
assert "click" not in sys.modules
sys.exit(99 if status is None else status)
"""
ROOMS = ("adviser", "api", "cli", "common", "graph", "ingest", "loop", "migrations", "model", "pis")
REFUSED = 99


@dataclass(frozen=True)
class Preloaded:
    """A home with running stores, and a copy of the code, which tests may change."""

    settings: Settings
    code: Path
    project: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "GRAPH_URL", "DOCUMENT_STORE_URL"}
        }
        home = {"THOTH_HOME": str(self.settings.home), "FETCH_MISSING": "0"}
        return {**kept, **home, "PYTHONPATH": str(self.code)}

    @property
    def socket(self) -> Path:
        return Path(socket_path(str(self.settings.home)))

    def command(self, *arguments: str, there: bool = True) -> list[str]:
        how = ["-c", ONLY_THERE] if there else ["-m", "cli"]
        return [sys.executable, *how, *arguments]

    def run(
        self, *arguments: str, there: bool = True, folder: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, there=there), env=self.environment | more,
            cwd=folder or self.project, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def start(self) -> psutil.Process:
        """Have an ordinary command start the program; wait until it listens."""
        code = "from cli.start import start_preloaded; start_preloaded()"
        subprocess.run([sys.executable, "-c", code], env=self.environment, cwd=ROOT, check=True)
        log = self.settings.home / "logs" / "preloaded.log"
        wait_until(lambda: listens(self.socket), "the program listens", log=log)
        return self.process()

    def process(self) -> psutil.Process:
        found = [
            it
            for it in psutil.process_iter(["cmdline"])
            if (it.info["cmdline"] or [])[-2:] == ["-m", "cli.preloaded"]
            and it.environ().get("THOTH_HOME") == str(self.settings.home)
            and it.cwd() == str(self.settings.home / "run")
        ]
        return min(found, key=lambda it: it.create_time())


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    # Short, because the path of a socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="thoth-pre-", dir="/tmp"))
    code, project = home / "code", home / "project"
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, code / room, ignore=ignored)
    project.mkdir()
    (project / "requirements.in").write_text("web\n", encoding="utf-8")
    stores_home = home / "home"
    settings = Settings.from_env({"THOTH_HOME": str(stores_home), "GRAPH_MEMORY_MB": "256"})
    try:
        with migrated_stores(settings) as stores:
            deliver(stores, [release("web", "2.0", ["core>=1"]), release("core", "1.1")])
        yield Preloaded(settings, code, project)
    finally:
        EmbeddedStores(settings).stop()
        # The program ends with the stores, and deletes its socket.
        socket_file = Path(socket_path(str(settings.home)))
        wait_until(lambda: not socket_file.exists(), "the program has ended")
        shutil.rmtree(home)


@pytest.fixture
def program(preloaded: Preloaded) -> psutil.Process:
    return preloaded.start()


ADVISE = ("advise", "requirements.in", *WHERE, "--format", "requirements")


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_preloaded_command_behaves_like_a_new_process(preloaded: Preloaded) -> None:
    (preloaded.project / "none.in").write_text("web>3\n", encoding="utf-8")
    for arguments, status in (
        (ADVISE, 0),
        (("advise", "none.in", *WHERE), 1),
        (("advise", "there-is-none"), 2),
        (("advise", "--no-such-option"), 2),
        (("why", "core", "requirements.in", *WHERE), 0),
        (("why", "--help"), 0),
    ):
        here = preloaded.run(*arguments, there=False)
        there = preloaded.run(*arguments)
        assert here.returncode == status, here.stderr
        assert (there.returncode, there.stderr) == (here.returncode, here.stderr)
        if "none.in" not in arguments:
            assert there.stdout == here.stdout


@pytest.mark.usefixtures("program")
def test_preloaded_command_has_umask_environment_and_files_of_its_client(
    preloaded: Preloaded,
) -> None:
    lock = preloaded.project / "lock.txt"
    lock.unlink(missing_ok=True)
    command = shlex.join(preloaded.command(*ADVISE, "-o", "lock.txt"))
    subprocess.run(
        ["/bin/sh", "-c", f"umask 027; {command}"], env=preloaded.environment,
        cwd=preloaded.project, check=True,
    )  # fmt: skip
    assert lock.stat().st_mode & 0o777 == 0o640
    assert "web==2.0" in lock.read_text("utf-8")
    unset = preloaded.run(*ADVISE, INDEX_TIME_S="no number")
    assert unset.returncode == REFUSED
    closed = subprocess.run(
        ["/bin/sh", "-c", f"{command} | true; exit 0"], env=preloaded.environment,
        cwd=preloaded.project, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Traceback" not in closed.stderr


@pytest.mark.usefixtures("program")
def test_preloading_is_refused_for_other_interpreter_options_and_limits(
    preloaded: Preloaded,
) -> None:
    assert preloaded.run(*ADVISE).returncode == 0
    assert preloaded.run(*ADVISE, PRELOAD="0").returncode == REFUSED
    assert preloaded.run(*ADVISE, PYTHONDEVMODE="1").returncode == REFUSED
    assert preloaded.run("status").returncode == REFUSED

    def fewer_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    limited = subprocess.run(
        preloaded.command(*ADVISE), env=preloaded.environment, cwd=preloaded.project,
        preexec_fn=fewer_files, capture_output=True, check=False,
    )  # fmt: skip
    assert limited.returncode == REFUSED


@pytest.mark.usefixtures("program")
def test_preloaded_program_refuses_closed_standard_input_and_fewer_processors(
    preloaded: Preloaded,
) -> None:
    command = shlex.join(preloaded.command(*ADVISE))
    closed = subprocess.run(
        ["/bin/sh", "-c", f"{command} <&-"], env=preloaded.environment,
        cwd=preloaded.project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stderr) == (REFUSED, "")
    processors = os.sched_getaffinity(0)
    if len(processors) > 1:
        fewer = subprocess.run(
            preloaded.command(*ADVISE), env=preloaded.environment, cwd=preloaded.project,
            preexec_fn=lambda: os.sched_setaffinity(0, {min(processors)}),
            capture_output=True, check=False,
        )  # fmt: skip
        assert fewer.returncode == REFUSED


@contextmanager
def hanging(preloaded: Preloaded) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for an index that never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    url = f"pypi=http://127.0.0.1:{server.getsockname()[1]}/simple"
    more = {"PACKAGE_INDEXES": url, "INDEX_CACHE": str(preloaded.settings.home / "cache")}
    waiting = subprocess.Popen(
        preloaded.command("advise", "requirements.in", *WHERE, "--fetch"),
        env=preloaded.environment | more, cwd=preloaded.project,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with server, server.accept()[0], waiting:
        yield waiting


def test_preloaded_command_receives_signals_and_ends_with_its_client(
    preloaded: Preloaded, program: psutil.Process
) -> None:
    for number, status in (
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGKILL, -signal.SIGKILL),
    ):
        with hanging(preloaded) as waiting:
            assert len(program.children()) == 1
            waiting.send_signal(number)
            waiting.communicate()
        assert waiting.returncode == status
        wait_until(lambda: not program.children(), "the command has ended")
    assert preloaded.run(*ADVISE).returncode == 0


def test_preloading_socket_is_private_and_used_by_one_program(
    preloaded: Preloaded, program: psutil.Process
) -> None:
    assert preloaded.socket.stat().st_mode & 0o177 == 0
    second = [sys.executable, "-P", "-m", "cli.preloaded"]
    subprocess.run(second, env=preloaded.environment, check=True, timeout=300)
    assert program.is_running()
    # Whoever sends nonsense or nothing does no harm.
    for data in (b"", b"\xff" * 64):
        with socket.socket(socket.AF_UNIX) as nonsense:
            nonsense.connect(str(preloaded.socket))
            nonsense.sendall(data)
    assert preloaded.run(*ADVISE).returncode == 0


def test_preloaded_program_ends_when_its_code_changes(
    preloaded: Preloaded, program: psutil.Process
) -> None:
    with (preloaded.code / "model" / "packages" / "wheels.py").open(
        "a", encoding="utf-8"
    ) as module:
        module.write("#: A change.\n")
    assert preloaded.run(*ADVISE).returncode == REFUSED
    wait_until(lambda: not program.is_running(), "the program has ended")
    assert not preloaded.socket.exists()


def test_preloading_ends_with_the_stores(preloaded: Preloaded, program: psutil.Process) -> None:
    EmbeddedStores(preloaded.settings).stop()
    wait_until(lambda: not program.is_running(), "the program has ended")
    assert not preloaded.socket.exists()
    assert preloaded.run(*ADVISE).returncode == REFUSED
    # Without a running store, none is started.
    code = "from cli.start import start_preloaded; start_preloaded()"
    subprocess.run([sys.executable, "-c", code], env=preloaded.environment, check=True)
    assert not preloaded.socket.exists()
