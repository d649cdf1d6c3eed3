"""The report of a crawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from common.http.fetching import Traffic
from graph.record.crawls import IndexEvent
from graph.record.release_merging import HashAlarm
from graph.record.releases import ReleasesAdded
from ingest.crawl.release_selection import CONFLICT, EMPTIED, ProjectPlan
from model.declared_fields import report_of
from model.errors import IndexFault, IndexProblem
from model.packages.releases import release_identity

#: Faults that count as no answer.
NO_ANSWER = frozenset({IndexFault.UNREACHABLE, IndexFault.TIMEOUT, IndexFault.UNAUTHORIZED})


@dataclass(frozen=True, slots=True)
class CrawlFailure:
    """A package or release that could not be read.

    :param code: an :class:`model.errors.IndexFault`, or the reason why a document is refused
    """

    name: str
    version: str | None
    code: str
    message: str


@dataclass(slots=True)
class CrawlReport:
    """Counts of the crawl of one index.

    :param packages: packages whose page was requested
    :param followed: packages to request, as far as they are known yet
    :param releases: selected releases
    :param known: selected releases whose metadata was in the record
    :param read: releases whose metadata was read, by state
    :param changed: releases in the record that changed
    :param missing: packages that the index does not have
    :param waiting: releases that failed before and are not due, or were given up
    :param left_out: packages beyond the bound
    :param unwatched: roots that are missing and therefore not watched
    :param unsolvable_roots: roots without a selectable release
    :param unmet_roots: roots with selectable releases, none of which meets the specifier
    :param emptied: packages that lost all their files
    :param skipped: by package, number of page entries that are repeated or name no file of it
    :param events: number of changes on the index since its last answer, by kind
    :param lost: why the crawl ended early
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

    def count_plan(self, plan: ProjectPlan, known: Collection[str], chosen: frozenset[str]) -> None:
        """Count the plan for a package.

        :param known: versions in the record
        :param chosen: versions that were counted before
        """
        selected = plan.selected - chosen
        self.releases += len(selected)
        self.known += len(selected.intersection(known).difference(plan.to_read))
        self.to_read += len(plan.to_read)
        self.waiting += len(plan.waiting)
        self.events.update(it.kind for it in plan.events)
        self.emptied += [it.name for it in plan.events if it.kind == EMPTIED]
        self.alarms += [_alarm(it) for it in plan.events if it.kind == CONFLICT]

    def count_added(self, added: ReleasesAdded) -> None:
        """Count the releases that a transaction added."""
        self.new += len(added.new)
        self.changed += len(added.changed)
        self.alarms += added.alarms

    @property
    def done(self) -> int:
        """Releases that were read or failed."""
        return self.read.total() + sum(it.version is not None for it in self.failed)

    @property
    def clean(self) -> bool:
        """Whether nothing needs attention."""
        return not (
            self.missing_roots or self.unsolvable_roots or self.unmet_roots or self.failed
            or self.waiting or self.emptied or self.alarms or self.lost
        )  # fmt: skip

    @property
    def unanswered(self) -> bool:
        """Whether the index did not answer, or stopped answering."""
        pages = [it for it in self.failed if it.version is None]
        silent = all(it.code in NO_ANSWER for it in pages)
        return self.lost is not None or (0 < self.packages == len(pages) and silent)

    def as_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        document = report_of(self, "followed", "to_read")
        for name in ("missing", "missing_roots", "unsolvable_roots", "emptied"):
            document[name] = sorted(document[name])
        for name in ("read", "skipped", "events"):
            document[name] = dict(sorted(document[name].items()))
        elapsed_s, lost = round(self.elapsed_s, 3), str(self.lost) if self.lost else None
        return {**document, "elapsed_s": elapsed_s, "lost": lost}


def _alarm(event: IndexEvent) -> HashAlarm:
    purl, *_ = release_identity(event.name, event.version, event.index)
    return HashAlarm(purl, event.detail["file"], event.detail["known"], event.detail["offered"])
