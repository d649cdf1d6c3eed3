"""Reads the metadata of one release from the file that gives it at the least cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from common.errors import IndexFault, IndexProblem
from common.index.file_metadata import MetadataRead
from common.index.project_pages import IndexFile
from ingest.crawl.files import metadata_files
from ingest.crawl.release_documents import Told, broken, told_by_file

#: What is wrong with the file itself and will be so tomorrow.
_BROKEN = frozenset({IndexFault.MALFORMED, IndexFault.TOO_LARGE})
#: What is wrong with one file, where another of the release may do.
_OF_FILE = _BROKEN | {
    IndexFault.NOT_FOUND,
    IndexFault.HASH_MISMATCH,
    IndexFault.SIZE_MISMATCH,
    IndexFault.NO_RANGE,
}


async def read_release(
    read: Callable[[IndexFile], Awaitable[MetadataRead]],
    name: str,
    version: str,
    files: Sequence[IndexFile],
) -> Told:
    """What the metadata of a release says, or why nobody can know.

    :param read: such as :meth:`common.index.client.IndexClient.metadata`
    :raises IndexProblem: if the index did not give the files, so that it is to be tried again
    """
    candidates = metadata_files(files)
    said: Told | None = None
    problem: IndexProblem | None = None
    for file in candidates:
        try:
            told = told_by_file(name, version, file, await read(file))
        except IndexProblem as error:
            if error.code not in _OF_FILE:
                raise
            problem = problem or error
            if error.code in _BROKEN:
                said = said or broken(file, error.message)
            continue
        if told.problem is None:
            return told
        said = said or told
    if said is None:
        assert problem is not None  # noqa: S101 - a release without candidates is not read
        raise problem
    # The first choice, so that it is read again only when that is another file.
    return replace(said, metadata_file=candidates[0].filename)
