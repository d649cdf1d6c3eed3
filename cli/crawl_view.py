"""What crawls tell people; only commands call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click

from cli.release_view import print_graph
from common.terminal import printable
from ingest.crawl.reports import CrawlReport
from ingest.crawl.runs import PackagesReport

#: Items of a list that are shown; the rest is counted.
_SHOWN = 10


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
    return ", ".join(names[:_SHOWN]) + (" …" if names[_SHOWN:] else "")


def _print_list(label: str, lines: Sequence[str]) -> None:
    for line in lines[:_SHOWN]:
        click.echo(f"{label:<13} {printable(line)}", err=True)
    if lines[_SHOWN:]:
        click.echo(f"{'':<13} and {len(lines) - _SHOWN} more", err=True)


def counts(counted: Mapping[str, int]) -> str:
    """Counts in words, the largest first."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in _sorted(counted))


def _sorted(counted: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(counted.items(), key=lambda it: (-it[1], it[0]))
