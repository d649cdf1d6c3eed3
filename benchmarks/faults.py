"""Faults under load: whether any accepted request is lost.

Requests come at a constant rate, whatever is broken. PostgreSQL is stopped, and later crashes;
the graph is killed and kept away; each worker is killed in the middle of a job. Afterwards
every accepted request is looked up. Run as ``python -m benchmarks faults``.
"""

import io
import json
import signal
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock
from sqlalchemy import text

from benchmarks.fresh_stores import FreshHome, fresh_home
from benchmarks.load import Client, Visit, load_at_rate
from benchmarks.service_requests import (
    ADVISE,
    FLASK,
    QUERY,
    UNCACHED,
    UPLOAD,
    advice_request,
    import_data,
    new_documents,
)
from benchmarks.services import Running, thoth_service, token_of
from graph.embedded.arcadedb import ArcadeDB
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.start_stop import EmbeddedStores
from graph.embedded.store_process import StoreProcess
from graph.engine import open_stores

SECONDS = 120.0
#: Requests a second: new advice, advice that was made before, documents, archives of documents.
NEW, CACHED, DOCUMENTS, ARCHIVES = 4.0, 4.0, 1.0, 1.0
IN_AN_ARCHIVE = 20
#: How long each store is stopped, and when an unfinished request counts as one that never ends.
RECORD_AWAY_S, GRAPH_AWAY_S, PATIENCE_S = 3.0, 20.0, 300.0
QUEUES = ("people", "bulk")
_TERMINAL = frozenset({"succeeded", "failed", "error"})
_UNFINISHED = """
SELECT count(*) FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND task_name NOT LIKE 'thoth:cron.%'
"""
_RUNNING = "SELECT id, task_name FROM procrastinate_jobs WHERE status='doing' AND queue_name=:queue"


@dataclass(slots=True)
class ClientLog:
    """The answers that clients got; appending to a list is atomic.

    :param refused: status and type of each problem, or the exception if there was no answer
    :param requests: identifiers of requests for a worker
    :param documents: identifiers of documents that were stored at once
    """

    posted: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)

    def posting(self, path: str, body: Callable[[], Any], **how: Any) -> Visit:
        """A visit that sends a body and records the answer."""

        def visit(client: Client, number: int) -> None:
            self.posted.append(number)
            try:
                status, answer = client.post(path, body(), **how)
            except Exception as error:
                self.refused.append(type(error).__name__)
                raise
            if status == 202:
                self.requests.append(answer["analysis_id"])
            elif status in {200, 201}:
                self.documents.extend(answer["documents"])
            else:
                self.refused.append(f"{status} {answer.get('type', '')}".strip())

        return visit


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The final state of a request: ``lost`` if the service does not know it any more.

    :param seconds: from its acceptance to its end
    """

    state: str
    reason: str | None = None
    seconds: float = 0.0


def main() -> None:
    """Cause each fault once and print; takes some three minutes."""
    with fresh_home() as home, tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        import_data(home)
        token, log = token_of(home, "advise", "ingest", "read"), ClientLog()
        with thoth_service(home, QUEUES) as service:
            client = partial(service.client, token)
            loads = [
                threading.Thread(target=load_at_rate, args=(client, visit, rate, SECONDS))
                for visit, rate in _mixture(log, Path(folder))
            ]
            for it in loads:
                it.start()
            _cause_faults(home, service)
            for it in loads:
                it.join()
            settled_s = _settle(home, client())
            ends = _ends(client(), log)
        equal = home.thoth("graph", "verify")["equal"]
    _print(log, ends, settled_s, equal=equal)
    if settled_s is None or not equal or {it.state for it in ends} - {*_TERMINAL, "recorded"}:
        raise SystemExit(1)


def _mixture(log: ClientLog, folder: Path) -> list[tuple[Visit, float]]:
    archived = round(SECONDS * ARCHIVES)
    take = new_documents(folder / "new", round(SECONDS * DOCUMENTS) + archived * IN_AN_ARCHIVE)

    def request() -> object:
        return advice_request(FLASK)

    def archive() -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as into:
            for number in range(IN_AN_ARCHIVE):
                into.writestr(f"{number}.json", take())
        return packed.getvalue()

    return [
        (log.posting(ADVISE, request, query=UNCACHED), NEW),
        (log.posting(ADVISE, request, query=QUERY), CACHED),
        (log.posting(UPLOAD, take), DOCUMENTS),
        (log.posting(UPLOAD, archive, kind="application/zip"), ARCHIVES),
    ]


def _cause_faults(home: FreshHome, service: Running) -> None:
    """One fault after the other, at its time; ends with the last."""
    began, killed = time.monotonic(), set[int]()
    record = partial(_stop_store, home, PostgreSQL, RECORD_AWAY_S)
    plan: list[tuple[float, Callable[[], str]]] = [
        (10, partial(record, signal.SIGINT)),
        (30, partial(_stop_store, home, ArcadeDB, GRAPH_AWAY_S, signal.SIGKILL)),
        (70, partial(_kill_busy, home, service, QUEUES[0], killed)),
        (80, partial(_kill_busy, home, service, QUEUES[1], killed)),
        (95, partial(record, signal.SIGQUIT)),
    ]
    for at_s, fault in plan:
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        begins = time.monotonic() - began
        message = fault()
        print(f"  {begins:5.0f} s  {message}", flush=True)


def _stop_store(
    home: FreshHome, kind: type[StoreProcess], away_s: float, how: signal.Signals
) -> str:
    """Stop a store, and let no process start it for ``away_s`` seconds."""
    stores = EmbeddedStores(home.settings)
    running = stores.record_of(kind)
    if running is None or running.pid is None:
        raise RuntimeError(f"{kind.name} does not run")
    process = psutil.Process(running.pid)
    # The service's own processes would start it at once, which none can without the lock.
    with FileLock(stores.home.lock):
        process.send_signal(how)
        process.wait(30)
        gone = time.monotonic()
        time.sleep(away_s)
    stores.start(relational=kind is PostgreSQL, graph=kind is ArcadeDB)
    return f"{kind.name}: {how.name}, back after {time.monotonic() - gone:.1f} s"


def _kill_busy(home: FreshHome, service: Running, queue: str, killed: set[int]) -> str:
    """Kill the worker of a queue while a job is under way."""
    supervisor = psutil.Process(service.processes[1 + QUEUES.index(queue)].pid)
    while True:
        (worker,) = supervisor.children()
        worker.suspend()  # its job must not end during the query
        time.sleep(0.05)
        jobs = dict(_rows(home, _RUNNING, queue=queue))
        if new := jobs.keys() - killed:
            worker.kill()
            killed |= new
            return f"the worker of {queue} killed at {', '.join(jobs[it] for it in new)}"
        worker.resume()
        time.sleep(0.02)


def _settle(home: FreshHome, client: Client) -> float | None:
    """Seconds until no job waits and the graph is current; ``None`` if that takes too long."""
    began = time.monotonic()
    while (taken := time.monotonic() - began) < PATIENCE_S:
        ready = json.loads(client.get("/readyz")[1])
        waiting = ready["checks"]["graph"].get("waiting")
        if (ready["status"], waiting) == ("ready", 0) and _rows(home, _UNFINISHED) == [(0,)]:
            return taken
        time.sleep(0.2)
    return None


def _rows(home: FreshHome, query: str, **values: object) -> Sequence[Any]:
    with open_stores(home.settings, graph=False) as stores, stores.engine.connect() as connection:
        return [tuple(it) for it in connection.execute(text(query), values)]


def _ends(client: Client, log: ClientLog) -> list[RequestOutcome]:
    """The outcome of each accepted request and document."""
    until = time.monotonic() + PATIENCE_S / 10
    requests, documents = dict.fromkeys(log.requests), dict.fromkeys(log.documents)
    statuses = [client.get(f"{UPLOAD}/{it}")[0] for it in documents]
    taken_in = [RequestOutcome("recorded" if it == 200 else "lost") for it in statuses]
    return [*(_end(client, it, until) for it in requests), *taken_in]


def _end(client: Client, analysis_id: str, until: float) -> RequestOutcome:
    while True:
        status, body = client.get(f"/api/v2/requests/{analysis_id}")
        if status != 200:
            return RequestOutcome("lost")
        seen = json.loads(body)
        if seen["state"] in _TERMINAL:
            ends, began = map(datetime.fromisoformat, (seen["finished_at"], seen["accepted_at"]))
            return RequestOutcome(seen["state"], seen["reason"], (ends - began).total_seconds())
        if time.monotonic() > until:
            return RequestOutcome("unfinished", seen["reason"])
        time.sleep(0.2)


def _print(
    log: ClientLog, ends: Sequence[RequestOutcome], settled_s: float | None, *, equal: bool
) -> None:
    refused, states = Counter(log.refused), Counter(it.state for it in ends)
    accepted = len(log.posted) - len(log.refused)
    print(f"  posted {len(log.posted)}, refused {len(log.refused)}: {dict(refused)}")
    print(f"  accepted {accepted}, which are {len(ends)} requests and documents: {dict(states)}")
    for reason, count in Counter(it.reason for it in ends if it.reason).most_common():
        print(f"    {count}: {reason}")
    print(f"  lost: {states['lost']}, unfinished: {states['unfinished']}")
    print(f"  from acceptance to the end at most {max(it.seconds for it in ends):.1f} s")
    after = "never" if settled_s is None else f"{settled_s:.1f} s after the last request"
    print(f"  the queue was empty and the graph current {after}")
    print(f"  the graph {'equals' if equal else 'DIFFERS FROM'} the record")
