"""Which of this machine's indexes a project means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from adviser.asked import AskedIndex
from adviser.projects.project import Project, ProjectIndex
from common.indexes.configured import Index, configured_indexes, index_of
from common.packages import DEFAULT_INDEX, package_version
from common.settings import Settings


def asked_indexes(
    settings: Settings, project: Project, names: Iterable[str] = ()
) -> tuple[AskedIndex, ...]:
    """Where packages may come from: indexes of this machine, found by what the project says.

    Those that a person names replace the project's. An index that this machine does not know
    keeps the project's name: nothing is known of what is there.
    """
    chosen = [index_of(settings, name) for name in names]
    if chosen:
        ours = {it.name: it.url for it in chosen}
        return tuple(AskedIndex(name, name, url) for name, url in ours.items())
    known = configured_indexes(settings)
    found = []
    for it in project.indexes:
        same = _same(known, it.name, it.url)
        name, url = (same.name, same.url) if same else (it.name, it.url)
        found.append(
            AskedIndex(name, it.name, url, it.verify_ssl, it.explicit, known=same is not None)
        )
    if not any(it.default for it in project.indexes):
        default = known.get(DEFAULT_INDEX)
        found.append(AskedIndex(url=default.url if default else ""))
    return tuple(found)


def foreign_indexes(settings: Settings, project: Project) -> tuple[ProjectIndex, ...]:
    """Indexes of a project whose address is none of this machine's, whatever they are called.

    For requests of strangers: nothing is read from where they say.
    """
    known = configured_indexes(settings)
    return tuple(it for it in project.indexes if _at(known, it.url) is None)


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
