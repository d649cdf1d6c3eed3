"""ArcadeDB from the wheel ``arcadedb-embedded``, as a Bolt server with the wheel's Java."""

from __future__ import annotations

import json
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import neo4j
import psutil
from neo4j.exceptions import DriverError, Neo4jError

from common.errors import ServiceFailed
from graph.embedded import processes
from graph.embedded.home import Home, read_json, write_private
from graph.embedded.service import Service

USER, READER, DATABASE = "root", "analyst", "neo4j"

#: As long as PostgreSQL's statements may take; only a bug or a stray query takes longer.
_COMMAND_TIMEOUT_S = 600

#: Console only: the service's log file is its standard output.
_LOGGING = """\
handlers = java.util.logging.ConsoleHandler
.level = INFO
io.undertow.level = WARNING
org.xnio.level = WARNING
org.jboss.level = WARNING
java.util.logging.ConsoleHandler.level = INFO
java.util.logging.ConsoleHandler.formatter = com.arcadedb.log.LogFormatter
"""


class ArcadeDB(Service):
    """The graph's store."""

    name = "the graph"
    key = "graph"
    ask_to_stop = signal.SIGTERM

    @property
    def arguments(self) -> Path:
        """Java's argument file: the passwords stay off the command line, which all can read."""
        return self.home.run / "graph.arguments"

    def prepare(self) -> None:
        config = self.home.graph / "config"
        config.mkdir(exist_ok=True, mode=0o700)
        groups = groups_of(self.settings.query_timeout_s)
        write_private(_groups_file(self.home), json.dumps(groups, indent=2))
        self._forget_users_older_than_passwords(config / "server-users.jsonl")
        write_private(self.home.run / "graph.logging", _LOGGING)
        write_private(self.arguments, "\n".join(map(_quoted, self._arguments())) + "\n")

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
        """Bolt listens before the database and the users exist: both users must get an answer."""
        if not processes.listens(port):
            return False
        users = {USER: self.passwords.graph, READER: self.passwords.analyst}
        return all(_is_answered(port, user, password) for user, password in users.items())

    def _arguments(self) -> list[str]:
        users = f"{USER},{READER}:{self.passwords.analyst}:readonly"
        properties = {
            "java.util.logging.config.file": self.home.run / "graph.logging",
            "java.awt.headless": "true",
            "polyglot.engine.WarnInterpreterOnly": "false",
            # Production mode would hide from analysts what is wrong with a query; what
            # else it brings is said one by one.
            "arcadedb.server.mode": "development",
            "arcadedb.txWalFlush": "2",
            "arcadedb.opencypher.loadCsv.allowFileUrls": "false",
            "arcadedb.server.rootPath": self.home.graph,
            "arcadedb.server.rootPassword": self.passwords.graph,
            "arcadedb.server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "arcadedb.bolt.host": "127.0.0.1",
            # HTTP cannot be switched off; port 0 is any free one, on loopback.
            "arcadedb.server.httpIncomingHost": "127.0.0.1",
            "arcadedb.server.httpIncomingPort": "0",
            "arcadedb.opencypher.loadCsv.allowRemoteUrls": "false",
            "arcadedb.serverMetrics": "false",
            # A query outlives a client that was killed; not for ever.
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

    def _forget_users_older_than_passwords(self, users: Path) -> None:
        """ArcadeDB keeps a user's first password; it makes missing users anew."""
        if users.exists() and users.stat().st_mtime < self.home.secrets.stat().st_mtime:
            users.unlink()


def groups_of(timeout_s: float) -> dict[str, Any]:
    """ArcadeDB's groups: an analyst reads, within a time that the store itself enforces.

    No group has a ``resultSetLimit``: ArcadeDB applies it to every scan inside a query, so that
    counts and aggregates would silently be wrong. :mod:`graph.analyst_queries` limits the rows.
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


def _is_answered(port: int, user: str, password: str) -> bool:
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
    """The wheel's folder; importing the wheel would load a Java machine into this process."""
    wheel = find_spec("arcadedb_embedded")
    for place in (wheel.submodule_search_locations or []) if wheel else []:
        if (Path(place) / "jre" / "bin" / "java").exists():
            return Path(place)
    raise ServiceFailed(
        ArcadeDB.name,
        "the embedded ArcadeDB is not installed",
        "pip install 'thoth[embedded]', or set GRAPH_URL",
    )
