"""Which of this machine's indexes a project means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from adviser.projects.project import Project, ProjectFormat, ProjectIndex
from adviser.stack_request import RequestIndex
from common.formats.requirements_files import has_variable
from common.index.configuration import (
    Index,
    configured_indexes,
    index_of,
)
from common.packages import DEFAULT_INDEX, package_version
from common.redaction import without_secrets
from common.settings import Settings


def asked_indexes(
    settings: Settings, project: Project, names: Iterable[str] = ()
) -> tuple[RequestIndex, ...]:
    """Where packages may come from: indexes of this machine, found by what the project says.

    Those that a person names replace the project's. An index that this machine does not know
    keeps the project's name: nothing is known of what is there.

    The public index is the last one searched, so that a stranger's package there stands in for
    none of the same name that another index has. Only uv's own order is kept, for uv follows it.
    """
    chosen = [index_of(settings, name) for name in names]
    if chosen:
        ours = {it.name: it.url for it in chosen}
        return tuple(RequestIndex(name, name, url) for name, url in ours.items())
    known = configured_indexes(settings)
    found = []
    for it in project.indexes:
        same = _same(known, it.name, it.url)
        name, url = (same.name, same.url) if same else (it.name, it.url)
        found.append(
            RequestIndex(name, it.name, url, it.verify_ssl, it.explicit, known=same is not None)
        )
    named = any(it.name == DEFAULT_INDEX for it in found)
    if not named and not any(it.default for it in project.indexes):
        default = known.get(DEFAULT_INDEX)
        found.append(RequestIndex(url=default.url if default else ""))
    if project.format is not ProjectFormat.PYPROJECT:
        found.sort(key=lambda it: it.name == DEFAULT_INDEX)
    return tuple(found)


def called_indexes(settings: Settings, project: Project) -> dict[str, str]:
    """What a project and its lock call indexes, and their addresses, to this machine's names.

    An index is known by its address, for anybody can call one as they like; by its name only
    where a variable is in the address. One that is not known stands for its address.
    """
    known = configured_indexes(settings)
    places = {_place(PYPI_SIMPLE_ENDPOINT): DEFAULT_INDEX} if DEFAULT_INDEX in known else {}
    places |= {_place(it.url): name for name, it in known.items()}
    found: dict[str, str] = {}
    for it in (*project.indexes, *project.lock_indexes):
        name = places.get(_place(without_secrets(it.url)))
        if name is None and has_variable(it.url) and (same := _same(known, it.name, it.url)):
            name = same.name
        found[it.url] = found[it.name] = name or it.url
    return found


def _place(url: str) -> str:
    """An address without what makes no other place of it; whether it is safe is told by itself."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "http" else parts.scheme
    return f"{scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def foreign_indexes(settings: Settings, project: Project) -> tuple[ProjectIndex, ...]:
    """Indexes of a project and its lock at none of this machine's addresses, whatever their name.

    Other places that packages are to come from are among them. For requests of strangers:
    nothing is read from where they say.
    """
    known = configured_indexes(settings)
    # Folders that a lock names are not read, and are the project's own.
    locked = (it for it in project.lock_indexes if not it.url.startswith("file:"))
    asked = dict.fromkeys((*project.indexes, *project.places, *locked))
    return tuple(it for it in asked if _at(known, it.url) is None)


def _same(known: Mapping[str, Index], name: str, url: str) -> Index | None:
    """The index of this machine that a project means: by address, then by name."""
    return _at(known, url) or known.get(package_version("any", "1", name).index)


def _at(known: Mapping[str, Index], url: str) -> Index | None:
    """The index of this machine with an address."""
    bare = url.rstrip("/")
    for it in known.values():
        if it.url == bare:
            return it
    if bare == PYPI_SIMPLE_ENDPOINT.rstrip("/"):
        # This machine may reach the public index by a mirror.
        return known.get(DEFAULT_INDEX)
    return None
