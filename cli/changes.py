"""``thoth changes``: settled changes of performance."""

from datetime import UTC, datetime

import click
from packaging.utils import canonicalize_name

from adviser.answering.change_recording import record_changes
from adviser.changes import change_document, change_text
from cli.console import cut_list, moment_text, print_json, print_lines
from cli.options import as_json_option, limit_option
from cli.request_options import moment
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.changes import ChangeFilter, browse_changes
from model.text import counted, printable


@click.command()
@click.option("--since", metavar="WHEN",
              help="Only entries from this date on, or of the last days, such as 7d.")  # fmt: skip
@click.option("--package", metavar="NAME", help="Only entries about this package.")
@click.option("--update", is_flag=True, help="First record changes that measurements show now.")
@limit_option("entries to list, newest first")
@as_json_option
@click.pass_obj
def changes(
    settings: Settings,
    since: str | None,
    package: str | None,
    update: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List settled changes of performance.

    A change is a release that differs from the measured release before it. Entries are never
    edited: later evidence makes a new entry that refers to the first one.
    """
    start = moment(since, datetime.now(UTC), "--since")
    name = None if package is None else canonicalize_name(package)
    with migrated_stores(settings, graph=False) as stores:
        if update:
            added = len(record_changes(stores.engine))
            click.echo(f"{counted(added, 'new entry', 'new entries')}", err=True)
        with stores.engine.connect() as connection:
            wanted = ChangeFilter(since=start, package=name)
            listed = browse_changes(connection, wanted, limit=limit + 1)
    listed, truncated = cut_list(listed, limit, "newest")
    if as_json:
        print_json({"changes": [change_document(it) for it in listed], "truncated": truncated})
        return
    if not listed:
        click.echo("No settled change is recorded. `thoth changes --update` looks for new ones.")
    print_lines(
        printable(f"{moment_text(it.recorded_at)}  {it.event.value}: {change_text(it)}")
        for it in listed
    )
