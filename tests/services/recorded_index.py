"""A package index on loopback with the releases of ``samples/packages.jsonl.gz``.

Pages have the real files with their hashes and times; metadata is offered beside the files, which
cannot be downloaded.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services.index import Index, package_index

_SAMPLES = Path(__file__).parents[2] / "samples" / "packages.jsonl.gz"
#: Keys of a file's entry on a page, by those of a release document.
_ENTRY = {"size": "size", "requires_python": "requires-python", "upload_time": "upload-time"}


@contextmanager
def recorded_index() -> Iterator[Index]:
    """The index, while it is served."""
    with (
        package_index(protected=False, json=True, validators=True) as index,
        gzip.open(_SAMPLES, "rt", encoding="utf-8") as lines,
    ):
        for line in lines:
            _add(index, json.loads(line))
        yield index


def _add(index: Index, release: dict[str, Any]) -> None:
    metadata = _metadata(release).encode()
    for file in release["files"]:
        entry = {name: file[key] for key, name in _ENTRY.items() if file.get(key) is not None}
        hashes = {"sha256": file["sha256"]}
        index.add_file(release["name"], file["filename"], b"", hashes=hashes, **entry)
        if file["filename"].endswith(".whl"):
            index.offer_metadata(file["filename"], metadata)


def _metadata(release: dict[str, Any]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {release['name']}", f"Version: {release['version']}"]
    if release.get("requires_python"):
        lines.append(f"Requires-Python: {release['requires_python']}")
    lines += [f"Provides-Extra: {extra}" for extra in release["provides_extra"]]
    lines += [f"Requires-Dist: {raw}" for raw in release["requires_dist"]]
    return "\n".join(lines) + "\n"
