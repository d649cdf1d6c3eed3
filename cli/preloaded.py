"""The preloaded program: has loaded the modules of the commands that people wait for.

It listens on a socket in the home folder, and runs each command of :mod:`cli.start` in a fork of
itself; another fork waits for the end of the command. The program holds no connections, requests or
results: a fork is like a new process that imported its modules very quickly. It ends with the
embedded PostgreSQL of its home, or when the code changes.

Run as ``python -m cli.preloaded``.
"""

import fcntl
import io
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from cli.start import ACCEPTED, PRELOADED, REFUSED, peer_of, socket_path, store_runs
from common.settings import Settings
from model.errors import ProjectError
from pis.amun.hardware import processor_and_platform

#: What the commands import, at their start or on the way.
_MODULES = (
    "cli.advise", "cli.fix", "cli.guard", "cli.main", "cli.why", "encodings.idna",
    "graph.projection", "psycopg2.extras", "pynvml", "rich.console",
    "sqlalchemy.dialects.postgresql.psycopg2",
)  # fmt: skip
#: Rooms whose modules the program may load.
_ROOMS = ("adviser", "cli", "common", "graph", "ingest", "model", "pis")
#: Seconds between two checks of the store, and for a client to say what it wants.
_EVERY_S, _PATIENCE_S = 2.0, 5.0
#: Maximum bytes of a request; an environment has at most 2 MB.
_LARGEST = 16 << 20
#: Variables that Python or libraries read when they are loaded.
_LOADED_WITH = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OPENSSL_", "SSL_")


def main() -> None:
    """Listen until the store ends or the code changes; end at once if another process listens."""
    settings = Settings.from_env()
    path = Path(socket_path(str(settings.home)))
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    code = code_state()
    for name in _MODULES:
        import_module(name)
    processor_and_platform()
    import gc

    gc.collect()
    gc.freeze()
    os.umask(0o077)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        inode = path.stat().st_ino
        listener.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while _is_at(path, inode) and store_runs(settings):
            while select.select([listener], [], [], _EVERY_S)[0]:
                connection, _ = listener.accept()
                # Without a fork (such as without memory), the client runs its command itself.
                with connection, suppress(OSError):
                    if peer_of(connection)[1] == os.getuid() and os.fork() == 0:
                        listener.close()
                        _answer(connection, path, code)
        if _is_at(path, inode):
            path.unlink(missing_ok=True)


def _is_at(path: Path, inode: int) -> bool:
    """Whether the socket of this program is still in its folder."""
    try:
        return path.stat().st_ino == inode
    except OSError:
        return False


def _answer(connection: socket.socket, path: Path, code: list[Any]) -> NoReturn:
    """Run the command of a client in a fork of this fork, and tell the client how it ended."""
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        request, files = _request(connection)
        client, _ = peer_of(connection)
        if code_state() != code:
            path.unlink(missing_ok=True)  # so that the program ends
        elif _is_like_this(request) and _limits(client) == _limits(os.getpid()):
            _take_over(request, files)
            process = os.fork()
            if process == 0:
                connection.close()
                _run()
            connection.sendall(ACCEPTED + process.to_bytes(8, "big"))
            status = _status_of(process, connection)
            connection.sendall(status.to_bytes(4, "big", signed=True))
            os._exit(0)
        connection.sendall(REFUSED)
    except (OSError, ValueError, KeyError, TypeError, ProjectError):
        pass
    finally:
        # Whatever happened, a fork must not go on as the program.
        os._exit(1)


def _status_of(process: int, connection: socket.socket) -> int:
    """Wait for the end of a command, and end it if its client has gone."""
    ended = os.pidfd_open(process)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(connection, select.POLLRDHUP)
    if ended not in dict(waiting.poll()):
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def code_state() -> list[Any]:
    """Size, time and inode of every module of the program, and the times of installed packages."""
    root = Path(__file__).parents[1]
    folders = [Path(it) for it in sorted(sys.path) if it.endswith("-packages")]
    state: list[Any] = [it.stat().st_mtime_ns for it in folders if it.is_dir()]
    for room in _ROOMS:
        state += sorted(_files(str(root / room)))
    return state


def _files(folder: str) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                about = entry.stat()
                yield entry.path, about.st_size, about.st_mtime_ns, about.st_ino


def _request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    connection.settimeout(_PATIENCE_S)
    head, files, _, _ = socket.recv_fds(connection, 8, 3)
    size = int.from_bytes(head, "big")
    if len(head) < 8 or len(files) < 3 or size > _LARGEST:
        raise ValueError("not a request")
    data = bytearray()
    while len(data) < size and (more := connection.recv(min(size - len(data), 1 << 20))):
        data += more
    connection.settimeout(None)
    return json.loads(data), files


def _is_like_this(request: dict[str, Any]) -> bool:
    """Whether the client would have loaded the same modules in the same way."""
    python = [sys.executable, sys.version, str(Path(__file__).parent)]
    return (
        request["python"] == python
        and request["arguments"][1] in PRELOADED
        and _loaded_with(request["environment"]) == _loaded_with(os.environ)
        and Settings.from_env(request["environment"]).preload
    )


def _limits(process: int) -> tuple[Any, ...]:
    """Limits, priority, processors and namespaces of a process, which its forks inherit."""
    about = Path("/proc", str(process))
    spaces = [(about / "ns" / it).readlink() for it in ("mnt", "net", "pid", "user")]
    priority = os.getpriority(os.PRIO_PROCESS, process)
    processors = os.sched_getaffinity(process)
    return (about / "limits").read_text("ascii"), priority, processors, spaces


def _loaded_with(environment: Any) -> dict[str, str]:
    return {name: it for name, it in environment.items() if name.startswith(_LOADED_WITH)}


def _take_over(request: dict[str, Any], files: list[int]) -> None:
    """Take over the files, folder, environment and limits of the client's process."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.argv = request["arguments"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        encoding, errors = request["encodings"][number]
        mode = "rb" if number == 0 else "wb"
        raw = open(number, mode, closefd=False)  # noqa: SIM115 - until the end
        line_by_line = number == 2 or os.isatty(number)
        stream = io.TextIOWrapper(raw, encoding, errors, line_buffering=line_by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run() -> NoReturn:
    """Run the command as the console script does, but without freeing all modules at the end."""
    import atexit
    import gc
    import threading

    from cli.main import main as run_here

    # These commands run for seconds and leave no garbage in cycles.
    gc.disable()
    try:
        run_here()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
