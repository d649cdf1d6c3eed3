"""Runs of crawls: adds packages, and refreshes all known packages."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from common.index.configuration import Index, configured_indexes, index_of
from common.settings import Settings
from graph.engine import relational_errors
from graph.record.crawls import WatchedProject, known_projects, retry_all, watch, watched_packages
from graph.record.freshness import INDEX, add_successes, set_sources
from ingest.crawl.closure import CrawlBounds, CrawlRequest, WantedPackage
from ingest.crawl.crawler import CrawlReport, crawl
from ingest.crawl.release_selection import CANDIDATES
from ingest.record import RunOutcome, exclusive_run, recording
from model.errors import IndexFault, IndexProblem, InvalidArgument
from model.packages.releases import parse_requirement
from model.redaction import without_secrets

#: Key of the advisory lock of a refresh; any number that nothing else uses.
_REFRESH_LOCK = 7_401_312

OnProgress = Callable[[CrawlReport], None]


def unanswered(crawls: Sequence[CrawlReport]) -> bool:
    """Whether there are indexes, but none of them answered."""
    return bool(crawls) and all(report.unanswered for report in crawls)


def clean(crawls: Sequence[CrawlReport]) -> bool:
    """Whether nothing needs attention."""
    return all(report.clean for report in crawls)


def packages_document(outcome: RunOutcome[tuple[CrawlReport, ...]]) -> dict[str, Any]:
    """The document that ``thoth packages add --json`` prints."""
    return outcome.as_json(indexes=[report.as_json() for report in outcome.report])


def wanted_packages(names: Iterable[str]) -> tuple[WantedPackage, ...]:
    """Parse packages from the command line, with optional extras and specifiers.

    :raises InvalidArgument: if one is not a requirement, or has a URL or a marker

    >>> wanted_packages(["Torch[Opt]==2.9"])
    (WantedPackage(name='torch', specifier='==2.9', extras=frozenset({'opt'})),)
    """
    wanted = []
    for text in names:
        package = parse_requirement(text)
        if package.name is None:
            problem = without_secrets(package.problem or "")
            raise InvalidArgument(f"{without_secrets(text)!r} names no package: {problem}")
        if package.url is not None or package.marker is not None:
            message = "URLs and markers are not allowed here"
            raise InvalidArgument(f"{without_secrets(text)!r}: {message}")
        extras = frozenset(package.extras)
        wanted.append(WantedPackage(package.name, package.specifier, extras))
    return tuple(wanted)


def add_packages(
    settings: Settings,
    roots: Sequence[WantedPackage],
    bounds: CrawlBounds,
    *,
    index: str | None = None,
    watching: bool = True,
    retry: bool = False,
    on_progress: OnProgress = lambda _report: None,
) -> RunOutcome[tuple[CrawlReport, ...]]:
    """Store ``roots`` and all packages that they require, and watch the roots from now on.

    :param retry: whether releases are read again that were given up, failed or broken
    :raises InvalidArgument: if there is no such index
    """
    served = index_of(settings, index)
    # A retry uses no cached pages.
    request = CrawlRequest(tuple(roots), bounds, again=retry, max_age_s=0.0 if retry else None)
    with recording(settings) as run:
        if retry:
            with relational_errors(settings), run.engine.begin() as connection:
                retry_all(connection, served.name)
        report = crawl(
            settings, run.engine, served, request, on_progress=on_progress, on_commit=run.on_commit
        )
        if watching:
            _watch(settings, run.engine, served, roots, bounds, report)
    return run.outcome((report,))


def refresh(
    settings: Settings, *, on_progress: OnProgress = lambda _report: None
) -> RunOutcome[tuple[CrawlReport, ...]]:
    """Read new releases of all known packages; one run at a time.

    :raises AlreadyRunning: if another process on any machine is running it
    """
    with recording(settings) as run:
        reports = refresh_indexes(
            settings, run.engine, on_progress=on_progress, on_commit=run.on_commit
        )
    return run.outcome(tuple(reports))


def refresh_indexes(
    settings: Settings,
    engine: Engine,
    *,
    on_progress: OnProgress = lambda _report: None,
    on_commit: Callable[[], None] = lambda: None,
) -> list[CrawlReport]:
    """For each index, read new releases of the packages that the record has from this index.

    :raises AlreadyRunning: if another process on any machine is running it
    """
    with (
        relational_errors(settings),
        exclusive_run(engine, _REFRESH_LOCK, "another refresh is in progress") as connection,
    ):
        projects, followed = known_projects(connection), watched_packages(connection)
        connection.commit()
        indexes = configured_indexes(settings)
        names = sorted(projects.keys() | {it.index for it in followed})
        with engine.begin() as recording:
            set_sources(recording, INDEX, names)
        reports = [
            crawl(
                settings, engine, indexes[name],
                _refreshing(name, projects.get(name, []), followed),
                on_progress=on_progress, on_commit=on_commit,
            )
            if name in indexes
            else CrawlReport(name, lost=IndexProblem(
                IndexFault.UNREACHABLE, f"the index {name!r} is not configured any more"
            ))
            for name in names
        ]  # fmt: skip
        with engine.begin() as recording:
            add_successes(recording, INDEX, [it.index for it in reports if it.lost is None])
        return reports


def _refreshing(
    index: str, known: Sequence[str], followed: Iterable[WatchedProject]
) -> CrawlRequest:
    """Return the request that refreshes an index; watched packages have their own bounds.

    Of packages that are required for the first time, only the newest releases are read: advice
    reads further releases when it needs them.
    """
    ours = [it for it in followed if it.index == index]
    own_bounds: dict[str, CrawlBounds] = {}
    for watched in ours:
        bounds = CrawlBounds(newer_than=watched.newer_than, prereleases=watched.prereleases)
        if watched.max_versions is not None:
            bounds = replace(bounds, max_versions=watched.max_versions)
        own_bounds[watched.name] = bounds
    return CrawlRequest(
        tuple(WantedPackage(it.name, extras=frozenset(it.extras)) for it in ours),
        CrawlBounds(max_versions=CANDIDATES),
        known=frozenset(known),
        own_bounds=own_bounds,
        max_age_s=0.0,
    )


def _watch(
    settings: Settings,
    engine: Engine,
    index: Index,
    roots: Sequence[WantedPackage],
    bounds: CrawlBounds,
    report: CrawlReport,
) -> None:
    """Watch the roots from now on, except those that the index does not have."""
    report.unwatched = report.missing_roots
    extras: dict[str, frozenset[str]] = {}
    for root in roots:
        if root.name not in report.missing_roots:
            extras[root.name] = extras.get(root.name, frozenset()) | root.extras
    with relational_errors(settings), engine.begin() as connection:
        watch(
            connection,
            [
                WatchedProject(
                    index.name, name, bounds.max_versions, bounds.newer_than,
                    tuple(sorted(names)), bounds.prereleases,
                )
                for name, names in sorted(extras.items())
            ],
        )  # fmt: skip
