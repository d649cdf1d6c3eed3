"""``thoth notices``: the messages to webhooks and people, and the state of their delivery."""

from __future__ import annotations

import click

from cli.console import Column, Table, cut_list, print_json
from cli.help_pages import CommandGroup
from cli.options import as_json_option, limit_option
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.notices import NoticeState, list_notices, retry_notices
from loop.notice_targets import planned_targets
from loop.notice_targets import send_test as send
from model.errors import InvalidArgument
from model.text import counted


@click.group(cls=CommandGroup)
def notices() -> None:
    """Show and repeat notices; WEBHOOKS and NOTICE_TARGETS name their targets."""


@notices.command("list")
@click.option("--state", type=click.Choice([it.value for it in NoticeState]),
              help="Only notices in this state.")  # fmt: skip
@limit_option("notices to list, newest first")
@as_json_option
@click.pass_obj
def list_(settings: Settings, state: str | None, limit: int, as_json: bool) -> None:
    """List notices, newest first, with the error of the last attempt."""
    wanted = None if state is None else NoticeState(state)
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        rows = list_notices(connection, wanted, limit + 1)
    listed, truncated = cut_list(rows, limit, "newest")
    if as_json:
        print_json({"notices": listed, "truncated": truncated})
        return
    if not listed:
        click.echo("No notices.")
        return
    table = Table([
        Column("notice"), Column("target"), Column("event", wraps=True), Column("state"),
        Column("attempts", right=True), Column("error", wraps=True),
    ])  # fmt: skip
    for each in listed:
        event = f"{each.subject} ({each.kind})"
        state, attempts = each.state.value, str(each.attempts)
        table.add(each.notice_id, each.target, event, state, attempts, each.error or "")
    table.print()


@notices.command()
@click.argument("notice_ids", nargs=-1, metavar="[ID]...")
@as_json_option
@click.pass_obj
def retry(settings: Settings, notice_ids: tuple[str, ...], as_json: bool) -> None:
    """Send notices that were given up again: those with an ID, or all.

    They get all attempts again, and workers send them within a minute.
    """
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        number = 0
        for notice_id in dict.fromkeys(notice_ids) or (None,):
            retried = retry_notices(connection, notice_id)
            if notice_id is not None and not retried:
                raise InvalidArgument(
                    f"ID: {notice_id!r} is not a notice whose delivery was given up;"
                    " see `thoth notices list`"
                )
            number += retried
    if as_json:
        print_json({"retried": number})
    else:
        click.echo(f"{counted(number, 'notice')} will be sent again")


@notices.command("send-test")
@click.argument("target")
@as_json_option
@click.pass_obj
def send_test(settings: Settings, target: str, as_json: bool) -> None:
    """Send a test notice to TARGET now, without a retry; nothing is stored.

    Exit code 1 if the target has not acknowledged the notice.
    """
    names = planned_targets(settings)
    if target not in names:
        known = ", ".join(sorted(names)) or "none"
        raise InvalidArgument(
            f"TARGET: {target!r} is not in WEBHOOKS or NOTICE_TARGETS; known targets: {known}"
        )
    notice_id = send(settings, target)
    if as_json:
        print_json({"target": target, "notice_id": notice_id})
    else:
        click.echo(f"{target} has acknowledged {notice_id}")
