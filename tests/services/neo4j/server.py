"""A real Neo4j 5.26 community server for the tests, wherever one can be had.

It is the server of ``NEO4J_TEST_URL``, or one assembled by Maven from ``pom.xml`` in this folder
and run by the JDK of this machine. Otherwise, :class:`Neo4jMissing` says how to get one.
"""

import atexit
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import neo4j
from filelock import FileLock
from neo4j.exceptions import ClientError, DriverError, Neo4jError
from platformdirs import user_cache_path

from tests.services.ports import closed_port
from tests.services.waiting import DEADLINE_S, wait_until

VERSION = "5.26.28"
POM = Path(__file__).with_name("pom.xml")

_ASSEMBLE_TIMEOUT_S = 900
_JDK = 17

#: What an analyst's query may not do and only the configuration can refuse;
#: ``docker-compose.yml`` has the same lines.
HARDENING = {
    "dbms.security.allow_csv_import_from_file_urls": "false",
    "internal.dbms.cypher_ip_blocklist": "0.0.0.0/0,::/0",
}

#: Dies with the process that started it, however that one ends.
_TIED = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the tests have ended")
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Neo4jMissing(Exception):
    """No Neo4j can be had here; the text says how to get one."""


@dataclass(frozen=True, slots=True)
class Neo4jServer:
    """Where a server is, and its administrator."""

    url: str
    user: str
    password: str


@contextmanager
def neo4j_server(folder: Path) -> Iterator[Neo4jServer]:
    """A running server, for the length of the block.

    :param folder: an empty one, for the data and logs of a server started here
    :raises Neo4jMissing: if there is none, and none can be started
    """
    if url := os.environ.get("NEO4J_TEST_URL"):
        user = os.environ.get("NEO4J_TEST_USER", "neo4j")
        yield Neo4jServer(url, user, os.environ.get("NEO4J_TEST_PASSWORD", ""))
        return
    if reason := missing():
        raise Neo4jMissing(reason)
    java, _ = java_at_least(_JDK)
    maven = shutil.which("mvn")
    assert java is not None
    assert maven is not None
    with _assembled(java, jars(maven), folder) as server:
        yield server


def missing() -> str | None:
    """Why no Neo4j can be had here, and how to get one; None if one can."""
    java, reason = java_at_least(_JDK)
    maven = shutil.which("mvn")
    if os.environ.get("NEO4J_TEST_URL") or (java and maven):
        return None
    return (
        f"no Neo4j for the tests: NEO4J_TEST_URL is not set, {reason or 'Java was found'},"
        f" {'Maven was found' if maven else 'mvn is not on PATH'}. Install a JDK {_JDK} or newer"
        " with Maven (Debian: openjdk-17-jdk-headless maven), or start one with Docker, and"
        " set NEO4J_TEST_URL, NEO4J_TEST_USER and NEO4J_TEST_PASSWORD."
    )


def java_at_least(release: int) -> tuple[str | None, str]:
    """A fitting ``java``, or why there is none."""
    home = os.environ.get("JAVA_HOME")
    for java in (home and str(Path(home) / "bin" / "java"), shutil.which("java")):
        if not java or not Path(java).exists():
            continue
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        ).stderr
        if (version := re.search(r'version "(\d+)', shown)) and int(version[1]) >= release:
            return java, ""
        return None, f"{java} is older than {release}"
    return None, "java is not on PATH"


def jars(maven: str) -> Path:
    """The server's jars, fetched once a machine, whole or not at all."""
    place = user_cache_path("thoth") / f"neo4j-{VERSION}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock", timeout=_ASSEMBLE_TIMEOUT_S):
        if not place.exists():
            part = place.with_name(f"{place.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            _fetch(maven, part)
            part.rename(place)
    return place


def _fetch(maven: str, target: Path) -> None:
    command = [maven, "--batch-mode", "--quiet", "--file", str(POM)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_ASSEMBLE_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise Neo4jMissing(f"Maven could not assemble Neo4j: {done.stdout[-2000:]}")


@contextmanager
def _assembled(java: str, lib: Path, home: Path) -> Iterator[Neo4jServer]:
    port = closed_port()
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "neo4j.conf").write_text(_configuration(port), encoding="utf-8")
    opened = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
    # The second compiler would take as long as the tests themselves: 60 new queries take 5 s of CPU
    # time instead of 12, the start 8 s instead of 14.
    command = [java, "-XX:TieredStopAtLevel=1", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened]
    command += ["-cp", f"{lib}/*", "org.neo4j.server.CommunityEntryPoint"]
    command += [f"--home-dir={home}", f"--config-dir={home / 'conf'}"]
    log = home / "console.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _TIED, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    atexit.register(_kill, process)
    try:
        yield _with_password(f"bolt://127.0.0.1:{port}", process, log)
    finally:
        _kill(process)
        atexit.unregister(_kill)


def _configuration(port: int) -> str:
    settings = {
        "server.default_listen_address": "127.0.0.1",
        "server.bolt.listen_address": f"127.0.0.1:{port}",
        "server.bolt.advertised_address": f"127.0.0.1:{port}",
        "server.http.enabled": "false",
        "server.https.enabled": "false",
        "dbms.usage_report.enabled": "false",
        "dbms.security.auth_enabled": "true",
        "server.memory.heap.initial_size": "512m",
        "server.memory.heap.max_size": "512m",
        "server.memory.pagecache.size": "128m",
        **HARDENING,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _with_password(url: str, process: subprocess.Popen[bytes], log: Path) -> Neo4jServer:
    """Wait for the server, and replace the password that every new one has.

    Over Bolt, as a parameter: a password in arguments could be read by all.
    """
    password = secrets.token_urlsafe(24)

    def answers() -> bool:
        if process.poll() is not None:
            raise Neo4jMissing(f"Neo4j ended: {log.read_text('utf-8', 'replace')[-2000:]}")
        return _set_password(url, password)

    wait_until(answers, "Neo4j answers", log=log)
    return Neo4jServer(url, "neo4j", password)


def _set_password(url: str, password: str) -> bool:
    change = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"
    try:
        with (
            neo4j.GraphDatabase.driver(
                url,
                auth=("neo4j", "neo4j"),
                connection_timeout=2.0,
                connection_acquisition_timeout=4.0,
                warn_notification_severity=neo4j.NotificationMinimumSeverity.OFF,
            ) as driver,
            driver.session(database="system") as session,
        ):
            session.run(change, old="neo4j", new=password).consume()
    except ClientError:
        raise
    except (DriverError, Neo4jError, OSError):
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(DEADLINE_S)
