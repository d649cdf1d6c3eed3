"""``thoth audit``: what requests to the service wrote."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from cli.console import cut_list, moment_text, print_json
from cli.help_pages import CommandGroup
from cli.options import as_json_option, limit_option
from cli.request_options import moment
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.audit import StoredAuditEntry, latest_writes, writes_between
from model.errors import InvalidArgument
from model.text import printable


@click.group(cls=CommandGroup, invoke_without_command=True)
@limit_option("requests to list, newest first", 100_000)
@as_json_option
@click.pass_context
def audit(context: click.Context, limit: int, as_json: bool) -> None:
    """List the API requests that wrote data.

    Each line has the time, the token, the client's address, the route, the status and the created
    or changed object.
    """
    if context.invoked_subcommand is not None:
        return
    settings: Settings = context.obj
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        writes = latest_writes(connection, limit + 1)
    listed, truncated = cut_list(writes, limit, "newest")
    if as_json:
        print_json({"writes": [_document(it) for it in listed], "truncated": truncated})
        return
    for write in listed:
        client = f"{write.token_id or 'anonymous'}  {write.address}"
        outcome = f"{write.status}  {write.subject or '-'}  {write.request_id}"
        line = f"{moment_text(write.at)}  {client}  {write.method} {write.route}  {outcome}"
        click.echo(printable(line))


@audit.command()
@click.option("--since", metavar="TIME", help="Only from this date, time or number of days ago.")
@click.option("--until", metavar="TIME", help="Only before this date, time or number of days ago.")
@click.pass_obj
def export(settings: Settings, since: str | None, until: str | None) -> None:
    """Print the whole audit log, oldest first: one JSON object a line.

    TIME is a date or a time in UTC, such as 2026-01-31 or 2026-01-31T18:00, or a number of days
    ago, such as 7d.
    """
    now = datetime.now(UTC)
    first, end = moment(since, now, "--since"), moment(until, now, "--until")
    if first and end and first >= end:
        raise InvalidArgument(f"--since {since} is not before --until {until}: no entry is between")
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        for write in writes_between(connection, first, end):
            click.echo(json.dumps(_document(write), ensure_ascii=False))


def _document(write: StoredAuditEntry) -> dict[str, Any]:
    return {**asdict(write), "at": write.at.astimezone(UTC).isoformat()}
