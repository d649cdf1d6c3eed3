"""An index in memory that lists releases and hands out their metadata, and counts both."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from common.index.file_metadata import MetadataRead
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import IndexFile, ProjectPage, contents_of
from tests.factories.universes import Index, Record, moment

_NOW = datetime(2026, 11, 22, tzinfo=UTC)


class ListedIndex:
    """Serves an index of :mod:`tests.factories.universes`.

    :ivar read: how often the metadata of each file was asked for
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.read: Counter[str] = Counter()

    async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
        if name not in self._index:
            raise IndexProblem(IndexFault.NOT_FOUND, f"there is no {name}")
        files = [
            file for version, release in self._index[name].items()
            for file in _files(name, version, release)
        ]  # fmt: skip
        return ProjectPage(name, _NOW, contents_of(files, list(self._index[name])))

    async def metadata(self, file: IndexFile) -> MetadataRead:
        self.read[file.filename] += 1
        name = file.filename.partition("-")[0]
        release = self._index[name][file.version]
        if release.get("broken"):
            raise IndexProblem(IndexFault.MALFORMED, f"{file.filename} is broken")
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {file.version}"]
        lines += [f"Requires-Dist: {it}" for it in release.get("requires", ())]
        lines += [f"Provides-Extra: {it}" for it in release.get("extras", ())]
        return MetadataRead("\n".join(lines) + "\n\n", "metadata-file")


def _files(name: str, version: str, release: Record) -> list[IndexFile]:
    tags = release.get("wheels", ["py3-none-any"])
    names = [(f"{name}-{version}-{tag}.whl", "wheel") for tag in tags]
    names += [(f"{name}-{version}.tar.gz", "sdist")] * release.get("sdist", False)
    return [
        IndexFile(
            filename=filename,
            version=version,
            kind=kind,
            sha256=None,
            requires_python=release.get("requires_python"),
            yanked=release.get("yanked", False),
            uploaded_at=moment(release.get("uploaded_at")) or _NOW,
        )
        for filename, kind in names
    ]
