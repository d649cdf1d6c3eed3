"""Match the indexes that a project names with the configured indexes of this machine."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from adviser.advice_request import RequestIndex, StackRequest
from adviser.projects.project import Project, ProjectFormat, ProjectIndex
from adviser.reports.note_codes import NoteCode
from common.formats.file_decoding import value_text
from common.formats.locks.entries import LockEntry
from common.formats.requirements_files import has_variable
from common.index.configuration import Index, configured_indexes, index_of
from common.settings import Settings
from model.packages.identity import DEFAULT_INDEX, index_identity, name_of_index, public_index_url


def indexes_to_search(
    settings: Settings, project: Project, names: Iterable[str] = ()
) -> tuple[RequestIndex, ...]:
    """The indexes that packages may come from, in search order.

    The indexes of the project are matched by URL. ``names`` replace them, but a package that names
    an index still comes from that one only. An index that is not configured on this machine has its
    URL as its name, and the stores have no data about it.

    The public index is searched last, so that a foreign package there cannot replace one of the
    same name on a private index (dependency confusion). For ``pyproject.toml`` the order of the
    file is kept, since uv follows it. pipenv searches the first source of a Pipfile only.
    """
    chosen = dict.fromkeys(index_of(settings, name) for name in names)
    known = _by_identity(settings)
    indexes = [_request_index(known.get(index_identity(it.url)), it) for it in project.indexes]
    if chosen:
        # A URL with a variable tells nothing, so there the name that the user gives decides.
        ours = {it.name: it for it in chosen}
        by_name = {it.name for it in project.indexes if has_variable(it.url)} & ours.keys()
        named = [replace(it, explicit=True) for it in indexes if it.called not in by_name]
        searched = [RequestIndex(it.name, it.name, it.url) for it in chosen]
        return _with_owners(settings, [*named, *searched])
    is_searched = any(it.name == DEFAULT_INDEX and not it.explicit for it in indexes)
    if not is_searched and not any(it.default for it in project.indexes):
        default = configured_indexes(settings).get(DEFAULT_INDEX)
        indexes.append(RequestIndex(url=default.url if default else ""))
    if project.format not in (ProjectFormat.PYPROJECT, ProjectFormat.SCRIPT):
        indexes.sort(key=lambda it: it.name == DEFAULT_INDEX)
    return _with_owners(settings, indexes)


def _request_index(same: Index | None, index: ProjectIndex) -> RequestIndex:
    name, url = (same.name, same.url) if same else (index.url, index.url)
    return RequestIndex(
        name, index.name, url, index.verify_ssl, index.explicit, known=same is not None
    )


def _with_owners(settings: Settings, indexes: Iterable[RequestIndex]) -> tuple[RequestIndex, ...]:
    """The indexes with the names that they own; all other owners serve only their own packages."""
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

    Indexes are matched by URL, because anyone can choose a name. An index that is not configured
    maps to its URL; a name without a URL maps to itself in quotes, which is no index's name.
    """
    known = _by_identity(settings)
    locked = {it.index for it in project.lock_entries if it.index is not None}
    names = {it: it if "://" in it else value_text(it) for it in locked}
    if not project.lock_indexes and not project.indexes and DEFAULT_INDEX in names:
        names[DEFAULT_INDEX] = DEFAULT_INDEX  # pipenv's source where there is none
    for index in (*project.indexes, *project.lock_indexes):
        same = known.get(index_identity(index.url))
        names[index.url] = names[index.name] = same.name if same else index.url
    return names


def stages_of_lock(
    settings: Settings, project: Project, names: Iterable[str] = ()
) -> dict[LockEntry, Sequence[Collection[str]]]:
    """The indexes to ask for each entry of a lock; later ones only if no earlier has its package.

    For an entry that names an index, only that index is asked. For other entries, Thoth asks the
    indexes that the project and its lock name, in the order of advice, up to one that is not
    configured. If they name none, it asks all configured indexes at once. ``names`` replace these.
    """
    known, called = configured_indexes(settings), called_indexes(settings, project)
    allowed = [index_of(settings, it).name for it in names]
    listed = tuple(
        it for it in (*project.lock_indexes, *project.indexes) if it not in project.places
    )
    searched = indexes_to_search(settings, replace(project, indexes=listed))
    order = takewhile(lambda it: it.known, (it for it in searched if not it.explicit))
    stages: list[Collection[str]] = [(it.name,) for it in order]
    if allowed or not listed:
        stages = [allowed or list(known)]
    return {
        it: stages
        if it.index is None
        else [(name,) for name in [called[it.index]] if name in (allowed or known)]
        for it in project.lock_entries
    }


def _by_identity(settings: Settings) -> dict[str, Index]:
    """The configured indexes by their normalised URL."""
    known = configured_indexes(settings)
    indexes = {index_identity(it.url): it for it in reversed(known.values())}
    if DEFAULT_INDEX in known:
        # This machine may read the public index through a mirror.
        indexes.setdefault(index_identity(public_index_url()), known[DEFAULT_INDEX])
    return indexes


def foreign_indexes(settings: Settings, project: Project) -> tuple[ProjectIndex, ...]:
    """Indexes and file URLs that a project or its lock names and this machine does not configure.

    Indexes are matched by URL; their names do not matter, and http is not https. Use this for
    untrusted requests: nothing is read from the URLs that they give.
    """
    known = _by_identity(settings)
    # Folders in a lock belong to the project; they are not read.
    locked = (it for it in project.lock_indexes if not it.url.startswith("file:"))
    indexes = dict.fromkeys((*project.indexes, *project.places, *locked))
    return tuple(it for it in indexes if not _is_same(known.get(index_identity(it.url)), it.url))


def _is_same(index: Index | None, url: str) -> bool:
    return index is not None and not (
        index.url.startswith("https:") and url.lower().startswith("http:")
    )


def with_project_indexes(
    settings: Settings, project: Project
) -> tuple[Settings, tuple[ProjectIndex, ...]]:
    """Settings that also configure the indexes of a project and its lock, and these indexes.

    The name of such an index comes from its URL, so that the record never mixes two of them.
    """
    known = _by_identity(settings)
    new = {
        name_of_index(it.url): it
        for it in (*project.indexes, *project.lock_indexes)
        if index_identity(it.url) not in known and not has_variable(it.url)
    }
    urls = dict(settings.package_indexes) | {name: it.url for name, it in new.items()}
    return replace(settings, package_indexes=tuple(sorted(urls.items()))), tuple(new.values())


def with_silent_indexes(request: StackRequest) -> StackRequest:
    """The request with a note that no index answered, which its report shows."""
    note = {
        "type": "WARNING",
        "code": NoteCode.UNREAD.value,
        "message": "no index answered, so the answer covers only the versions in the store",
    }
    options = replace(request.options, stack_info=(*request.options.stack_info, note))
    return replace(request, options=options)
