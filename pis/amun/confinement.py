"""A submitted script's walls: its own processes, files, network and user, by bubblewrap.

Nothing here is a daemon or needs to be set up: :func:`confined` turns a command into one
that runs behind walls, as root and as an ordinary user alike. ``docs/guides/launchers.md``
says what they hold and what they do not.
"""

from __future__ import annotations

import itertools
import math
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which

from common.errors import ProjectError
from pis.amun.jobs import Ended, Finished
from pis.amun.limits import CONFINED, GIBIBYTE, Limits
from pis.amun.syscalls import filter_of
from pis.amun.walls import WORKDIR, walls

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
    limits: Limits,
    environment: Mapping[str, str] | None = None,
    devices: Sequence[Path] = (),
) -> list[str]:
    """``command`` behind walls.

    Inside, ``readable`` is seen at its own paths, read-only, with the system's programs and
    libraries; ``/tmp`` and ``/dev/shm`` are memory and hold ``limits.disk_bytes`` together.
    The job has no network, no capabilities, and no user that anything else has. A signal
    that ends it shows as exit code 128 + number, see :func:`of_job`. What it stores in memory
    and the number of its processes over the whole group is for
    :class:`pis.amun.watch.Watch` to hold.

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

    Limits of processes are counted per user, and do not bind root.
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


def _rlimits(limits: Limits, *, gpu: bool) -> Iterator[str]:
    """Limits of the kernel, each of one process but the number of them.

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
