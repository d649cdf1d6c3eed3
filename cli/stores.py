"""``thoth up``, ``down``, ``status``, ``migrate`` and ``clean``: the stores and the home folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from cli.console import print_json
from cli.options import as_json_option
from common.settings import Settings
from graph.checkpoints import is_own_graph
from graph.embedded.arcadedb import ArcadeDB
from graph.embedded.home import FREE_SPACE, has_full_disk
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.start_stop import EmbeddedStores, Started
from graph.embedded.store_process import StoreProcess
from graph.engine import (
    GRAPH,
    POSTGRESQL,
    driver_connection,
    graph_database,
    graph_driver,
    graph_errors,
    graph_url,
    open_stores,
    server_agent,
    to_stderr,
)
from graph.migrate import IS_MIGRATED, REVISION, SchemaState, graph_state, relational_state_at
from graph.migrate import migrate as apply
from graph.record.waiting_requests import WAITING_REQUESTS, WaitingRequests
from model.errors import GraphMismatch, ProjectError, ServiceFailed, StoreUnavailable
from model.measurements.units import byte_size
from model.text import counted
from pis.amun.conditions import free_machine

_NOT_ALL_UP = 3
_EMPTY = "none; nothing is stored yet, and the next command makes it"


@click.command()
@as_json_option
@click.option("--serve", is_flag=True, help="Once the stores have started, run the HTTP service.")
@click.option("--port", type=click.IntRange(0, 65535),
              help="Port of the service, with --serve.  [default: 8443]")  # fmt: skip
@click.pass_context
def up(ctx: click.Context, as_json: bool, serve: bool, port: int | None) -> int:
    """Start the embedded stores and wait until they answer."""
    if port is not None and not serve:
        raise click.UsageError("--port is for --serve", ctx)
    settings: Settings = ctx.obj
    began = time.perf_counter()
    stores = EmbeddedStores(settings)
    try:
        started = stores.start(to_stderr)
    except KeyboardInterrupt:
        # The stores are processes of their own, which Ctrl-C does not reach.
        running = [kind.name for kind in stores.kinds if stores.record_of(kind)]
        if running:
            to_stderr(f"running: {', '.join(running)}; `thoth down` stops them")
        raise
    elapsed_s = round(time.perf_counter() - began, 3)
    _print_started(settings, started, elapsed_s, as_json=as_json)
    return _serve(ctx, started, port) if serve else 0


def _serve(ctx: click.Context, started: list[Started], port: int | None) -> int:
    """Serve until a signal. Then stop the stores that this command started."""
    arguments = ["--tls-self-signed", "--fetch-missing"]
    arguments += [] if port is None else ["--port", str(port)]
    if ctx.obj.log_format is None:  # the child processes read it, too
        os.environ["LOG_FORMAT"] = "brief"
        ctx.obj = replace(ctx.obj, log_format="brief")
    from cli.service import serve_with_workers  # loads the HTTP service

    try:
        return serve_with_workers(ctx, arguments)
    finally:
        if started and all(store.now for store in started):
            EmbeddedStores(ctx.obj).stop()


def _print_started(
    settings: Settings, started: list[Started], elapsed_s: float, *, as_json: bool
) -> None:
    if as_json:
        stores = [
            {"name": s.name, "started": s.now, "port": s.record.port, "pid": s.record.pid}
            for s in started
        ]
        print_json({"home": str(settings.home), "stores": stores, "elapsed_s": elapsed_s})
        return
    for store in started:
        state = f"started in {elapsed_s:.1f} s" if store.now else "already up"
        click.echo(f"{store.name}: {state}, port {store.record.port}, pid {store.record.pid}")
    for name in _external(settings):
        click.echo(f"{name}: external, not started by thoth")


@click.command()
@as_json_option
@click.pass_obj
def down(settings: Settings, as_json: bool) -> None:
    """Stop the embedded stores; their data stays."""
    stopped = EmbeddedStores(settings).stop()
    if as_json:
        stores = [{"name": store.name, "stopped": store.now} for store in stopped]
        print_json({"home": str(settings.home), "stores": stores})
        return
    for store in stopped:
        click.echo(f"{store.name}: {'stopped' if store.now else 'was not running'}")
    for name in _external(settings):
        click.echo(f"{name}: external, not stopped by thoth")


@click.command()
@as_json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show what this installation knows, and whether its stores are up.

    The command starts no store. If requests wait while no worker is running, the command warns.
    Exit code 3 if a store is down.
    """
    settings: Settings = ctx.obj
    stores = [
        _status(settings, PostgreSQL, POSTGRESQL, settings.embedded_database, _query_postgresql),
        _status(settings, ArcadeDB, GRAPH, settings.embedded_graph, _query_graph),
    ]
    if as_json:
        print_json({"home": str(settings.home), "stores": stores})
    else:
        click.echo(f"home: {settings.home}")
        for store in stores:
            click.echo(_described(store))
    if not all(store.up for store in stores):
        ctx.exit(_NOT_ALL_UP)


@click.command()
@as_json_option
@click.pass_obj
def migrate(settings: Settings, as_json: bool) -> None:
    """Migrate the schemas of both stores to this version.

    PostgreSQL comes first, even if the graph does not answer; then the exit code is 3. You may run
    the command again.
    """
    with open_stores(settings, graph=False) as record:
        done = list(apply(record))
    try:
        with open_stores(settings) as stores:
            done += apply(stores)[1:]
    except (ServiceFailed, StoreUnavailable):
        _print_migrated(done, as_json=as_json)
        click.echo("the graph is not migrated: run `thoth migrate` again", err=True)
        raise
    _print_migrated(done, as_json=as_json)


def _print_migrated(before: Sequence[SchemaState], *, as_json: bool) -> None:
    if as_json:
        print_json({"stores": list(before)})
        return
    for state in before:
        steps = f"applied {', '.join(state.pending)}" if state.pending else "nothing to do"
        click.echo(f"{state.store}: {steps}, schema {state.expected or 'empty'}")


def _external(settings: Settings) -> list[str]:
    """Return the names of the external stores."""
    embedded = {"PostgreSQL": settings.embedded_database, "the graph": settings.embedded_graph}
    return [name for name, here in embedded.items() if not here]


def _described(store: StoreStatus) -> str:
    facts = {
        "url": store.url,
        "pid": store.pid,
        "version": store.version,
        "schema": store.schema or _EMPTY * store.is_empty,
        "size": None if store.size_bytes is None else f"{store.size_bytes / 1e6:.1f} MB",
        "knows": None if store.contents is None else store.contents.text,
        "problem": store.problem,
        "hint": store.hint,
    }
    kind = "embedded" if store.embedded else "external"
    lines = [f"{store.name}: {'up' if store.up else 'down'} ({kind})"]
    lines += [f"  {name}: {value}" for name, value in facts.items() if value is not None]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class RecordContents:
    """Counts of the record; a count ends at :data:`MOST_COUNTED`.

    :param measurements: those that may be compared, as on the start page
    :param stacks, hardware: of the counted measurements
    """

    packages: int
    releases: int
    vulnerabilities: int
    answers: int
    measurements: int
    stacks: int
    hardware: int

    @property
    def text(self) -> str:
        """The counts in one line.

        >>> RecordContents(12, 63, 0, 3, 100_000, 21, 1).text
        '63 releases of 12 packages, 0 vulnerabilities, 100,000+ measurements of 21+ stacks on\
 1+ hardware class, 3 answers'
        """
        all_counted = self.measurements < MOST_COUNTED
        return (
            f"{_counted(self.releases, 'release')} of {_counted(self.packages, 'package')},"
            f" {_counted(self.vulnerabilities, 'vulnerability', 'vulnerabilities')},"
            f" {_counted(self.measurements, 'measurement')}"
            f" of {_counted(self.stacks, 'stack', exact=all_counted)} on"
            f" {_counted(self.hardware, 'hardware class', 'hardware classes', exact=all_counted)},"
            f" {_counted(self.answers, 'answer')}"
        )


def _counted(number: int, noun: str, plural: str | None = None, *, exact: bool = True) -> str:
    text = counted(number, noun, plural)
    return text if exact and number < MOST_COUNTED else text.replace(" ", "+ ", 1)


#: Counting of rows stops here, so that the command answers at once also for a large record.
MOST_COUNTED = 100_000
#: Query for the values of :class:`RecordContents`, in the order of its fields.
_CONTENTS = f"""
WITH job AS (
    SELECT document_id, hardware_digest FROM observations
    WHERE outcome = 'measured' AND quarantine_reason IS NULL LIMIT {MOST_COUNTED}
), measured AS (
    SELECT count(*), count(DISTINCT stack_digest), count(DISTINCT hardware_digest)
    FROM job JOIN inspections USING (document_id)
)
SELECT {
    ", ".join(
        f"(SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {MOST_COUNTED}) AS counted)"
        for table in ("packages", "package_versions", "vulnerabilities", "advice")
    )
}, measured.* FROM measured
"""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """State of one store.

    :param url: without the password; ``None`` for an embedded store that is down
    :param problem: why it is down, or a problem of its schema or its requests
    :param size_bytes: size of its data; ``None`` if the store does not report it
    :param contents: of the record, if it has the schema of this version
    """

    name: str
    up: bool
    embedded: bool
    url: str | None = None
    pid: int | None = None
    version: str | None = None
    schema: str | None = None
    expected_schema: str | None = None
    size_bytes: int | None = None
    contents: RecordContents | None = None
    problem: str | None = None
    hint: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is stored yet; the first command that uses the store makes the schema."""
        return self.up and self.embedded and self.schema is None and self.problem is None


def _status(
    settings: Settings,
    kind: type[StoreProcess],
    name: str,
    embedded: bool,
    query: Callable[[Settings, StoreStatus], StoreStatus],
) -> StoreStatus:
    record = EmbeddedStores(settings).record_of(kind) if embedded else None
    status = StoreStatus(name, up=False, embedded=embedded, pid=record.pid if record else None)
    if embedded and record is None:
        hint = FREE_SPACE if has_full_disk(settings.home) else "run `thoth up`"
        return replace(status, problem="not running", hint=hint)
    try:
        return query(settings, status)
    except ProjectError as error:
        return replace(status, problem=str(error), hint=error.hint)


def _query_postgresql(settings: Settings, status: StoreStatus) -> StoreStatus:
    with driver_connection(settings) as database:
        (version,) = database.row("SHOW server_version")
        (size_bytes,) = database.row("SELECT pg_database_size(current_database())")
        (is_migrated,) = database.row(IS_MIGRATED)
        (revision,) = database.row(REVISION) if is_migrated else (None,)
        current = replace(status, up=True, url=database.url, version=version, size_bytes=size_bytes)
        current = _with_schema(current, lambda: relational_state_at(revision))
        if current.problem or current.is_empty:
            return current
        # Requests that wait while no worker runs are a problem of the store.
        waiting = WaitingRequests(*database.row(WAITING_REQUESTS))
        contents = RecordContents(*database.row(_CONTENTS))
        return replace(current, contents=contents, problem=waiting.problem)


def _query_graph(settings: Settings, status: StoreStatus) -> StoreStatus:
    database = graph_database(settings)
    with graph_errors(settings), graph_driver(settings) as driver:
        agent = server_agent(driver, database)
        size = size_of(EmbeddedStores(settings).home.graph) if settings.embedded_graph else None
        url = graph_url(settings)
        current = replace(status, up=True, url=url, version=agent, size_bytes=size)
        current = _with_schema(current, lambda: graph_state(driver, database))
        if current.problem or is_own_graph(settings, driver) is not False:
            return current
        error = GraphMismatch()
        return replace(current, problem=str(error), hint=error.hint)


def _with_schema(status: StoreStatus, query: Callable[[], SchemaState]) -> StoreStatus:
    try:
        state = query()
    except ProjectError as error:
        return replace(status, problem=str(error), hint=error.hint)
    # Commands make the schema of an embedded store themselves.
    behind = state.pending and not (status.embedded and state.current is None)
    return replace(
        status,
        schema=state.current,
        expected_schema=state.expected,
        problem=f"{len(state.pending)} schema steps to apply" if behind else None,
        hint="run `thoth migrate`" if behind else None,
    )


def size_of(folder: Path) -> int:
    """Return the size of a folder in bytes; files that disappear meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


_DAY_S = 86_400
#: Folders of ``INDEX_CACHE``.
_CACHES = ("indexes", "requests")


@click.command()
@click.option("--days", type=click.FloatRange(0), default=30, show_default=True, metavar="N",
              help="Remove environments that no inspection used for this many days.")  # fmt: skip
@click.option("--cache", is_flag=True, help="Also remove the cached pages of package indexes.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would be removed.")
@as_json_option
@click.pass_obj
def clean(settings: Settings, days: float, cache: bool, dry_run: bool, as_json: bool) -> None:
    """Remove old environments of inspections, and cached pages.

    Later commands make removed environments and read removed pages again. Measurements, documents
    and stores stay, and so do environments that an inspection uses. Exit code 5 while a measurement
    runs on this machine, unless it shares the machine.
    """
    from pis.amun.environments import old_environments, remove_environment  # loads the runner

    with free_machine(0):
        sizes = {}
        for folder in old_environments(settings, time.time() - days * _DAY_S):
            size = size_of(folder)
            if remove_environment(folder, dry_run=dry_run):
                sizes[str(folder)] = size
        for folder in filter(Path.is_dir, (settings.index_cache / it for it in _CACHES if cache)):
            sizes[str(folder)] = size_of(folder)
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print_json({"dry_run": dry_run, "folders": sizes, "bytes": sum(sizes.values())})
        return
    for name, size in sizes.items():
        click.echo(f"{byte_size(size):>9}  {name}")
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{counted(len(sizes), 'folder')} {verb}, {byte_size(sum(sizes.values()))}")
