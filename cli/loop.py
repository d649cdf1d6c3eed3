"""``thoth loop``, ``watch`` and ``notices``: nights, what they watch, and their messages."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from adviser.resolver.worker import ResolverWorker
from cli.console import Column, Table, cut_list, print_json, progress_bars
from cli.options import CommandGroup, as_json_option, limit_option
from cli.own_benchmarks import confirm_own_benchmarks, confirmation_option
from cli.request_options import advice_request_of, request_options
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.events import NoticeState, list_notices, retry_notices
from graph.record.watches import AdviceWatch, NewWatch, add_watch, remove_watches, watches
from loop.night import run_night
from loop.notices import planned_targets
from loop.notices import send_test as send
from loop.status import is_idle, morning_summary, status_document
from loop.watched_projects import identifiers_of, package_project, package_watch, project_watch
from model.errors import InvalidArgument
from model.text import counted, printable, step_text
from pis.amun.processes import interrupted_by_signals


@click.group(cls=CommandGroup)
def loop() -> None:
    """Keep the advice of watched projects up to date."""


@loop.command("run")
@click.option("--until-idle", is_flag=True,
              help="Run nights until no release or batch waits for a further night.")  # fmt: skip
@as_json_option
@click.pass_context
def run_(context: click.Context, until_idle: bool, as_json: bool) -> None:
    """Run a night now, or continue the night that was interrupted.

    Exit code 1 if the night ended early; the output says why. Run the command again after an
    interruption: finished steps are not repeated.
    """
    settings: Settings = context.obj
    reports, before = [], None
    with interrupted_by_signals(), ResolverWorker() as worker, progress_bars("Jobs") as bars:

        def on_step(step: str, counts: Mapping[str, Any] | None) -> None:
            if counts is not None:
                for warning in counts.get("warnings", ()):
                    click.echo(f"warning: {printable(warning)}", err=True)
                click.echo(f"{step:<9} {step_text(counts)}", err=True)

        def on_job(done: int, jobs: int) -> None:
            bars.update("Jobs", done, jobs)

        while True:
            reports.append(run_night(settings, worker.resolve, on_step=on_step, on_job=on_job))
            idle, waiting = is_idle(settings)
            if not until_idle or idle or reports[-1].problem or waiting == before:
                break
            before = waiting
    if as_json:
        print_json({"nights": [
            {"night": it.night, "problem": it.problem,
             "steps": {step.step: dict(step.output) for step in it.steps}}
            for it in reports
        ]})  # fmt: skip
    if reports[-1].problem is not None:
        click.echo(f"the night ended early: {printable(reports[-1].problem)}", err=True)
        context.exit(1)
    if not as_json:
        with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as record:
            _print_summary(morning_summary(record, settings))


def _print_summary(summary: Sequence[Sequence[str]]) -> None:
    for lines in summary:
        click.echo()
        for line in lines:
            click.echo(printable(line))


@loop.command()
@as_json_option
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """Show the state of each release and each watched project, and the last nights."""
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        document = status_document(connection)
        summary = morning_summary(connection, settings)
    if as_json:
        print_json(document)
        return
    table = Table([Column("what"), Column("state"), Column("jobs", right=True),
                   Column("reason", wraps=True)])  # fmt: skip
    for each in (*document["releases"], *document["watches"]):
        jobs = f"{each['measured_jobs']} of {each['planned_jobs']}" if each["planned_jobs"] else ""
        table.add(each["subject"], each["state"], jobs, each["reason"] or "")
    if document["releases"] or document["watches"]:
        table.print()
    else:
        click.echo("Nothing is watched: watch something with `thoth watch add PROJECT|PACKAGE`.")
    for night in document["nights"][:1]:
        click.echo(f"night {night['night']}: {night['state']}")
    _print_summary(summary)


@click.group(cls=CommandGroup)
def watch() -> None:
    """Name the projects and packages that the nightly loop watches."""


@watch.command()
@click.argument("names", nargs=-1, required=True, metavar="PROJECT|PACKAGE...")
@request_options
@confirmation_option
@as_json_option
@click.pass_obj
def add(
    settings: Settings, /, names: tuple[str, ...], confirmed: bool, as_json: bool, **options: Any
) -> None:
    """Watch projects and packages.

    PROJECT is the path of a project's folder, or of a file in it; PACKAGE is a name or a
    requirement, such as 'numpy>=2'. The options are those of `thoth advise`, and every night
    repeats this request. A name that is watched already gets the new request.

    The night also runs the benchmarks that the files of a project name, after you have confirmed
    them here; a changed command does not run before you add the project again.
    """
    wanted = [_new_watch(settings, name, options) for name in names]
    for project in (Path(it) for it in names if Path(it).exists()):
        confirm_own_benchmarks(
            settings, project if project.is_dir() else project.parent, confirmed=confirmed
        )
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        added = [(it, add_watch(connection, it)) for it in wanted]
    if as_json:
        print_json({"watches": [
            {"watch_id": it.watch_id, "kind": it.kind.value, "name": it.name, "new": new}
            for it, new in added
        ]})  # fmt: skip
        return
    for each, new in added:
        click.echo(f"{each.name}: {'watched' if new else 'watched already; request replaced'}")


@watch.command()
@click.argument("names", nargs=-1, required=True, metavar="PROJECT|PACKAGE...")
@as_json_option
@click.pass_obj
def remove(settings: Settings, names: tuple[str, ...], as_json: bool) -> None:
    """Stop watching projects and packages; measurements stay.

    A project that clients of the service ask about is switched off, and stays off.
    """
    shown = [_name_of(name) for name in names]
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        removed = remove_watches(connection, set(identifiers_of(connection, shown).values()))
    if as_json:
        print_json({"removed": removed})
    else:
        click.echo(f"{len(removed)} removed")


@watch.command("list")
@click.option("--all", "everything", is_flag=True, help="Include watches that are switched off.")
@as_json_option
@click.pass_obj
def list_(settings: Settings, everything: bool, as_json: bool) -> None:
    """List watched projects and packages with their states."""
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        listed = watches(connection, enabled=not everything)
    if as_json:
        print_json({"watches": [watch_document(it) for it in listed]})
        return
    if not listed:
        click.echo("Nothing is watched: watch something with `thoth watch add PROJECT|PACKAGE`.")
        return
    table = Table([
        Column("kind"), Column("name"), Column("weight", right=True), Column("state"),
        Column("reason", wraps=True),
    ])  # fmt: skip
    for each in listed:
        state = each.state.value if each.enabled else "off"
        table.add(each.kind.value, each.name, f"{each.weight:g}", state, each.reason or "")
    table.print()


def watch_document(watch: AdviceWatch) -> dict[str, Any]:
    """A watch as JSON values, without its request and its closure."""
    names = [it.name for it in fields(watch) if it.name not in {"request", "closure"}]
    return {name: getattr(watch, name) for name in names}


def _new_watch(settings: Settings, name: str, options: dict[str, Any]) -> NewWatch:
    path = Path(name)
    if path.exists():
        return project_watch(_name_of(name), advice_request_of(settings, path, options))
    if "/" in name:
        raise InvalidArgument(f"there is no project at {name}")
    project = package_project(name)
    return package_watch(name, advice_request_of(settings, None, options, project=project))


def _name_of(name: str) -> str:
    """The absolute path of a project; other names as they are."""
    return str(Path(name).absolute()) if Path(name).exists() else name


@click.group(cls=CommandGroup)
def notices() -> None:
    """Show and repeat notices; WEBHOOKS and NOTICE_TARGETS name their targets."""


@notices.command("list")
@click.option("--state", type=click.Choice([it.value for it in NoticeState]),
              help="Only notices in this state.")  # fmt: skip
@limit_option("notices to list, newest first")
@as_json_option
@click.pass_obj
def notices_list(settings: Settings, state: str | None, limit: int, as_json: bool) -> None:
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
    """Send notices that were given up again: notices with an ID, or all.

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
