"""Which file of a release its metadata is read from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from common.index.project_pages import IndexFile

#: Files tried of each kind before a release counts as broken.
_WHEELS, _SDISTS = 2, 1

#: Where wheels of one release differ in what they require, those of the usual machine count.
_PLATFORMS = (
    re.compile(r"any"),
    re.compile(r"(?:many)?linux.*_x86_64"),
    re.compile(r"(?:many|musl)?linux.*"),
    re.compile(r"win.*"),
)
_ARCHIVES = (".tar.gz", ".zip")


def metadata_files(files: Iterable[IndexFile]) -> list[IndexFile]:
    """The files to read metadata from, in the order in which to try; empty if none has any.

    Wheels come first, as what they require is final; those not yanked, those for Linux on
    x86-64, those with a metadata file beside them, the smallest.
    """
    listed = list(files)
    wheels = sorted((it for it in listed if it.kind == "wheel"), key=_wheel_rank)
    sdists = sorted((it for it in listed if it.kind == "sdist"), key=_sdist_rank)
    return [*wheels[:_WHEELS], *sdists[:_SDISTS]]


def _wheel_rank(file: IndexFile) -> tuple[object, ...]:
    platform = file.filename.removesuffix(".whl").rpartition("-")[2]
    rank = next(
        (at for at, known in enumerate(_PLATFORMS) if known.fullmatch(platform)), len(_PLATFORMS)
    )
    offered = file.metadata_sha256 is not None
    return file.yanked, rank, not offered, file.size_bytes or 0, file.filename


def _sdist_rank(file: IndexFile) -> tuple[object, ...]:
    return file.yanked, not file.filename.endswith(_ARCHIVES), file.filename
