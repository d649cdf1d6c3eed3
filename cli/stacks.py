"""``thoth stacks``: which stack ran fastest, and how surely."""

from __future__ import annotations

import json

import click

from common.errors import ProjectError
from common.settings import Settings


class NothingMeasured(ProjectError):
    """No measurement is of what was asked for."""

    hint = "`thoth stacks --all` shows what there is"


@click.command()
@click.option("--indicator", help="Only this performance indicator, such as PiMatmul.")
@click.option("--hardware", metavar="DIGEST_PREFIX", help="Only this hardware class.")
@click.option(
    "--baseline",
    metavar="DIGEST_PREFIX",
    help="Compare with this stack; otherwise with the newest release of what was measured.",
)
@click.option("--all", "everything", is_flag=True, help="Show groups with a single stack too.")
@click.option(
    "--self-check",
    "checking",
    is_flag=True,
    help="Compare stacks with themselves instead: every difference claimed is false.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def stacks(
    context: click.Context,
    indicator: str | None,
    hardware: str | None,
    baseline: str | None,
    everything: bool,
    checking: bool,
    as_json: bool,
) -> None:
    """Compare the measured stacks, job by job, where they were measured alike.

    With --self-check the exit code is 1 where the rules do not keep their promises.
    """
    from rich.console import Console

    from adviser.scoring.verdicts import family_text
    from adviser.stack_comparison import compare_stacks, identical_pairs
    from adviser.stacks_document import (
        compared,
        self_check_document,
        stacks_document,
    )
    from cli.stacks_view import (
        group_notes,
        group_table,
        self_check_lines,
    )
    from graph.migrate import migrated_stores
    from graph.record.observations import measured_observations

    settings: Settings = context.obj
    if hardware is not None and ":" not in hardware:
        hardware = f"sha256:{hardware}"  # as tables print them, digests go without
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        rows = measured_observations(connection, indicator=indicator, hardware=hardware)
        if checking:
            checked = identical_pairs(rows)
            told = json.dumps(self_check_document(checked), indent=2)
            click.echo(told if as_json else "\n".join(self_check_lines(checked)))
            context.exit(1 if checked.problems else 0)
        groups = compare_stacks(rows, baseline)
    shown = [group for group in groups if everything or len(group.stacks) > 1]
    hidden = len(groups) - len(shown)
    if as_json:
        click.echo(json.dumps(stacks_document(shown, hidden), indent=2))
        return
    console = Console()
    for group in shown:
        console.print(group_table(group))
        for note in group_notes(group):
            console.print(note, highlight=False)
        console.print()
    if count := compared(shown):
        console.print(family_text(count), highlight=False)
    if not groups and (indicator or hardware):
        raise NothingMeasured("no measurement has this indicator and hardware")
    if not groups:
        console.print("Nothing was measured yet: `thoth ingest inspections SOURCE` takes it in.")
    elif hidden:
        word = "group" if hidden == 1 else "groups"
        console.print(f"{hidden} {word} with fewer than two known stacks: --all shows them.")
