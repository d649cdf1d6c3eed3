"""What a crawl is sent to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.crawl.bounds import Bounds
from ingest.crawl.closure import Wanted


@dataclass(frozen=True, slots=True)
class Errand:
    """Roots whose closure is followed, and packages that are looked after.

    :param roots: packages to begin with
    :param bounds: of roots and of what they need
    :param known: packages that the record has from this index: of these only what is known
        already and what is new on the index is followed, not the newest of each
    :param own_bounds: of single packages, by name
    :param max_age_s: of pages in the cache that are taken without asking
    :param again: whether to look once more at what was found broken, failed or was given up
    """

    roots: tuple[Wanted, ...]
    bounds: Bounds = field(default_factory=Bounds)
    known: frozenset[str] = frozenset()
    own_bounds: Mapping[str, Bounds] = field(default_factory=dict)
    max_age_s: float = 600.0
    again: bool = False

    def follows_known(self, name: str) -> bool:
        """Whether all that is known of a package is followed."""
        return name in self.known

    def bounds_of(self, name: str) -> Bounds | None:
        """How many of its newest releases are read; ``None`` for only what is new."""
        return self.own_bounds.get(name, None if name in self.known else self.bounds)
