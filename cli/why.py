"""``thoth why`` and ``thoth why-not``: the same request, with one thing forced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.options import NamedPath, request_options
from common.errors import InvalidArgument
from common.settings import Settings

_path = click.option(
    "--project",
    "path",
    type=NamedPath(path_type=Path),
    default=".",
    help="Folder or file of the project; this folder by default.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command()
@click.argument("name")
@_path
@request_options
@_as_json
@click.pass_context
def why(context: click.Context, /, name: str, path: Path, as_json: bool, **given: Any) -> None:
    """Explain why NAME is in the advised stack, in this version, and what the next best is.

    Exit code 1 if it is not in the stack, or there is none.
    """
    from adviser.advise import advise
    from adviser.answering.answers import knowledge, listed_unread, on_hardware
    from adviser.explain import why as explained
    from adviser.reports.serialization import plain
    from adviser.reports.unfetched_versions import missing_message, unfetched_in
    from adviser.resolver.worker import ResolverWorker
    from cli.console import (
        presence_lines,
        print_json,
        print_lines,
        print_missing,
        print_note,
    )
    from cli.options import asked_of, dependencies, fetch
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    (it,) = dependencies([name], "NAME")
    if it.specifier or it.extras:
        message = f"{name!r} is more than a package's name; `thoth why-not` takes versions"
        raise InvalidArgument(f"NAME: {message}")
    with ResolverWorker() as worker:
        asked = asked_of(settings, path, given)
        with migrated_stores(settings) as stores:
            if given["fetch"]:
                fetch(stores, asked)
            asked = on_hardware(stores, asked, given["hardware"])
            print_note(asked.hardware_note)
            snapshot, evidence = knowledge(stores, asked)
            listed = listed_unread(stores, snapshot)
        print_missing(missing_message(asked, snapshot), fetched=given["fetch"])
        found = advise(asked, snapshot, evidence, resolver=worker.resolve, threads=given["threads"])
        told = explained(found, it.name, resolver=worker.resolve)
    unread = unfetched_in(told.conflict, asked, snapshot, listed) if told.conflict else ()
    if as_json:
        print_json({**plain(told), "unread": [it.message for it in unread]})
    else:
        print_lines((*presence_lines(told), *(it.message for it in unread)))
    context.exit(1 if told.version is None else 0)


@click.command("why-not")
@click.argument("requirement")
@_path
@request_options
@_as_json
@click.pass_context
def why_not(
    context: click.Context, /, requirement: str, path: Path, as_json: bool, **given: Any
) -> None:
    """Explain what REQUIREMENT, such as 'numpy==1.26.4', would cost, or why it cannot be.

    Exit code 1 if no stack can have it.
    """
    from adviser.advise import advise
    from adviser.answering.answers import knowledge, listed_unread, on_hardware
    from adviser.explain import ForcedOutcome
    from adviser.explain import why_not as explained
    from adviser.reports.serialization import plain
    from adviser.reports.unfetched_versions import missing_message, unfetched_in
    from adviser.resolver.worker import ResolverWorker
    from cli.console import (
        forced_lines,
        print_json,
        print_lines,
        print_missing,
        print_note,
    )
    from cli.options import asked_of, dependencies, fetch
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    (wanted,) = dependencies([requirement], "REQUIREMENT")
    with ResolverWorker() as worker:
        asked = asked_of(settings, path, given)
        with migrated_stores(settings) as stores:
            if given["fetch"]:
                fetch(stores, asked, [wanted])
            asked = on_hardware(stores, asked, given["hardware"])
            print_note(asked.hardware_note)
            snapshot, evidence = knowledge(stores, asked, more=[wanted])
            listed = listed_unread(stores, snapshot)
        print_missing(missing_message(asked, snapshot), fetched=given["fetch"])
        found = advise(asked, snapshot, evidence, resolver=worker.resolve, threads=given["threads"])
        told = explained(found, wanted, resolver=worker.resolve)
    unread = unfetched_in(told.conflict, asked, snapshot, listed) if told.conflict else ()
    if as_json:
        print_json({**plain(told), "unread": [it.message for it in unread]})
    else:
        print_lines((*forced_lines(told), *(it.message for it in unread)))
    context.exit(0 if told.outcome in (ForcedOutcome.ADVISED, ForcedOutcome.POSSIBLE) else 1)
