"""Scripts that try to get out, each run behind the walls for real."""

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from pis.amun.jobs import JobEnd
from tests.requirements import needs
from tests.services.confined import Listener, refusals, run
from tests.services.waiting import wait_until

pytestmark = needs("bwrap")


def test_sandbox_refuses_memory_outside_of_its_accounting(tmp_path: Path) -> None:
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


def test_script_cannot_read_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_script_cannot_reach_the_network(tmp_path: Path) -> None:
    with Listener() as listener:
        listener.reach()
        wait_until(lambda: listener.reached == 3, "all three sockets are reached from here")
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
        # What the script sent has been received when these are, in their order.
        listener.reach()
        wait_until(lambda: listener.reached >= 6, "all three sockets are reached again")
    answers = refusals(finished)
    assert len(answers) == 10
    assert [it for it in answers.items() if "CAME" in it[1]] == []
    assert listener.reached == 6


def test_script_cannot_write_outside_the_sandbox(tmp_path: Path) -> None:
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


def test_runner_follows_no_link_that_a_script_creates(tmp_path: Path) -> None:
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


def test_script_in_the_sandbox_cannot_reach_processes_of_the_host(tmp_path: Path) -> None:
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
    assert everybody.ended in {JobEnd.EXITED, JobEnd.SIGNALLED}
    assert refusals(finished) == {
        "kill": "ProcessLookupError",
        "parent": "ProcessLookupError",
        "trace": "PermissionError",
        "memory": "FileNotFoundError",
        "seen": "True",
    }
