"""The console script ``thoth``: runs a command in the preloaded program if there is one, or here.

Loading all modules takes longer than most commands. :mod:`cli.preloaded` has loaded them and runs
each command in a fork of itself, with the files, folder, environment and arguments of this process.
This module imports little, because it is all that such a command loads.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common.settings import Settings

#: Commands that run in the preloaded program: those that people wait for.
PRELOADED = frozenset({"advise", "fix", "guard", "why", "why-not"})
#: Options of commands that must not: a build runs under the limits of the process that wants it.
_OWN_PROCESS = frozenset({"--build"})
#: Commands after which the preloaded program is started.
_STARTING = PRELOADED | {"up", "migrate"}

#: First byte of the answer: the command runs, or it must run elsewhere.
ACCEPTED, REFUSED = b"+", b"-"
_ENDED_EXIT_CODE = 3
#: Maximum bytes of the path of a socket.
_LONGEST_PATH = 107
#: Bytes of an answer that accepts: the byte, and the identifier of the process.
_HEAD = 9


def main() -> None:
    """Run the command of this process."""
    arguments = sys.argv[1:]
    wanted = bool(arguments) and arguments[0] in PRELOADED and _OWN_PROCESS.isdisjoint(arguments)
    if wanted and sys.platform == "linux":
        status = _run_in_preloaded_program()
        if status is not None:
            sys.exit(status)
    from cli.main import main as run_here

    try:
        run_here()
    finally:
        if arguments and arguments[0] in _STARTING:
            start_preloaded()


def socket_path(home: str) -> str:
    """The socket of the preloaded program of a home folder."""
    return os.path.join(home, "run", "preloaded.socket")  # noqa: PTH118 - pathlib takes 10 ms


def _home() -> str:
    home = os.environ.get("THOTH_HOME")
    if home:
        return os.path.abspath(os.path.expanduser(home))  # noqa: PTH100, PTH111 - as above
    from platformdirs import user_data_dir

    return user_data_dir("thoth")


def _run_in_preloaded_program() -> int | None:
    """Exit status of the command; ``None`` if it did not start in the preloaded program."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(socket_path(_home()))
            if peer_of(connection)[1] != os.getuid():
                return None
            request = json.dumps(_this_process()).encode()
            head = len(request).to_bytes(8, "big")
            socket.send_fds(connection, [head], [0, 1, 2])
            connection.sendall(request)
            answer = _received(connection, _HEAD)
        except (OSError, ValueError):
            # There is none, it is just ending, or a standard file of this process is closed.
            return None
        if answer[:1] != ACCEPTED or len(answer) < _HEAD:
            return None
        return _wait(connection, int.from_bytes(answer[1:], "big"))


def _this_process() -> dict[str, Any]:
    mask = os.umask(0o077)
    os.umask(mask)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if None in streams:
        raise ValueError("standard input, output or error is closed")
    return {
        "python": [sys.executable, sys.version, os.path.dirname(__file__)],  # noqa: PTH120 - as above
        "encodings": [(it.encoding, it.errors) for it in streams],
        "arguments": sys.argv,
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 - as above
        "umask": mask,
    }


def _wait(connection: socket.socket, process: int) -> int:
    """Wait for the end of the command; signals of this process are sent to it."""

    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    answer = _received(connection, 4)
    if len(answer) < 4:
        forward(signal.SIGTERM, None)
        sys.stderr.write("error: the preloaded program has ended\nhint: run the command again\n")
        return _ENDED_EXIT_CODE
    status = int.from_bytes(answer, "big", signed=True)
    if status < 0:
        # It ended by a signal, and so does this process.
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _received(connection: socket.socket, size: int) -> bytes:
    """The next bytes; fewer at the end."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a connection."""
    size = 12
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user = (int.from_bytes(data[it : it + 4], sys.byteorder) for it in (0, 4))
    return process, user


def start_preloaded() -> None:
    """Start the preloaded program if the embedded PostgreSQL of this process's home runs."""
    if sys.platform != "linux":
        return
    from common.settings import Settings
    from graph.embedded.store_process import spawn
    from model.errors import ProjectError

    with suppress(ProjectError, OSError):
        settings = Settings.from_env()
        if not settings.preload or not store_runs(settings):
            return
        path = socket_path(str(settings.home))
        if len(path.encode()) > _LONGEST_PATH:
            return
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError:
                pass
            else:
                return
        run, logs = settings.home / "run", settings.home / "logs"
        spawn([sys.executable, "-P", "-m", "cli.preloaded"], logs / "preloaded.log", run)


def store_runs(settings: Settings) -> bool:
    """Whether the settings name the embedded PostgreSQL, and it is running."""
    from graph.embedded.postgresql import PostgreSQL
    from graph.embedded.start_stop import EmbeddedStores

    return settings.embedded_database and EmbeddedStores(settings).record_of(PostgreSQL) is not None


if __name__ == "__main__":
    main()
