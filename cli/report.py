"""``thoth report`` and ``benchmarks``: the quality of measurements, and results of benchmarks."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click

from adviser.answering.quality_reports import read_report, selected_measurements
from adviser.quality.reports import report_document
from api.pages.quality_report_view import report_file, series_titles
from cli.console import Column, Table, print_json, print_lines, print_note
from cli.options import NamedPath, as_json_option
from cli.project_files import names_file, read_lock_file, write_file
from cli.request_options import lock_environment_options, lock_selection, requested_environment
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.benchmark_results import BenchmarkFilter, benchmark_results, count_results
from ingest.record import open_record
from model.errors import InvalidArgument
from model.measurements.benchmark_results import BenchmarkResult, Validity, result_document
from model.measurements.inspection import Stack
from model.packages.identity import package_version
from model.text import counted, printable
from pis.metrics import shared_metrics


@click.command()
@click.argument("selection", nargs=-1, required=True, metavar="[KEY|BATCH]...")
@click.option("-o", "--output", type=NamedPath(dir_okay=False, path_type=Path),
              help="Write the report to this HTML file.")  # fmt: skip
@click.option("--baseline", metavar="DIGEST_PREFIX|LOCK|newest",
              help="Stack to compare with, the stack that a lock installs, or the newest release."
              "  [default: the stack with the most jobs]")  # fmt: skip
@lock_environment_options
@as_json_option
@click.pass_obj
def report(
    settings: Settings,
    /,
    selection: tuple[str, ...],
    output: Path | None,
    baseline: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Report on the quality of measurements.

    KEY is the start of a comparison key, as `thoth stacks` prints it. BATCH is the name, the folder
    or the start of the digest of an inspection; several inspections make one report on their jobs
    only. Only own measurements count; `thoth pack report` reports on those of packs. The report
    shows the spread of the jobs, drift, jobs that do not count, and the number of repetitions that
    suffices.

    Without -o and --json, the findings are printed.
    """
    if baseline == "":
        raise InvalidArgument("--baseline: the digest is empty; `thoth stacks` shows digests")
    if baseline is not None and names_file(baseline):
        baseline = _digest_of_lock(Path(baseline), options)
    document = _read(settings, selection, baseline)
    if output is not None:
        write_file(output, report_file(document, datetime.now(UTC)).encode())
    if as_json:
        print_json(document)
    elif output is None:
        _print_findings(document)
    else:
        series = counted(len(document["series"]), "series", "series")
        click.echo(f"{output}: report on {series}")


def _read(settings: Settings, names: tuple[str, ...], baseline: str | None) -> dict[str, Any]:
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        selection = selected_measurements(connection, names)
        return report_document(read_report(connection, selection, baseline=baseline))


def _digest_of_lock(path: Path, options: Mapping[str, Any]) -> str:
    """The digest of the stack that a lock installs."""
    markers = requested_environment(None, options).markers
    lock = read_lock_file(path, lock_selection(options), markers)
    for warning in lock.warnings:
        print_note(warning.text)
    versions = ((name, it.version) for name, it in lock.packages(markers).items())
    return Stack.of(tuple(package_version(*it) for it in versions)).digest


def _print_findings(document: Mapping[str, Any]) -> None:
    for batches in document["batches"]:
        print_lines([batches["label"]])
        print_lines(f"  {it}" for it in batches["findings"])
        click.echo()
    titles = series_titles(document["series"])
    for title, series in zip(titles, document["series"], strict=True):
        print_lines([title])
        print_lines(f"  {it}" for it in series["findings"])
        click.echo()
    click.echo("-o FILE.html writes the report with plots and tables.")


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
