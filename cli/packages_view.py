"""Output of ``thoth packages``: crawls, imports, releases, indexes and the watch list."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from cli.console import (
    LABEL_WIDTH,
    Column,
    Table,
    moment_text,
    print_field,
    print_list,
    progress_bars,
)
from graph.record.crawls import WatchedProject
from graph.record.indexes import IndexStatus
from graph.record.modules import ModuleProvider
from graph.record.packages import PackageView, ReleaseVulnerability
from graph.record.release_merging import KnownRelease
from ingest.crawl.crawler import CrawlReport
from ingest.releases.pipeline import ReleaseReport
from model.advisories import NO_ADVISORIES
from model.packages.releases import ReleaseFile, ReleaseState
from model.text import counted, counts_text, first_few, printable

#: Maximum number of lines of one kind in a report of a run; the rest is counted.
_SHOWN_LINES = 10
#: Maximum number of entries of one kind in a status; the rest is counted.
_SHOWN_ENTRIES = 20

#: Fields of a release in the JSON document, before and after its requirements.
_IDENTITY = ("purl", "version", "index", "state", "problem", "problem_message", "requires_python")
_PROVENANCE = (
    "license", "yanked", "yanked_reason", "uploaded_at", "as_of", "metadata_source",
    "metadata_file",
)  # fmt: skip


@contextmanager
def crawl_progress(*, hidden: bool = False) -> Iterator[Callable[[CrawlReport], None]]:
    """Return a function that shows the progress of a crawl in two bars."""
    with progress_bars("packages", "releases", hidden=hidden) as bars:

        def show(report: CrawlReport) -> None:
            bars.update("packages", report.packages, report.followed)
            bars.update("releases", report.done, report.to_read)

        yield show


def print_releases(report: ReleaseReport, *, dry_run: bool) -> None:
    """Print the result of an import, and what to do next."""
    new = "can be ingested" if dry_run else "new"
    print_field(
        "releases",
        f"{report.read} read: {report.new} {new}, {report.changed} changed, "
        f"{report.known} already known, {report.quarantined} quarantined",
    )
    if report.states:
        print_field("states", counts_text(report.states))
    if report.problems:
        print_field("problems", counts_text(report.problems))
    if report.mended:
        print_field("quarantine", f"{report.mended} resolved")
    if report.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in report.reasons.most_common())
        print_field("refused", reasons + ("" if dry_run else "; see `thoth ingest quarantine`"))
    if report.alarms:
        files = counted(len(report.alarms), "file has", "files have")
        message = f"{files} another hash than before; the record keeps the first"
        print_field("alarms", message, err=True)
        alarms = [
            f"{it.purl} {it.filename}: {it.known} became {it.offered}" for it in report.alarms
        ]
        print_list("", alarms, _SHOWN_LINES)


def print_crawl(report: CrawlReport) -> None:
    """Print the result for one index."""
    traffic = report.traffic
    failed_pages = sum(it.version is None for it in report.failed)
    print_field(
        "packages",
        f"{report.packages} requested from {report.index}: "
        f"{len(report.missing)} missing, {failed_pages} failed",
    )
    print_field(
        "releases",
        f"{report.releases} selected: {report.known} known before, "
        f"{sum(report.read.values())} read ({counts_text(report.read) or 'none'})",
    )
    print_field("record", f"{report.new} new, {report.changed} changed")
    if report.skipped:
        entries = counted(sum(report.skipped.values()), "page entry", "page entries")
        names = first_few(sorted(report.skipped), _SHOWN_LINES)
        print_field("skipped", f"{entries}, of another package or listed twice: {names}")
    if report.events:
        print_field("events", counts_text(report.events))
    print_field(
        "traffic",
        f"{traffic.requests} requests, {traffic.bytes_received / 1e6:.1f} MB, "
        f"{traffic.revalidated} pages unchanged, {traffic.from_cache} answers from the cache, "
        f"{report.elapsed_s:.1f} s",
    )
    _print_problems(report)


def _print_problems(report: CrawlReport) -> None:
    others = sorted(set(report.missing) - set(report.missing_roots))
    problems = (
        ("missing", [f"{name}, which was requested" for name in report.missing_roots]),
        ("not watched", [f"{name}: the index does not have it" for name in report.unwatched]),
        ("missing", others),
        ("unsolvable", [f"no release of {name} can be chosen" for name in report.unsolvable_roots]),
        ("unmet", [f"no release that can be chosen meets {name}" for name in report.unmet_roots]),
        (
            "failed",
            [f"{it.name} {it.version or 'page'}: {it.message} [{it.code}]" for it in report.failed],
        ),
        (
            "alarm",
            [f"the page of {name} lists no files any more" for name in sorted(report.emptied)],
        ),
        (
            "alarm",
            [
                f"{it.purl} {it.filename} has another hash: {it.known} became {it.offered}; "
                "the record keeps the first"
                for it in report.alarms
            ],
        ),
    )
    for label, lines in problems:
        print_list(label, lines, _SHOWN_LINES)
    if report.waiting:
        text = (
            f"{counted(report.waiting, 'release')} failed before; `thoth packages status` lists "
            "them, --retry tries again"
        )
        print_field("waiting", text, err=True)
    if report.left_out:
        names = first_few(report.left_out, _SHOWN_LINES)
        packages = counted(len(report.left_out), "package was", "packages were")
        print_field("bound", f"{packages} not followed (--max-packages): {names}", err=True)
    if report.lost is not None:
        text = f"{printable(str(report.lost))}; run the command again to continue"
        print_field("lost", text, err=True)


def print_status(indexes: Sequence[IndexStatus], days: int) -> None:
    """Print the packages, freshness and problems of each index."""
    if not indexes:
        click.echo("No package is known yet; add some with `thoth packages add NAME`.")
    for status in indexes:
        click.echo(f"{status.index}")
        waiting = {name: count for name, count in status.queue.items() if count}
        failed = [f"{it['name']} [{it['problem']}]" for it in status.failed]
        given_up = [f"{it['name']} {it['version']} [{it['problem']}]" for it in status.given_up]
        alarms = [
            " ".join(filter(None, (it["name"], it["version"], it.get("file"), f"[{it['kind']}]")))
            for it in status.alarms
        ]
        listed = first_few(alarms, _SHOWN_ENTRIES, status.alarm_count)
        _print_fact("releases", counts_text(status.releases) or "none")
        _print_fact("not solved", counts_text(status.problems))
        _print_fact("projects", counts_text(status.projects))
        moments = (moment_text(it) for it in (status.oldest, status.newest) if it is not None)
        _print_fact("as of", " to ".join(dict.fromkeys(moments)))
        _print_fact("watched", str(status.watched) if status.watched else "")
        _print_fact("queue", counts_text(waiting))
        _print_fact(f"last {days} days", counts_text(status.events))
        _print_fact("missing", first_few(status.missing, _SHOWN_ENTRIES))
        _print_fact("failed", first_few(failed, _SHOWN_ENTRIES))
        _print_fact("given up", first_few(given_up, _SHOWN_ENTRIES))
        _print_fact("alarms", f"{status.alarm_count}: {listed}" if status.alarm_count else "")


def _print_fact(label: str, text: str) -> None:
    if text:
        print_field(f"  {label}", printable(text), width=LABEL_WIDTH + 2)


def print_providers(providers: Sequence[ModuleProvider]) -> None:
    """Print the packages that provide a module."""
    titles = ("package", "index", "import name", "newest", "releases", "names from")
    table = Table([Column(title, right=title == "releases") for title in titles])
    for it in providers:
        table.add(it.name, it.index, it.module, it.newest, str(it.versions), it.source)
    table.print()


def print_watched(packages: Sequence[WatchedProject]) -> None:
    """Print the watch list."""
    if not packages:
        click.echo("No package is watched.")
        return
    titles = ("package", "index", "versions", "newer than", "pre-releases")
    table = Table([Column(title) for title in titles])
    for package in packages:
        extras = f"[{','.join(package.extras)}]" if package.extras else ""
        table.add(
            f"{package.name}{extras}",
            package.index,
            str(package.max_versions or ""),
            moment_text(package.newer_than) if package.newer_than else "",
            "yes" if package.prereleases else "",
        )
    table.print()


def print_package(view: PackageView, *, details: bool) -> None:
    """Print a package: its releases in a table, or all details of one version."""
    for answer in view.answers:
        as_of = moment_text(answer.as_of) if answer.as_of else "an unknown time"
        state = answer.message or f"as of {as_of}"
        if answer.status not in (None, "active"):
            reason = f": {answer.status_reason}" if answer.status_reason else ""
            state += f", {answer.status}{reason}"
        elif answer.as_of and answer.status is None:
            state += ", project status unknown"
        click.echo(printable(f"{view.name} at {answer.index}: {answer.state}, {state}"))
    if details:
        for release in view.releases:
            _print_release(release, _vulnerabilities(view, release))
    else:
        _print_releases(view)
    for event in view.events[:_SHOWN_ENTRIES]:
        detail = json.dumps(event.detail) if event.detail else ""
        moment = moment_text(event.occurred_at)
        line = f"{moment} {event.index} {event.version} {event.kind} {detail}"
        click.echo(printable(line.rstrip()))
    if more := len(view.events[_SHOWN_ENTRIES:]):
        click.echo(f"and {counted(more, 'earlier event')}: --json lists them")


def _print_releases(view: PackageView) -> None:
    table = Table(
        [
            Column("version"), Column("index"), Column("state", wraps=True), Column("uploaded"),
            Column("python", wraps=True), Column("requires", right=True), Column("files"),
            Column("affected by", wraps=True),
        ]
    )  # fmt: skip
    for release in view.releases:
        vulnerabilities = _vulnerabilities(view, release)
        wheels = sum(file.kind == "wheel" for file in release.files.values())
        kinds = [counted(wheels, "wheel")] if wheels else []
        if release.has_sdist:
            kinds.append("sdist")
        table.add(
            release.version,
            release.index,
            _state(release),
            f"{release.uploaded_at:%Y-%m-%d}" if release.uploaded_at else "",
            release.requires_python or "",
            str(len(release.requirements)),
            " + ".join(kinds) or ("none" if release.files_complete else "unknown"),
            "unknown"
            if vulnerabilities is None
            else ", ".join(
                f"{it.vulnerability_id} {it.severity or ''}".strip() for it in vulnerabilities
            ),
        )
    table.print()


def _state(release: KnownRelease) -> str:
    state = release.state.value
    if release.state not in (ReleaseState.SOLVED, ReleaseState.UNREAD):
        state += f": {release.problem}"
    return f"{state}, yanked" if release.yanked else state


def _vulnerabilities(
    view: PackageView, release: KnownRelease
) -> Sequence[ReleaseVulnerability] | None:
    """Vulnerabilities of a release; ``None`` if no advisories were read."""
    return None if view.vulnerabilities is None else view.vulnerabilities.get(release.purl, ())


def _print_release(
    release: KnownRelease, vulnerabilities: Sequence[ReleaseVulnerability] | None
) -> None:
    click.echo(f"\n{release.purl}")
    source = f"({release.metadata_source})" if release.metadata_source else ""
    _print_fact("state", _state(release))
    _print_fact("reason", release.problem_message or "")
    _print_fact("yanked for", release.yanked_reason or "")
    _print_fact("uploaded", moment_text(release.uploaded_at) if release.uploaded_at else "")
    _print_fact("as of", moment_text(release.as_of) if release.as_of else "")
    _print_fact("python", release.requires_python or "")
    _print_fact("licence", release.license or "")
    _print_fact("extras", ", ".join(release.extras))
    _print_fact("read from", f"{release.metadata_file or ''} {source}".strip())
    imports = "unknown"
    if release.imports is not None:
        names, source_of_names = release.imports.names, release.imports.source.value
        imports = f"{', '.join(names) or 'none'} ({source_of_names})"
    _print_fact("imports", imports)
    for requirement in release.requirements:
        problem = f"  ({requirement.problem})" if requirement.problem else ""
        _print_fact("requires", requirement.raw + problem)
    for file in release.files.values():
        _print_fact("file", _file_text(file))
    for file in release.gone.values():
        _print_fact("gone", _file_text(file))
    if vulnerabilities is None:
        _print_fact("affected by", f"unknown: {NO_ADVISORIES}")
    for each in vulnerabilities or ():
        score = "" if each.score is None else f" {each.score}"
        severity = f"{each.severity or 'unrated'}{score}"
        _print_fact("affected by", f"{each.vulnerability_id} {severity}: {each.summary or ''}")


def _file_text(file: ReleaseFile) -> str:
    facts = [file.filename, f"sha256:{file.sha256}" if file.sha256 else "without hash"]
    if file.attested is not None:
        facts.append("attested" if file.attested else "not attested")
    if file.yanked:
        facts.append(f"yanked: {file.yanked_reason}" if file.yanked_reason else "yanked")
    return "  ".join(facts)


def view_json(view: PackageView) -> dict[str, Any]:
    """Return the document that ``--json`` prints."""
    return {
        "name": view.name,
        "indexes": view.answers,
        "releases": [
            {
                **{name: getattr(release, name) for name in _IDENTITY},
                "requires_dist": list(release.requirements_raw)
                if release.requirements_known
                else None,
                "provides_extra": list(release.extras),
                **{name: getattr(release, name) for name in _PROVENANCE},
                "imports": None if release.imports is None else list(release.imports.names),
                "imports_source": None if release.imports is None else release.imports.source.value,
                "files_complete": release.files_complete,
                "files": list(release.files.values()),
                "gone": list(release.gone.values()),
                "vulnerabilities": _vulnerabilities(view, release),
            }
            for release in view.releases
        ],
        "events": view.events,
    }
