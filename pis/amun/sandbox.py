"""Runs submitted scripts in a bubblewrap sandbox with its own processes, files, network and user.

The sandbox needs no daemon and no set-up: :func:`sandbox_command` turns a command into one that
runs in the sandbox, for root and for ordinary users. ``docs/guides/launchers.md`` lists what the
sandbox prevents and what it does not. A seccomp filter closes the gaps that namespaces and limits
leave. It forbids new user namespaces, in which a job could mount unlimited memory. It also forbids
memory that belongs to no process, because such memory is not counted, and socket families without a
namespace.
"""

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

from model.errors import ProjectError
from pis.amun.jobs import FinishedJob, JobEnd
from pis.amun.processes import CONFINED, GIBIBYTE, SIGNAL_EXIT_CODE, JobLimits

#: ``struct sock_filter``: operation, jump if true, jump if false, operand (linux/filter.h).
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

#: Offsets in ``struct seccomp_data``: the low word of an argument on a little-endian machine.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

_KILL, _REFUSE, _SECCOMP_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h

#: All ``CLONE_NEW…`` flags that ``clone`` takes (linux/sched.h).
_NEW_NAMESPACES = 0x7E020000

#: Unix, IPv4, IPv6 and netlink: the families that a network namespace isolates. Others lead out
#: of it; vsock, for example, connects a virtual machine to its host.
_FAMILIES = (1, 2, 10, 16)

#: On x86-64, calls with 32-bit pointers (the x32 ABI) are numbered from here.
_X32 = 0x40000000


#: System calls that fail with ``EPERM``: their numbers on x86-64 and on 64-bit Arm (the kernel's
#: ``asm/unistd.h``).
REFUSED_CALLS = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "ptrace": (101, 117), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "syslog": (103, 116),
}  # fmt: skip
#: System calls that fail with ``ENOSYS``, so that libraries use their fallback.
ABSENT_CALLS = {
    "clone3": (435, 435), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "msgget": (68, 186), "io_uring_setup": (425, 425),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Machine:
    """An architecture and its system call numbers.

    :param column: of its numbers in the tables above
    :param audit: identifier of the architecture, ``AUDIT_ARCH_…`` (linux/audit.h)
    """

    column: int
    audit: int
    clone: int
    socket: int


MACHINES = {
    "x86_64": _Machine(0, audit=0xC000003E, clone=56, socket=41),
    "aarch64": _Machine(1, audit=0xC00000B7, clone=220, socket=198),
}


def filter_of(machine: str) -> bytes:
    """Return the filter for ``machine`` (``platform.machine()``) for bubblewrap's ``--seccomp``.

    :raises KeyError: if :data:`MACHINES` lacks the machine
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
    for calls, error in ((REFUSED_CALLS, errno.EPERM), (ABSENT_CALLS, errno.ENOSYS)):
        for numbers in calls.values():
            yield _instruction(_EQUAL, numbers[machine.column], 0, 1)
            yield _instruction(_RETURN, _REFUSE | error)
    # New threads and processes, but no new namespaces.
    yield _instruction(_EQUAL, machine.clone, 0, 4)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield _instruction(_ANY_BIT, _NEW_NAMESPACES, 0, 1)
    yield _instruction(_RETURN, _REFUSE | errno.EPERM)
    yield _instruction(_RETURN, _SECCOMP_ALLOW)
    families = len(_FAMILIES)
    yield _instruction(_EQUAL, machine.socket, 0, families + 2)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    for place, family in enumerate(_FAMILIES):
        yield _instruction(_EQUAL, family, families - place, 0)
    yield _instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT)
    yield _instruction(_RETURN, _SECCOMP_ALLOW)


def _instruction(operation: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(operation, if_true, if_false, operand)


#: The job's working folder and home: in memory, of limited size, deleted with the job.
WORKDIR = Path("/tmp/work")  # noqa: S108

#: Files in ``/etc`` that a job sees: those that the loader and the C library read, no secrets.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "os-release")

#: Libraries read these to size their thread pools.
_TOPOLOGY = ("/sys/devices/system/cpu", "/sys/devices/system/node")


def sandbox_options(
    readable: Sequence[Path], devices: Sequence[Path], *, support: Path, disk_bytes: int | None
) -> Iterator[str]:
    """Yield bubblewrap's options: new namespaces, read-only files, limited writable memory.

    :param support: the folder with the job's ``passwd`` and ``group``
    """
    yield from ("--die-with-parent", "--new-session", "--hostname", "job")
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield "--unshare-cgroup-try"
    if os.geteuid() != 0:
        yield "--unshare-user"
    yield from _system(support)
    # In memory: ``/tmp`` with three quarters, ``/dev/shm`` with one quarter.
    size = disk_bytes or 0
    for folder, share in (("/tmp", size - size // 4), ("/dev/shm", size // 4)):  # noqa: S108
        yield from ("--perms", "1777", *(("--size", str(share)) if share else ()))
        yield from ("--tmpfs", folder)
    yield from ("--perms", "0777", "--dir", str(WORKDIR))
    # At the same places as outside. The parent folders are made first; otherwise, bubblewrap would
    # make them unreadable for the job's user.
    folders = {folder for path in readable for folder in path.parents}
    for parent in sorted(folders, key=lambda folder: len(folder.parts)):
        yield from ("--perms", "0755", "--dir", str(parent))
    for path in readable:
        yield from ("--ro-bind", str(path), str(path))
    for device in devices:
        yield from ("--dev-bind", str(device), str(device))
    if devices:  # a GPU's driver looks for its card in /sys
        yield from ("--ro-bind", "/sys", "/sys")
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _system(support: Path) -> Iterator[str]:
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
        yield from ("--ro-bind", str(support / name), f"/etc/{name}")
    for folder in _TOPOLOGY:
        yield from ("--ro-bind-try", folder, folder)
    yield from ("--proc", "/proc", "--dev", "/dev")


#: User IDs of jobs that root starts: far above those that systems assign
#: (systemd, "Users, Groups, UIDs and GIDs"). A container may have none of these; then IDs
#: just below 65536.
_FIRST_USER = 0x7000_0000
_FIRST_CONTAINER_USER = 60_000
_USERS_PER_RUNNER = 64
_job_counter = itertools.count()

_OPEN_FILES = 1024
_PROBE_S = 30.0

#: When memory is short, the kernel kills the job rather than other processes; the filter is
#: passed as descriptor 9. The programs that follow inherit both.
_START = 'echo 1000 >/proc/self/oom_score_adj; exec 9<"$1"; shift; exec "$@"'

#: The environment of the programs that make the sandbox: no variable of the job's.
_OUR_VARIABLES = ("--clearenv", "--setenv", "PATH", "/usr/bin:/bin")

#: How the error messages of the programs that make the sandbox begin.
_REFUSALS = re.compile(rb"(?:bwrap|setpriv|prlimit): ")

_INSTALL = "install bubblewrap and util-linux (setpriv, prlimit) with the system's package manager"
_ALLOW = (
    "bubblewrap needs user namespaces: set sysctl user.max_user_namespaces above 0 and, where "
    "they exist, kernel.unprivileged_userns_clone=1 and "
    "kernel.apparmor_restrict_unprivileged_userns=0; a container needs the right to create "
    "namespaces"
)


class CannotConfine(ProjectError):
    """Submitted scripts are refused on this machine, because it cannot make a sandbox."""

    def __init__(self, message: str, hint: str = _INSTALL) -> None:
        super().__init__(f"submitted scripts cannot be confined here: {message}")
        self.hint = hint


def require_confinement() -> None:
    """Check that this machine can make a sandbox, by running ``true`` in it.

    :raises CannotConfine: the hint says what to install or to allow
    """
    with tempfile.TemporaryDirectory(prefix="confinement-") as folder:
        command = sandbox_command(["/bin/true"], workdir=Path(folder), readable=[], limits=CONFINED)
        try:
            done = subprocess.run(
                command, env={}, capture_output=True, timeout=_PROBE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotConfine(str(error), _ALLOW) from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise CannotConfine(message or f"exit code {done.returncode}", _ALLOW)


def interpreter_folders(python: Path) -> list[Path]:
    """Return the folders that ``python`` reads: its environment, and its installation.

    Only ``bin`` and ``lib`` of the installation are readable, because the installation may share
    ``~/.local`` with other data. The function finds the folders without starting the interpreter,
    because packages of the environment would then run unconfined.
    """
    environment, base = python.absolute().parents[1], python.resolve().parents[1]
    own = [environment] if (environment / "pyvenv.cfg").is_file() else []
    folders = [*own, base / "bin", base / "lib"]
    return [path for path in folders if path.is_dir() and not path.is_relative_to("/usr")]


def sandbox_command(
    command: Sequence[str],
    *,
    workdir: Path,
    readable: Sequence[Path],
    limits: JobLimits,
    environment: Mapping[str, str] | None = None,
    devices: Sequence[Path] = (),
) -> list[str]:
    """Return the command that runs ``command`` in the sandbox.

    Inside, ``readable`` and the system's programs and libraries are read-only, at the same paths as
    outside. ``/tmp`` and ``/dev/shm`` are in memory and have ``limits.disk_bytes`` together. The
    job has no network, no capabilities, and a user of its own. If a signal ends the job, the exit
    code is 128 plus the signal's number (:func:`end_of_job`). :class:`pis.amun.limit_watch.Watch`
    enforces the limits on memory and processes over all processes of the job.

    Start the returned command with the runner's own environment, because a variable of the job,
    such as ``LD_PRELOAD``, must not reach programs outside the sandbox.

    :param workdir: an empty folder outside, which the job does not see
    :param readable: existing files and folders
    :param environment: all variables of the job except ``HOME`` and ``TMPDIR``, which are set here
    :param devices: device nodes that the job may use, such as those of a GPU; normally none
    :raises CannotConfine: if a program is missing
    """
    if "=" in command[0]:  # `env` would read it as a variable
        raise CannotConfine(f"the path {command[0]} contains a '='", "use another path")
    support = _support_folder(workdir, user := _job_user())
    # If several programs are missing, an error names the first.
    shell, bubblewrap = _program("sh"), _program("bwrap")
    unprivileged: tuple[str, ...] = ()
    if os.geteuid() == 0:
        unprivileged = (
            _program("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups",
            "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--",
        )  # fmt: skip
    variables = {**(environment or {}), "HOME": str(WORKDIR), "TMPDIR": "/tmp"}  # noqa: S108
    return [
        *(shell, "-c", _START, "confined", str(support / "filter")),
        bubblewrap,
        *sandbox_options(readable, devices, support=support, disk_bytes=limits.disk_bytes),
        *("--chdir", str(WORKDIR), *_OUR_VARIABLES, "--seccomp", "9", "--"),
        *unprivileged,
        *(_program("prlimit"), *_rlimits(limits, gpu=bool(devices)), "--"),
        *(_program("env"), "-i", "--"),
        *(f"{name}={value}" for name, value in variables.items()),
        *command,
    ]


def end_of_job(finished: FinishedJob) -> FinishedJob:
    """Return how the job ended, given how bubblewrap ended.

    Like a shell, bubblewrap reports a signal as 128 + the signal's number. If a program of the
    sandbox failed, the job was never launched. A script that imitates these messages only harms
    itself: its job counts as not launched.
    """
    refused = finished.exit_code and not finished.stdout and _REFUSALS.match(finished.stderr)
    if finished.ended is JobEnd.EXITED and refused:
        return replace(finished, ended=JobEnd.LAUNCH_FAILED)
    if finished.ended is not JobEnd.EXITED or finished.exit_code <= SIGNAL_EXIT_CODE:
        return finished
    return replace(
        finished, ended=JobEnd.SIGNALLED, exit_code=SIGNAL_EXIT_CODE - finished.exit_code
    )


def _program(name: str) -> str:
    path = which(name)
    if path is None:
        raise CannotConfine(f"{name} is not installed")
    return path


def _support_folder(workdir: Path, user: int) -> Path:
    """Write the files that bubblewrap reads: the filter, and the job's ``passwd`` and ``group``."""
    machine = platform.machine()
    folder = workdir / ".confinement"
    folder.mkdir(mode=0o700)
    try:
        (folder / "filter").write_bytes(filter_of(machine))
    except KeyError:
        message = f"there is no system-call filter for {machine}"
        raise CannotConfine(message, "use x86_64 or aarch64") from None
    (folder / "passwd").write_text(f"job:x:{user}:{user}::{WORKDIR}:/bin/sh\n", encoding="ascii")
    (folder / "group").write_text(f"job:x:{user}:\n", encoding="ascii")
    return folder


def _job_user() -> int:
    """Return the job's user ID: our own or, if we are root, an ID that no other process has.

    The kernel counts processes per user, and does not limit root.
    """
    if os.geteuid() != 0:
        return os.geteuid()
    offset = os.getpid() * _USERS_PER_RUNNER + next(_job_counter) % _USERS_PER_RUNNER
    if _is_mapped(_FIRST_USER + offset):
        return _FIRST_USER + offset
    return _FIRST_CONTAINER_USER + offset % (65_000 - _FIRST_CONTAINER_USER)


def _is_mapped(user: int) -> bool:
    """Whether this user namespace contains the user; in containers, few users exist."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    return any(first <= user < first + count for first, count in ranges)


def _rlimits(limits: JobLimits, *, gpu: bool) -> Iterator[str]:
    """Yield the kernel's limits, all per process except the limit on the number of processes.

    The watch limits the memory of all processes together. The limit of each process stops a sudden
    allocation before the watch sees it. The kernel's limit counts reserved memory. Libraries use
    only a part of it, which is the reason for the factor. The driver of a GPU reserves everything,
    so this limit does not apply to jobs on GPUs.
    """
    cpu_s = math.ceil(limits.wall_s) * (os.cpu_count() or 1)
    yield from ("--core=0", f"--nofile={_OPEN_FILES}", f"--cpu={cpu_s}")
    if limits.processes is not None:
        # The namespace's first process counts, and the watch must be able to see the limit reached.
        yield f"--nproc={limits.processes + 2}"
    if limits.file_bytes is not None:
        yield f"--fsize={limits.file_bytes}"
    if limits.memory_bytes is not None and not gpu:
        yield f"--data={2 * limits.memory_bytes + 2 * GIBIBYTE}"
