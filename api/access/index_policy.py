"""Policy for indexes in requests: only configured indexes are used, and no URL is fetched."""

from __future__ import annotations

from adviser.answering.index_selection import foreign_indexes
from adviser.projects.project import Project
from api.access.authentication import token
from api.http.errors import ApiError, ProblemType
from common.index.configuration import configured_indexes
from common.settings import Settings
from model.packages.identity import DEFAULT_INDEX


def public_indexes(settings: Settings, *, anonymous: bool) -> dict[str, str]:
    """URLs of the configured indexes by name, without local folders, which are private.

    :param anonymous: only the default index, which is part of locks; others may be internal
    """
    return {
        name: index.url
        for name, index in configured_indexes(settings).items()
        if not index.is_local and (name == DEFAULT_INDEX or not anonymous)
    }


def refuse_foreign_indexes(settings: Settings, project: Project) -> None:
    """Refuse a project that names an index that is not configured.

    :raises ApiError: 400, naming the configured indexes
    """
    foreign = foreign_indexes(settings, project)
    if not foreign:
        return
    known = public_indexes(settings, anonymous=token() is None)
    names = ", ".join(repr(it.name) for it in foreign)
    raise ApiError(
        400,
        ProblemType.INDEX_NOT_ALLOWED,
        f"the index {names} is not one that this service reads; it reads: "
        + ", ".join(f"{name} at {url}" for name, url in known.items()),
        indexes=known,
    )
