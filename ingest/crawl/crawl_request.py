"""What a crawl is asked to read: packages and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ingest.crawl.closure import WantedPackage

MAX_PACKAGES = 1_000
MAX_VERSIONS = 25


@dataclass(frozen=True, slots=True)
class CrawlBounds:
    """How much is read. Releases that a requirement needs are read beyond these bounds.

    :param max_packages: packages whose page is requested
    :param max_versions: newest releases of each package
    :param newer_than: releases uploaded earlier are not read; those without an upload time are
    :param prereleases: read pre-releases also where there are stable releases
    """

    max_packages: int = MAX_PACKAGES
    max_versions: int = MAX_VERSIONS
    newer_than: datetime | None = None
    prereleases: bool = False


@dataclass(frozen=True, slots=True)
class CrawlRequest:
    """Packages to read with all that they require, and known packages to refresh.

    :param roots: packages to begin with
    :param bounds: for roots and for what they require
    :param known: packages that the record has from this index. Only their known releases and
        those that are new on the index are followed, not the newest of each
    :param own_bounds: bounds of single packages, by name
    :param max_age_s: age of cached pages that are used without a request
    :param again: read releases again that were broken, failed or were given up
    """

    roots: tuple[WantedPackage, ...]
    bounds: CrawlBounds = field(default_factory=CrawlBounds)
    known: frozenset[str] = frozenset()
    own_bounds: Mapping[str, CrawlBounds] = field(default_factory=dict)
    max_age_s: float = 600.0
    again: bool = False

    def follows_known(self, name: str) -> bool:
        """Whether all known releases of a package are followed."""
        return name in self.known

    def bounds_of(self, name: str) -> CrawlBounds | None:
        """Return the bounds of a package; ``None`` to read only new releases."""
        return self.own_bounds.get(name, None if name in self.known else self.bounds)
