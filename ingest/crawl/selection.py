"""Which releases of a package are read: the newest, and those that a requirement needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from common.packages import version_of
from ingest.crawl.bounds import Bounds

#: Releases that are read for a requirement which none of the newest meets.
CANDIDATES = 2


@dataclass(frozen=True, slots=True)
class Listed:
    """A release as an index lists it.

    :param version: normalised, or as it was written if it is not a version
    :param yanked: whether all its files are
    """

    version: str
    uploaded_at: datetime | None = None
    yanked: bool = False


def newest_first(listed: Iterable[Listed]) -> list[Listed]:
    """Those whose version is one, the newest first."""
    known = [(version, it) for it in listed if (version := version_of(it.version)) is not None]
    return [it for _, it in sorted(known, key=lambda pair: (pair[0], pair[1].version))[::-1]]


def newest(listed: Iterable[Listed], bounds: Bounds) -> list[str]:
    """The versions that are read in any case, newest first.

    Pre-releases are taken if they are asked for or if there is nothing else. Releases that
    were yanked count for nothing, but those between the others are read as well: an answer
    can then say that they are.

    >>> newest([Listed("1.0"), Listed("2.0rc1"), Listed("1.1", yanked=True), Listed("0.9")],
    ...        Bounds(max_versions=2))
    ['1.1', '1.0', '0.9']
    """
    ordered = newest_first(listed)
    if not bounds.prereleases:
        stable = [it for it in ordered if not _is_prerelease(it.version)]
        ordered = stable if any(not it.yanked for it in stable) else ordered
    chosen, counted, yanked = [], 0, 0
    for it in ordered:
        if counted >= bounds.max_versions:
            break
        if _is_older(it, bounds.newer_than):
            continue
        yanked += it.yanked
        counted += not it.yanked
        if not it.yanked or yanked <= bounds.max_versions:
            chosen.append(it.version)
    return chosen


def invalid(listed: Iterable[Listed], bounds: Bounds) -> list[str]:
    """Versions that are none by PEP 440, at most as many as others: kept, never chosen."""
    names = sorted(it.version for it in listed if version_of(it.version) is None)
    return names[-bounds.max_versions :] if bounds.max_versions else []


def needed(
    specifiers: Iterable[str], listed: Sequence[Listed], selected: Collection[str]
) -> set[str]:
    """Versions to read so that each specifier has candidates, if the index has any.

    >>> some = [Listed("1.8"), Listed("1.9"), Listed("1.7"), Listed("2")]
    >>> sorted(needed(["<2", ">=1"], some, ["2"]))
    ['1.8', '1.9']
    """
    offered = [it.version for it in listed if it.version in selected and not it.yanked]
    ordered = newest_first(listed)
    found: set[str] = set()
    for specifier in sorted(set(specifiers)):
        wanted = _specifier(specifier)
        if wanted is None or any(_meets(wanted, version) for version in (*offered, *found)):
            continue
        found.update(_candidates(wanted, ordered))
    return found - set(selected)


def _candidates(wanted: SpecifierSet, ordered: Sequence[Listed]) -> list[str]:
    """The newest that are in ``wanted``: stable ones before others, yanked ones last."""
    offered = [it for it in ordered if _meets(wanted, it.version)]
    kept = [it for it in offered if not it.yanked]
    stable = [it for it in kept if not _is_prerelease(it.version)]
    return [it.version for it in (stable or kept or offered)[:CANDIDATES]]


def _meets(wanted: SpecifierSet, version: str) -> bool:
    return wanted.contains(version, prereleases=True)


@lru_cache(maxsize=65_536)
def _specifier(text: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


def _is_prerelease(text: str) -> bool:
    version = version_of(text)
    return version is not None and version.is_prerelease


def _is_older(listed: Listed, than: datetime | None) -> bool:
    return than is not None and listed.uploaded_at is not None and listed.uploaded_at < than
