"""``thoth report``: the quality of measurements."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from adviser.answering.quality_reports import read_report, selected_measurements
from adviser.quality.reports import report_document
from api.pages.quality_report_view import report_file, series_titles
from cli.console import print_json, print_lines, print_note
from cli.options import NamedPath, as_json_option
from cli.project_files import keep_project_files, names_file, read_lock_file, write_file
from cli.request_options import lock_environment_options, lock_selection, requested_environment
from common.settings import Settings
from graph.migrate import migrated_stores
from model.errors import InvalidArgument
from model.measurements.inspection import Stack
from model.packages.identity import package_version
from model.text import counted


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
    keep_project_files([output], [baseline or ""])
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
