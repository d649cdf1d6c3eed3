"""The HTTP server: gunicorn in this process, with an application in each worker process.

In a worker, the event loop reads requests and sends responses, and threads run them: a client that
sends or reads slowly holds no thread.
"""

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Thread
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers.gasgi import ASGIWorker
from werkzeug.datastructures import Headers
from werkzeug.test import run_wsgi_app

from api.http.request_context import LATE, body_limit, is_loopback
from api.server.supervisor import keeping_stores
from api.store_access import EXTENSION, ServiceStores
from common.settings import Settings
from common.tracing import stop_tracing
from model.errors import ServiceFailed

#: Time for running requests to finish after the signal to stop, s.
GRACE_S = 20
#: A worker process whose event loop hangs for this long is replaced, s.
_HANG_TIMEOUT_S = 60
_BACKLOG = 1024
#: Time for a request that is on its way when a process ends, s.
_LINGER_S = 0.5
#: Signals that end a worker process.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_NAME = "the server"

_LOG = logging.getLogger(__name__)
#: Time limit for a client to send a body, s, ...
BODY_S = 10.0
#: ... extended by a second for each so many bytes.
BYTES_PER_S = 16_384
#: Larger bodies are kept in a temporary file.
_MEMORY_BYTES = 262_144
#: Paths that get threads of their own: all others may be in use.
_PROBES = frozenset({"/livez", "/liveness"})
_PROBE_THREADS = 2

Message = dict[str, Any]


class ThreadedApp:
    """A Flask application for an ASGI server.

    :param threads: number of concurrent requests
    """

    def __init__(self, app: Flask, threads: int) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(threads, "request")
        self._probes = ThreadPoolExecutor(_PROBE_THREADS, "liveness")
        #: Requests that are read, run or answered.
        self.running = 0

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        self.running += 1
        try:
            # Not closed at the end of this block: if the client leaves, a thread may still read it.
            body = SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115
            environ = _environ(scope)
            if not await self._read(receive, environ, body):
                body.close()
                return
            threads = self._probes if scope["path"] in _PROBES else self._threads

            def run() -> tuple[Iterable[bytes], str, Headers]:
                with body:
                    return run_wsgi_app(self._app, environ, buffered=True)

            parts, status, headers = await asyncio.get_running_loop().run_in_executor(threads, run)
            fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            await send(
                {"type": "http.response.start", "status": int(status[:3]), "headers": fields}
            )
            await send({"type": "http.response.body", "body": b"".join(parts)})
        finally:
            self.running -= 1

    async def _read(
        self, receive: Callable[[], Awaitable[Message]], environ: dict[str, Any], body: IO[bytes]
    ) -> bool:
        """Read a body for ``environ``; return whether the client is still there.

        A body that is too large or too late is not read to its end; the application refuses it.
        """
        environ["wsgi.input"] = body
        limit = body_limit(self._app, environ["PATH_INFO"])
        if int(environ.get("CONTENT_LENGTH", 0)) > limit:
            return True
        size, more, begin = 0, True, asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(BODY_S) as deadline:
                while more and size <= limit:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    size += body.write(message.get("body", b""))
                    more = message.get("more_body", False)
                    if deadline.expired():
                        # Before Python 3.12, asyncio drops a cancellation if data comes with it.
                        raise TimeoutError
                    deadline.reschedule(begin + BODY_S + size / BYTES_PER_S)
        except TimeoutError:
            environ[LATE] = True
        environ["CONTENT_LENGTH"] = str(size)
        body.seek(0)
        return True


def _environ(scope: Message) -> dict[str, Any]:
    host, port = scope["server"] or ("localhost", 0)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "REMOTE_ADDR": scope["client"][0] if scope["client"] else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        if name == "TRANSFER_ENCODING":
            continue  # the body has a length once it is read
        key = name if name in {"CONTENT_LENGTH", "CONTENT_TYPE"} else f"HTTP_{name}"
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    return environ


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the HTTP server.

    :param certificate: and ``key``: PEM files; ``None`` without TLS
    :param behind_proxy: whether to trust the ``X-Forwarded-*`` headers of one proxy
    :param fetch_missing: as for :func:`api.app.create_app`
    """

    workers: int
    threads: int
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    fetch_missing: bool = False


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free port.

    :raises ServiceFailed: if the address cannot be used
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        # The message of Python repeats the address.
        message = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        hint = "choose another --port or --host, or stop what listens there"
        raise ServiceFailed(_NAME, f"{host}, port {port}: {message or error}", hint) from error


def is_private(listener: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    return is_loopback(str(listener.getsockname()[0]))


def check(settings: Settings, front: ServerOptions) -> None:
    """Create an application once before forking, to check the settings and share its imports.

    No connection is opened, because processes must not share connections. The caller sets up the
    metrics folder first.

    :raises InvalidSettings: if the settings are invalid
    """
    from api.app import create_app

    create_app(settings, behind_proxy=front.behind_proxy)


def serve(settings: Settings, front: ServerOptions, listener: socket.socket) -> None:
    """Serve requests until a signal to stop.

    :param listener: socket, which the server takes over
    :raises ServiceFailed: if the server cannot start
    """
    master = os.getpid()
    try:
        _Master(_Server(settings, front, listener.detach())).run()
    except SystemExit as ended:
        if os.getpid() != master:
            # A worker process ends at once, without the cleanup at exit, which is the master's.
            logging.shutdown()
            os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        if ended.code not in (0, None):
            raise ServiceFailed(_NAME, "could not start; its log says why") from ended


class _Log(Logger):
    """Sends gunicorn's log to the log of the service, which removes secrets."""

    def setup(self, cfg: Any) -> None:
        """Keep the log handlers of the service."""
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)

    def reopen_files(self) -> None:
        """Do nothing, because this log has no files."""


class _Loop(asyncio.SelectorEventLoop):
    async def create_server(  # type: ignore[override]
        self, *arguments: Any, sock: Any, **options: Any
    ) -> Any:
        """Accept one connection at a time, so that processes share simultaneous connections."""
        server = await super().create_server(*arguments, sock=sock, backlog=1, **options)
        sock.listen(_BACKLOG)
        return server


class _Worker(ASGIWorker):
    """Ends as soon as no request runs; clients that keep idle connections do not hold it up."""

    def _setup_event_loop(self) -> None:
        self.loop = _Loop()
        asyncio.set_event_loop(self.loop)

    def init_signals(self) -> None:
        """Handle signals, also those that came since the fork."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)

    def handle_exit_signal(self) -> None:
        """Stop listening, and end once all running requests are answered."""
        super().handle_exit_signal()
        self._end = self.loop.create_task(self._end_when_idle())

    async def _end_when_idle(self) -> None:
        await asyncio.sleep(_LINGER_S)
        while self.asgi.running:
            await asyncio.sleep(_LINGER_S)
        self.handle_quit_signal()


class _Master(Arbiter):
    """Starts worker processes that lose no signal."""

    def spawn_worker(self) -> Any:
        """Hold back signals until the new process handles them; its copy of the master's handlers
        would drop them, and the master would wait for :data:`GRACE_S`.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        try:
            return super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Server(BaseApplication):
    def __init__(self, settings: Settings, front: ServerOptions, descriptor: int) -> None:
        self._settings = settings
        self._front = front
        self._descriptor = descriptor
        self._opened = ExitStack()
        super().__init__(prog="thoth")

    def load_config(self) -> None:
        """Set the options that differ from gunicorn's defaults."""
        front = self._front
        chosen: dict[str, Any] = {
            "bind": f"fd://{self._descriptor}",
            "worker_class": _Worker,
            "workers": front.workers,
            "asgi_lifespan": "off",
            "graceful_timeout": GRACE_S,
            "timeout": _HANG_TIMEOUT_S,
            "keepalive": 15,
            # The application refuses URLs that are shorter than this and yet too long.
            "limit_request_line": 65_536,
            "proc_name": "thoth",
            "logger_class": _Log,
            # Only --behind-proxy decides whether to trust headers about the scheme.
            "forwarded_allow_ips": "",
            "control_socket_disable": True,
            "when_ready": lambda _server: _LOG.info("service_ready"),
            "child_exit": _ended,
            "worker_exit": lambda _server, _worker: self._opened.close(),
        }
        if front.certificate is not None:
            chosen |= {
                "certfile": str(front.certificate),
                "keyfile": str(front.key),
                "ssl_context": _ReloadedTls(),
            }
        if Path("/dev/shm").is_dir():  # noqa: S108 - gunicorn's own files, made safely
            chosen["worker_tmp_dir"] = "/dev/shm"  # noqa: S108
        for name, value in chosen.items():
            self.cfg.set(name, value)

    def load(self) -> ThreadedApp:
        """Create the application in each worker process, so that processes share no connections."""
        from api.app import create_app
        from api.health.monitoring import trace_process

        trace_process()
        self._opened.callback(stop_tracing)
        front = self._front
        app = create_app(
            self._settings, behind_proxy=front.behind_proxy, threads=front.threads,
            certificate=front.certificate, fetch_missing=front.fetch_missing,
        )  # fmt: skip
        stores: ServiceStores = app.extensions[EXTENSION]
        self._opened.callback(stores.close)
        Thread(target=stores.read_comparisons, name="comparisons", daemon=True).start()
        # Here rather than in the master: a thread of the master would not survive a fork.
        self._opened.enter_context(keeping_stores(self._settings))
        return ThreadedApp(app, front.threads)


class _ReloadedTls:
    """TLS contexts; a new one for each change of the files of the certificate."""

    def __init__(self) -> None:
        self._of: tuple[int, ...] | None = None
        self._context: ssl.SSLContext | None = None

    def __call__(self, config: Any, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        """:raises OSError: if the files are invalid, and none were loaded before"""
        try:
            files = tuple(Path(it).stat().st_mtime_ns for it in (config.certfile, config.keyfile))
            if self._context is not None and files == self._of:
                return self._context
            context = default()
        except OSError as error:
            # One of the two files may be missing, or replaced before the other.
            if self._context is None:
                raise
            _LOG.warning("certificate_unusable", extra={"error": str(error)})
            return self._context
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Called at each handshake, with or without the name of a server.
        context.sni_callback = lambda connection, *_: setattr(
            connection, "context", self(config, default)
        )
        self._of, self._context = files, context
        return context


def _ended(_server: Any, worker: Any) -> None:
    """Remove the gauges of an ended process; its counters stay."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
    _LOG.info("server_worker_ended", extra={"pid": worker.pid})
