"""What imports of releases tell people; only commands call it."""

from __future__ import annotations

from collections import Counter

import click

from common.errors import ProjectError
from common.terminal import printable
from ingest.releases import ReleaseReport

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
