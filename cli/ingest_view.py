"""What ingest tells people and scripts; only commands call it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from common.terminal import printable
from graph.record.quarantine import QuarantineEntry
from ingest.documents import Skipped
from ingest.runs import NightlyReport, RunReport


def print_report(
    report: RunReport,
    *,
    as_json: bool,
    dry_run: bool,
    skipped: Sequence[Skipped] | None = None,
) -> None:
    """One line per kind, and what a person should do next.

    :param skipped: the skipped files, if they are to be listed
    """
    if as_json:
        listed = {} if skipped is None else {"skipped_files": [asdict(it) for it in skipped]}
        click.echo(json.dumps({"dry_run": dry_run, **report.as_json(), **listed}, indent=2))
        return
    seen = report.inspections
    verb = "can be taken in" if dry_run else "new"
    click.echo(
        f"inspections   {seen.read} read: {seen.new} {verb}, {seen.known} already known, "
        f"{seen.quarantined} quarantined"
    )
    outcomes = ", ".join(
        f"{count} {name.replace('_', ' ')}" for name, count in sorted(seen.observations.items())
    )
    click.echo(f"observations  {sum(seen.observations.values())}: {outcomes or 'none new'}")
    if seen.stacks_unknown:
        click.echo(f"              {seen.stacks_unknown} inspections name no stack")
    if seen.mended:
        click.echo(f"quarantine    {seen.mended} mended")
    if seen.quarantined:
        reasons = ", ".join(f"{count} {code}" for code, count in seen.reasons.most_common())
        where = "" if dry_run else "; see `thoth ingest quarantine`"
        click.echo(f"refused       {reasons}{where}")
    if seen.skipped:
        _print_skipped(seen.skipped, skipped)
    if isinstance(report, NightlyReport):
        _print_parts(report)
    if report.graph_error is not None:
        click.echo(f"graph         behind: {report.graph_error}", err=True)
        if report.lag:
            waiting = f"{report.lag} entries wait; `thoth graph sync` later"
            click.echo(f"              {waiting}", err=True)
    elif report.lag is not None:
        click.echo(
            f"graph         {'up to date' if not report.lag else f'{report.lag} entries wait'}"
        )


def _print_skipped(counts: Counter[str], files: Sequence[Skipped] | None) -> None:
    """How many files were skipped and why; each of them if they are to be listed."""
    click.echo(f"skipped       {counts.total()} files that are not inspections")
    for reason, count in counts.most_common():
        click.echo(f"              {reason}: {count}")
    if files is None:
        click.echo("              `thoth ingest inspections --list-skipped` lists them")
    for it in files or ():
        click.echo(f"              {printable(f'{it.source}/{it.place}')}: {it.reason}")


def _print_parts(report: NightlyReport) -> None:
    """What a nightly run did besides."""
    from cli.crawl_view import print_crawl

    for crawled in report.packages or ():
        print_crawl(crawled)
    if report.advisories is not None:
        seen = report.advisories
        click.echo(
            f"advisories    {seen.read} read: {seen.new} new, {seen.updated} updated, "
            f"{seen.quarantined} quarantined; {len(seen.versions)} releases concerned"
        )
    if report.record is not None:
        compared = report.record
        differ = f"{compared.tampered} differ" if compared.tampered else "all equal"
        hint = "; see `thoth ingest quarantine`" if compared.tampered else ""
        click.echo(f"record        {compared.documents.total()} documents compared: {differ}{hint}")
    for name, error in report.skipped:
        click.echo(f"{name:<13} not done: {error}", err=True)


def print_quarantine(entries: Sequence[QuarantineEntry], *, as_json: bool) -> None:
    """The list of what was refused."""
    if as_json:
        click.echo(json.dumps([_entry_json(entry) for entry in entries], indent=2))
        return
    if not entries:
        click.echo("The quarantine is empty.")
        return
    table = Table("id", box=SIMPLE_HEAD)
    for heading in ("reason", "where", "field", "what was wrong", "tries"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        where = "\n".join(filter(None, (entry.source, entry.place)))
        table.add_row(
            str(entry.quarantine_id), entry.reason,
            *map(_shown, (where, entry.field, entry.message)), str(entry.attempts),
        )  # fmt: skip
    # Whoever reads a pipe or a file is not bound to the width of a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    console.print(table)


def _shown(text: str) -> str:
    """Text of a document for a terminal: no markup and no control characters."""
    return escape(printable(text, keep="\n"))


def _entry_json(entry: QuarantineEntry) -> dict[str, object]:
    return {
        "id": entry.quarantine_id,
        "kind": entry.kind,
        "source": entry.source,
        "place": entry.place,
        "reason": entry.reason,
        "field": entry.field,
        "message": entry.message,
        "attempts": entry.attempts,
        "first_seen_at": entry.first_seen_at.isoformat(),
        "last_seen_at": entry.last_seen_at.isoformat(),
    }
