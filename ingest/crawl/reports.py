"""What became of a crawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from common.errors import IndexProblem
from common.http.fetching import Traffic
from common.releases import release_identity
from graph.record.crawls import IndexEvent
from graph.record.release_merging import HashAlarm
from graph.record.releases import ReleasesAdded
from ingest.crawl.failures import NO_ANSWER
from ingest.crawl.release_selection import (
    CONFLICT,
    EMPTIED,
    ProjectPlan,
)


@dataclass(frozen=True, slots=True)
class CrawlFailure:
    """A package, or one release of it, that the index did not give.

    :param code: an :class:`common.errors.IndexFault`, or the reason why a document is refused
    """

    name: str
    version: str | None
    code: str
    message: str


@dataclass(slots=True)
class CrawlReport:
    """What a crawl of one index did.

    :param packages: names asked for
    :param followed: names to ask for, as far as they are known yet
    :param releases: releases of the closure that were in bounds
    :param known: those of them whose metadata was known already
    :param read: those whose metadata was read now, by state
    :param changed: releases in the record of which the index said something new
    :param missing: names that the index does not have
    :param waiting: releases that failed before and are not tried yet, or no more
    :param left_out: names beyond the bound of packages
    :param unwatched: roots that are not put on the watch list, as they are missing
    :param unsolvable_roots: roots of which no release can be chosen
    :param unmet_roots: roots with releases that can be chosen, but none that they ask for
    :param emptied: packages that had files and have none
    :param skipped: entries of pages that name no file of their package, or one twice; by package
    :param events: what changed in the index since it answered last, by kind
    :param lost: why the crawl was broken off
    """

    index: str
    packages: int = 0
    followed: int = 0
    releases: int = 0
    known: int = 0
    to_read: int = 0
    read: Counter[str] = field(default_factory=Counter)
    new: int = 0
    changed: int = 0
    missing: list[str] = field(default_factory=list)
    missing_roots: list[str] = field(default_factory=list)
    unwatched: list[str] = field(default_factory=list)
    unsolvable_roots: list[str] = field(default_factory=list)
    unmet_roots: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    failed: list[CrawlFailure] = field(default_factory=list)
    waiting: int = 0
    left_out: list[str] = field(default_factory=list)
    alarms: list[HashAlarm] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    traffic: Traffic = field(default_factory=Traffic)
    elapsed_s: float = 0.0
    lost: IndexProblem | None = None

    def count_plan(self, made: ProjectPlan, known: Collection[str], chosen: frozenset[str]) -> None:
        """Count what is to be done about a package.

        :param known: versions in the record
        :param chosen: versions that were counted before
        """
        selected = made.selected - chosen
        self.releases += len(selected)
        self.known += len(selected.intersection(known).difference(made.to_read))
        self.to_read += len(made.to_read)
        self.waiting += len(made.waiting)
        self.events.update(it.kind for it in made.events)
        self.emptied += [it.name for it in made.events if it.kind == EMPTIED]
        self.alarms += [_alarm(it) for it in made.events if it.kind == CONFLICT]

    def count_added(self, added: ReleasesAdded) -> None:
        """Count what a transaction brought."""
        self.new += len(added.new)
        self.changed += len(added.changed)
        self.alarms += added.alarms

    @property
    def done(self) -> int:
        """Releases that were read, or tried in vain."""
        return self.read.total() + sum(it.version is not None for it in self.failed)

    @property
    def clean(self) -> bool:
        """Whether nothing is left that a person should look at."""
        return not (
            self.missing_roots or self.unsolvable_roots or self.unmet_roots or self.failed
            or self.waiting or self.emptied or self.alarms or self.lost
        )  # fmt: skip

    @property
    def unanswered(self) -> bool:
        """Whether the index gave no answer at all, or none any more."""
        pages = [it for it in self.failed if it.version is None]
        silent = all(it.code in NO_ANSWER for it in pages)
        return self.lost is not None or (0 < self.packages == len(pages) and silent)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        return {
            "index": self.index,
            "packages": self.packages,
            "releases": self.releases,
            "known": self.known,
            "read": dict(sorted(self.read.items())),
            "new": self.new,
            "changed": self.changed,
            "missing": sorted(self.missing),
            "missing_roots": sorted(self.missing_roots),
            "unwatched": self.unwatched,
            "unsolvable_roots": sorted(self.unsolvable_roots),
            "unmet_roots": self.unmet_roots,
            "emptied": sorted(self.emptied),
            "skipped": dict(sorted(self.skipped.items())),
            "failed": [asdict(it) for it in self.failed],
            "waiting": self.waiting,
            "left_out": self.left_out,
            "alarms": [asdict(it) for it in self.alarms],
            "events": dict(sorted(self.events.items())),
            "traffic": asdict(self.traffic),
            "elapsed_s": round(self.elapsed_s, 3),
            "lost": str(self.lost) if self.lost else None,
        }


def _alarm(event: IndexEvent) -> HashAlarm:
    purl, *_ = release_identity(event.name, event.version, event.index)
    return HashAlarm(purl, event.detail["file"], event.detail["known"], event.detail["offered"])
