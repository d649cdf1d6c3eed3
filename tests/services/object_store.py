"""An object store that speaks the S3 protocol, with one empty bucket."""

from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest
import s3fs
from moto.moto_server.threaded_moto_server import ThreadedMotoServer


@contextmanager
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3fs.S3FileSystem]:
    """A bucket ``knowledge`` on a server of our own; credentials are in the environment."""
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    system = fsspec.filesystem("s3")
    system.mkdir("knowledge")
    try:
        yield system
    finally:
        system.invalidate_cache()
        system.rm("knowledge", recursive=True)  # moto's state outlives its servers
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()
