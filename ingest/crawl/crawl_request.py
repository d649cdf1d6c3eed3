"""The request of a crawl: packages and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ingest.crawl.closure import WantedPackage

MAX_PACKAGES = 1_000
MAX_VERSIONS = 25


@dataclass(frozen=True, slots=True)
class CrawlBounds:
    """Bounds of a crawl. Releases that a requirement needs are read even beyond these bounds.

    :param max_packages: limit for packages
    :param max_versions: limit for the newest releases of each package
    :param newer_than: releases uploaded earlier are not read; releases without upload time are
    :param prereleases: whether pre-releases are read even if there are stable releases
    """

    max_packages: int = MAX_PACKAGES
    max_versions: int = MAX_VERSIONS
    newer_than: datetime | None = None
    prereleases: bool = False


@dataclass(frozen=True, slots=True)
class CrawlRequest:
    """Packages to read with all their requirements, and known packages to refresh.

    :param roots: packages to start with
    :param bounds: bounds for roots and for packages that they require
    :param known: packages that the record has from this index; only their known releases and new
        releases on the index are followed
    :param own_bounds: bounds of single packages, by name
    :param max_age_s: cached pages up to this age are used without a request; by default
        ``INDEX_PAGE_AGE_S``
    :param again: whether releases are read again that were broken, failed or given up
    """

    roots: tuple[WantedPackage, ...]
    bounds: CrawlBounds = field(default_factory=CrawlBounds)
    known: frozenset[str] = frozenset()
    own_bounds: Mapping[str, CrawlBounds] = field(default_factory=dict)
    max_age_s: float | None = None
    again: bool = False

    def follows_known(self, name: str) -> bool:
        """Whether all known releases of a package are followed."""
        return name in self.known

    def bounds_of(self, name: str) -> CrawlBounds | None:
        """Return the bounds of a package; ``None`` to read only new releases."""
        return self.own_bounds.get(name, None if name in self.known else self.bounds)
