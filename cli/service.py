"""``thoth serve``, ``worker`` and ``queue``: the HTTP service, and its jobs."""

import gc
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Connection

from api.jobs.queue import PROJECT, Queue, QueueName, cancel_waiting, queued_jobs, task_name
from api.server.certificates import self_signed
from api.server.http_server import ServerOptions, check, is_private, listen
from api.server.http_server import serve as run
from api.server.supervisor import ChildProcess, Supervisor, keeping_stores, metrics_folder
from cli.console import Column, Table, cut_list, moment_text, print_json
from cli.options import CommandGroup, as_json_option, limit_option
from common.logs import set_up_logs
from common.settings import Settings
from graph.checkpoints import stores_agree
from graph.embedded.home import unusable
from graph.engine import GRAPH, Stores, open_stores, relational_errors
from graph.migrate import ensure_schema, migrated_stores
from graph.record.document_store import identify_store, require_own_store
from model.errors import (
    DocumentStoreMismatch,
    GraphMismatch,
    InvalidArgument,
    SchemaMismatch,
    StoreUnavailable,
)
from model.text import counted

_MOST_PROCESSES = 64
#: One worker for requests of people, one for bulk jobs, one for inspections.
PROCESSES = 3

_LOG = logging.getLogger(__name__)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True,
              help="Port to listen on; 0 takes a free port.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, _MOST_PROCESSES), default=2, show_default=True,
              help="Number of server processes.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1, _MOST_PROCESSES), default=8, show_default=True,
              help="Number of concurrent requests per process.")  # fmt: skip
@click.option("--tls-self-signed", is_flag=True,
              help="Use a self-signed certificate, which is created once and kept.")  # fmt: skip
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM file with the certificate and its chain.")  # fmt: skip
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM file with the certificate's key.")  # fmt: skip
@click.option("--behind-proxy", is_flag=True,
              help="Trust X-Forwarded-* headers of a proxy, which terminates TLS.")  # fmt: skip
@click.option("--fetch-missing", is_flag=True,
              help="Read missing releases from the indexes for clients without a token, too;"
                   " only on a loopback address.")  # fmt: skip
@click.option("--with-workers", is_flag=True, help="Also run workers for all queues.")
@click.option("--metrics-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Folder in which the processes share values for /metrics.")  # fmt: skip
@click.pass_context
def serve(ctx: click.Context, /, **arguments: Any) -> int:
    """Start the HTTP server.

    The server runs until SIGTERM, and then finishes the requests in progress.
    """
    settings: Settings = ctx.obj
    if arguments.pop("with_workers"):
        _check_tls(arguments)
        forwarded: list[str] = []
        for name, value in arguments.items():
            if value is not None and value is not False:
                option = f"--{name.replace('_', '-')}"
                forwarded += [option] if value is True else [option, str(value)]
        return serve_with_workers(ctx, forwarded, arguments["metrics_dir"])
    _serve(settings, is_verbose(ctx), arguments)
    return 0


def _serve(settings: Settings, verbose: bool, arguments: dict[str, Any]) -> None:
    _check_tls(arguments)
    tls = arguments["tls_self_signed"] or arguments["tls_cert"] is not None
    log_service(settings, verbose)
    with listen(arguments["host"], arguments["port"]) as listener:
        behind_proxy, fetch_missing = arguments["behind_proxy"], arguments["fetch_missing"]
        if fetch_missing and (behind_proxy or not is_private(listener)):
            raise InvalidArgument(
                "--fetch-missing: others can reach this service; give them tokens with the scope"
                " ingest"
            )
        if not (tls or behind_proxy or is_private(listener)):
            raise InvalidArgument(
                "--host: this address can be reached from other machines, so tokens need TLS: add"
                " --tls-self-signed, or --tls-cert and --tls-key, or --behind-proxy"
            )
        try:
            ensure_stores(settings)
        except SchemaMismatch as error:
            if not error.older:
                raise
            _LOG.warning("read_only", extra={"error": str(error)})
        certificate, key = _certificate(settings, arguments)
        options = ServerOptions(
            arguments["workers"],
            arguments["threads"],
            certificate,
            key,
            behind_proxy,
            fetch_missing,
        )
        # No module above may import prometheus_client, which looks for the folder when imported.
        with metrics_folder(metrics_root(settings, arguments["metrics_dir"]), "serve"):
            check(settings, options)
            host = f"[{arguments['host']}]" if ":" in arguments["host"] else arguments["host"]
            address = f"{'https' if tls else 'http'}://{host}:{listener.getsockname()[1]}"
            click.echo(f"Serving {address}")
            if settings.log_format == "brief":
                click.echo("Open it in a browser, which warns once of the self-signed certificate."
                           " Ctrl-C stops the service.")  # fmt: skip
            run(settings, options, listener)


def serve_with_workers(
    ctx: click.Context, arguments: Sequence[str], metrics_dir: Path | None = None
) -> int:
    """Run the server and workers as child processes; a worker that ends does not end the others.

    :param arguments: of ``thoth serve``
    """
    log_service(ctx.obj, is_verbose(ctx))
    ensure_stores(ctx.obj)
    server = ChildProcess("serve", command("serve", *arguments), essential=True)
    return supervise(ctx.obj, [server], queue_sets(PROCESSES), metrics_dir)


def is_verbose(ctx: click.Context) -> bool:
    """Whether ``thoth -v`` is in use."""
    return bool(ctx.find_root().params.get("verbose"))


def _check_tls(arguments: Mapping[str, Any]) -> None:
    if arguments["tls_self_signed"] and arguments["tls_cert"]:
        raise InvalidArgument("--tls-self-signed and --tls-cert: give one of them")
    if (arguments["tls_cert"] is None) is not (arguments["tls_key"] is None):
        raise InvalidArgument("--tls-cert and --tls-key: give both, or --tls-self-signed")


def _certificate(
    settings: Settings, arguments: Mapping[str, Any]
) -> tuple[Path | None, Path | None]:
    """The files of the certificate and its key, which can be loaded or were just made."""
    if not arguments["tls_self_signed"]:
        if arguments["tls_cert"] is not None:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                # With an empty password, an encrypted key fails instead of asking for a password.
                context.load_cert_chain(arguments["tls_cert"], arguments["tls_key"], password="")
            except OSError as error:
                raise InvalidArgument(f"--tls-cert and --tls-key: {error}") from error
        return arguments["tls_cert"], arguments["tls_key"]
    host = arguments["host"]
    names = [host] if host not in {"0.0.0.0", "::", ""} else []  # noqa: S104 - compared, not bound
    try:
        certificate = self_signed(settings.home / "tls", names)
    except OSError as error:
        raise unusable(settings.home / "tls", error) from error
    click.echo(f"certificate: {certificate.path}, until {certificate.expires_at:%Y-%m-%d}")
    click.echo(f"sha256 fingerprint: {certificate.fingerprint}")
    return certificate.path, certificate.key_path


@click.command()
@click.option("--processes", type=click.IntRange(1, _MOST_PROCESSES),
              help="Number of processes; each runs one job at a time."
              "  [default: 1 with --queue, else 3]")  # fmt: skip
@click.option("--queue", "queues", type=click.Choice([it.value for it in QueueName]),
              multiple=True, help="Take jobs from this queue.  [default: all]")  # fmt: skip
@click.option("--metrics-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Folder in which the processes share values for /metrics.")  # fmt: skip
@click.option("--alone", is_flag=True, hidden=True, help="Run as a child of another worker.")
@click.option("--heartbeat", type=click.Path(path_type=Path), hidden=True, help="File to touch.")
@click.pass_context
def worker(
    ctx: click.Context,
    processes: int | None,
    queues: tuple[str, ...],
    metrics_dir: Path | None,
    alone: bool,
    heartbeat: Path | None,
) -> int:
    """Process the jobs of the service.

    Workers run until SIGTERM. After SIGTERM, each worker finishes its running job, or returns the
    job to its queue.
    """
    settings: Settings = ctx.obj
    log_service(settings, is_verbose(ctx))
    wanted = [QueueName(name) for name in dict.fromkeys(queues)] or list(QueueName)
    if alone:
        # prometheus_client, which this loads, looks for its folder when it is imported.
        from api.jobs.worker import run_worker

        name = f"{socket.gethostname()}-{'-'.join(wanted)}-{os.getpid()}"
        run_worker(settings, wanted, name, heartbeat)
        return 0
    ensure_stores(settings)
    sets = [wanted] * (processes or 1) if queues else queue_sets(processes or PROCESSES)
    return supervise(settings, [], sets, metrics_dir)


def queue_sets(processes: int) -> list[list[QueueName]]:
    """The queues of each process, divided so that long jobs do not block jobs that people wait for.

    >>> [[str(name) for name in names] for names in queue_sets(2)]
    [['people'], ['bulk', 'inspections']]
    """
    people, bulk, inspections = [QueueName.PEOPLE], [QueueName.BULK], [QueueName.INSPECTIONS]
    if processes == 1:
        return [[*people, *bulk, *inspections]]
    if processes == 2:
        return [people, [*bulk, *inspections]]
    # Projection into the graph is a bulk job, and must not wait hours for an inspection.
    return [*[people] * (processes - 2), bulk, inspections]


def workers_of(sets: Sequence[Sequence[QueueName]], folder: Path | None) -> list[ChildProcess]:
    """A worker process for each set of queues, with its heartbeats in a file of ``folder``."""
    children = []
    for number, queues in enumerate(sets, 1):
        options = [text for queue in queues for text in ("--queue", queue.value)]
        name = f"worker-{'-'.join(queues)}-{number}"
        heartbeat = None if folder is None else folder / f"heartbeat-{name}"
        if heartbeat is not None:
            options += ["--heartbeat", str(heartbeat)]
        started = command("worker", "--alone", *options)
        children.append(ChildProcess(name, started, heartbeat=heartbeat))
    return children


def supervise(
    settings: Settings,
    children: Sequence[ChildProcess],
    sets: Sequence[Sequence[QueueName]],
    metrics_dir: Path | None,
) -> int:
    """Keep processes and embedded stores running until a signal arrives, and count restarts.

    :param children: further processes beside a worker for each of ``sets``
    """
    with (
        metrics_folder(metrics_root(settings, metrics_dir), "worker") as folder,
        keeping_stores(settings),
    ):
        # Imported here: prometheus_client looks for the folder when it is imported.
        from api.health.monitoring import RESTARTS

        workers = workers_of(sets, folder)
        return Supervisor(
            [*children, *workers], lambda child: RESTARTS.inc(not child.essential)
        ).run()


def log_service(settings: Settings, verbose: bool) -> None:
    """Set up the logs of a service: level INFO, and JSON unless a terminal shows the logs.

    A service runs for a long time, so it collects garbage more often than other commands.
    """
    gc.set_threshold(100_000, 20, 20)
    as_json = settings.log_format == "json" or (
        settings.log_format is None and not sys.stderr.isatty()
    )
    set_up_logs(verbose, as_json=as_json)
    if settings.log_format == "brief" and not verbose:
        for handler in logging.getLogger().handlers:
            handler.setLevel(logging.WARNING)
    logging.getLogger("api").setLevel(logging.INFO)


def ensure_stores(settings: Settings) -> None:
    """Start embedded stores and migrate them to this version's schema.

    A graph that was not projected from this record is left to the workers.

    :raises StoreUnavailable: if PostgreSQL does not answer; the graph and the document store may be
        down
    :raises DocumentStoreMismatch: if the document store is not the one of this record
    :raises SchemaMismatch: if an external store has another schema; a server reads an older one
    """
    try:
        _check_graph(settings)
    except SchemaMismatch as error:
        if not error.older:
            raise
    with open_stores(settings, graph=False) as stores:
        try:
            ensure_schema(stores)
        except SchemaMismatch as error:
            if error.older:
                # An early schema has no identifier of the document store.
                with suppress(SchemaMismatch), relational_errors(settings):
                    _check_documents(stores, require_own_store)
            raise
        _check_documents(stores, identify_store)


def _check_graph(settings: Settings) -> None:
    """Let the workers rebuild a graph that was not projected from this record."""
    try:
        with migrated_stores(settings, any_graph=True) as stores:
            if not stores_agree(stores):
                _LOG.error("graph_mismatch", extra={"error": str(GraphMismatch())})
                if settings.graph_rebuild:
                    with stores.engine.begin() as connection:
                        Queue(stores.engine, settings.queue_limit).enqueue(connection, PROJECT)
    except StoreUnavailable as error:
        if error.store != GRAPH:
            raise
        _LOG.warning("graph_down", extra={"error": str(error)})


def _check_documents(stores: Stores, check: Callable[[Connection, Settings], None]) -> None:
    try:
        with stores.engine.begin() as connection:
            check(connection, stores.settings)
    except DocumentStoreMismatch:
        raise
    except StoreUnavailable as error:
        _LOG.warning("document_store_down", extra={"error": str(error)})


def metrics_root(settings: Settings, chosen: Path | None) -> Path:
    """Return the folder for metrics; by default, all processes of a home share one."""
    return chosen or settings.home / "run" / "metrics"


def command(*arguments: str) -> tuple[str, ...]:
    """Return the command line of a ``thoth`` command with this interpreter."""
    # -P: the current folder may have packages named like ours.
    return (sys.executable, "-P", "-m", "cli", *arguments)


_QUEUE = click.Choice([it.value for it in QueueName])


@click.group(cls=CommandGroup)
def queue() -> None:
    """Show and cancel the jobs of the service."""


@queue.command("list")
@click.option("--queue", "name", type=_QUEUE, help="Only the jobs of this queue.")
@limit_option("jobs to list", 100_000)
@as_json_option
@click.pass_obj
def list_(settings: Settings, name: str | None, limit: int, as_json: bool) -> None:
    """List running jobs, then waiting jobs in the order in which workers take them."""
    chosen = None if name is None else QueueName(name)
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        jobs = queued_jobs(connection, chosen, limit + 1)
    listed, truncated = cut_list(jobs, limit, "first")
    if as_json:
        rows = [{key: _plain(value) for key, value in asdict(it).items()} for it in listed]
        print_json({"jobs": rows, "truncated": truncated})
        return
    table = Table([
        Column("job", right=True), Column("queue"), Column("task"), Column("state"),
        Column("priority", right=True), Column("since"), Column("client"), Column("request"),
    ])  # fmt: skip
    for job in listed:
        since = "" if job.enqueued_at is None else moment_text(job.enqueued_at)
        state = "running" if job.running else "waiting"
        table.add(
            str(job.job_id), job.queue, task_name(job), state, str(job.priority), since,
            job.client or "", job.analysis_id or "",
        )  # fmt: skip
    table.print()


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@as_json_option
@click.pass_obj
def cancel(settings: Settings, names: tuple[str, ...], as_json: bool) -> None:
    """Cancel waiting jobs; their requests end with the state `error`.

    ID is the number of a job or the identifier of a request. Running jobs are not cancelled.
    """
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        for name in dict.fromkeys(names):
            if not cancel_waiting(connection, name=name):
                raise InvalidArgument(f"ID: no job {name!r} waits; see `thoth queue list`")
    _print_cancelled(len(set(names)), as_json)


@queue.command()
@click.option("--queue", "name", type=_QUEUE, required=True, help="Queue to purge.")
@click.option("--client", help="Only the requests of this address or token identifier.")
@as_json_option
@click.pass_obj
def purge(settings: Settings, name: str, client: str | None, as_json: bool) -> None:
    """Cancel all waiting jobs of a queue, or all jobs of one client that wait in it."""
    with migrated_stores(settings, graph=False) as stores, stores.engine.begin() as connection:
        number = cancel_waiting(connection, queue=QueueName(name), client=client)
    _print_cancelled(number, as_json)


def _print_cancelled(number: int, as_json: bool) -> None:
    if as_json:
        print_json({"cancelled": number})
    else:
        click.echo(f"{counted(number, 'job')} cancelled")


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
