"""What indexes have of a lock's versions: as the record has it, or as they serve it now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from adviser.answering.addresses import pages_of
from adviser.projects.project import LockedPackage
from adviser.provenance import Listing
from common.indexes.pages import ProjectPage
from common.releases import ReleaseFile
from common.settings import Settings
from graph.engine import Stores
from graph.repositories import release_files


def recorded_listings(
    stores: Stores, locked: Mapping[str, LockedPackage]
) -> dict[str, list[Listing]]:
    """What the record has of the locked versions, on every index that has them, by package."""
    wanted = {name: it.version for name, it in locked.items()}
    with stores.engine.connect() as connection:
        rows = release_files.recorded_listings(connection, wanted)
    found: dict[str, list[Listing]] = defaultdict(list)
    for it in rows:
        found[it.name].append(
            Listing(it.index, it.files, it.gone, it.complete, it.yanked, it.yanked_reason, it.as_of)
        )
    return found


def served_listings(
    settings: Settings, locked: Mapping[str, LockedPackage], indexes: Iterable[str]
) -> dict[str, list[Listing]]:
    """The same, asked of these configured indexes now.

    :raises IndexProblem: if an index does not answer
    """
    wanted = {(index, name) for index in indexes for name in locked}
    pages = pages_of(settings, wanted, max_age_s=0.0)
    found: dict[str, list[Listing]] = defaultdict(list)
    for (index, name), page in sorted(pages.items()):
        listing = _listing(index, page, locked[name].version)
        if listing is not None:
            found[name].append(listing)
    return found


def _listing(index: str, page: ProjectPage, version: str) -> Listing | None:
    there = page.releases.get(version)
    if not there:
        return None
    files = tuple(
        ReleaseFile(
            it.filename, it.sha256, it.kind, it.size_bytes, it.requires_python, it.yanked,
            it.yanked_reason, it.uploaded_at, it.metadata_sha256, it.attested,
        )
        for it in there
    )  # fmt: skip
    reason = next((it.yanked_reason for it in files if it.yanked_reason), None)
    yanked = all(it.yanked for it in files)
    return Listing(index, files, yanked=yanked, yanked_reason=reason, as_of=page.as_of)
