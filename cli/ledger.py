"""``thoth ledger``: how past advice holds up against what was learned later, by month."""

from __future__ import annotations

import click

from adviser.answering.advice_scoring import recorded_ledger, score_past_advice
from adviser.resolver.worker import ResolverWorker
from cli.console import Column, Table, print_json, progress_bars
from cli.options import as_json_option
from common.settings import Settings
from graph.migrate import migrated_stores
from model.ledger import CountedShare, LedgerMonth
from model.text import counted


@click.command()
@click.option("--update", is_flag=True, help="First score past advice with what is known now.")
@as_json_option
@click.pass_obj
def ledger(settings: Settings, update: bool, as_json: bool) -> None:
    """Show how past advice holds up against what was learned later.

    Each advice is resolved again with the measurements of today, among the versions that it chose
    from. A share is followed by its 95 % interval. Regret is how far the advised
    stack is behind the best one: in score points, and in per cent of speed where a difference is
    settled.
    """
    with migrated_stores(settings, graph=False) as stores:
        if update:
            with ResolverWorker() as worker, progress_bars("advice") as bars:
                counts = score_past_advice(
                    stores.engine,
                    settings,
                    worker.resolve,
                    on_advice=lambda done, advices: bars.update("advice", done, advices),
                )
            click.echo(f"{counted(counts.scored, 'new score')}", err=True)
            if counts.unreadable:
                unreadable = counted(counts.unreadable, "piece of advice", "pieces of advice")
                click.echo(f"{unreadable} of another version cannot be read", err=True)
        months = recorded_ledger(stores.engine)
    if as_json:
        print_json({"months": months})
        return
    if not months:
        click.echo("No advice is scored. `thoth ledger --update` scores the recorded advice.")
        return
    _table(months).print()
    for month in months:
        if month.worst_advice is not None:
            points = f"{month.worst_regret_points:.2f} points"
            click.echo(f"{month.month}: worst advice {month.worst_advice}, {points}")


def _table(months: list[LedgerMonth]) -> Table:
    table = Table(
        [Column("month"), Column("advice", right=True), Column("still best", wraps=True),
         Column("regret, points", right=True), Column("regret, %", right=True),
         Column("interval holds", wraps=True), Column("expected", right=True),
         Column("contradicted", wraps=True), Column("faster:slower", right=True),
         Column("A/A differ", wraps=True)]
    )  # fmt: skip
    for month in months:
        table.add(
            month.month, str(month.advices), _share(month.still_best),
            _number(month.mean_regret_points), _number(month.mean_regret_pct),
            _share(month.contained),
            "" if month.expected_contained is None else f"{month.expected_contained:.0%}",
            _share(month.contradicted), f"{month.faster}:{month.slower}",
            _share(month.false_claims),
        )  # fmt: skip
    return table


def _share(share: CountedShare) -> str:
    """A share with its interval, such as ``19 of 20 (75 to 100 %)``; empty without any case."""
    if not share.total:
        return ""
    return f"{share.count} of {share.total} ({100 * share.low:.0f} to {100 * share.high:.0f} %)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
