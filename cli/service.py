"""``thoth serve``: the HTTP server."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from common.errors import InvalidArgument
from common.settings import Settings

if TYPE_CHECKING:
    from api.jobs.queue import QueueName
    from api.server.supervisor import ChildProcess
import json
import logging
import sys
from dataclasses import asdict
from datetime import UTC

from common.errors import StoreUnavailable
from common.logs import set_up_logs
from common.terminal import printable

_MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class _Tls:
    self_signed: bool
    certificate: Path | None
    key: Path | None

    @property
    def wanted(self) -> bool:
        return self.self_signed or self.certificate is not None


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, _MOST_PROCESSES), default=2, show_default=True,
              help="Processes.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1, _MOST_PROCESSES), default=8, show_default=True,
              help="Requests that each process answers at a time.")  # fmt: skip
@click.option("--tls-self-signed", is_flag=True,
              help="With a certificate of this machine's own making, which is reused.")  # fmt: skip
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM file of a certificate, with its chain.")  # fmt: skip
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM file of its key.")  # fmt: skip
@click.option("--behind-proxy", is_flag=True,
              help="One proxy stands in front: it ends TLS, and its X-Forwarded-* headers are "
              "believed.")  # fmt: skip
@click.option("--with-workers", is_flag=True, help="Run a worker for every queue, too.")
@click.option("--metrics-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Where processes leave their figures for /metrics.")  # fmt: skip
@click.pass_context
def serve(ctx: click.Context, /, **given: Any) -> int:
    """Answer requests over HTTP until SIGTERM; requests that run are finished."""
    settings: Settings = ctx.obj
    if given.pop("with_workers"):
        _tls(given)
        return serve_with_workers(ctx, _arguments(given), given["metrics_dir"])
    _serve(settings, is_verbose(ctx), given)
    return 0


def _serve(settings: Settings, verbose: bool, given: dict[str, Any]) -> None:
    from api.metrics_files import metrics_folder
    from api.server.http_server import ServerOptions, check, listen
    from api.server.http_server import serve as run

    tls = _tls(given)
    log_service(verbose)
    with listen(given["host"], given["port"]) as listener:
        _refuse_open(listener, tls, behind_proxy=given["behind_proxy"])
        ensure_stores(settings)
        certificate, key = _files(settings, tls, given["host"])
        front = ServerOptions(
            given["workers"], given["threads"], certificate, key, given["behind_proxy"]
        )
        # Entered before anything imports the client library, which looks for it then.
        with metrics_folder(metrics_root(settings, given["metrics_dir"]), "serve"):
            check(settings, front)
            click.echo(f"Serving {_address(given['host'], listener, tls.wanted)}")
            run(settings, front, listener)


def serve_with_workers(
    ctx: click.Context, arguments: Sequence[str], metrics_dir: Path | None = None
) -> int:
    """Run the server and workers as child processes, so that each may end without the others.

    :param arguments: of ``thoth serve``
    """
    from api.server.supervisor import ChildProcess

    log_service(is_verbose(ctx))
    ensure_stores(ctx.obj)
    server = ChildProcess("serve", command("serve", *arguments), essential=True)
    return supervise(ctx.obj, [server, *workers_of(shared_out(PROCESSES))], metrics_dir)


def is_verbose(ctx: click.Context) -> bool:
    """Whether ``thoth -v`` was asked for."""
    return bool(ctx.find_root().params.get("verbose"))


def _arguments(given: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


def _tls(given: dict[str, Any]) -> _Tls:
    tls = _Tls(given["tls_self_signed"], given["tls_cert"], given["tls_key"])
    if tls.self_signed and tls.certificate:
        raise InvalidArgument("--tls-self-signed and --tls-cert: give one of them")
    if (tls.certificate is None) is not (tls.key is None):
        raise InvalidArgument("--tls-cert and --tls-key: give both, or --tls-self-signed")
    return tls


def _refuse_open(listener: socket.socket, tls: _Tls, *, behind_proxy: bool) -> None:
    from api.server.http_server import is_private

    if not (tls.wanted or behind_proxy or is_private(listener)):
        raise InvalidArgument(
            "--host: others could reach this address, and read tokens on their way: give"
            " --tls-self-signed, or --tls-cert and --tls-key, or --behind-proxy"
        )


def _files(settings: Settings, tls: _Tls, host: str) -> tuple[Path | None, Path | None]:
    if not tls.self_signed:
        return _checked(tls)
    from api.server.certificates import self_signed
    from graph.embedded.home import unusable

    named = [host] if host not in {"0.0.0.0", "::", ""} else []  # noqa: S104 - compared, not bound
    try:
        made = self_signed(settings.home / "tls", named)
    except OSError as error:
        raise unusable(settings.home / "tls", error) from error
    click.echo(f"certificate: {made.path}, until {made.expires_at:%Y-%m-%d}")
    click.echo(f"sha256 fingerprint: {made.fingerprint}")
    return made.path, made.key_path


def _checked(tls: _Tls) -> tuple[Path | None, Path | None]:
    """The files of a real certificate, once it is sure that they can be used."""
    import ssl

    if tls.certificate is not None:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # An empty password: a key that has one is refused, and nobody is asked for it.
            context.load_cert_chain(tls.certificate, tls.key, password="")
        except OSError as error:
            raise InvalidArgument(f"--tls-cert and --tls-key: {error}") from error
    return tls.certificate, tls.key


def _address(host: str, listener: socket.socket, tls: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{listener.getsockname()[1]}"


#: Repeated from :class:`api.jobs.queue.QueueName`, which a test sees to: ``--help`` needs no queue.
QUEUES = ("people", "bulk", "fetches", "inspections")
#: One for people, one for what nobody waits for, one for inspections.
PROCESSES = 3


@click.command()
@click.option("--processes", type=click.IntRange(1, _MOST_PROCESSES),
              help="Jobs that run at a time, one a process; without --queue they share the queues,"
              " and some are kept for people.  [default: 1 with --queue, else 3]")  # fmt: skip
@click.option("--queue", "queues", type=click.Choice(QUEUES), multiple=True,
              help="A queue to take from; several times for several.  [default: all]")  # fmt: skip
@click.option("--metrics-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Where processes leave their figures for /metrics.")  # fmt: skip
@click.option("--alone", is_flag=True, hidden=True, help="Be the process that takes jobs.")
@click.pass_context
def worker(
    ctx: click.Context,
    processes: int | None,
    queues: tuple[str, ...],
    metrics_dir: Path | None,
    alone: bool,
) -> int:
    """Take jobs until SIGTERM; a job that runs is finished, or returned to the queue."""
    from api.jobs.queue import QueueName

    settings: Settings = ctx.obj
    log_service(bool(ctx.find_root().params.get("verbose")))
    wanted = [QueueName(name) for name in dict.fromkeys(queues)] or list(QueueName)
    if alone:
        from api.jobs.worker import run_worker

        run_worker(settings, wanted, f"{socket.gethostname()}-{'-'.join(wanted)}-{os.getpid()}")
        return 0
    ensure_stores(settings)
    sets = [wanted] * (processes or 1) if queues else shared_out(processes or PROCESSES)
    return supervise(settings, workers_of(sets), metrics_dir)


def shared_out(processes: int) -> list[list[QueueName]]:
    """The queues of each of some processes, so that nobody who waits stands behind what is long.

    >>> [[str(it) for it in queues] for queues in shared_out(2)]
    [['people'], ['bulk', 'fetches', 'inspections']]
    """
    from api.jobs.queue import QueueName

    people, inspections = [QueueName.PEOPLE], [QueueName.INSPECTIONS]
    # What the graph is to show is among the bulk: it must not wait for hours of an inspection.
    others = [QueueName.BULK, QueueName.FETCHES]
    if processes == 1:
        return [[*people, *others, *inspections]]
    if processes == 2:
        return [people, [*others, *inspections]]
    return [*[people] * (processes - 2), others, inspections]


def workers_of(sets: Sequence[Sequence[QueueName]]) -> list[ChildProcess]:
    """A child for each set of queues, which takes from all of them."""
    from api.server.supervisor import ChildProcess

    children = []
    for number, queues in enumerate(sets, 1):
        options = [it for queue in queues for it in ("--queue", queue.value)]
        name = f"worker-{'-'.join(queues)}-{number}"
        children.append(ChildProcess(name, command("worker", "--alone", *options)))
    return children


def supervise(
    settings: Settings, children: Sequence[ChildProcess], metrics_dir: Path | None
) -> int:
    """Keep ``children`` and embedded stores alive until a signal.

    How often children died is among the metrics.
    """
    from api.metrics_files import metrics_folder
    from api.server.store_watchdog import keeping_stores
    from api.server.supervisor import Supervisor

    with (
        metrics_folder(metrics_root(settings, metrics_dir), "worker"),
        keeping_stores(settings),
    ):
        # Only now: it looks for the folder when it is imported.
        from api.metrics import RESTARTS

        return Supervisor(children, lambda _child: RESTARTS.inc()).run()


_LOG = logging.getLogger(__name__)


def log_service(verbose: bool) -> None:
    """A service tells what it does without being asked."""
    set_up_logs(verbose)
    logging.getLogger("api").setLevel(logging.INFO)


def ensure_stores(settings: Settings) -> None:
    """Start embedded stores and bring them to this release's schema.

    :raises StoreUnavailable: if PostgreSQL does not answer; the graph may be away
    :raises SchemaMismatch: if a schema is not this release's, and not ours to migrate
    """
    from graph.engine import GRAPH
    from graph.migrate import migrated_stores

    try:
        with migrated_stores(settings):
            return
    except StoreUnavailable as error:
        if error.store != GRAPH:
            raise
        _LOG.warning("graph_down", extra={"error": str(error)})
    with migrated_stores(settings, graph=False):
        return


def metrics_root(settings: Settings, chosen: Path | None) -> Path:
    """Where processes that share a home meet, unless another folder was chosen."""
    return chosen or settings.home / "run" / "metrics"


def command(*arguments: str) -> tuple[str, ...]:
    """A command of this room, for a child process with this one's interpreter."""
    return (sys.executable, "-m", "cli", *arguments)


_MOST_WRITES = 100_000


@click.command()
@click.option("--limit", type=click.IntRange(1, _MOST_WRITES), default=100, show_default=True,
              help="Writes, newest first.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def audit(settings: Settings, limit: int, as_json: bool) -> None:
    """List what requests wrote: when, who, from where, by which route, and what it made."""
    from graph.migrate import migrated_stores
    from graph.record.audit import latest_writes

    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        found = latest_writes(connection, limit + 1)  # one more tells whether there are more
    listed, truncated = found[:limit], len(found) > limit
    if truncated:
        click.echo(f"only the newest {limit}; there are more: --limit sets how many", err=True)
    if as_json:
        writes = [{**asdict(it), "at": it.at.astimezone(UTC).isoformat()} for it in listed]
        click.echo(json.dumps({"writes": writes, "truncated": truncated}, indent=2))
        return
    for it in listed:
        who, made = it.token_id or "anonymous", it.subject or "-"
        line = f"{it.at:%Y-%m-%d %H:%M:%S}  {who}  {it.address}  {it.method} {it.route}"
        click.echo(printable(f"{line}  {it.status}  {made}  {it.request_id}"))
