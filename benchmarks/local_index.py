"""A package index on loopback, made of a metadata dump: real requirements in empty wheels.

Installers resolve against it exactly as they do against a real index, without its network.
"""

import hashlib
import html
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

Release = Mapping[str, Any]


def write_index(folder: Path, index: Mapping[str, Mapping[str, Release]]) -> None:
    """Pages by PEP 503, wheels, and their metadata beside them (PEP 658)."""
    files = folder / "files"
    files.mkdir(parents=True)
    for name, releases in index.items():
        links = [
            _link(files, name, version, release)
            for version, release in releases.items()
            if release["requires"] is not None and release["wheels"]
        ]
        page = folder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>")


def _link(files: Path, name: str, version: str, release: Release) -> str:
    stem = f"{name.replace('-', '_')}-{version}"
    wheel = files / f"{stem}-py3-none-any.whl"
    metadata = _metadata(name, version, release).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", metadata)
        archive.writestr(
            f"{stem}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    wheel.with_name(wheel.name + ".metadata").write_bytes(metadata)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    attributes = [f'data-core-metadata="sha256={hashlib.sha256(metadata).hexdigest()}"']
    if release["requires_python"]:
        attributes.append(f'data-requires-python="{html.escape(release["requires_python"])}"')
    if release["yanked"]:
        attributes.append('data-yanked=""')
    url = f"/files/{wheel.name}#sha256={digest}"
    return f'<a href="{url}" {" ".join(attributes)}>{wheel.name}</a>'


def _metadata(name: str, version: str, release: Release) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    if release["requires_python"]:
        lines.append(f"Requires-Python: {release['requires_python']}")
    lines.extend(f"Provides-Extra: {extra}" for extra in release["extras"])
    lines.extend(f"Requires-Dist: {raw}" for raw in release["requires"])
    return "\n".join(lines) + "\n"


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """The address of the index's pages while it is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
