"""``thoth packages``: read releases from indexes and files, refresh and show them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
from packaging.utils import canonicalize_name

from cli.console import print_field, print_graph_state, print_json, progress_bars
from cli.options import CommandGroup, as_json_option
from cli.packages_view import (
    crawl_progress,
    print_crawl,
    print_package,
    print_providers,
    print_releases,
    print_status,
    print_watched,
    view_json,
)
from cli.request_options import moment as moment_of
from common.index.configuration import configured_indexes
from common.settings import Settings
from graph.record.crawls import unwatch, watched_packages
from graph.record.indexes import index_status
from graph.record.modules import module_providers, releases_without_names
from graph.record.packages import package_view
from ingest.crawl.closure import MAX_PACKAGES, MAX_VERSIONS, CrawlBounds, WantedPackage
from ingest.crawl.crawler import CrawlReport
from ingest.crawl.runs import add_packages, clean, packages_document, unanswered, wanted_packages
from ingest.crawl.runs import refresh as refresh_all
from ingest.record import RunOutcome, open_record, recording
from ingest.releases.pipeline import ReleaseSourceOptions, check_releases, import_releases
from ingest.sources.source_items import source_argument
from model.errors import IndexProblem, InvalidArgument
from model.packages.identity import DEFAULT_INDEX

#: Days whose events `status` counts.
_DAYS = 7

_index = click.option(
    "--index", metavar="NAME", help="Name of a configured index.  [default: the first]"
)


@click.group(cls=CommandGroup)
def packages() -> None:
    """Read, refresh and show releases of packages."""


@packages.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_index
@click.option("--max-packages", type=click.IntRange(1), show_default=True,
              default=MAX_PACKAGES,
              help="Maximum number of packages to read.")  # fmt: skip
@click.option("--max-versions", type=click.IntRange(1), show_default=True,
              default=MAX_VERSIONS,
              help="Maximum number of releases to read per package, newest first.")  # fmt: skip
@click.option("--newer-than", metavar="DATE", help="Skip releases uploaded before this date.")
@click.option("--no-watch", is_flag=True, help="Do not put the packages on the watch list.")
@click.option("--pre", is_flag=True, help="Read pre-releases like other releases.")
@click.option("--retry", is_flag=True, help="Retry releases that could not be read before.")
@as_json_option
@click.pass_context
def add(
    context: click.Context, /, names: tuple[str, ...], retry: bool, as_json: bool, **bounds: Any
) -> None:
    """Read packages and their dependencies from an index.

    NAME is a package, with or without extras and a specifier, such as 'torch[opt]==2.9'. Known
    releases are not read again, so an interrupted run can be continued. Exit code 1 if a named
    package is missing, if no usable release meets the specifier, if a page or release could not be
    read, or if the hash of a file has changed; 3 if the index does not answer.
    """
    settings: Settings = context.obj
    roots = wanted_packages(names)
    newer_than = moment_of(bounds["newer_than"], datetime.now(UTC), "--newer-than")
    with crawl_progress(hidden=as_json) as on_progress:
        outcome = add_packages(
            settings,
            roots,
            CrawlBounds(bounds["max_packages"], bounds["max_versions"], newer_than, bounds["pre"]),
            index=bounds["index"],
            watching=not bounds["no_watch"],
            retry=retry,
            on_progress=on_progress,
        )
    _finish(context, outcome, as_json=as_json)


@packages.command()
@as_json_option
@click.pass_context
def refresh(context: click.Context, as_json: bool) -> None:
    """Read new releases of all known packages.

    New, yanked and removed releases are recorded as events. Dependencies of new releases are read,
    too. `thoth ingest nightly` includes a refresh. The exit codes are the same as for `thoth
    packages add`; exit code 5 means that another refresh is in progress.
    """
    with crawl_progress(hidden=as_json) as on_progress:
        outcome = refresh_all(context.obj, on_progress=on_progress)
    _finish(context, outcome, as_json=as_json)


def _finish(
    context: click.Context, outcome: RunOutcome[tuple[CrawlReport, ...]], *, as_json: bool
) -> None:
    if as_json:
        print_json(packages_document(outcome))
    else:
        for report in outcome.report:
            print_crawl(report)
        if not outcome.report:
            print_field("packages", "none known; add some with `thoth packages add NAME`")
        print_graph_state(outcome.lag, outcome.graph_error)
    context.exit(crawl_exit_code(outcome.report))


def crawl_exit_code(crawls: Sequence[CrawlReport]) -> int:
    """Exit code of a crawl: 3 if no index answered, 1 if a problem was found, 0 otherwise."""
    if unanswered(crawls):
        return 3
    return 0 if clean(crawls) else 1


@packages.command()
@as_json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show packages, freshness and problems of each index."""
    with open_record(context.obj) as engine, engine.connect() as connection:
        indexes = index_status(connection, _DAYS)
    if as_json:
        print_json({"days": _DAYS, "indexes": indexes})
    else:
        print_status(indexes, _DAYS)


@packages.command()
@click.argument("package", metavar="NAME[==VERSION]")
@as_json_option
@click.pass_context
def show(context: click.Context, package: str, as_json: bool) -> None:
    """Show a package or one of its versions.

    A version is shown with its requirements, files and hashes.
    """
    (root,) = wanted_packages([package])
    with open_record(context.obj) as engine, engine.connect() as connection:
        view = package_view(connection, root.name, root.specifier)
    if view is None or (root.specifier and not view.releases):
        remedy = f"`thoth packages add '{package}'` reads it"
        if view is not None:
            message = f"the store has no release of {root.name} that is {root.specifier}: {remedy}"
        else:
            message = f"the store has no package {root.name}: {remedy}"
        raise click.ClickException(message)
    if as_json:
        print_json(view_json(view))
    else:
        print_package(view, details=bool(root.specifier))


@packages.command()
@click.argument("module", metavar="MODULE")
@as_json_option
@click.pass_context
def whatprovides(context: click.Context, module: str, as_json: bool) -> None:
    """Show the packages that provide an importable module.

    MODULE is a dotted name, such as cv2 or google.protobuf. The names come from the files in the
    wheels that were read. If no release provides the module, the command reads the newest release
    of the package of that name from the index, unless FETCH_MISSING is 0. Exit code 1 if none does.
    """
    namesake = canonicalize_name(module.partition(".")[0])
    with open_record(context.obj) as engine, engine.connect() as connection:
        providers = module_providers(connection, module)
    if not providers and context.obj.fetch_missing:
        bounds = CrawlBounds(max_packages=1, max_versions=1)
        try:
            add_packages(context.obj, [WantedPackage(namesake)], bounds, watching=False)
        except (IndexProblem, InvalidArgument) as error:
            click.echo(f"{namesake} was not read: {error}", err=True)
        else:
            click.echo(
                "no release that was read provides it, so the index was asked for"
                f" {namesake}; packages with other names may provide it, too",
                err=True,
            )
    with open_record(context.obj) as engine, engine.connect() as connection:
        providers = providers or module_providers(connection, module)
        unknown = 0 if providers else releases_without_names(connection, namesake)
    if as_json:
        print_json({"module": module, "providers": providers})
    elif providers:
        print_providers(providers)
    if not providers:
        message = f"no release that was read provides the module {module!r}"
        if unknown:
            message += (
                f"; the modules of {unknown} {namesake} {'release' if unknown == 1 else 'releases'}"
                " are unknown: `thoth analyze wheel NAME==VERSION --ingest` reads them"
            )
        raise click.ClickException(message)


@packages.group(cls=CommandGroup)
def watch() -> None:
    """List or remove watched packages, whose new releases `refresh` reads."""


@watch.command("list")
@as_json_option
@click.pass_context
def watch_list(context: click.Context, as_json: bool) -> None:
    """List the watched packages."""
    with open_record(context.obj) as engine, engine.connect() as connection:
        listed = watched_packages(connection)
    if as_json:
        print_json(listed)
    else:
        print_watched(listed)


@watch.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_index
@click.pass_context
def watch_remove(context: click.Context, names: tuple[str, ...], index: str | None) -> None:
    """Remove packages from the watch list; known releases stay."""
    wanted = {canonicalize_name(name) for name in names}
    with open_record(context.obj) as engine, engine.begin() as connection:
        removed = unwatch(connection, index or DEFAULT_INDEX, wanted)
    for name in sorted(removed):
        click.echo(name)
    if unknown := sorted(wanted - removed):
        raise click.ClickException(f"not watched: {', '.join(unknown)}")


@packages.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--as-of", metavar="DATE",
              help="Date of the metadata.  [default: date of the newest upload]")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Read and check everything, but write nothing.")
@as_json_option
@click.pass_context
def import_command(
    context: click.Context, files: tuple[str, ...], as_of: str | None, dry_run: bool, as_json: bool
) -> None:
    """Import releases from metadata dumps and solver results.

    FILE can be a JSON Lines file (.jsonl or .ndjson, optionally gzipped), a JSON document with
    releases or with the results of a solver, or a folder or archive of such files. Known releases
    are skipped. Releases that cannot be ingested go to the quarantine with their line number. Exit
    code 1 if a release cannot be ingested, or if the hash of a file has changed. Run the command
    again to continue after an interruption.
    """
    settings: Settings = context.obj
    sources = [source_argument(file) for file in files]
    addresses = {
        index.url.rstrip("/"): name for name, index in configured_indexes(settings).items()
    }
    moment, now = None, datetime.now(UTC)
    if as_of is not None:
        moment = moment_of(as_of, now, "--as-of")
        if moment is None or moment > now:
            raise InvalidArgument(f"--as-of: {as_of!r} lies in the future")
    reading = ReleaseSourceOptions(as_of=moment, addresses=addresses)
    with progress_bars("releases", hidden=as_json) as bars:

        def on_release() -> None:
            bars.advance("releases")

        if dry_run:
            outcome = RunOutcome(check_releases(sources, reading, on_release))
        else:
            with recording(settings) as run:
                imported = import_releases(
                    settings, run.engine, sources, reading,
                    on_release=on_release, on_commit=run.on_commit,
                )  # fmt: skip
            outcome = run.outcome(imported)
    report = outcome.report
    if as_json:
        print_json({"dry_run": dry_run, **outcome.as_json(release=report.as_json())})
    else:
        print_releases(report, dry_run=dry_run)
        print_graph_state(outcome.lag, outcome.graph_error)
    if not report.clean:
        context.exit(1)
