"""Match the indexes that a project names with the configured indexes of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from adviser.projects.project import Project, ProjectFormat, ProjectIndex
from adviser.reports.note_codes import NoteCode
from adviser.stack_request import RequestIndex, StackRequest
from common.formats.requirements_files import has_variable
from common.index.configuration import (
    Index,
    configured_indexes,
    index_of,
)
from common.packages import DEFAULT_INDEX, package_version, public_index_url
from common.redaction import without_secrets
from common.settings import Settings


def indexes_to_search(
    settings: Settings, project: Project, names: Iterable[str] = ()
) -> tuple[RequestIndex, ...]:
    """The indexes that packages may come from, in search order.

    ``names`` replace the indexes of the project. An index that is not configured on this machine
    keeps the name that the project gives it, and the stores have no data about it.

    The public index is searched last, so that a foreign package there cannot replace one of the
    same name on a private index (dependency confusion). For ``pyproject.toml`` the order of the
    file is kept, since uv follows it.
    """
    chosen = [index_of(settings, name) for name in names]
    if chosen:
        ours = {it.name: it.url for it in chosen}
        return _with_owners(settings, [RequestIndex(name, name, it) for name, it in ours.items()])
    known = configured_indexes(settings)
    indexes = []
    for project_index in project.indexes:
        same = _same(known, project_index.name, project_index.url)
        name, url = (same.name, same.url) if same else (project_index.name, project_index.url)
        indexes.append(
            RequestIndex(
                name,
                project_index.name,
                url,
                project_index.verify_ssl,
                project_index.explicit,
                known=same is not None,
            )
        )
    named = any(it.name == DEFAULT_INDEX for it in indexes)
    if not named and not any(it.default for it in project.indexes):
        default = known.get(DEFAULT_INDEX)
        indexes.append(RequestIndex(url=default.url if default else ""))
    if project.format not in (ProjectFormat.PYPROJECT, ProjectFormat.SCRIPT):
        indexes.sort(key=lambda it: it.name == DEFAULT_INDEX)
    return _with_owners(settings, indexes)


def _with_owners(settings: Settings, indexes: Iterable[RequestIndex]) -> tuple[RequestIndex, ...]:
    """The indexes with the names that they own, and all other owners, for their packages only."""
    owned: dict[str, tuple[str, ...]] = {}
    for pattern, owner in settings.index_namespaces:
        owned[owner] = (*owned.get(owner, ()), pattern)
    selected = [replace(it, owns=owned.pop(it.name, ())) for it in indexes]
    known = configured_indexes(settings) if owned else {}
    for name, patterns in owned.items():
        url = known[name].url if name in known else ""
        selected.append(
            RequestIndex(name, name, url, explicit=True, known=name in known, owns=patterns)
        )
    return tuple(selected)


def called_indexes(settings: Settings, project: Project) -> dict[str, str]:
    """This machine's name for each index, by its name and its URL in a project and its lock.

    Indexes are matched by URL, because anyone can choose a name. They are matched by name only if
    the URL contains a variable. An index that is not configured maps to its URL.
    """
    known = configured_indexes(settings)
    places = {_place(public_index_url()): DEFAULT_INDEX} if DEFAULT_INDEX in known else {}
    places |= {_place(it.url): name for name, it in known.items()}
    names: dict[str, str] = {}
    for index in (*project.indexes, *project.lock_indexes):
        name = places.get(_place(without_secrets(index.url)))
        if (
            name is None
            and has_variable(index.url)
            and (same := _same(known, index.name, index.url))
        ):
            name = same.name
        names[index.url] = names[index.name] = name or index.url
    return names


def _place(url: str) -> str:
    """A URL normalised for comparison; http counts as https, which is reported separately."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "http" else parts.scheme
    return f"{scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def foreign_indexes(settings: Settings, project: Project) -> tuple[ProjectIndex, ...]:
    """Indexes and file URLs that a project or its lock names and this machine does not configure.

    Indexes are matched by URL; their names do not matter. Use this for untrusted requests: nothing
    is read from the URLs that they give.
    """
    known = configured_indexes(settings)
    # Folders in a lock belong to the project; they are not read.
    locked = (it for it in project.lock_indexes if not it.url.startswith("file:"))
    indexes = dict.fromkeys((*project.indexes, *project.places, *locked))
    return tuple(it for it in indexes if _at(known, it.url) is None)


def with_silent_indexes(request: StackRequest) -> StackRequest:
    """The request with a note that no index answered, which its report shows."""
    note = {
        "type": "WARNING",
        "code": NoteCode.UNREAD.value,
        "message": "no index answered, so the answer is among the versions in the store",
    }
    options = replace(request.options, stack_info=(*request.options.stack_info, note))
    return replace(request, options=options)


def _same(known: Mapping[str, Index], name: str, url: str) -> Index | None:
    """The configured index that a project names: matched by URL, then by name."""
    return _at(known, url) or known.get(package_version("any", "1", name).index)


def _at(known: Mapping[str, Index], url: str) -> Index | None:
    """The configured index with this URL."""
    bare = url.rstrip("/")
    for index in known.values():
        if index.url == bare:
            return index
    if bare == public_index_url():
        # This machine may read the public index through a mirror.
        return known.get(DEFAULT_INDEX)
    return None
