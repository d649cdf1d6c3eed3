"""Both embedded stores together: one lock, started and stopped side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from filelock import FileLock, Timeout

from common.errors import ServiceFailed
from common.settings import Settings
from graph.embedded.arcadedb import ArcadeDB
from graph.embedded.home import Home, Passwords, unusable
from graph.embedded.postgresql import PostgreSQL
from graph.embedded.service import START_TIMEOUT_S, RunRecord, Service, living, read_record

#: Whoever holds the lock may be starting a store that recovers from a crash.
_LOCK_TIMEOUT_S = START_TIMEOUT_S + 30.0


@dataclass(frozen=True, slots=True)
class Started:
    """One store that runs; ``now`` if this call started it."""

    name: str
    record: RunRecord
    now: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """One store that does not run any more; ``now`` if this call stopped it."""

    name: str
    now: bool


class EmbeddedStores:
    """The stores that ``settings`` leave to this machine: none, one or both."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Resolved: processes are told apart by the folder they were started with.
        self.home = Home(settings.home.resolve())
        ours: dict[type[Service], bool] = {
            PostgreSQL: settings.embedded_database,
            ArcadeDB: settings.embedded_graph,
        }
        self.kinds = tuple(kind for kind, here in ours.items() if here)

    def start(
        self,
        announce: Callable[[str], None] = lambda _text: None,
        *,
        relational: bool = True,
        graph: bool = True,
    ) -> list[Started]:
        """Make sure the stores run and answer; attaching to running ones takes no lock.

        :param announce: told in one line when something has to be started
        :raises ServiceFailed: if a store does not come up
        """
        wanted: dict[type[Service], bool] = {PostgreSQL: relational, ArcadeDB: graph}
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
            if any(service.running() is None for service in services):
                names = " and ".join(service.name for service in services)
                announce(f"Starting {names} in {self.settings.home} …")
            elif outdated:
                names = " and ".join(outdated)
                announce(f"Restarting {names} with the configuration of this version …")
            with ThreadPoolExecutor(len(services)) as pool:
                return list(pool.map(_start, services))

    def stop(self) -> list[Stopped]:
        """Stop what runs, side by side."""
        if not self.kinds or Passwords.load(self.home) is None:
            return [Stopped(kind.name, now=False) for kind in self.kinds]
        with self._locked():
            services = self._services(self.kinds)
            with ThreadPoolExecutor(len(services)) as pool:
                return list(pool.map(lambda s: Stopped(s.name, s.stop()), services))

    def record_of(self, kind: type[Service]) -> RunRecord | None:
        """The record of ``kind`` if its process lives; reads one file and changes nothing."""
        record = read_record(self.home, kind.key)
        return record if record is not None and living(record) else None

    def died(self, kind: type[Service]) -> bool:
        """Whether ``kind`` was started, never stopped, and is gone; changes nothing."""
        record = read_record(self.home, kind.key)
        return record is not None and record.ready and living(record) is None

    def passwords(self) -> Passwords | None:
        """The stores' passwords; ``None`` before the first start."""
        return Passwords.load(self.home)

    def _services(self, kinds: Iterable[type[Service]]) -> list[Service]:
        passwords = Passwords.load_or_create(self.home)
        return [kind(self.settings, self.home, passwords) for kind in kinds]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Change the stores alone; a full or foreign disk becomes an error that says so."""
        try:
            self.home.prepare()
            with FileLock(self.home.lock, timeout=_LOCK_TIMEOUT_S, mode=0o600):
                yield
        except Timeout:
            raise ServiceFailed(
                "embedded stores",
                f"another process has been busy with them for {_LOCK_TIMEOUT_S:.0f} s",
                f"see who holds {self.home.lock}, and {self.home.logs}",
            ) from None
        except OSError as error:
            raise unusable(self.home.root, error) from error


def _start(service: Service) -> Started:
    now = service.ensure_running()
    record = service.running()
    if record is None:
        raise ServiceFailed(service.name, "ended right after its start", f"see {service.log}")
    return Started(service.name, record, now)
