"""``thoth benchmarks``: results of other benchmark systems and of our own inspections."""

from collections.abc import Iterator
from itertools import islice

import click

from cli.console import Column, Table, print_json
from cli.options import as_json_option
from common.settings import Settings
from graph.record.benchmark_results import BenchmarkFilter, benchmark_results, count_results
from ingest.record import open_record
from model.measurements.benchmark_results import BenchmarkResult, Validity, result_document
from model.text import counted, printable
from pis.metrics import shared_metrics

#: Rows that the table shows without ``--limit``; ``--json`` prints all rows.
_TABLE_ROWS = 50
#: Results that are counted at most, because counting a million takes seconds.
_COUNTED = 10_000
#: Software that a row of the table names; ``--json`` names all.
_SOFTWARE = 4


@click.command()
@click.option("--system", metavar="KEY", help="Only results of this benchmark system.")
@click.option("--benchmark", metavar="NAME", help="Only this benchmark, such as resnet50.")
@click.option("--metric", metavar="NAME", help="Only this metric.")
@click.option("--hardware", metavar="TEXT", help="Only machines whose parts contain this text.")
@click.option("--software", metavar="NAME", help="Only results that name this software.")
@click.option(
    "--validity",
    type=click.Choice(["valid", "invalid", "failed", "unknown"]),
    help="Only results of this validity.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most this many results.")
@as_json_option
@click.pass_obj
def benchmarks(
    settings: Settings, /, limit: int | None, as_json: bool, **chosen: str | None
) -> None:
    """List results of other benchmark systems and of our own inspections.

    `thoth ingest benchmarks` reads results of other systems, which never decide advice. `--system
    thoth` lists our own. Only values with the same definition are comparable.
    """
    wanted, shared = _filter(chosen), shared_metrics()
    with open_record(settings) as engine, engine.connect() as connection:
        most = limit or (None if as_json else _TABLE_ROWS)
        listed = (it.result for it in benchmark_results(connection, wanted, shared, limit=most))
        documents = [result_document(it) for it in listed] if as_json else []
        rows = list(listed)
        total = len(documents) or count_results(connection, wanted, shared, _COUNTED)
    if as_json:
        print_json(documents)
        return
    _print(rows)
    if not total and not any(chosen.values()):
        click.echo("No results yet: read some with `thoth ingest benchmarks PATH`.")
    elif total > len(rows) or total == _COUNTED:
        least = max(total, len(rows))
        number = f"at least {least} results" if total == _COUNTED else counted(total, "result")
        click.echo(f"{len(rows)} of {number}; --limit or --json shows more.")
    else:
        click.echo(f"{counted(total, 'result')}.")


def _filter(chosen: dict[str, str | None]) -> BenchmarkFilter:
    validity = chosen.get("validity")
    texts = {name: it for name, it in chosen.items() if name != "validity"}
    return BenchmarkFilter(**texts, validity=None if validity is None else Validity(validity))


def _print(results: list[BenchmarkResult]) -> None:
    if not results:
        return
    table = Table(
        [
            Column("system"), Column("benchmark", wraps=True), Column("metric", wraps=True),
            Column("value", right=True), Column("unit"), Column("validity"),
            Column("hardware", wraps=True), Column("software", wraps=True),
        ]
    )  # fmt: skip
    for result in results:
        value = "-" if result.value is None else f"{result.value:.6g}"
        table.add(
            result.system, printable(result.benchmark), printable(result.metric.name), value,
            result.metric.unit, result.validity.value, printable(_hardware(result)),
            printable(", ".join(_versions(result))),
        )  # fmt: skip
    table.print()


def _hardware(result: BenchmarkResult) -> str:
    name = result.hardware.get("accelerator") or result.hardware.get("cpu") or "unknown"
    return f"{result.accelerators}x {name}" if result.accelerators else name


def _versions(result: BenchmarkResult) -> Iterator[str]:
    for name, version in islice(result.software.items(), _SOFTWARE):
        yield f"{name} {version}" if version else name
    if len(result.software) > _SOFTWARE:
        yield f"{len(result.software) - _SOFTWARE} more"
