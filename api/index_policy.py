"""Policy for indexes in requests: only configured indexes are used, and no URL is fetched."""

from __future__ import annotations

from adviser.answering.index_selection import foreign_indexes
from adviser.projects.project import Project
from api.errors import ApiError, ProblemType
from common.index.configuration import configured_indexes
from common.settings import Settings


def public_indexes(settings: Settings) -> dict[str, str]:
    """URLs of the configured indexes by name, without local folders, which are private."""
    indexes = configured_indexes(settings).items()
    return {name: index.url for name, index in indexes if not index.is_local}


def refuse_foreign_indexes(settings: Settings, project: Project) -> None:
    """Refuse a project that names an index that is not configured.

    :raises ApiError: 400, naming the configured indexes
    """
    foreign = foreign_indexes(settings, project)
    if not foreign:
        return
    known = public_indexes(settings)
    names = ", ".join(repr(it.name) for it in foreign)
    raise ApiError(
        400,
        ProblemType.INDEX_NOT_ALLOWED,
        f"the index {names} is not one that this service reads; it reads: "
        + ", ".join(f"{name} at {url}" for name, url in known.items()),
        indexes=known,
    )
