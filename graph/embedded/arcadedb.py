"""Runs ArcadeDB from the wheel ``arcadedb-embedded`` as a Bolt server with the wheel's Java."""

import json
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from common.files import PRIVATE, write_atomically
from graph.embedded.home import Home, read_json
from graph.embedded.store_process import StoreProcess, listens
from model.errors import ServiceFailed

USER, READER, DATABASE = "root", "analyst", "neo4j"

#: The same limit as for PostgreSQL statements; only a bug or an abandoned query takes longer.
_COMMAND_TIMEOUT_S = 600

#: Logs to the console only, because standard output is redirected to the log file.
_LOGGING = """\
handlers = java.util.logging.ConsoleHandler
.level = INFO
io.undertow.level = WARNING
org.xnio.level = WARNING
org.jboss.level = WARNING
java.util.logging.ConsoleHandler.level = INFO
java.util.logging.ConsoleHandler.formatter = com.arcadedb.log.LogFormatter
"""


class ArcadeDB(StoreProcess):
    """ArcadeDB, the store of the graph."""

    name = "the graph"
    key = "graph"
    new_bytes = 25_000_000  # measured: 20 MB
    stop_signal = signal.SIGTERM

    @property
    def arguments(self) -> Path:
        """Java's argument file, which keeps the passwords off the command line."""
        return self.home.run / "graph.arguments"

    def prepare(self) -> None:
        config = self.home.graph / "config"
        config.mkdir(exist_ok=True, mode=0o700)
        groups = groups_of(self.settings.query_timeout_s)
        write_atomically(_groups_file(self.home), json.dumps(groups, indent=2).encode(), PRIVATE)
        # Delete users whose password changed; ArcadeDB creates missing users when it starts.
        users = config / "server-users.jsonl"
        if users.exists() and users.stat().st_mtime < self.home.secrets.stat().st_mtime:
            users.unlink()
        write_atomically(self.home.run / "graph.logging", _LOGGING.encode(), PRIVATE)
        arguments = "".join(f"{_quoted(it)}\n" for it in self._arguments())
        write_atomically(self.arguments, arguments.encode(), PRIVATE)

    @classmethod
    def is_outdated(cls, home: Home) -> bool:
        databases = (read_json(_groups_file(home)) or {}).get("databases", {})
        groups = databases.get("*", {}).get("groups", {})
        return any(group.get("resultSetLimit", -1) != -1 for group in groups.values())

    def command(self, port: int) -> list[str]:
        java = str(_wheel() / "jre" / "bin" / "java")
        return [java, f"-Darcadedb.bolt.port={port}", f"@{self.arguments}"]

    def is_ours(self, process: psutil.Process) -> bool:
        return f"@{self.arguments}" in process.cmdline()

    def answers(self, port: int) -> bool:
        # Bolt listens before the database and the users exist, so each user runs a test query.
        if not listens(port):
            return False
        users = {USER: self.passwords.graph, READER: self.passwords.analyst}
        return all(_can_query(port, user, password) for user, password in users.items())

    def _arguments(self) -> list[str]:
        users = f"{USER},{READER}:{self.passwords.analyst}:readonly"
        properties = {
            "java.util.logging.config.file": self.home.run / "graph.logging",
            "java.awt.headless": "true",
            "polyglot.engine.WarnInterpreterOnly": "false",
            # Production mode would hide the error messages of queries from analysts. Its other
            # settings are set below one by one.
            "arcadedb.server.mode": "development",
            "arcadedb.txWalFlush": "2",
            "arcadedb.opencypher.loadCsv.allowFileUrls": "false",
            "arcadedb.server.rootPath": self.home.graph,
            "arcadedb.server.rootPassword": self.passwords.graph,
            "arcadedb.server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "arcadedb.bolt.host": "127.0.0.1",
            # HTTP cannot be switched off; port 0 selects any free port.
            "arcadedb.server.httpIncomingHost": "127.0.0.1",
            "arcadedb.server.httpIncomingPort": "0",
            "arcadedb.opencypher.loadCsv.allowRemoteUrls": "false",
            "arcadedb.serverMetrics": "false",
            # Ends queries of clients that were killed.
            "arcadedb.command.timeout": f"{_COMMAND_TIMEOUT_S * 1000}",
            "arcadedb.server.defaultDatabases": f"{DATABASE}[{users}]",
        }
        return [
            f"-Xmx{self.settings.graph_memory_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--enable-native-access=ALL-UNNAMED",
            *(f"-D{name}={value}" for name, value in properties.items()),
            "-cp",
            str(_wheel() / "jars" / "*"),
            "com.arcadedb.server.ArcadeDBServer",
        ]


def groups_of(timeout_s: float) -> dict[str, Any]:
    """ArcadeDB's user groups: analysts can only read, and their queries have a time limit.

    No group has a ``resultSetLimit``, because ArcadeDB applies it to every scan inside a query:
    counts and aggregates would be wrong without a warning. :mod:`graph.analyst_queries` limits the
    rows instead.

    :param timeout_s: limit for a query of an analyst
    """

    def group(timeout_ms: int, access: list[str], records: list[str]) -> dict[str, Any]:
        return {
            "resultSetLimit": -1,
            "readTimeout": timeout_ms,
            "access": access,
            "types": {"*": {"access": records}},
        }

    manage = ["updateSecurity", "updateSchema", "updateDatabaseSettings"]
    write = ["createRecord", "readRecord", "updateRecord", "deleteRecord"]
    groups = {
        "admin": group(-1, manage, write),
        "readonly": group(int(timeout_s * 1000), [], ["readRecord"]),
        "*": group(-1, [], []),
    }
    return {"databases": {"*": {"groups": groups}}, "version": 2}


def _groups_file(home: Home) -> Path:
    return home.graph / "config" / "server-groups.json"


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _can_query(port: int, user: str, password: str) -> bool:
    # Only a store that starts is queried; other commands need not load the driver.
    import neo4j
    from neo4j.exceptions import DriverError, Neo4jError

    try:
        with (
            neo4j.GraphDatabase.driver(
                f"bolt://127.0.0.1:{port}", auth=(user, password), connection_timeout=2.0
            ) as driver,
            driver.session(database=DATABASE) as session,
        ):
            session.run("RETURN 1").consume()
    except (DriverError, Neo4jError):
        return False
    return True


def _wheel() -> Path:
    """The wheel's folder, found without an import, because an import would start a JVM here."""
    wheel = find_spec("arcadedb_embedded")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        if (Path(folder) / "jre" / "bin" / "java").exists():
            return Path(folder)
    raise ServiceFailed(
        ArcadeDB.name,
        "the embedded ArcadeDB is not installed",
        "install Thoth with the extra embedded, or set GRAPH_URL",
    )
