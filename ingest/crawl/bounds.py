"""How much a crawl reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

MAX_PACKAGES = 1_000
MAX_VERSIONS = 25


@dataclass(frozen=True, slots=True)
class Bounds:
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
