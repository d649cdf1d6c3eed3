"""An embedded store, which runs as a daemon so that later processes can find and use it."""

from __future__ import annotations

import json
import logging
import re
import signal
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from common.settings import Settings
from graph.embedded import processes
from graph.embedded.home import FREE_SPACE, Home, Passwords, has_full_disk, read_json, write_private
from model.errors import ServiceFailed

logger = logging.getLogger(__name__)

#: A start takes about 3 s; recovery of a large store after a crash may take longer.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The content of ``run/KEY.json``; it also keeps the port while the store is stopped.

    :param created: start time of the process in seconds since the epoch; needed because the process
        identifier may belong to another process by now
    :param ready: whether the store has answered a query
    """

    port: int
    pid: int | None = None
    created: float | None = None
    ready: bool = False


class Service(ABC):
    """An embedded store; callers must hold the home's lock to start or stop it."""

    name: ClassVar[str]
    key: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    #: Free space that the first start and the schema need, in bytes.
    new_bytes: ClassVar[int]

    def __init__(self, settings: Settings, home: Home, passwords: Passwords) -> None:
        self.settings = settings
        self.home = home
        self.passwords = passwords

    @abstractmethod
    def prepare(self) -> None:
        """Create the files that the store needs to start; safe to repeat after an interruption."""

    @abstractmethod
    def command(self, port: int) -> list[str]:
        """The command line, with ``port=N`` and without passwords."""

    @abstractmethod
    def is_ours(self, process: psutil.Process) -> bool:
        """Whether ``process`` runs this store in this home."""

    @abstractmethod
    def answers(self, port: int) -> bool:
        """Whether the store answers a query."""

    @classmethod
    def is_outdated(cls, home: Home) -> bool:
        """Whether the store in ``home`` has an outdated configuration that must be replaced."""
        return False

    @property
    def log(self) -> Path:
        """The log file with the store's output."""
        return self.home.logs / f"{self.key}.log"

    @property
    def record(self) -> RunRecord | None:
        """The run record as it was last written; it may be outdated."""
        return read_record(self.home, self.key)

    def running(self) -> RunRecord | None:
        """The record of the running process, or ``None``.

        This also finds a process whose start was interrupted before its record was written.
        """
        record = self.record
        if record is not None and living(record):
            return record
        orphan = next(processes.processes_where(self.is_ours), None)
        return None if orphan is None else self._adopt(orphan)

    def ensure_running(self) -> bool:
        """Start the store if necessary, and wait until it answers a query.

        A store with an outdated configuration is restarted.

        :returns: whether this call started it
        :raises ServiceFailed: with the last lines of the store's log
        """
        if self.is_outdated(self.home):
            self.stop()
        running = self.running()
        if running is not None:
            self._wait_until_ready(running)
            return False
        self.prepare()
        # Another program may take the port before the store does: try another port, once.
        for last_try in (False, True):
            record = self._launch(other_port=last_try)
            try:
                self._wait_until_ready(record)
            except ServiceFailed:
                if last_try or processes.is_free(record.port):
                    raise
            else:
                break
        logger.info("store_started", extra={"store": self.key, "port": record.port})
        return True

    def stop(self) -> bool:
        """Stop the store; return ``False`` if it was not running."""
        running = self.running()
        process = None if running is None else living(running)
        if running is None or process is None:
            return False
        if not processes.stop(process, self.stop_signal, STOP_TIMEOUT_S):
            logger.warning("store_killed", extra={"store": self.key, "pid": process.pid})
        self._write(RunRecord(running.port))
        return True

    def _launch(self, *, other_port: bool) -> RunRecord:
        known = self.record
        reuse = known is not None and not other_port and processes.is_free(known.port)
        port = known.port if known is not None and reuse else processes.free_port()
        # Written before the start, so that the port is known even if this process is killed.
        self._write(RunRecord(port))
        process = processes.spawn(self.command(port), self.log, self.home.graph)
        try:
            record = RunRecord(port, process.pid, process.create_time())
        except psutil.NoSuchProcess:
            raise self._failed("ended immediately") from None
        self._write(record)
        return record

    def _wait_until_ready(self, record: RunRecord) -> None:
        if record.ready:
            return
        ended = False

        def ended_or_ready() -> bool:
            nonlocal ended
            ended = living(record) is None
            return ended or self.answers(record.port)

        if not processes.wait_for(ended_or_ready, START_TIMEOUT_S) or ended:
            raise self._failed(
                "ended while starting" if ended else f"no answer within {START_TIMEOUT_S:g} s"
            )
        self._write(RunRecord(record.port, record.pid, record.created, ready=True))

    def _adopt(self, orphan: psutil.Process) -> RunRecord | None:
        try:
            port = re.search(r"port=(\d+)", " ".join(orphan.cmdline()))
            if port is None:
                return None
            record = RunRecord(int(port[1]), orphan.pid, orphan.create_time())
        except psutil.Error:
            return None
        logger.info("store_adopted", extra={"store": self.key, "pid": orphan.pid})
        self._write(record)
        return record

    def _write(self, record: RunRecord) -> None:
        write_private(self.home.run / f"{self.key}.json", json.dumps(asdict(record)) + "\n")

    def _failed(self, cause: str) -> ServiceFailed:
        end = processes.last_lines(self.log)
        hint = FREE_SPACE if has_full_disk(self.home.root) else f"see {self.log}"
        return ServiceFailed(self.name, f"{cause}\n{end}" if end else cause, hint)


def read_record(home: Home, key: str) -> RunRecord | None:
    """Content of ``run/KEY.json``; ``None`` if the file is missing or damaged."""
    content = read_json(home.run / f"{key}.json")
    try:
        return None if content is None else RunRecord(**content)
    except TypeError:
        return None


def living(record: RunRecord) -> psutil.Process | None:
    """The process of ``record`` if it is still running."""
    if record.pid is None or record.created is None:
        return None
    return processes.alive(record.pid, record.created)
