"""What is known, as tables and as JSON; only commands call it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.crawl_view import counts
from common.releases import ReleaseFile, ReleaseState, as_json_time
from common.terminal import first_few, printable
from graph.record.crawls import Watched
from graph.record.indexes import IndexStatus
from graph.record.packages import PackageView, ReleaseVulnerability
from graph.record.release_merging import KnownRelease

#: Lines of a list that are shown.
_SHOWN = 20


def print_json(value: Any) -> None:
    """One JSON document, with times in UTC."""
    click.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: Any) -> Any:
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
    return "" if moment is None else f"{as_json_time(moment) or '':.16}Z"


def print_watched(packages: Sequence[Watched]) -> None:
    """The watch list."""
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
    return escape(printable(text))


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(table: Table) -> None:
    # Whoever reads a pipe or a file is not bound to the width of a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    console.print(table)
