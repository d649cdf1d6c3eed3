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
    from api.supervisor import Child

#: Repeated from :class:`api.jobs.queue.QueueName`, which a test sees to: ``--help`` needs no queue.
QUEUES = ("people", "bulk", "fetches", "inspections")
_MOST = 64


@click.command()
@click.option("--processes", type=click.IntRange(1, _MOST), default=1, show_default=True,
              help="Jobs that run at a time: one a process.")  # fmt: skip
@click.option("--queue", "queues", type=click.Choice(QUEUES), multiple=True,
              help="A queue to take from; several times for several.  [default: all]")  # fmt: skip
@click.option("--metrics-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Where processes leave their figures for /metrics.")  # fmt: skip
@click.option("--alone", is_flag=True, hidden=True, help="Be the process that takes jobs.")
@click.pass_context
def worker(
    ctx: click.Context,
    processes: int,
    queues: tuple[str, ...],
    metrics_dir: Path | None,
    alone: bool,
) -> int:
    """Take jobs until SIGTERM; a job that runs is finished, or returned to the queue."""
    from api.commands.starting import ensure_stores, log_service
    from api.jobs.queue import QueueName

    settings: Settings = ctx.obj
    log_service(bool(ctx.find_root().params.get("verbose")))
    wanted = [QueueName(name) for name in dict.fromkeys(queues)] or list(QueueName)
    if alone:
        from api.jobs.worker import run_worker

        run_worker(settings, wanted, f"{socket.gethostname()}-{'-'.join(wanted)}-{os.getpid()}")
        return 0
    ensure_stores(settings)
    return supervise(settings, workers_of(wanted, processes), metrics_dir)


def workers_of(queues: Sequence[QueueName], processes: int) -> list[Child]:
    """So many children that each take from all of ``queues``."""
    from api.commands.starting import command
    from api.supervisor import Child

    options = [it for queue in queues for it in ("--queue", queue.value)]
    name = "worker-" + "-".join(queues)
    line = command("worker", "--alone", *options)
    return [Child(f"{name}-{number}", line) for number in range(1, processes + 1)]


def supervise(settings: Settings, children: Sequence[Child], metrics_dir: Path | None) -> int:
    """Keep ``children`` alive until a signal; how often they died is among the metrics."""
    from api.commands.starting import metrics_root
    from api.metrics_files import metrics_folder
    from api.supervisor import Supervisor

    with metrics_folder(metrics_root(settings, metrics_dir), "worker"):
        # Only now: it looks for the folder when it is imported.
        from api.metrics import RESTARTS

        return Supervisor(children, lambda _child: RESTARTS.inc()).run()
