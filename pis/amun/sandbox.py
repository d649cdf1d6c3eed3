"""The sandbox of submitted scripts: their own processes, files, network and user, by bubblewrap.

No daemon and no set-up are needed: :func:`confined` turns a command into one that runs in the
sandbox, for root and for ordinary users alike. ``docs/guides/launchers.md`` says what the sandbox
prevents and what it does not. A seccomp filter closes what namespaces and limits leave open: new
user namespaces (with one, a job could mount memory without bound), memory that no process maps
and nobody counts, and socket families without a namespace.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import platform
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

from common.errors import ProjectError
from pis.amun.job_limits import (
    CONFINED,
    GIBIBYTE,
    JobLimits,
)
from pis.amun.jobs import Ended, Finished

#: ``struct sock_filter``: operation, jump if true, jump if false, operand (linux/filter.h).
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

#: Offsets in ``struct seccomp_data``; the arguments' low words, on a little-endian machine.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

_KILL, _REFUSE, _SECCOMP_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h

#: All ``CLONE_NEW…`` flags that ``clone`` takes (linux/sched.h).
_NEW_NAMESPACES = 0x7E020000

#: Unix, IPv4, IPv6 and netlink: those that a network namespace holds. Not vsock, for one,
#: which leads from a virtual machine to its host.
_FAMILIES = (1, 2, 10, 16)

#: x86-64 numbers the calls of its 32-bit pointers from here on.
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class _Machine:
    """Numbers of system calls; the kernel's tables, ``asm/unistd.h``.

    :param refused: fails with ``EPERM``
    :param absent: fails with ``ENOSYS``, so that libraries take their other way
    """

    audit: int
    clone: int
    socket: int
    refused: dict[str, int]
    absent: dict[str, int]


MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        clone=56,
        socket=41,
        refused={
            "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155,
            "ptrace": 101, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
            "add_key": 248, "request_key": 249, "keyctl": 250, "syslog": 103,
        },
        absent={
            "clone3": 435, "memfd_create": 319, "memfd_secret": 447, "shmget": 29,
            "msgget": 68, "io_uring_setup": 425,
        },
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        clone=220,
        socket=198,
        refused={
            "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41,
            "ptrace": 117, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
            "add_key": 217, "request_key": 218, "keyctl": 219, "syslog": 116,
        },
        absent={
            "clone3": 435, "memfd_create": 279, "memfd_secret": 447, "shmget": 194,
            "msgget": 186, "io_uring_setup": 425,
        },
    ),
}  # fmt: skip


def filter_of(machine: str) -> bytes:
    """The filter for ``machine`` (``platform.machine()``), as bubblewrap's ``--seccomp`` reads it.

    :raises KeyError: if the numbers of the machine's system calls are not known here
    """
    return b"".join(_filter_program(MACHINES[machine]))


def _filter_program(machine: _Machine) -> Iterator[bytes]:
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_EQUAL, machine.audit, 1, 0)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    if machine is MACHINES["x86_64"]:
        yield _instruction(_AT_LEAST, _X32, 0, 1)
        yield _instruction(_RETURN, _REFUSE | errno.ENOSYS)
    for numbers, error in ((machine.refused, errno.EPERM), (machine.absent, errno.ENOSYS)):
        for number in numbers.values():
            yield _instruction(_EQUAL, number, 0, 1)
            yield _instruction(_RETURN, _REFUSE | error)
    yield from _clone(machine.clone)
    yield from _socket(machine.socket)
    yield _instruction(_RETURN, _SECCOMP_ALLOW)


def _clone(number: int) -> Iterator[bytes]:
    """Threads and processes, but no namespaces; leaves the number loaded unless it answers."""
    yield _instruction(_EQUAL, number, 0, 4)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield _instruction(_ANY_BIT, _NEW_NAMESPACES, 0, 1)
    yield _instruction(_RETURN, _REFUSE | errno.EPERM)
    yield _instruction(_RETURN, _SECCOMP_ALLOW)


def _socket(number: int) -> Iterator[bytes]:
    families = len(_FAMILIES)
    yield _instruction(_EQUAL, number, 0, families + 2)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    for place, family in enumerate(_FAMILIES):
        yield _instruction(_EQUAL, family, families - place, 0)
    yield _instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT)


def _instruction(operation: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(operation, if_true, if_false, operand)


#: Where the job starts, and its home: a folder in memory, of bounded size, gone with it.
WORKDIR = Path("/tmp/work")  # noqa: S108

#: What a job finds in ``/etc``: what the loader and the C library read, and no secret.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "os-release")

#: Libraries size their thread pools by these.
_TOPOLOGY = ("/sys/devices/system/cpu", "/sys/devices/system/node")


def walls(
    readable: Sequence[Path], devices: Sequence[Path], *, notes: Path, disk_bytes: int | None
) -> Iterator[str]:
    """Namespaces of its own, the system and ``readable`` read-only, and bounded memory to write.

    :param notes: the folder with the job's ``passwd`` and ``group``
    """
    yield from _namespaces()
    yield from _system(notes)
    yield from _writable(disk_bytes or 0)
    yield from _readable(readable)
    yield from _devices(devices)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _namespaces() -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--hostname", "job")
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if os.geteuid() != 0:
        yield "--unshare-user"


def _system(notes: Path) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for folder in ("/etc", "/sys", "/sys/devices", "/sys/devices/system"):
        yield from ("--perms", "0755", "--dir", folder)
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for name in ("passwd", "group"):
        yield from ("--ro-bind", str(notes / name), f"/etc/{name}")
    for folder in _TOPOLOGY:
        yield from ("--ro-bind-try", folder, folder)
    yield from ("--proc", "/proc", "--dev", "/dev")


def _writable(size: int) -> Iterator[str]:
    """Folders in memory: three quarters to ``/tmp``, a quarter to what processes share."""
    for folder, share in (("/tmp", size - size // 4), ("/dev/shm", size // 4)):  # noqa: S108
        yield from ("--perms", "1777", *(("--size", str(share)) if share else ()))
        yield from ("--tmpfs", folder)
    yield from ("--perms", "0777", "--dir", str(WORKDIR))


def _readable(paths: Sequence[Path]) -> Iterator[str]:
    """Each at its own path; bubblewrap would close the folders above them to the job's user."""
    folders = {folder for path in paths for folder in path.parents}
    for folder in sorted(folders, key=lambda it: len(it.parts)):
        yield from ("--perms", "0755", "--dir", str(folder))
    for path in paths:
        yield from ("--ro-bind", str(path), str(path))


def _devices(devices: Sequence[Path]) -> Iterator[str]:
    for device in devices:
        yield from ("--dev-bind", str(device), str(device))
    if devices:  # a GPU's driver finds its card there
        yield from ("--ro-bind", "/sys", "/sys")


#: Users of jobs that root starts: far above those that systems hand out
#: (systemd, "Users, Groups, UIDs and GIDs"), else those just below 65536.
_USERS = 0x7000_0000
_FEW_USERS = 60_000
_USERS_A_RUNNER = 64
_turns = itertools.count()

_OPEN_FILES = 1024
_SIGNALLED = 128
_PROBE_S = 30.0

#: The kernel ends the job, not its neighbours, when memory is short; the filter goes in as
#: descriptor 9. Both are inherited by all that follows.
_START = 'echo 1000 >/proc/self/oom_score_adj; exec 9<"$1"; shift; exec "$@"'

#: What programs see that put up the walls: nothing of the job's.
_OUR_VARIABLES = ("--clearenv", "--setenv", "PATH", "/usr/bin:/bin")

#: How the programs that put up the sandbox begin what they say.
_REFUSALS = re.compile(rb"(?:bwrap|setpriv|prlimit): ")

_INSTALL = "install bubblewrap and util-linux (setpriv, prlimit) with the system's package manager"
_ALLOW = (
    "bubblewrap needs user namespaces: see that sysctl user.max_user_namespaces is above 0, and "
    "kernel.unprivileged_userns_clone 1 and kernel.apparmor_restrict_unprivileged_userns 0 where "
    "the system has them; in a container, that it may make namespaces"
)


class CannotConfine(ProjectError):
    """A submitted script cannot be run here, since nothing would hold it."""

    def __init__(self, message: str, hint: str = _INSTALL) -> None:
        super().__init__(f"submitted scripts cannot be confined here: {message}")
        self.hint = hint


def require_confinement() -> None:
    """See that walls can be put up, by putting them up once around ``true``.

    :raises CannotConfine: with what to install or to allow
    """
    with tempfile.TemporaryDirectory(prefix="confinement-") as folder:
        command = confined(["/bin/true"], workdir=Path(folder), readable=[], limits=CONFINED)
        try:
            done = subprocess.run(
                command, env={}, capture_output=True, timeout=_PROBE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotConfine(str(error), _ALLOW) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise CannotConfine(said or f"exit code {done.returncode}", _ALLOW)


def interpreter_folders(python: Path) -> list[Path]:
    """What ``python`` reads to run: its environment, and programs and libraries below that.

    Of an installation no more, since its folder may be ``~/.local`` with all that is in it.
    The interpreter is not asked: what is installed in an environment would run outside.
    """
    environment, base = python.absolute().parents[1], python.resolve().parents[1]
    own = [environment] if (environment / "pyvenv.cfg").is_file() else []
    folders = [*own, *(base / it for it in ("bin", "lib"))]
    return [it for it in folders if it.is_dir() and not it.is_relative_to("/usr")]


def confined(
    command: Sequence[str],
    *,
    workdir: Path,
    readable: Sequence[Path],
    limits: JobLimits,
    environment: Mapping[str, str] | None = None,
    devices: Sequence[Path] = (),
) -> list[str]:
    """``command`` behind walls.

    Inside, ``readable`` is seen at its own paths, read-only, with the system's programs and
    libraries; ``/tmp`` and ``/dev/shm`` are memory and hold ``limits.disk_bytes`` together.
    The job has no network, no capabilities, and no user that anything else has. A signal
    that ends it shows as exit code 128 + number, see :func:`of_job`. What it stores in memory
    and the number of its processes over the whole group is for
    :class:`pis.amun.limit_watch.Watch` to hold.

    The returned command itself must be started with an environment of the runner's own:
    a variable of the job's, such as ``LD_PRELOAD``, must not reach programs outside.

    :param workdir: an empty folder of the job's outside, which it does not see
    :param readable: files and folders, each of which exists
    :param environment: all variables of the job but ``HOME`` and ``TMPDIR``, which are set here
    :param devices: device nodes that it gets, such as those of a GPU; normally none
    :raises CannotConfine: if a program that this needs is missing
    """
    if "=" in command[0]:  # `env` would take it for a variable
        raise CannotConfine(f"the path {command[0]} holds a '='", "use another path")
    notes = _notes(workdir, user := _user())
    variables = {**(environment or {}), "HOME": str(WORKDIR), "TMPDIR": "/tmp"}  # noqa: S108
    return [
        *(_program("sh"), "-c", _START, "confined", str(notes / "filter")),
        _program("bwrap"),
        *walls(readable, devices, notes=notes, disk_bytes=limits.disk_bytes),
        *("--chdir", str(WORKDIR), *_OUR_VARIABLES, "--seccomp", "9", "--"),
        *_dropped(user),
        *(_program("prlimit"), *_rlimits(limits, gpu=bool(devices)), "--"),
        *(_program("env"), "-i", "--"),
        *(f"{name}={value}" for name, value in variables.items()),
        *command,
    ]


def of_job(finished: Finished) -> Finished:
    """``finished`` said of the job: bubblewrap tells the signal that ended it as a shell does.

    A job that the sandbox's own programs refused never began. A script that prints what they
    print only loses its say.
    """
    refused = finished.exit_code and not finished.stdout and _REFUSALS.match(finished.stderr)
    if finished.ended is Ended.EXITED and refused:
        return replace(finished, ended=Ended.LAUNCH_FAILED)
    if finished.ended is not Ended.EXITED or finished.exit_code <= _SIGNALLED:
        return finished
    return replace(finished, ended=Ended.SIGNALLED, exit_code=_SIGNALLED - finished.exit_code)


def _program(name: str) -> str:
    found = which(name)
    if found is None:
        raise CannotConfine(f"{name} is not installed")
    return found


def _notes(workdir: Path, user: int) -> Path:
    """A folder with what bubblewrap reads: the filter, and who the job is."""
    machine = platform.machine()
    folder = workdir / ".confinement"
    folder.mkdir(mode=0o700)
    try:
        (folder / "filter").write_bytes(filter_of(machine))
    except KeyError:
        raise CannotConfine(f"no filter is known for {machine}", "use x86_64 or aarch64") from None
    (folder / "passwd").write_text(f"job:x:{user}:{user}::{WORKDIR}:/bin/sh\n", encoding="ascii")
    (folder / "group").write_text(f"job:x:{user}:\n", encoding="ascii")
    return folder


def _user() -> int:
    """Who the job is: ourselves, or, for root, a user that no other process has.

    JobLimits of processes are counted per user, and do not bind root.
    """
    if os.geteuid() != 0:
        return os.geteuid()
    place = os.getpid() * _USERS_A_RUNNER + next(_turns) % _USERS_A_RUNNER
    if _mapped(_USERS + place):
        return _USERS + place
    return _FEW_USERS + place % (65_000 - _FEW_USERS)


def _mapped(user: int) -> bool:
    """Whether the user exists in this user namespace; in a container, few do."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    return any(first <= user < first + count for first, count in ranges)


def _dropped(user: int) -> Iterator[str]:
    if os.geteuid() == 0:
        yield from (_program("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups")
        yield from ("--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all")
        yield from ("--bounding-set=-all", "--")


def _rlimits(limits: JobLimits, *, gpu: bool) -> Iterator[str]:
    """JobLimits of the kernel, each of one process but the number of them.

    Memory is held over the whole group by the watch; a process' own limit keeps one leap
    short. It counts what is asked for, not what is used, and libraries ask for much more:
    hence the factor. A GPU's driver asks for all there is.
    """
    cpu_s = math.ceil(limits.wall_s) * (os.cpu_count() or 1)
    yield from ("--core=0", f"--nofile={_OPEN_FILES}", f"--cpu={cpu_s}")
    if limits.processes is not None:
        # The namespace's first process counts too, and the watch is to see the limit reached.
        yield f"--nproc={limits.processes + 2}"
    if limits.file_bytes is not None:
        yield f"--fsize={limits.file_bytes}"
    if limits.memory_bytes is not None and not gpu:
        yield f"--data={2 * limits.memory_bytes + 2 * GIBIBYTE}"
