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
    """What of each package is read; what a requirement needs is read beyond them.

    :param max_packages: names asked for at the index
    :param max_versions: newest releases read of each package
    :param newer_than: releases uploaded before are not read; those without a time are
    :param prereleases: whether they are read where there are others
    """

    max_packages: int = MAX_PACKAGES
    max_versions: int = MAX_VERSIONS
    newer_than: datetime | None = None
    prereleases: bool = False


@dataclass(frozen=True, slots=True)
class CrawlRequest:
    """Roots whose closure is followed, and packages that are looked after.

    :param roots: packages to begin with
    :param bounds: of roots and of what they need
    :param known: packages that the record has from this index: of these only what is known
        already and what is new on the index is followed, not the newest of each
    :param own_bounds: of single packages, by name
    :param max_age_s: of pages in the cache that are taken without asking
    :param again: whether to look once more at what was found broken, failed or was given up
    """

    roots: tuple[WantedPackage, ...]
    bounds: CrawlBounds = field(default_factory=CrawlBounds)
    known: frozenset[str] = frozenset()
    own_bounds: Mapping[str, CrawlBounds] = field(default_factory=dict)
    max_age_s: float = 600.0
    again: bool = False

    def follows_known(self, name: str) -> bool:
        """Whether all that is known of a package is followed."""
        return name in self.known

    def bounds_of(self, name: str) -> CrawlBounds | None:
        """How many of its newest releases are read; ``None`` for only what is new."""
        return self.own_bounds.get(name, None if name in self.known else self.bounds)
