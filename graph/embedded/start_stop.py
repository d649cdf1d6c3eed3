"""Starts and stops both embedded stores in parallel, under one lock."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from common.settings import Settings
from graph.embedded.arcadedb import ArcadeDB
from graph.embedded.home import FREE_SPACE, Home, Passwords, free_bytes, unusable
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.store_process import (
    START_TIMEOUT_S,
    RunRecord,
    StoreProcess,
    living,
    read_record,
)
from model.errors import ServiceFailed

#: Time to wait for the lock: its holder may be starting a store that recovers from a crash.
_LOCK_TIMEOUT_S = START_TIMEOUT_S + 30.0


@dataclass(frozen=True, slots=True)
class Started:
    """A running store; ``now`` is true if this call started it."""

    name: str
    record: RunRecord
    now: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stopped store; ``now`` is true if this call stopped it."""

    name: str
    now: bool


class EmbeddedStores:
    """The embedded stores: each store for which the settings contain no URL."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Resolved, because processes are identified by the path in their command line.
        self.home = Home(Path(os.path.realpath(settings.home)))
        ours: dict[type[StoreProcess], bool] = {
            PostgreSQL: settings.embedded_database,
            ArcadeDB: settings.embedded_graph,
        }
        self.kinds = tuple(kind for kind, here in ours.items() if here)

    def start(
        self,
        announce: Callable[[str], None] = lambda _message: None,
        *,
        relational: bool = True,
        graph: bool = True,
    ) -> list[Started]:
        """Start the stores that are not running, and wait until they answer.

        If all stores are running already, no lock is taken.

        :param announce: called with a one-line message before a store is started
        :raises ServiceFailed: if a store does not start, or the disk is too small for new stores;
            no store that this call started runs then
        """
        wanted: dict[type[StoreProcess], bool] = {PostgreSQL: relational, ArcadeDB: graph}
        kinds = [kind for kind in self.kinds if wanted[kind]]
        records = [self.record_of(kind) for kind in kinds]
        outdated = [kind.name for kind in kinds if kind.is_outdated(self.home)]
        if not outdated and all(record is not None and record.ready for record in records):
            return [
                Started(kind.name, record, now=False)
                for kind, record in zip(kinds, records, strict=True)
                if record is not None
            ]
        with self._locked():
            services = self._services(kinds)
            self._check_space(services)
            if any(service.running() is None for service in services):
                names = " and ".join(service.name for service in services)
                announce(f"Starting {names} in {self.settings.home} …")
            elif outdated:
                names = " and ".join(outdated)
                announce(f"Restarting {names} with the configuration of this version …")
            with ThreadPoolExecutor(len(services)) as pool:
                starts = [pool.submit(_start, service) for service in services]
            # After an interruption, what has started stays: `thoth up` says what runs.
            if any(isinstance(it.exception(), Exception) for it in starts):
                for service, start in zip(services, starts, strict=True):
                    if not start.exception() and start.result().now:
                        service.stop()
            return [it.result() for it in starts]

    def start_again(self, kind: type[StoreProcess]) -> bool:
        """Start a store that has died; one that a command is just stopping stays down.

        :returns: whether this call started it
        :raises ServiceFailed: if it does not start
        """
        with self._locked():
            return self.has_died(kind) and _start(*self._services([kind])).now

    def stop(self) -> list[Stopped]:
        """Stop the running stores in parallel."""
        if not self.kinds or Passwords.load(self.home) is None:
            return [Stopped(kind.name, now=False) for kind in self.kinds]
        with self._locked():
            services = self._services(self.kinds)
            with ThreadPoolExecutor(len(services)) as pool:
                return list(pool.map(lambda s: Stopped(s.name, s.stop()), services))

    def record_of(self, kind: type[StoreProcess]) -> RunRecord | None:
        """The run record of a store if its process is running; reads one file, writes nothing."""
        record = read_record(self.home, kind.key)
        return record if record is not None and living(record) else None

    def has_died(self, kind: type[StoreProcess]) -> bool:
        """Whether a started store has died; writes nothing."""
        record = read_record(self.home, kind.key)
        return record is not None and record.ready and living(record) is None

    def passwords(self) -> Passwords | None:
        """The stores' passwords; ``None`` before the first start."""
        return Passwords.load(self.home)

    def _check_space(self, services: Iterable[StoreProcess]) -> None:
        """Refuse a first start that would fill the disk half-way."""
        needed = sum(it.new_bytes for it in services if it.record is None and not it.running())
        if needed and (free := free_bytes(self.home.root)) < needed:
            raise ServiceFailed(
                "embedded stores",
                f"their first start needs {needed / 1e6:.0f} MB, but the disk of {self.home.root}"
                f" has only {free / 1e6:.0f} MB of free space",
                f"{FREE_SPACE}, or set THOTH_HOME to a folder on another disk",
            )

    def _services(self, kinds: Iterable[type[StoreProcess]]) -> list[StoreProcess]:
        passwords = Passwords.load_or_create(self.home)
        return [kind(self.settings, self.home, passwords) for kind in kinds]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the home folder, and translate errors about files in it."""
        try:
            self.home.prepare()
            with FileLock(self.home.lock, timeout=_LOCK_TIMEOUT_S, mode=0o600):
                yield
        except Timeout:
            raise ServiceFailed(
                "embedded stores",
                f"another process has held their lock for {_LOCK_TIMEOUT_S:.0f} s",
                f"find the process that holds {self.home.lock}, and see {self.home.logs}",
            ) from None
        except OSError as error:
            raise unusable(self.home.root, error) from error


def _start(service: StoreProcess) -> Started:
    now = service.ensure_running()
    record = service.running()
    if record is None:
        raise ServiceFailed(service.name, "ended immediately after its start", f"see {service.log}")
    return Started(service.name, record, now)
