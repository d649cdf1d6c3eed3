"""``thoth replay``: the same request on what was known then gives the same bytes."""

from __future__ import annotations

from pathlib import Path

import click

from common.settings import Settings


@click.command()
@click.argument("advice_id", metavar="ADVICE-ID")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Of the solver."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report that came out.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to this file.",
)
@click.pass_context
def replay(
    context: click.Context, advice_id: str, threads: int, as_json: bool, output: Path | None
) -> None:
    """Answer a recorded request again, and compare the report byte by byte.

    Exit code 1 if it differs, which it may only do where the search ended at its limit, or
    another version of the solver or of this code answers.
    """  # fmt: skip
    from adviser.answering.recorded import recorded, replayed
    from adviser.commands.files import write_file
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    with migrated_stores(settings, graph=False) as stores:
        stored = recorded(stores, advice_id)
    advice, report = replayed(stored, threads)
    same = report == stored.report
    if output is not None:
        write_file(output, report + b"\n")
    if as_json:
        click.echo(report + b"\n", nl=False)
    elif same:
        click.echo(f"the same {len(report)} bytes, result {stored.head.result_digest}")
    if not same:
        settled = advice.resolution.settled
        why = "" if settled else ": the search ended at its limit, so the answer may differ"
        click.echo(f"the report differs from the recorded one{why}", err=True)
    context.exit(0 if same else 1)
