"""A package index of our own on a free port, well behaved unless told otherwise."""

import base64
import gzip
import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.factories.archives import tar_of
from tests.services.web import Quiet, answer, serve

USER, PASSWORD = "reader", "hidden-word"
_AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
JSON = "application/vnd.pypi.simple.v1+json"

#: What answers a request in the index's place; it writes to ``handler`` what it likes.
Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(slots=True)
class Index:
    """Files by project; what is added is served at once.

    :param states: state and reason of projects (PEP 792), by name
    :param facts: further keys of a file's entry on the page, by file name
    :param beside: metadata files offered beside files (PEP 658), by file name
    :param answers: what answers instead, by path; a list is used up, and then the index is itself
    :param seen: path and headers of every request
    """

    port: int = 0
    protected: bool = True
    json: bool = False
    ranges: bool = False
    validators: bool = False
    packed: bool = False
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    beside: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, list[Answer] | Answer] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """With the password in it, if there is one."""
        credentials = f"{USER}:{PASSWORD}@" if self.protected else ""
        return f"http://{credentials}127.0.0.1:{self.port}/simple"

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [path for path, _ in self.seen]

    def add_wheel(
        self, name: str, version: str, text: str = "", *, metadata: str = "", padding: int = 0,
        beside: bool = False,
    ) -> str:  # fmt: skip
        """Serve a wheel with one module of ``text``; its hash.

        :param metadata: further lines of METADATA
        :param padding: bytes that no packing makes smaller, before METADATA
        :param beside: whether METADATA is served beside it, too
        """
        info = f"{name}-{version}.dist-info"
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        members = {
            f"{name}.py": text,
            f"{info}/METADATA": head + metadata,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            if padding:
                archive.writestr(f"{name}.so", bytes(padding))
            for path, content in members.items():
                archive.writestr(path, content)
        file = f"{name}-{version}-py3-none-any.whl"
        if beside:
            self.offer_metadata(file, (head + metadata).encode())
        return self.add_file(name, file, packed.getvalue())

    def add_source(
        self, name: str, version: str, setup: str = "", *, information: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """Serve a source distribution, whose ``setup.py`` is ``setup``; its hash.

        :param information: the whole of PKG-INFO; by default a build decides the requirements
        :param more: content of further files by path
        """
        head = f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\nDynamic: Requires-Dist\n"
        information = head if information is None else information
        files = {"setup.py": setup, "PKG-INFO": information, **(more or {})}
        packed = tar_of({f"{name}-{version}/{path}": text for path, text in files.items()})
        return self.add_file(name, f"{name}-{version}.tar.gz", packed)

    def add_file(self, name: str, file: str, data: bytes, **facts: Any) -> str:
        """Serve any file; its hash. ``facts`` are further keys of its entry."""
        self.files.setdefault(name, {})[file] = data
        self.facts.setdefault(file, {}).update(facts)
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    def offer_metadata(self, file: str, data: bytes, **facts: Any) -> None:
        """Serve a metadata file beside a file."""
        self.beside[file] = data
        promised = {"core-metadata": {"sha256": hashlib.sha256(data).hexdigest()}}
        self.facts.setdefault(file, {}).update(promised | facts)

    def page(self, name: str) -> tuple[str, bytes]:
        """Content type and text of a project's page."""
        if not self.json:
            links = (f'<a href="/files/{name}/{it}">{it}</a>' for it in self.files[name])
            text = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>"
            return "text/html", text.encode()
        entries = [self._entry(name, file, data) for file, data in self.files[name].items()]
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": entries}
        if name in self.states:
            page["project-status"] = self.states[name]
        return JSON, json.dumps(page).encode()

    def _entry(self, name: str, file: str, data: bytes) -> dict[str, Any]:
        entry = {
            "filename": file,
            "url": f"/files/{name}/{file}",
            "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
            "size": len(data),
        }
        return entry | self.facts.get(file, {})

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Content type and bytes of what lies at ``path``."""
        parts = path.strip("/").split("/")
        if len(parts) == 2 and parts[1] in self.files:
            return self.page(parts[1])
        if len(parts) != 3:
            return None
        beside = self.beside.get(parts[2].removesuffix(".metadata"))
        data = self.files.get(parts[1], {}).get(parts[2], beside)
        return None if data is None else ("application/octet-stream", data)

    def instead(self, path: str) -> Answer | None:
        """What answers a request for ``path`` in the index's place."""
        answers = self.answers.get(path)
        if isinstance(answers, list):
            return answers.pop(0) if answers else None
        return answers


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer with this status; underscores in names of headers stand for dashes."""
    return lambda handler: answer(handler, code, body, **headers)


def raw(data: bytes) -> Answer:
    """These bytes, and then the end of the connection."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def silent(handler: BaseHTTPRequestHandler) -> None:
    """No answer, until the index closes."""
    handler.served.closing.wait()  # type: ignore[attr-defined]


def half_open(handler: BaseHTTPRequestHandler) -> None:
    """The beginning of an answer, and then nothing."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    silent(handler)


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """An answer byte by byte, which would take minutes."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while not handler.served.closing.wait(0.05):  # type: ignore[attr-defined]
        handler.wfile.write(b" ")


@contextmanager
def package_index(**behaviour: Any) -> Iterator[Index]:
    """An empty index that answers whoever knows the password, or as ``behaviour`` says."""
    index = Index(**behaviour)

    class Handler(_Handler):
        served = index
        protocol_version = "HTTP/1.1" if index.json else "HTTP/1.0"

    server = _at_new_port(Handler)
    index.port = server.server_port
    with serve(server):
        try:
            yield index
        finally:
            index.closing.set()


#: Ports of the indexes of this process. Caches know indexes by their addresses, and some outlive
#: a test.
_ports: set[int] = set()


def _at_new_port(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """A server at a port that no index of this process had."""
    while (server := ThreadingHTTPServer(("127.0.0.1", 0), handler)).server_port in _ports:
        server.server_close()
    _ports.add(server.server_port)
    return server


class _Handler(Quiet, BaseHTTPRequestHandler):
    served: Index
    #: A client that ends a test with an open connection does not keep its thread.
    timeout = 5

    def do_GET(self) -> None:
        index = self.served
        index.seen.append((self.path, {key.lower(): it for key, it in self.headers.items()}))
        instead = index.instead(self.path)
        if instead is not None:
            instead(self)
        elif index.protected and self.headers.get("Authorization") != _AUTHORIZATION:
            status(401, WWW_Authenticate='Basic realm="index"')(self)
        elif (content := index.answer(self.path)) is None:
            status(404)(self)
        else:
            self._serve(*content)

    def _serve(self, kind: str, data: bytes) -> None:
        index, headers = self.served, {"Content_Type": kind}
        if index.validators:
            headers["ETag"] = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            if self.headers.get("If-None-Match") == headers["ETag"]:
                return status(304, b"", **headers)(self)
        part = self.headers.get("Range") if index.ranges else None
        if part is not None:
            return self._serve_part(part, data, headers)
        if index.packed and "gzip" in self.headers.get("Accept-Encoding", ""):
            data, headers["Content_Encoding"] = gzip.compress(data), "gzip"
        return status(200, data, **headers)(self)

    def _serve_part(self, part: str, data: bytes, headers: dict[str, str]) -> None:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", part)
        first, last = match.groups() if match else ("", "")
        start = int(first) if first else max(0, len(data) - int(last or 0))
        end = min(int(last), len(data) - 1) if first and last else len(data) - 1
        if start > end:
            return status(416, Content_Range=f"bytes */{len(data)}")(self)
        headers["Content_Range"] = f"bytes {start}-{end}/{len(data)}"
        return status(206, data[start : end + 1], **headers)(self)
