"""Bodies of documents are packed by many threads at a time."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard

from common.settings import Settings
from graph.record.documents import store_body


def test_document_bodies_compressed_in_parallel_are_read_back_equal(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    bodies = [random.Random(seed).randbytes(1000) * 100 for seed in range(200)]

    def packed(body: bytes) -> bytes:
        return store_body(settings, "sha256:00", body).body or b""

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(packed, bodies))
    assert [zstandard.ZstdDecompressor().decompress(it) for it in found] == bodies
