"""``thoth worker``: processes that take jobs from the queue."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.settings import Settings

if TYPE_CHECKING:
    from api.jobs.queue import QueueName
    from api.server.supervisor import ChildProcess

#: Repeated from :class:`api.jobs.queue.QueueName`, which a test sees to: ``--help`` needs no queue.
QUEUES = ("people", "bulk", "fetches", "inspections")
_MOST = 64
#: One for people, one for what nobody waits for, one for inspections.
PROCESSES = 3


@click.command()
@click.option("--processes", type=click.IntRange(1, _MOST),
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
    from cli.service_start import ensure_stores, log_service

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
    from cli.service_start import command

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
    from cli.service_start import metrics_root

    with (
        metrics_folder(metrics_root(settings, metrics_dir), "worker"),
        keeping_stores(settings),
    ):
        # Only now: it looks for the folder when it is imported.
        from api.metrics import RESTARTS

        return Supervisor(children, lambda _child: RESTARTS.inc()).run()
