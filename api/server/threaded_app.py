"""The application as ASGI: the event loop reads requests and sends responses, threads run them.

A client that sends or reads slowly holds no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from flask import Flask
from werkzeug.test import run_wsgi_app

from api.http.request_bodies import LATE, body_limit

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
            with SpooledTemporaryFile(_MEMORY_BYTES) as body:
                environ = _environ(scope)
                if not await self._read(receive, environ, body):
                    return
                threads = self._probes if scope["path"] in _PROBES else self._threads
                parts, status, headers = await asyncio.get_running_loop().run_in_executor(
                    threads, lambda: run_wsgi_app(self._app, environ, buffered=True)
                )
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
