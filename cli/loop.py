"""``thoth loop``: run a night in the foreground, and show how far releases and projects are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from adviser.resolver.worker import ResolverWorker
from cli.console import Column, Table, print_json, progress_bars
from cli.help_pages import CommandGroup
from cli.options import as_json_option
from common.settings import Settings
from graph.migrate import migrated_stores
from loop.night import run_night
from loop.status import is_idle, morning_summary, status_document
from model.text import printable, step_text
from pis.amun.processes import interrupted_by_signals


@click.group(cls=CommandGroup)
def loop() -> None:
    """Keep the advice of watched projects up to date."""


@loop.command("run")
@click.option("--until-idle", is_flag=True,
              help="Run nights until no release and no batch waits for another one.")  # fmt: skip
@as_json_option
@click.pass_context
def run_(context: click.Context, until_idle: bool, as_json: bool) -> None:
    """Run a night now, or continue the night that was interrupted.

    Exit code 1 if the night ended early; the output says why. Run the command again after an
    interruption: what is finished is not repeated.
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
