"""``thoth queue``: the jobs of the service that wait or run."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from api.jobs.queue import QueueName, cancel_waiting, queued_jobs, task_name
from cli.console import Column, Table, cut_list, moment_text, print_json
from cli.options import CommandGroup, as_json_option, limit_option
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.text import counted

_QUEUE = click.Choice([it.value for it in QueueName])


@click.group(cls=CommandGroup)
def queue() -> None:
    """Show and cancel the jobs of the service."""


@queue.command("list")
@click.option("--queue", "name", type=_QUEUE, help="Only the jobs of this queue.")
@limit_option("jobs to list", 100_000)
@as_json_option
@click.pass_obj
def list_(settings: Settings, name: str | None, limit: int, as_json: bool) -> None:
    """List running jobs, then waiting jobs in the order in which workers take them."""
    chosen = None if name is None else QueueName(name)
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        jobs = queued_jobs(connection, chosen, limit + 1)
    listed, truncated = cut_list(jobs, limit, "first")
    if as_json:
        rows = [{key: _plain(value) for key, value in asdict(it).items()} for it in listed]
        print_json({"jobs": rows, "truncated": truncated})
        return
    table = Table([
        Column("job", right=True), Column("queue"), Column("task"), Column("state"),
        Column("priority", right=True), Column("since"), Column("client"), Column("request"),
    ])  # fmt: skip
    for job in listed:
        since = "" if job.enqueued_at is None else moment_text(job.enqueued_at)
        state = "running" if job.running else "waiting"
        table.add(
            str(job.job_id), job.queue, task_name(job), state, str(job.priority), since,
            job.client or "", job.analysis_id or "",
        )  # fmt: skip
    table.print()


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@as_json_option
@click.pass_obj
def cancel(settings: Settings, names: tuple[str, ...], as_json: bool) -> None:
    """Cancel waiting jobs; their requests end with the state `error`.

    ID is the number of a job or the identifier of a request. Running jobs are not cancelled.
    """
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        for name in dict.fromkeys(names):
            if not cancel_waiting(connection, name=name):
                raise InvalidArgument(f"ID: no job {name!r} waits; see `thoth queue list`")
    _print_cancelled(len(set(names)), as_json)


@queue.command()
@click.option("--queue", "name", type=_QUEUE, required=True, help="Queue to purge.")
@click.option("--client", help="Only the requests of this address or token identifier.")
@as_json_option
@click.pass_obj
def purge(settings: Settings, name: str, client: str | None, as_json: bool) -> None:
    """Cancel all waiting jobs of a queue, or those of one client."""
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        number = cancel_waiting(connection, queue=QueueName(name), client=client)
    _print_cancelled(number, as_json)


def _print_cancelled(number: int, as_json: bool) -> None:
    if as_json:
        print_json({"cancelled": number})
    else:
        click.echo(f"{counted(number, 'job')} cancelled")


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
