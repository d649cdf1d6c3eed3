"""Crawls one index: stores packages and all that they require, layer by layer.

Failed requests are repeated later. A bug ends the work on one package, and an index that no longer
answers ends the crawl.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from packaging.specifiers import SpecifierSet
from sqlalchemy import Connection, Engine

from common.http.fetching import Traffic
from common.index.client import IndexClient
from common.index.configuration import Index
from common.index.release_metadata import read_release
from common.settings import Settings
from graph.record.crawls import (
    FailedRead,
    QueueRow,
    add_events,
    project_row,
    queue_releases,
    queued_releases,
    record_no_page,
    record_page,
    take_off_queue,
)
from graph.record.known_releases import known_releases
from graph.record.postgresql_helpers import current_time
from graph.record.release_merging import HashAlarm, KnownRelease
from graph.record.releases import ReleaseDelivery, ReleasesAdded
from ingest.crawl.closure import CrawlRequest, FollowedPackage, RequirementClosure, WantedPackage
from ingest.crawl.record_writer import RecordWriter
from ingest.crawl.release_selection import (
    CONFLICT,
    EMPTIED,
    ProjectNeeds,
    ProjectPlan,
    as_listed,
    needed_versions,
    offered_on,
    plan,
    release_draft,
    release_from,
)
from ingest.releases.parsing import public_status
from model.declared_fields import report_of
from model.errors import IndexFault, IndexProblem, ProjectError
from model.packages.project_pages import ListedVersion, ProjectPage
from model.packages.releases import Release, ReleaseState, release_identity

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
    :param skipped: by package, number of page entries that are repeated or name a foreign file
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
        for event in (it for it in plan.events if it.kind == CONFLICT):
            purl, *_ = release_identity(event.name, event.version, event.index)
            file, known_hash, offered = (event.detail[it] for it in ("file", "known", "offered"))
            self.alarms.append(HashAlarm(purl, file, known_hash, offered))

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


T = TypeVar("T")

#: After this number of unanswered requests in a row, the index counts as lost.
LIMIT = 8


class IndexLost(Exception):
    """The index stopped answering, so the crawl ends."""

    def __init__(self, problem: IndexProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class CircuitBreaker:
    """Counts consecutive requests that an index did not answer.

    A broken answer counts as an answer, because a broken release does not mean that the index is
    unavailable.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._unanswered = 0

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """Await ``request`` and return its result.

        :raises IndexProblem: if the request fails
        :raises IndexLost: after too many unanswered requests
        """
        try:
            answer = await request()
        except IndexProblem as problem:
            self._unanswered = self._unanswered + 1 if problem.code in NO_ANSWER else 0
            if self._unanswered >= self._limit:
                raise IndexLost(problem) from problem
            raise
        self._unanswered = 0
        return answer


#: Code of a failure because of a bug in this program.
INTERNAL = "internal"


def bug_message(error: Exception, name: str, version: str | None = None) -> str:
    """Log an unexpected error and return the message for the record.

    A bug that concerns one package must not end the crawl of a thousand others. The bug is logged,
    stored as the state of the package, and leads to exit code 1.
    """
    kind = type(error).__name__
    fields = {"package": name, "version": version, "error": kind}
    logger.error("crawl_met_a_bug", exc_info=error, extra=fields)
    return f"internal error: {kind}; see the traceback in the log"


#: Automatic attempts to read a release; further attempts must be requested.
ATTEMPTS = 5
_FIRST_WAIT = timedelta(minutes=1)
_FACTOR = 5


def pause_after(attempts: int) -> timedelta | None:
    """Return the pause after ``attempts`` failures; ``None`` to give up.

    A pause lasts 1, 5, 25 or 125 minutes, or until the next refresh if that is later.
    """
    if attempts >= ATTEMPTS:
        return None
    return float(_FACTOR ** (attempts - 1)) * _FIRST_WAIT


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently; the first error cancels the others and is raised unwrapped."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except BaseExceptionGroup as raised:
        raise _first(raised) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


logger = logging.getLogger(__name__)

#: Packages that are read concurrently, and releases; the client has as many connections.
WORKERS = 4
#: A batch is committed after so many releases or seconds.
BATCH_RELEASES, BATCH_S = 200, 2.0
#: Within a crawl, a page is requested only once.
_SAME_CRAWL_S = 86_400.0

OnProgress = Callable[[CrawlReport], None]


def crawl(
    settings: Settings,
    engine: Engine,
    index: Index,
    request: CrawlRequest,
    *,
    on_progress: OnProgress = lambda _report: None,
    on_commit: Callable[[], None] = lambda: None,
) -> CrawlReport:
    """Store packages and all that they require; a second run resumes an interrupted one.

    :param on_progress: called after every page and release
    :param on_commit: called after each transaction, for example to wake the projector
    :raises StoreUnavailable: if the record is lost; committed batches are kept
    """

    async def run(recorder: RecordWriter) -> CrawlReport:
        async with IndexClient(settings, index) as client:
            return await _Crawler(client, request, recorder, on_progress).run()

    with RecordWriter(settings, engine, index.name, on_commit) as recorder:
        return asyncio.run(run(recorder))


@dataclass(frozen=True, slots=True)
class _Project:
    """A package of this crawl: the releases on its page, and the selected versions."""

    listed: Sequence[ListedVersion]
    selected: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A stored plan for a package, with the rows that the plan is based on."""

    plan: ProjectPlan
    known: Mapping[str, KnownRelease]
    queue: Mapping[str, QueueRow]
    added: ReleasesAdded


class _Crawler:
    def __init__(
        self,
        client: IndexClient,
        request: CrawlRequest,
        recorder: RecordWriter,
        on_progress: OnProgress,
    ) -> None:
        self._client = client
        self._request = request
        self._recorder = recorder
        self._index = client.index.name
        self._source = f"index {self._index}"
        self._closure = RequirementClosure(request.bounds.max_packages + len(request.known))
        self._projects: dict[str, _Project] = {}
        self._solved: set[str] = set()
        self._breaker = CircuitBreaker()
        self._packages = asyncio.Semaphore(WORKERS)
        self._readers = asyncio.Semaphore(WORKERS)
        self._read: list[ReleaseDelivery] = []
        self._failures: list[FailedRead] = []
        self._stored_at = time.monotonic()
        self._on_progress = on_progress
        self._report = CrawlReport(self._index, traffic=client.traffic)

    async def run(self) -> CrawlReport:
        """Read layers until no requirement names a new package."""
        began = time.monotonic()
        self._closure.want((*self._request.roots, *map(WantedPackage, self._request.known)))
        try:
            while layer := self._closure.next_layer():
                self._report.followed = len(self._closure.followed)
                await together(self._read_package(package) for package in layer)
                await self._store()
        except IndexLost as lost:
            self._report.lost = lost.problem
            await self._store()
        self._conclude()
        self._report.elapsed_s = time.monotonic() - began
        return self._report

    async def _read_package(self, package: FollowedPackage) -> None:
        """Read a new package, or further releases of a package with new specifiers."""
        fresh, package.fresh = frozenset(package.fresh), set()
        seen = self._projects.get(package.name)
        if seen is not None and not needed_versions(fresh, seen.listed, seen.selected):
            return
        async with self._packages:
            page = await self._page(package.name, first=seen is None)
            if page is None:
                return
            needs = ProjectNeeds(
                self._request.bounds_of(package.name), fresh, frozenset(),
                package.name in self._request.known, self._request.again,
            ) if seen is None else ProjectNeeds(None, fresh, seen.selected)  # fmt: skip
            prepared = await self._plan_for(page, needs)
            if prepared is None:
                return
            await together(
                self._read_one(page, version, prepared.queue.get(version))
                for version in prepared.plan.to_read
            )

    async def _plan_for(self, page: ProjectPage, needs: ProjectNeeds) -> _Prepared | None:
        """Store the plan for a package; return ``None`` after an unexpected error."""
        try:
            prepared = await self._recorder.transaction(lambda it: self._prepare(it, page, needs))
            self._projects[page.name] = _Project(
                tuple(page.listed.values()), prepared.plan.selected
            )
            self._report.count_plan(prepared.plan, prepared.known, needs.chosen)
            if page.skipped:
                self._report.skipped[page.name] = len(page.skipped)
            self._report.count_added(prepared.added)
            # Follow the requirements of releases that the record knows.
            for version in sorted(prepared.plan.selected - needs.chosen):
                known = prepared.known.get(version)
                if known is not None and known.state is ReleaseState.SOLVED:
                    self._solved.add(known.name)
                    self._closure.learn(known.name, version, known.requirements)
        except ProjectError:
            raise
        except Exception as error:
            await self._no_page(page.name, INTERNAL, bug_message(error, page.name))
            return None
        return prepared

    async def _page(self, name: str, *, first: bool) -> ProjectPage | None:
        age_s = self._request.max_age_s if first else _SAME_CRAWL_S
        try:
            return await self._breaker.ask(lambda: self._client.project(name, max_age_s=age_s))
        except IndexProblem as problem:
            await self._no_page(name, problem.code, problem.message)
            return None
        except (ProjectError, IndexLost):
            raise
        except Exception as error:
            await self._no_page(name, INTERNAL, bug_message(error, name))
            return None
        finally:
            self._report.packages += first
            self._on_progress(self._report)

    async def _no_page(self, name: str, code: str, message: str) -> None:
        missing = code == IndexFault.NOT_FOUND
        before = await self._recorder.transaction(
            lambda connection: record_no_page(
                connection, self._index, name, "missing" if missing else "failed", code, message
            )
        )
        logger.warning("no_page", extra={"index": self._index, "package": name, "code": code})
        if missing:
            self._report.missing.append(name)
        if not missing or (before is not None and before.state == "known"):
            self._report.failed.append(CrawlFailure(name, None, code, message))

    def _prepare(self, connection: Connection, page: ProjectPage, needs: ProjectNeeds) -> _Prepared:
        """Decide which releases to read; store the plan, and the releases that need no reading."""
        index, name = self._index, page.name
        known = as_listed(known_releases(connection, index, name), page.releases)
        queue = queued_releases(connection, index, name)
        before = project_row(connection, index, name)
        prepared = plan(index, page, needs, known, queue, before, current_time(connection))
        described = [
            ReleaseDelivery(release, self._source, page.as_of)
            for release in filter(None, map(release_from, prepared.drafts))
            if release.version not in known
            or known[release.version].document_id != release.document_id
        ]
        added = self._recorder.add(connection, described)
        record_page(
            connection,
            index,
            name,
            page.digest,
            offered_on(page),
            page.as_of,
            public_status(page.status),
        )
        queue_releases(connection, index, name, prepared.to_read)
        take_off_queue(connection, index, [(name, version) for version in prepared.stale])
        add_events(connection, prepared.events)
        return _Prepared(prepared, known, queue, added)

    async def _read_one(self, page: ProjectPage, version: str, queued: QueueRow | None) -> None:
        async with self._readers:
            try:
                self._take(page, version, queued, await self._release(page, version))
            except IndexProblem as problem:
                self._fail(page.name, version, queued, problem.code, problem.message)
            except (ProjectError, IndexLost):
                raise
            except Exception as error:
                message = bug_message(error, page.name, version)
                self._fail(page.name, version, queued, INTERNAL, message)
        self._on_progress(self._report)
        if len(self._read) >= BATCH_RELEASES or time.monotonic() - self._stored_at > BATCH_S:
            await self._store()

    async def _release(self, page: ProjectPage, version: str) -> Release | None:
        files = page.releases[version]
        metadata = await self._breaker.ask(
            lambda: read_release(self._client.metadata, page.name, version, files)
        )
        return release_from(release_draft(self._index, page.name, version, files, metadata))

    def _take(
        self, page: ProjectPage, version: str, queued: QueueRow | None, release: Release | None
    ) -> None:
        if release is None:
            self._fail(page.name, version, queued, "refused", "its name or version is invalid")
            return
        if release.state is ReleaseState.SOLVED:
            self._closure.learn(release.name, release.version, release.requirements)
            self._solved.add(release.name)
        self._read.append(ReleaseDelivery(release, self._source, page.as_of))
        self._report.read[release.state] += 1

    def _fail(
        self, name: str, version: str, queued: QueueRow | None, code: str, message: str
    ) -> None:
        attempts = 1 + (queued.attempts if queued else 0)
        pause = pause_after(attempts)
        self._failures.append(FailedRead(name, version, code, message, attempts, pause))
        self._report.failed.append(CrawlFailure(name, version, code, message))
        logger.warning(
            "release_not_read", extra={"package": name, "version": version, "code": code}
        )

    async def _store(self) -> None:
        read, self._read = self._read, []
        failures, self._failures = self._failures, []
        self._stored_at = time.monotonic()
        if not read and not failures:
            return
        try:
            self._report.count_added(await self._recorder.store(read, failures))
        except ProjectError:
            raise
        except Exception:
            await self._store_one_by_one(read, failures)

    async def _store_one_by_one(
        self, read: list[ReleaseDelivery], failures: list[FailedRead]
    ) -> None:
        """Store releases one by one, so that a release that cannot be stored affects no others."""
        for each in read:
            try:
                self._report.count_added(await self._recorder.store([each], []))
            except ProjectError:
                raise
            except Exception as error:
                name, version = each.release.name, each.release.version
                self._report.read -= Counter([each.release.state])
                self._fail(name, version, None, INTERNAL, bug_message(error, name, version))
        failures, self._failures = failures + self._failures, []
        await self._recorder.store([], failures)

    def _conclude(self) -> None:
        roots = {root.name for root in self._request.roots}
        self._report.left_out = sorted(self._closure.left_out)
        self._report.missing_roots = sorted(roots.intersection(self._report.missing))
        self._report.unsolvable_roots = sorted((roots & self._projects.keys()) - self._solved)
        unmet: set[str] = set()
        for root in self._request.roots:
            if root.name in self._solved:
                wanted = SpecifierSet(root.specifier)
                versions = self._closure.followed[root.name].releases
                if not any(wanted.contains(it, prereleases=True) for it in versions):
                    unmet.add(root.text)
        self._report.unmet_roots = sorted(unmet)
        logger.info("crawl_ended", extra={"index": self._index, "packages": self._report.packages})
