"""What imports of releases tell people; only commands call it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from common.errors import ProjectError
from common.terminal import first_few, printable

if TYPE_CHECKING:
    from rich.table import Table

    from common.releases import ReleaseFile
    from graph.record.crawls import WatchedProject
    from graph.record.indexes import IndexStatus
    from graph.record.packages import PackageView, ReleaseVulnerability
    from graph.record.release_merging import KnownRelease
    from ingest.crawl.reports import CrawlReport
    from ingest.crawl.runs import PackagesReport
    from ingest.releases.pipeline import ReleaseReport


#: Alarms that are listed; `thoth packages status` counts them all.
_SHOWN_ALARMS = 10


def print_releases(report: ReleaseReport, *, dry_run: bool) -> None:
    """What became of the releases, and what a person should do next."""
    verb = "can be taken in" if dry_run else "new"
    click.echo(
        f"releases      {report.read} read: {report.new} {verb}, {report.changed} changed, "
        f"{report.known} already known, {report.quarantined} quarantined"
    )
    if report.states:
        click.echo(f"states        {_counts(report.states)}")
    if report.problems:
        click.echo(f"problems      {_counts(report.problems)}")
    if report.mended:
        click.echo(f"quarantine    {report.mended} mended")
    if report.quarantined:
        where = "" if dry_run else "; see `thoth ingest quarantine`"
        click.echo(f"refused       {_counts(report.reasons, spaced=False)}{where}")
    _print_alarms(report)


def _counts(counted: Counter[str], *, spaced: bool = True) -> str:
    names = ((count, name.replace("_", " ") if spaced else name) for name, count in counted.items())
    return ", ".join(
        f"{count} {name}" for count, name in sorted(names, key=lambda it: (-it[0], it))
    )


def _print_alarms(report: ReleaseReport) -> None:
    if not report.alarms:
        return
    click.echo(
        f"alarms        {len(report.alarms)} files have another hash than before; "
        "the record keeps the first",
        err=True,
    )
    for alarm in report.alarms[:_SHOWN_ALARMS]:
        words = f"{alarm.purl} {alarm.filename}: {alarm.known} became {alarm.offered}"
        click.echo(f"              {printable(words)}", err=True)
    if len(report.alarms) > _SHOWN_ALARMS:
        click.echo("              …", err=True)


def print_graph(lag: int | None, error: ProjectError | None) -> None:
    """Whether the graph shows what the record holds."""
    if error is not None:
        click.echo(f"graph         behind: {error}", err=True)
        if lag:
            click.echo(f"              {lag} entries wait; `thoth graph sync` later", err=True)
    elif lag is not None:
        click.echo(f"graph         {'up to date' if not lag else f'{lag} entries wait'}")


#: Items of a list that are shown; the rest is counted.
_SHOWN_LINES = 10


def print_crawls(report: PackagesReport) -> None:
    """What became of each index, and what a person should do next."""
    for crawled in report.crawls:
        print_crawl(crawled)
    if not report.crawls:
        click.echo("packages      none known; `thoth packages add NAME` begins")
    print_graph(report.lag, report.graph_error)


def print_crawl(report: CrawlReport) -> None:
    """One index."""
    traffic = report.traffic
    click.echo(
        f"packages      {report.packages} asked for at {report.index}: "
        f"{len(report.missing)} missing, {_failed_pages(report)} failed"
    )
    states = counts(report.read) or "none"
    click.echo(
        f"releases      {report.releases} in bounds: {report.known} known before, "
        f"{sum(report.read.values())} read ({states})"
    )
    click.echo(f"record        {report.new} new, {report.changed} changed")
    if report.skipped:
        click.echo(
            f"skipped       {sum(report.skipped.values())} entries of pages that name no file of "
            f"their package, or one twice: {_names(sorted(report.skipped))}"
        )
    if report.events:
        click.echo(f"events        {counts(report.events)}")
    click.echo(
        f"traffic       {traffic.requests} requests, {traffic.bytes_received / 1e6:.1f} MB, "
        f"{traffic.revalidated} pages confirmed, {traffic.from_cache} answers from the cache, "
        f"{report.elapsed_s:.1f} s"
    )
    _print_troubles(report)


def _failed_pages(report: CrawlReport) -> int:
    return sum(it.version is None for it in report.failed)


def _print_troubles(report: CrawlReport) -> None:
    _print_list("missing", [f"{name}, which was asked for" for name in report.missing_roots])
    _print_list("not watched", [f"{it}, as the index does not have it" for it in report.unwatched])
    others = sorted(set(report.missing) - set(report.missing_roots))
    _print_list("missing", others)
    _print_list(
        "unsolvable", [f"no release of {it} can be chosen" for it in report.unsolvable_roots]
    )
    _print_list("unmet", [f"no release that can be chosen meets {it}" for it in report.unmet_roots])
    _print_list(
        "failed",
        [
            f"{it.name} {it.version or 'as a whole'}: {it.message} [{it.code}]"
            for it in report.failed
        ],
    )
    if report.waiting:
        click.echo(
            f"waiting       {report.waiting} releases failed before; `thoth packages status` names "
            "them, `--retry` tries them now",
            err=True,
        )
    _print_list(
        "alarm", [f"{it} had files, and its page lists none" for it in sorted(report.emptied)]
    )
    _print_list(
        "alarm",
        [
            f"{it.purl} {it.filename} had the hash {it.known} and is offered with {it.offered}; "
            "the record keeps the first"
            for it in report.alarms
        ],
    )
    if report.left_out:
        click.echo(
            f"bound         {len(report.left_out)} packages were not followed (--max-packages): "
            f"{_names(report.left_out)}",
            err=True,
        )
    if report.lost is not None:
        click.echo(f"lost          {printable(str(report.lost))}; run it again to go on", err=True)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN_LINES]) + (" …" if names[_SHOWN_LINES:] else "")


def _print_list(label: str, lines: Sequence[str]) -> None:
    for line in lines[:_SHOWN_LINES]:
        click.echo(f"{label:<13} {printable(line)}", err=True)
    if lines[_SHOWN_LINES:]:
        click.echo(f"{'':<13} and {len(lines) - _SHOWN_LINES} more", err=True)


def counts(counted: Mapping[str, int]) -> str:
    """Counts in words, the largest first."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in _sorted(counted))


def _sorted(counted: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(counted.items(), key=lambda it: (-it[1], it[0]))


#: Lines of a list that are shown.
_SHOWN = 20


def print_json(value: Any) -> None:
    """One JSON document, with times in UTC."""
    click.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    from common.releases import as_json_time

    if isinstance(value, datetime):
        return as_json_time(value)
    raise TypeError(type(value).__name__)


def print_status(indexes: Sequence[IndexStatus], days: int) -> None:
    """How much is known of each index, how fresh it is, and what is wrong."""
    if not indexes:
        click.echo("Nothing is known yet; `thoth packages add NAME` begins.")
    for status in indexes:
        click.echo(f"{status.index}")
        _line("releases", counts(status.releases) or "none")
        _line("not solved", counts(status.problems))
        _line("projects", counts(status.projects))
        _line("as of", _span(status))
        _line("watched", str(status.watched) if status.watched else "")
        _line("queue", counts({name: count for name, count in status.queue.items() if count}))
        _line(f"last {days} days", counts(status.events))
        _line("missing", first_few(status.missing, _SHOWN))
        failed = [f"{it['name']} [{it['problem']}]" for it in status.failed]
        _line("failed", first_few(failed, _SHOWN))
        given_up = [f"{it['name']} {it['version']} [{it['problem']}]" for it in status.given_up]
        _line("given up", first_few(given_up, _SHOWN))
        alarms = [
            " ".join(filter(None, (it["name"], it["version"], it.get("file"), f"[{it['kind']}]")))
            for it in status.alarms
        ]
        listed = first_few(alarms, _SHOWN, status.alarm_count)
        _line("alarms", f"{status.alarm_count}: {listed}" if status.alarm_count else "")


def _line(label: str, text: str) -> None:
    if text:
        click.echo(f"  {label:<12}  {printable(text)}")


def _span(status: IndexStatus) -> str:
    if status.oldest is None or status.newest is None:
        return ""
    oldest, newest = _minute(status.oldest), _minute(status.newest)
    return newest if oldest == newest else f"{oldest} to {newest}"


def _minute(moment: datetime | None) -> str:
    from common.releases import as_json_time

    return "" if moment is None else f"{as_json_time(moment) or '':.16}Z"


def print_watched(packages: Sequence[WatchedProject]) -> None:
    """The watch list."""
    from rich.markup import escape

    if not packages:
        click.echo("No package is watched.")
        return
    table = _table("package", "index", "versions", "newer than", "pre-releases")
    for it in packages:
        extras = f"[{','.join(it.extras)}]" if it.extras else ""
        table.add_row(
            escape(f"{it.name}{extras}"), escape(it.index), str(it.max_versions or ""),
            _minute(it.newer_than), "yes" if it.prereleases else "",
        )  # fmt: skip
    _print(table)


def print_package(view: PackageView, *, details: bool) -> None:
    """A package: its releases in a table, or one by one with all that is known."""
    for answer in view.answers:
        words = answer.message or f"as of {_minute(answer.as_of)}"
        click.echo(printable(f"{view.name} at {answer.index}: {answer.state}, {words}"))
    if details:
        for release in view.releases:
            _print_release(release, view.vulnerabilities.get(release.purl, ()))
    else:
        _print_releases(view)
    for event in view.events[:_SHOWN]:
        detail = json.dumps(event.detail) if event.detail else ""
        words = f"{_minute(event.occurred_at)} {event.index} {event.version} {event.kind} {detail}"
        click.echo(printable(words.rstrip()))
    if more := len(view.events[_SHOWN:]):
        click.echo(f"and {more} earlier events: --json lists them")


def _print_releases(view: PackageView) -> None:
    table = _table(
        "version", "index", "state", "uploaded", "python", "requires", "files", "affected by"
    )
    for it in view.releases:
        table.add_row(
            *map(
                _shown,
                (
                    it.version, it.index, _state(it), f"{_minute(it.uploaded_at):.10}",
                    it.requires_python or "", str(len(it.requirements)), _kinds(it),
                    ", ".join(
                        f"{harm.vulnerability_id} {harm.severity or ''}".strip()
                        for harm in view.vulnerabilities.get(it.purl, ())
                    ),
                ),
            )
        )  # fmt: skip
    _print(table)


def _state(release: KnownRelease) -> str:
    from common.releases import ReleaseState

    words = release.state.value
    if release.state not in (ReleaseState.SOLVED, ReleaseState.UNREAD):
        words += f": {release.problem}"
    return f"{words}, yanked" if release.yanked else words


def _kinds(release: KnownRelease) -> str:
    wheels = sum(file.kind == "wheel" for file in release.files.values())
    named = [f"{wheels} wheels" if wheels != 1 else "1 wheel"] if wheels else []
    if release.has_sdist:
        named.append("sdist")
    return " + ".join(named) or ("none" if release.files_complete else "unknown")


def _print_release(release: KnownRelease, harms: Sequence[ReleaseVulnerability]) -> None:
    click.echo(f"\n{release.purl}")
    _line("state", _state(release))
    _line("why", release.problem_message or "")
    _line("yanked for", release.yanked_reason or "")
    _line("uploaded", _minute(release.uploaded_at))
    _line("as of", _minute(release.as_of))
    _line("python", release.requires_python or "")
    _line("licence", release.license or "")
    _line("extras", ", ".join(release.extras))
    source = release.metadata_source or ""
    _line("read from", f"{release.metadata_file or ''} {source and f'({source})'}".strip())
    for requirement in release.requirements:
        _line(
            "requires",
            requirement.raw + (f"  ({requirement.problem})" if requirement.problem else ""),
        )
    for file in release.files.values():
        _line("file", _file(file))
    for file in release.gone.values():
        _line("gone", _file(file))
    for harm in harms:
        score = "" if harm.score is None else f" {harm.score}"
        words = f"{harm.vulnerability_id} {harm.severity or 'unrated'}{score}: {harm.summary or ''}"
        _line("affected by", words)


def _file(file: ReleaseFile) -> str:
    words = [file.filename, f"sha256:{file.sha256}" if file.sha256 else "without hash"]
    if file.attested is not None:
        words.append("attested" if file.attested else "not attested")
    if file.yanked:
        words.append(f"yanked: {file.yanked_reason}" if file.yanked_reason else "yanked")
    return "  ".join(words)


def view_json(view: PackageView) -> dict[str, Any]:
    """A package as ``--json`` prints it."""
    return {
        "name": view.name,
        "indexes": [asdict(it) for it in view.answers],
        "releases": [
            {
                "purl": it.purl,
                "version": it.version,
                "index": it.index,
                "state": it.state.value,
                "problem": it.problem,
                "problem_message": it.problem_message,
                "requires_python": it.requires_python,
                "requires_dist": list(it.requirements_raw) if it.requirements_known else None,
                "provides_extra": list(it.extras),
                "license": it.license,
                "yanked": it.yanked,
                "yanked_reason": it.yanked_reason,
                "uploaded_at": it.uploaded_at,
                "as_of": it.as_of,
                "metadata_source": it.metadata_source,
                "metadata_file": it.metadata_file,
                "files_complete": it.files_complete,
                "files": [asdict(file) for file in it.files.values()],
                "gone": [asdict(file) for file in it.gone.values()],
                "vulnerabilities": [asdict(harm) for harm in view.vulnerabilities.get(it.purl, ())],
            }
            for it in view.releases
        ],
        "events": [asdict(it) for it in view.events],
    }


def _shown(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))


def _table(*headings: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(table: Table) -> None:
    # Whoever reads a pipe or a file is not bound to the width of a terminal.
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=240)
    console.print(table)
