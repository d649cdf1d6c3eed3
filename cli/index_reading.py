"""Reads the graph or the indexes for a command, and shows the progress and what is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from model.text import counted, printable

if TYPE_CHECKING:
    from adviser.advise import Resolver, SnapshotAndEvidence
    from adviser.answering.index_resolution import IndexResolution
    from adviser.stack_request import StackRequest
    from graph.engine import Stores
    from model.packages.candidates import Dependency, IndexesSilent

Value = TypeVar("Value")

#: What to do about a missing package, by the reason.
_REMEDIES = {
    "not_found": "check the spelling, or name the index that has the package (--index)",
    "unavailable": "run the command again; check the address and the credentials of the index",
    "not_configured": "configure the index on this machine (PACKAGE_INDEXES), or correct its name",
}


def stored_knowledge(
    stores: Stores, request: StackRequest, more: Iterable[Dependency] = ()
) -> SnapshotAndEvidence:
    """The stored knowledge for a request; first waits until the graph is up to date.

    :param more: requirements besides those of the request
    """
    from adviser.answering.answers import knowledge
    from cli.graph_lag import catch_up_graph

    catch_up_graph(stores)
    return knowledge(stores, request, more=more)


def read_over_indexes(
    stores: Stores,
    request: StackRequest,
    use: Callable[[IndexResolution], Awaitable[Value]],
    resolver: Resolver,
    more: Iterable[Dependency] = (),
) -> Value | IndexesSilent:
    """Return the result of ``use`` over all listed versions, and store the versions that were read.

    :param use: such as :meth:`adviser.answering.index_resolution.IndexResolution.advise`
    :param more: requirements whose packages are read besides those of the request
    :returns: the error if no index answers; the reasons go to standard error
    """
    from adviser.answering.index_resolution import ResolutionProgress, over_indexes
    from cli.console import progress_bars
    from ingest.crawl.record_writer import store_read
    from model.packages.candidates import IndexesSilent

    with progress_bars("packages", "releases") as bars:

        def show(progress: ResolutionProgress) -> None:
            if bars.visible:
                bars.update("packages", progress.packages, progress.packages)
                bars.update("releases", progress.read, progress.read)
                return
            reached = counted(progress.packages, "package"), counted(progress.rounds, "round")
            bars.update("releases", progress.read, description=f"{', '.join(reached)}; releases")

        def show_build(name: str, version: str) -> None:
            line = printable(f"building the metadata of {name} {version}")
            if bars.visible:
                bars.advance("builds", description=line)
            else:
                click.echo(line, err=True)

        try:
            result, resolution = over_indexes(
                stores, request, use, resolver, on_progress=show, on_build=show_build, more=more,
                parse_elsewhere=True,
            )  # fmt: skip
        except IndexesSilent as error:
            _print_silence(stores, error)
            return error
    store_read(stores.settings, stores.engine, resolution.listed.unstored())
    progress = resolution.progress
    if progress.requests:
        click.echo(
            f"read {progress.read:,} of {progress.listed:,} listed releases of"
            f" {counted(progress.packages, 'package')}, in"
            + (f" {counted(progress.rounds, 'round')} and" if progress.rounds else "")
            + f" {counted(progress.requests, 'request')}"
            f" ({progress.bytes_received / 1e6:.1f} MB)",
            err=True,
        )
    for (name, version), reason in resolution.unbuilt().items():
        click.echo(printable(f"not built: {name} {version}: {reason}"), err=True)
    for warning in resolution.warnings:
        click.echo(printable(f"warning: {warning}"), err=True)
    _print_unmet(stores, resolution)
    return result


def _print_unmet(stores: Stores, resolution: IndexResolution) -> None:
    """Print why the indexes cannot provide what is required, with remedies."""
    from graph.record.indexes import with_suggestions
    from model.packages.candidates import AbsenceReason

    reasons, absences = resolution.unmet(), resolution.listed.absences
    if not reasons:
        return
    unknown = {name for name, it in absences.items() if it.reason == "not_found"}
    with stores.engine.connect() as connection:
        reasons = with_suggestions(connection, reasons, unknown)
    for name, reason in reasons.items():
        text = f"still missing: {name}: {reason}"
        if name not in resolution.required:
            text = f"warning: {name}, which only other packages require: {reason}"
        click.echo(printable(text), err=True)
    kinds = dict.fromkeys(it.reason for name, it in absences.items() if name in resolution.required)
    if not all(it.is_complete for it in resolution.listed.packages.values()):
        kinds[AbsenceReason.UNAVAILABLE] = None
    for kind in kinds:
        click.echo(f"hint: {_REMEDIES[kind]}", err=True)


def _print_silence(stores: Stores, error: IndexesSilent) -> None:
    """Say that no index answered: an error for packages that the store lacks, else a warning."""
    from graph.record.indexes import without_releases

    with stores.engine.connect() as connection:
        unknown = without_releases(connection, error.absences)
    for name, absence in error.absences.items():
        label = "still missing" if name in unknown else "warning"
        click.echo(printable(f"{label}: {name}: {absence.message}"), err=True)
    click.echo(
        f"{'error' if unknown else 'warning'}: the indexes gave no page of what is required, so"
        " the answer is among the versions in the store; check their addresses (PACKAGE_INDEXES)"
        " and the network",
        err=True,
    )
