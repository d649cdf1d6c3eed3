"""A package index of our own on a free port, behind a password."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USER, PASSWORD = "reader", "hidden-word"
_AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dataclass(slots=True)
class Index:
    """Files by project; what is added is served at once."""

    port: int = 0
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """With the password in it."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self.port}/simple"

    def add_wheel(self, name: str, version: str, text: str = "") -> str:
        """Serve a wheel with one module of ``text``; its hash."""
        info = f"{name}-{version}.dist-info"
        members = {
            f"{name}.py": text,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for path, content in members.items():
                archive.writestr(path, content)
        return self._serve(name, f"{name}-{version}-py3-none-any.whl", packed.getvalue())

    def add_source(self, name: str, version: str, setup: str) -> str:
        """Serve a source distribution, whose ``setup.py`` is ``setup``; its hash."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, content in {
                "setup.py": setup,
                "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            }.items():
                member = tarfile.TarInfo(f"{name}-{version}/{path}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))
        return self._serve(name, f"{name}-{version}.tar.gz", packed.getvalue())

    def _serve(self, name: str, file: str, data: bytes) -> str:
        self.files.setdefault(name, {})[file] = data
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    def answer(self, path: str) -> bytes | None:
        """What lies at ``path``."""
        parts = path.strip("/").split("/")
        if len(parts) == 2 and parts[1] in self.files:
            links = (f'<a href="/files/{parts[1]}/{it}">{it}</a>' for it in self.files[parts[1]])
            return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
        if len(parts) == 3:
            return self.files.get(parts[1], {}).get(parts[2])
        return None


@contextmanager
def package_index() -> Iterator[Index]:
    """An empty index that answers whoever knows the password."""
    index = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers.get("Authorization") == _AUTHORIZATION
            content = index.answer(self.path) if allowed else b""
            self.send_response(401 if not allowed else 404 if content is None else 200)
            if not allowed:
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
            kind = "text/html" if self.path.startswith("/simple") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
