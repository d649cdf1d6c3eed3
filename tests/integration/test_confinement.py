"""Scripts that try to get out, each run behind the walls for real."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from pis.amun.confinement import (
    CannotConfine,
    confined,
    interpreter_folders,
    of_job,
    require_confinement,
)
from pis.amun.hardware import host
from pis.amun.jobs import Ended, Finished, run_job
from pis.amun.launchers import Inspection, Job, Prepared, Script
from pis.amun.launchers.local import run_here
from pis.amun.limits import GIBIBYTE, MEBIBYTE, Limits
from pis.amun.specification import load_specification
from pis.amun.watch import Watch

ROOT = Path(__file__).parents[2]
LIMITS = Limits(
    wall_s=60,
    output_bytes=4 * MEBIBYTE,
    memory_bytes=256 * MEBIBYTE,
    processes=48,
    file_bytes=16 * MEBIBYTE,
    disk_bytes=64 * MEBIBYTE,
)

#: What the attempts begin with: each prints what it was refused, or that it came through.
ATTEMPT = """
import os, sys
def attempt(what, act):
    try:
        print(what, "CAME THROUGH", act())
    except OSError as error:
        print(what, type(error).__name__)
"""


@pytest.fixture(autouse=True)
def walls() -> None:
    try:
        require_confinement()
    except CannotConfine as error:
        pytest.skip(f"{error}: {error.hint}")


@pytest.fixture
def marker() -> Iterator[str]:
    """A word in the command line of a job; no process has it after the test."""
    word = f"marker-{uuid.uuid4()}"
    yield word
    until = time.monotonic() + 10
    while with_word(word) and time.monotonic() < until:
        time.sleep(0.02)
    assert with_word(word) == []


def with_word(word: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line and int(process.name) != os.getpid():
            found.append(f"{process.name}: {line!r}")
    return found


def run(
    text: str,
    tmp_path: Path,
    *words: str,
    limits: Limits = LIMITS,
    environment: dict[str, str] | None = None,
) -> Finished:
    """What becomes of the script ``text``, called with ``words``."""
    folder = tmp_path / f"job-{uuid.uuid4()}"
    workdir = folder / "outside"
    workdir.mkdir(parents=True)
    script = folder / "script.py"
    script.write_text(ATTEMPT + text, encoding="utf-8")
    command = confined(
        [sys.executable, "-u", str(script), *words],
        workdir=workdir,
        readable=[*interpreter_folders(Path(sys.executable)), script],
        limits=limits,
        environment=environment,
    )
    return run_job(command, environment={}, limits=limits, workdir=workdir, watch=Watch)


def refusals(finished: Finished) -> dict[str, str]:
    """What each attempt ended in."""
    assert finished.exit_code == 0, finished
    return dict(line.split(" ", 1) for line in finished.stdout.decode().splitlines())


def test_an_honest_script_runs_and_its_output_and_exit_code_arrive(tmp_path: Path) -> None:
    finished = run(
        "print(os.environ['WANTED'], sys.argv[1]); sys.exit(7)",
        tmp_path,
        "word",
        environment={"WANTED": "value"},
    )
    assert (finished.exit_code, finished.ended) == (7, Ended.EXITED)
    assert finished.stdout == b"value word\n"
    assert finished.stderr == b""


def test_an_honest_script_may_use_threads_processes_and_files(tmp_path: Path) -> None:
    finished = run(
        """
import multiprocessing, tempfile, threading
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, [-1, 2])))
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
with tempfile.TemporaryFile() as file:
    print(file.write(b"x" * 1000))
open("here", "w").close()
print(os.listdir("."), os.cpu_count() > 0)
""",
        tmp_path,
    )
    assert finished.stdout.decode().split("\n")[:4] == ["3", "thread", "1000", "['here'] True"]


def test_a_fork_bomb_ends_and_the_limit_is_named(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        tmp_path,
        marker,
    )
    assert finished.ended is Ended.PROCESS_LIMIT
    subprocess.run(["true"], check=True)  # noqa: S607


def test_ten_gigabytes_at_once_are_refused(tmp_path: Path) -> None:
    finished = run("bytearray(10 * 10**9)", tmp_path)
    assert finished.ended is Ended.MEMORY_LIMIT or b"MemoryError" in finished.stderr
    assert finished.usage["ru_maxrss"] * 1024 < 3 * GIBIBYTE


def test_ten_gigabytes_bit_by_bit_end_the_job(tmp_path: Path, marker: str) -> None:
    finished = run("held = [bytearray(2**22) for _ in range(2500)]", tmp_path, marker)
    assert finished.ended is Ended.MEMORY_LIMIT
    assert finished.usage["ru_maxrss"] * 1024 < 3 * GIBIBYTE


def test_memory_split_over_children_counts_together(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
for _ in range(5):
    if not os.fork():
        break
held = b"x" * (80 * 2**20)
import time; time.sleep(60)
""",
        tmp_path,
        marker,
    )
    assert finished.ended is Ended.MEMORY_LIMIT


def test_memory_that_children_share_counts_once(tmp_path: Path) -> None:
    finished = run(
        """
held = b"x" * (100 * 2**20)
for _ in range(5):
    if not os.fork():
        break
import time; time.sleep(1)
""",
        tmp_path,
    )
    assert (finished.ended, finished.exit_code) == (Ended.EXITED, 0)


def test_memory_that_no_process_maps_is_refused(tmp_path: Path) -> None:
    answers = refusals(
        run(
            """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
attempt("memfd", lambda: os.memfd_create("held"))
attempt("shared", lambda: call("shmget", 0, 1 << 30, 0o1600))
attempt("namespace", lambda: call("unshare", 0x10000000))
attempt("mount", lambda: call("mount", b"none", b"/tmp/work", b"tmpfs", 0, None))
""",
            tmp_path,
        )
    )
    assert answers == {
        "memfd": "OSError",
        "shared": "OSError",
        "namespace": "PermissionError",
        "mount": "PermissionError",
    }


def test_a_file_has_a_largest_size_and_all_files_together_too(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail
    answers = refusals(
        run(
            """
import errno
def fill(name, count):
    written = 0
    try:
        for number in range(count):
            with open(f"{name}{number}", "wb", 0) as file:
                for _ in range(64):
                    written += file.write(b"x" * 2**20)
    except OSError as error:
        print(name, errno.errorcode[error.errno], written <= 64 * 2**20)
os.chdir("/tmp")
fill("large", 1)
def small():
    for number in range(100_000):
        with open(f"small{number}", "wb", 0) as file:
            file.write(b"x" * 4096)
attempt("small", small)
os.chdir("/dev/shm")
attempt("shared", lambda: [open(f"{it}", "wb", 0).write(b"x" * 2**20) for it in range(99)][98])
print("sum", sum(os.statvfs(it).f_blocks * os.statvfs(it).f_frsize for it in ("/tmp", "/dev/shm")))
""",
            tmp_path,
        )
    )
    assert answers == {
        "large": "EFBIG True",
        "small": "OSError",
        "shared": "OSError",
        "sum": str(LIMITS.disk_bytes),
    }
    assert free - os.statvfs(tmp_path).f_bavail < GIBIBYTE // os.statvfs(tmp_path).f_frsize


def test_secrets_are_out_of_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = f"secret-{uuid.uuid4()}"
    monkeypatch.setenv("DATABASE_PASSWORD", secret)
    home = tmp_path / "home"
    places = [
        home / "secrets.json",
        home / "postgresql" / "password",
        home / "inspections" / "inspection-other-00000000" / "results" / "0" / "result",
    ]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(secret, encoding="utf-8")
    finished = run(
        """
import glob
places = sys.argv[1:] + ["/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/root/.bash_history"]
for place in places + glob.glob("/proc/[0-9]*/environ") + ["/proc/1/environ"]:
    try:
        print(place, open(place, errors="replace").read())
    except OSError:
        pass
print(dict(os.environ), os.path.expanduser("~"))
for folder in ("/home", "/root", "/var", "/run", "/srv", "/opt", "/mnt"):
    for path, folders, files in os.walk(folder):
        print("found", path, files if not path.startswith(sys.base_prefix) else "")
print(os.listdir("/"))
""",
        tmp_path,
        *map(str, places),
    )
    said = finished.stdout.decode()
    assert finished.exit_code == 0
    assert secret not in said
    assert all(f"{place} " not in said for place in places)
    assert "/etc/shadow" not in said
    assert {"HOME": "/tmp/work", "TMPDIR": "/tmp"}.items() <= variables_in(said).items()
    assert not {"DATABASE_PASSWORD", "THOTH_HOME", "USER"} & variables_in(said).keys()
    roots = said.splitlines()[-1]
    assert all(f"'{name}'" not in roots for name in ("home", "var", "run", "srv", "boot"))


def variables_in(said: str) -> dict[str, str]:
    line = next(line for line in said.splitlines() if line.startswith("{"))
    found = eval(line[: line.rindex("}") + 1])  # noqa: S307 (what our own script printed)
    assert isinstance(found, dict)
    return found


class Listener:
    """A server on the loopback that counts who reaches it."""

    def __init__(self) -> None:
        self.reached = 0
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(b"\0" + uuid.uuid4().hex.encode())
        self.abstract.listen()
        self.ports = [self.stream.getsockname()[1], self.datagrams.getsockname()[1]]
        for one in (self.stream, self.datagrams, self.abstract):
            one.settimeout(0.05)
        self.stopping = threading.Event()
        self.threads = [
            threading.Thread(target=self._count, args=(act,))
            for act in (
                self.stream.accept,
                lambda: self.datagrams.recv(10),
                self.abstract.accept,
            )
        ]

    def _count(self, act: Callable[[], object]) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(TimeoutError):
                reached = act()
                self.reached += 1
                if isinstance(reached, tuple):
                    reached[0].close()

    def __enter__(self) -> Listener:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for one in (self.stream, self.datagrams, self.abstract):
            one.close()


def test_no_socket_leads_out(tmp_path: Path) -> None:
    with Listener() as listener:
        socket.create_connection(listener.stream.getsockname()).close()
        while not listener.reached:
            time.sleep(0.01)
        finished = run(
            """
import socket
stream, datagrams, abstract = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as it:
        it.settimeout(2)
        it.connect(address)
attempt("loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", stream)))
attempt("loopback6", lambda: connect(socket.AF_INET6, ("::1", stream)))
attempt("abstract", lambda: connect(socket.AF_UNIX, "\\0" + abstract))
attempt("outward", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
attempt("outward6", lambda: connect(socket.AF_INET6, ("2001:db8::1", 80)))
attempt("name", lambda: socket.getaddrinfo("example.org", 80))
attempt("raw", lambda: connect(socket.AF_INET, ("192.0.2.1", 0), socket.SOCK_RAW))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("machine", lambda: connect(40, (2, 1024)))
attempt("interfaces", lambda: [n for _, n in socket.if_nameindex() if n != "lo"] or os.stat("/no"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
    it.sendto(b"x", ("127.0.0.1", datagrams))
""",
            tmp_path,
            *map(str, listener.ports),
            listener.abstract.getsockname()[1:].decode(),
        )
        time.sleep(0.2)
    answers = refusals(finished)
    assert len(answers) == 10
    assert [it for it in answers.items() if "CAME" in it[1]] == []
    assert listener.reached == 1


def test_nothing_outside_can_be_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched", encoding="utf-8")
    inside = Path("/tmp") / f"only-inside-{uuid.uuid4()}"
    finished = run(
        """
victim, inside = sys.argv[1:]
for place in ("/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x", "/sys/x",
              "/proc/sys/kernel/hostname", sys.argv[0], sys.prefix + "/y", os.__file__):
    attempt(place, lambda: open(place, "a"))
attempt("link", lambda: os.link(sys.argv[0], "/tmp/link") or open("/tmp/link", "a"))
attempt("mode", lambda: os.chmod(os.__file__, 0o777))
open(inside, "w").close()
try:
    os.makedirs(os.path.dirname(victim), exist_ok=True)
    open(victim, "w").close()  # memory inside may have a file of the same name
except OSError:
    pass
""",
        tmp_path,
        str(victim),
        str(inside),
    )
    answers = refusals(finished)
    assert len(answers) == 12
    assert [it for it in answers.items() if "CAME" in it[1]] == []
    assert victim.read_text(encoding="utf-8") == "untouched"
    assert not inside.exists()


def test_a_link_out_is_not_there_for_the_runner_to_follow(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched", encoding="utf-8")
    run(
        """
for name in ("result", "log", "hwinfo", "stdout"):
    os.symlink(sys.argv[1], name)
    os.symlink(sys.argv[1], "/tmp/" + name)
os.symlink("/", "results")
""",
        tmp_path,
        str(victim),
    )
    assert victim.read_text(encoding="utf-8") == "untouched"
    assert not [it for it in tmp_path.rglob("*") if it.is_symlink()]


def test_endless_output_ends_and_a_part_is_kept(tmp_path: Path, marker: str) -> None:
    finished = run("while True: os.write(1, b'x' * 65536)", tmp_path, marker)
    assert finished.ended is Ended.OUTPUT_LIMIT
    assert finished.stdout_truncated
    assert len(finished.stdout) <= MEBIBYTE


def test_who_ignores_sigterm_is_killed(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(60)
""",
        tmp_path,
        marker,
        limits=replace(LIMITS, wall_s=1),
    )
    assert finished.ended is Ended.TIMED_OUT


def test_a_child_does_not_survive_the_job(tmp_path: Path, marker: str) -> None:
    finished = run(
        """
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in range(3):
            os.close(number)
        words = ["-c", "import time; time.sleep(600)", sys.argv[1]]
        os.execv(sys.executable, [sys.executable, *words])
    os._exit(0)
import time; time.sleep(0.3)
print("parent ends")
""",
        tmp_path,
        marker,
    )
    assert (finished.ended, finished.stdout) == (Ended.EXITED, b"parent ends\n")


def test_a_child_that_holds_the_output_open_does_not_hold_up_the_job(
    tmp_path: Path, marker: str
) -> None:
    finished = run(
        """
if not os.fork():
    os.setsid()
    import time; time.sleep(600)
""",
        tmp_path,
        marker,
    )
    assert (finished.ended, finished.exit_code) == (Ended.EXITED, 0)


def test_the_hosts_processes_cannot_be_reached(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:  # noqa: S607
        finished = run(
            """
import ctypes, signal
bystander, parent = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
def trace(pid):
    if libc.ptrace(16, pid, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
attempt("kill", lambda: os.kill(bystander, signal.SIGKILL))
attempt("parent", lambda: os.kill(parent, signal.SIGKILL))
attempt("trace", lambda: trace(bystander))
attempt("memory", lambda: open(f"/proc/{bystander}/mem", "rb"))
print("seen", len([it for it in os.listdir("/proc") if it.isdigit()]) < 5)
""",
            tmp_path,
            str(bystander.pid),
            str(os.getpid()),
        )
        everybody = run("os.kill(-1, 9)", tmp_path)
        alive = bystander.poll() is None
        bystander.kill()
    assert alive
    assert everybody.ended in {Ended.EXITED, Ended.SIGNALLED}
    assert refusals(finished) == {
        "kill": "ProcessLookupError",
        "parent": "ProcessLookupError",
        "trace": "PermissionError",
        "memory": "FileNotFoundError",
        "seen": "True",
    }


def test_a_signal_is_told_as_one_and_a_large_exit_code_is_taken_for_one(tmp_path: Path) -> None:
    crashed = of_job(run("os.kill(os.getpid(), 11)", tmp_path))
    assert (crashed.ended, crashed.exit_code) == (Ended.SIGNALLED, -11)
    ended = of_job(run("sys.exit(100)", tmp_path))
    assert (ended.ended, ended.exit_code) == (Ended.EXITED, 100)


def test_a_forged_result_is_recorded_as_output_and_nothing_else(tmp_path: Path) -> None:
    forged = """
import json, os, sys
result = {
    "inspection_id": "inspection-other-00000000", "exit_code": 0, "hostname": "forged",
    "script_sha256": "0" * 64, "host": "sha256:forged", "confined": False, "ended": "exited",
    "script": {"name": "matmul", "bundled": True}, "launcher": "forged",
    "limits": {"cpus": 1000}, "start_datetime": "1970-01-01T00:00:00",
    "schedule": {"run": "forged", "block": 99}, "@result": {"rate": 1e9, "elapsed": 1.0},
}
for place in ("result", "../result", "../../results/0/result", "/tmp/result"):
    try:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        json.dump(result, open(place, "w"))
    except OSError:
        pass
print(json.dumps(result))
sys.exit(4)
"""
    script = Script(forged, None, sha256(forged.encode()).hexdigest())
    inspection = Inspection(
        "inspection-real-00000000", load_specification({"script": forged}), script
    )
    prepared = Prepared(
        inspection=inspection, environment=None, python=sys.executable, python_version="3.11.7",
        log="",
    )  # fmt: skip
    job = Job(inspection.inspection_id, 5, "real", 5, 2, True)
    written = run_here(prepared, job, "local").result
    assert written["stdout"]["inspection_id"] == "inspection-other-00000000"
    assert written["inspection_id"] == "inspection-real-00000000"
    assert (written["exit_code"], written["launcher"], written["confined"]) == (4, "local", True)
    assert (written["hostname"], written["host"]) == (os.uname().nodename, host())
    assert written["script"] == {"name": None, "bundled": False}
    assert written["script_sha256"] == script.sha256
    assert written["limits"]["cpus"] == len(os.sched_getaffinity(0))
    assert written["schedule"] == {"run": "real", "block": 5, "turn": 2, "interleaved": True}
    assert not written["start_datetime"].startswith("1970")


def test_a_jobs_variables_do_not_reach_programs_outside(tmp_path: Path) -> None:
    outside = tmp_path / "loader"
    finished = run(
        "print('\\nruns')",
        tmp_path,
        environment={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(outside), "LD_PRELOAD": "/no.so"},
    )
    assert b"\nruns\n" in finished.stdout
    assert list(tmp_path.glob("loader*")) == []


def test_without_the_programs_it_refuses_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotConfine, match="not installed") as refused:
        require_confinement()
    assert refused.value.hint is not None
    assert "bubblewrap" in refused.value.hint


def test_where_walls_cannot_be_put_up_it_refuses_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CannotConfine, match="No permissions to create") as refused:
        require_confinement()
    assert "namespaces" in str(refused.value.hint)


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole pack runs as an ordinary user already")
def test_all_this_holds_for_an_ordinary_user_too(tmp_path: Path) -> None:
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not Path(python).exists():
        pytest.skip(f"{python}, which every user could run, is not installed")
    user = 61_234
    own = Path("/tmp") / f"confinement-{uuid.uuid4()}"
    own.mkdir(mode=0o700)
    os.chown(own, user, user)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    words = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", python]
    options = [
        "-q",
        "-k",
        "not ordinary_user",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(own / "pytest"),
        __file__,
    ]
    try:
        done = subprocess.run(
            ["setpriv", *words, "-m", "pytest", *options],  # noqa: S607
            cwd=ROOT,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(own),
                "TMPDIR": str(own),
                "PYTHONPATH": f"{ROOT}:{packages}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["rm", "-rf", str(own)], check=True)  # noqa: S607
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]
