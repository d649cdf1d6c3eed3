"""What a resolution read of its indexes, kept so that the next one of the same request is fast.

A resolution reads metadata in rounds, and each round shows which versions are needed next. One
that begins with the versions of an earlier resolution mostly needs a single round. Reading more
versions than needed never changes an answer, so a file that is missing or out of date does no harm.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import zstandard

from common.index.cache import read_packed, write_packed
from model.packages.import_names import ImportNames, ImportSource
from model.packages.releases import ReleaseMetadata, ReleaseProblem
from model.redaction import without_secrets

logger = logging.getLogger(__name__)

#: Reads that began to be collected longer ago are not used. Otherwise the versions of a request
#: that is repeated every day would only grow.
_AGE_S = 7 * 86_400.0
#: Bytes after decompression.
_LARGEST = 80 << 20
_LEVEL = 1
#: Raised when rows change.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class PackageReads:
    """The versions of a package that were read.

    :param index: name of the index
    :param page: fingerprint of the page; the metadata belongs to the files that this page lists
    """

    index: str
    page: str
    metadata: Mapping[str, ReleaseMetadata]


class EarlierReads:
    """The reads of an earlier resolution, in the cache that all homes of a user share.

    :param root: folder of the cache
    :param request: text that is the same for requests that read the same versions
    """

    def __init__(self, root: Path, request: str) -> None:
        self._root = root
        self._path = root / "requests" / f"{hashlib.sha256(request.encode()).hexdigest()}.reads"
        self._since = time.time()
        self._known: set[tuple[str, str, str, frozenset[str]]] = set()

    def load(self) -> dict[str, PackageReads]:
        """The reads by package; none if there are none, or if they are too old."""
        stored = read_packed(self._path)
        if stored is None or stored[0].get("format") != _FORMAT:
            return {}
        about, packed = stored
        try:
            since = float(about["since"])
            if not 0 <= time.time() - since < _AGE_S:
                return {}
            packages = orjson.loads(zstandard.decompress(packed, _LARGEST))
            reads = {
                name: PackageReads(
                    index, page, {version: _metadata(row) for version, row in rows.items()}
                )
                for name, (index, page, rows) in packages.items()
            }
        except (zstandard.ZstdError, KeyError, TypeError, ValueError, AttributeError):
            return {}
        self._since, self._known = since, _contents(reads)
        return reads

    def keep(self, reads: Mapping[str, PackageReads]) -> None:
        """Store the reads of a resolution, unless nothing was read since :meth:`load`.

        A full disk is logged and raises nothing.
        """
        if _contents(reads) == self._known:
            return
        packages = {
            name: (it.index, it.page, {version: _row(one) for version, one in it.metadata.items()})
            for name, it in reads.items()
        }
        packed = zstandard.compress(orjson.dumps(packages), _LEVEL)
        about = {"format": _FORMAT, "since": self._since}
        try:
            write_packed(self._path, self._root, about, packed)
            self._remove_old()
        except OSError as error:
            fields = {"path": str(self._path), "error": str(error)}
            logger.warning("index_cache_not_written", extra=fields)

    def _remove_old(self) -> None:
        oldest = time.time() - _AGE_S
        for path in self._path.parent.glob("*.reads"):
            with suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink(missing_ok=True)


def _contents(
    reads: Mapping[str, PackageReads],
) -> set[tuple[str, str, str, frozenset[str]]]:
    return {(name, it.index, it.page, frozenset(it.metadata)) for name, it in reads.items()}


def _row(metadata: ReleaseMetadata) -> list[Any]:
    """A release as JSON, without secrets in URLs."""
    requires, imports = metadata.requires_dist, metadata.imports
    return [
        None if requires is None else list(map(without_secrets, requires)),
        metadata.requires_python,
        metadata.provides_extra,
        metadata.license and without_secrets(metadata.license),
        metadata.metadata_source,
        metadata.metadata_file,
        metadata.problem,
        metadata.problem_message,
        imports and [imports.source, *imports.names],
    ]


def _metadata(row: list[Any]) -> ReleaseMetadata:
    """The release of :func:`_row`.

    :raises ValueError: or ``TypeError`` if the row is something else
    """
    requires, python, extras, license_text, source, file, problem, message, imports = row
    return ReleaseMetadata(
        requires_dist=None if requires is None else tuple(requires),
        requires_python=python,
        provides_extra=tuple(extras),
        license=license_text,
        metadata_source=source,
        metadata_file=file,
        problem=problem and ReleaseProblem(problem),
        problem_message=message,
        imports=imports and ImportNames(tuple(imports[1:]), ImportSource(imports[0])),
    )
