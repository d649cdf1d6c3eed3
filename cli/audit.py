"""``thoth audit``: what requests wrote."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC

import click

from common.settings import Settings
from common.terminal import printable

_MOST = 100_000


@click.command()
@click.option("--limit", type=click.IntRange(1, _MOST), default=100, show_default=True,
              help="Writes, newest first.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def audit(settings: Settings, limit: int, as_json: bool) -> None:
    """List what requests wrote: when, who, from where, by which route, and what it made."""
    from graph.migrate import migrated_stores
    from graph.record.audit import latest_writes

    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        found = latest_writes(connection, limit + 1)  # one more tells whether there are more
    listed, truncated = found[:limit], len(found) > limit
    if truncated:
        click.echo(f"only the newest {limit}; there are more: --limit sets how many", err=True)
    if as_json:
        writes = [{**asdict(it), "at": it.at.astimezone(UTC).isoformat()} for it in listed]
        click.echo(json.dumps({"writes": writes, "truncated": truncated}, indent=2))
        return
    for it in listed:
        who, made = it.token_id or "anonymous", it.subject or "-"
        line = f"{it.at:%Y-%m-%d %H:%M:%S}  {who}  {it.address}  {it.method} {it.route}"
        click.echo(printable(f"{line}  {it.status}  {made}  {it.request_id}"))
