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
@click.option(
    "--known",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Write snapshot.json and evidence.json into this folder, for `thoth advise check`"
    " elsewhere.",
)
@click.pass_context
def replay(
    context: click.Context,
    advice_id: str,
    threads: int,
    as_json: bool,
    output: Path | None,
    folder: Path | None,
) -> None:
    """Answer a recorded request again, and compare the report byte by byte.

    Exit code 1 if it differs, which it may only do where the search ended at its limit, or
    another version of the solver or of this code answers.
    """  # fmt: skip
    from adviser.answering.recorded import recorded, replayed, why_it_may_differ
    from cli.project_files import write_file
    from graph.migrate import migrated_stores

    settings: Settings = context.obj
    with migrated_stores(settings, graph=False) as stores:
        stored = recorded(stores, advice_id)
    advice, report = replayed(stored, threads)
    same = report == stored.report
    if output is not None:
        write_file(output, report + b"\n")
    if folder is not None:
        write_file(folder / "snapshot.json", stored.snapshot)
        write_file(folder / "evidence.json", stored.evidence)
    if as_json:
        click.echo(report + b"\n", nl=False)
    elif same:
        click.echo(f"the same {len(report)} bytes, result {stored.head.result_digest}")
    if not same:
        reason = why_it_may_differ(stored, advice)
        why = f": {reason}, so the answer may differ" if reason else ""
        click.echo(f"the report differs from the recorded one{why}", err=True)
    context.exit(0 if same else 1)
