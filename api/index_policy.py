"""Addresses in requests: none is fetched, and indexes must be those of this machine."""

from __future__ import annotations

from adviser.answering.index_selection import foreign_indexes
from adviser.projects.project import Project
from api.errors import ApiError, ProblemType
from common.index.configuration import configured_indexes
from common.settings import Settings


def public_indexes(settings: Settings) -> dict[str, str]:
    """Name and address of the indexes; a folder of this machine is nobody else's to know."""
    return {n: it.url for n, it in configured_indexes(settings).items() if not it.is_local}


def refuse_foreign_indexes(settings: Settings, project: Project) -> None:
    """Refuse a project that wants packages from an index that this service does not know.

    :raises ApiError: 400, naming the indexes that it knows
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
