"""The embedded stores as a user meets them: started, attached to, killed, moved, lost."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from cli.stores import up
from common.files import PRIVATE, write_atomically
from common.settings import Settings
from graph.embedded.arcadedb import ArcadeDB
from graph.embedded.start_stop import EmbeddedStores
from graph.embedded.store_process import RunRecord, read_record
from graph.engine import Stores, open_stores, reader_driver, relational_engine
from model.errors import ServiceFailed, StoreUnavailable
from tests.services.commands import run_here
from tests.services.ports import closed_port
from tests.services.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.faults

THOTH = [sys.executable, "-m", "cli"]


@pytest.fixture(scope="module")
def own_home() -> Iterator[Settings]:
    """Stores of this module's own, to be killed at will."""
    home = Path(tempfile.mkdtemp(prefix="thoth-killed-"))
    settings = Settings.from_env({"THOTH_HOME": str(home), "GRAPH_MEMORY_MB": "256"})
    yield settings
    EmbeddedStores(settings).stop()
    shutil.rmtree(home)


@pytest.fixture
def running(own_home: Settings) -> EmbeddedStores:
    stores = EmbeddedStores(own_home)
    stores.start()
    return stores


def pid_of(stores: EmbeddedStores, key: str) -> int:
    record = read_record(stores.home, key)
    assert record is not None
    assert record.pid is not None
    return record.pid


def pids_of(stores: EmbeddedStores) -> set[int]:
    return {pid_of(stores, key) for key in ("postgresql", "graph")}


def kill(pid: int) -> None:
    process = psutil.Process(pid)
    process.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        process.wait(DEADLINE_S)


def is_alive(process: psutil.Process) -> bool:
    """A zombie waits for whoever runs as process 1, and that is not ours to hurry."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def assert_both_answer(settings: Settings) -> None:
    with open_stores(settings) as stores:
        with stores.engine.connect() as connection:
            assert connection.scalar(text("SELECT 1")) == 1
        with stores.driver.session(database=stores.database) as session:
            assert session.run("RETURN 1 AS one").single(strict=True)["one"] == 1


def environ_of(settings: Settings) -> dict[str, str]:
    kept = {key: it for key, it in os.environ.items() if key not in ("DATABASE_URL", "GRAPH_URL")}
    home = {"THOTH_HOME": str(settings.home), "GRAPH_MEMORY_MB": str(settings.graph_memory_mb)}
    return kept | home | {"PYTHONPATH": os.pathsep.join(sys.path)}


def command(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*THOTH, *arguments], env=environ_of(settings), timeout=DEADLINE_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_second_up_uses_the_running_stores(running: EmbeddedStores, own_home: Settings) -> None:
    before = pids_of(running)
    told: list[str] = []
    assert [store.now for store in running.start(told.append)] == [False, False]
    answer = json.loads(command(own_home, "up", "--json").stdout)
    assert {store["pid"] for store in answer["stores"]} == before
    assert told == []


@pytest.mark.slow
def test_query_that_exhausts_graph_memory_is_refused_with_a_remedy(
    running: EmbeddedStores, own_home: Settings
) -> None:
    query = "RETURN size(reduce(s = 'aaaaaaaaaa', y IN range(1, 26) | s + s)) AS size"
    done = command(own_home, "cypher", query)
    assert done.returncode == 1
    assert "error: the query needs more memory than the graph has" in done.stderr
    assert "hint: let the query collect or return less, or raise GRAPH_MEMORY_MB" in done.stderr
    # The next command starts the graph again.
    assert command(own_home, "cypher", "RETURN 1 AS one").returncode == 0


@pytest.mark.slow
def test_concurrent_starts_start_each_store_once(own_home: Settings) -> None:
    EmbeddedStores(own_home).stop()
    up, environ = [*THOTH, "up", "--json"], environ_of(own_home)
    starters = [subprocess.Popen(up, stdout=subprocess.PIPE, env=environ) for _ in range(3)]
    answers = [json.loads(it.communicate(timeout=DEADLINE_S)[0])["stores"] for it in starters]
    assert len({tuple(store["pid"] for store in stores) for stores in answers}) == 1
    assert sum(store["started"] for stores in answers for store in stores) == 2


@pytest.mark.slow
def test_failed_start_of_a_store_stops_the_other_store(running: EmbeddedStores) -> None:
    running.stop()
    settings = running.home.root / "postgresql" / "postgresql.auto.conf"
    kept = settings.read_text("utf-8")
    settings.write_text(f"{kept}\nno_such_parameter = 1\n", encoding="utf-8")
    try:
        with pytest.raises(ServiceFailed):
            running.start()
        assert [running.record_of(kind) for kind in running.kinds] == [None, None]
    finally:
        settings.write_text(kept, encoding="utf-8")
    assert [it.now for it in running.start()] == [True, True]


def test_other_users_cannot_read_the_home_folder(running: EmbeddedStores) -> None:
    home = running.home
    for folder in (home.root, home.postgresql, home.graph, home.logs, home.run):
        assert folder.stat().st_mode & 0o077 == 0, folder
    for file in (home.secrets, *home.run.iterdir()):
        assert file.stat().st_mode & 0o177 == 0, file


def test_no_password_is_on_a_command_line_or_in_a_log(running: EmbeddedStores) -> None:
    secrets = json.loads(running.home.secrets.read_text()).values()
    lines = [
        " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
    ]
    logs = [path.read_text() for path in running.home.logs.iterdir()]
    assert not [secret for secret in secrets for text in lines + logs if secret in text]


def test_embedded_stores_listen_only_on_loopback(running: EmbeddedStores) -> None:
    for pid in pids_of(running):
        listening = [
            connection.laddr.ip
            for connection in psutil.Process(pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening
        assert set(listening) <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_analyst_of_the_embedded_graph_cannot_write(own_home: Settings) -> None:
    from neo4j.exceptions import Forbidden

    with (
        open_stores(own_home) as stores,
        reader_driver(own_home) as driver,
        driver.session(database=stores.database) as session,
    ):
        assert session.run("MATCH (n) RETURN count(n) AS n").single() is not None
        with pytest.raises(Forbidden):
            session.run("CREATE (:Anything)").consume()


@pytest.mark.slow
def test_graph_started_by_an_earlier_version_is_restarted(
    running: EmbeddedStores, own_home: Settings
) -> None:
    with open_stores(own_home) as stores, stores.driver.session(database="neo4j") as session:
        session.run("UNWIND range(1, 10) AS n CREATE (:Counted {n: n})").consume()
    before = pids_of(running)
    file = running.home.graph / "config" / "server-groups.json"
    groups = json.loads(file.read_text())
    groups["databases"]["*"]["groups"]["readonly"]["resultSetLimit"] = 3
    write_atomically(file, json.dumps(groups).encode(), PRIVATE)
    # The running store reads the file again within seconds.
    wait_until(lambda: counted_by_analyst(own_home) == 3, "the limit counts")
    messages: list[str] = []
    started = {store.name: store.now for store in running.start(messages.append)}
    assert started == {"PostgreSQL": False, "the graph": True}
    assert messages == ["Restarting the graph with the configuration of this version …"]
    assert counted_by_analyst(own_home) == 10
    assert pid_of(running, "postgresql") in before
    assert not any(store.now for store in running.start())


def counted_by_analyst(settings: Settings) -> int:
    query = "MATCH (c:Counted) WHERE c.n > 0 RETURN count(c) AS number"
    with reader_driver(settings) as driver, driver.session(database="neo4j") as session:
        return int(session.run(query).single(strict=True)["number"])


@pytest.mark.parametrize("key", ["postgresql", pytest.param("graph", marks=pytest.mark.slow)])
def test_killed_store_is_started_again(
    running: EmbeddedStores, own_home: Settings, key: str
) -> None:
    with open_stores(own_home) as stores:
        with stores.engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS kept (key text)"))
            connection.execute(text("INSERT INTO kept VALUES (:key)"), {"key": key})
        with stores.driver.session(database=stores.database) as session:
            session.run("CREATE (:Kept {key: $key})", key=key).consume()
    before = pid_of(running, key)
    kill(before)
    assert command(own_home, "status").returncode == 3
    told: list[str] = []
    with open_stores(own_home, announce=told.append) as stores:
        with stores.engine.connect() as connection:
            query = text("SELECT count(*) FROM kept WHERE key = :key")
            assert connection.scalar(query, {"key": key}) == 1
        with stores.driver.session(database=stores.database) as session:
            query_kept = "MATCH (k:Kept {key: $key}) RETURN count(k) AS n"
            assert session.run(query_kept, key=key).single(strict=True)["n"] == 1
    assert told == [f"Starting PostgreSQL and the graph in {own_home.home} …"]
    assert pid_of(running, key) != before


def test_run_record_with_a_reused_pid_is_ignored(
    running: EmbeddedStores, own_home: Settings
) -> None:
    """Also PostgreSQL's own pid file, which it would believe."""
    stopped = psutil.Process(pid_of(running, "postgresql"))
    running.stop()
    me = psutil.Process()
    assert stopped.pid != me.pid
    for key in ("postgresql", "graph"):
        record = read_record(running.home, key)
        assert record is not None
        stale = RunRecord(record.port, me.pid, me.create_time() - 3600, ready=True)
        (running.home.run / f"{key}.json").write_text(
            json.dumps({name: getattr(stale, name) for name in RunRecord.__slots__})
        )
    (running.home.postgresql / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert_both_answer(own_home)
    assert me.is_running()


@pytest.mark.slow
def test_store_starts_on_another_port_if_its_port_is_taken(
    running: EmbeddedStores, own_home: Settings
) -> None:
    before = {key: read_record(running.home, key) for key in ("postgresql", "graph")}
    running.stop()
    with contextlib.ExitStack() as taken:
        for record in before.values():
            assert record is not None
            other = taken.enter_context(socket.create_server(("127.0.0.1", record.port)))
            other.listen()
        assert_both_answer(own_home)
        for key, record in before.items():
            now = read_record(running.home, key)
            assert record is not None
            assert now is not None
            assert now.port != record.port


def test_stores_keep_ports_after_a_restart(running: EmbeddedStores, own_home: Settings) -> None:
    before = [store.record.port for store in running.start()]
    running.stop()
    assert [store.record.port for store in running.start()] == before


def test_running_stores_are_found_without_their_process_files(
    running: EmbeddedStores, own_home: Settings
) -> None:
    before = pids_of(running)
    for key in ("postgresql", "graph"):
        (running.home.run / f"{key}.json").unlink()
    assert_both_answer(own_home)
    assert pids_of(running) == before


@pytest.mark.parametrize(
    "reached",
    [
        pytest.param("postgresql.new-*/data/*", id="initdb"),
        pytest.param("postgresql/postmaster.pid", id="postgresql", marks=pytest.mark.slow),
        pytest.param("run/graph.json", id="graph", marks=pytest.mark.slow),
    ],
)
def test_killed_first_start_is_repaired_by_the_next_start(reached: str) -> None:
    with tempfile.TemporaryDirectory(prefix="thoth-starter-") as folder:
        settings = Settings.from_env({"THOTH_HOME": folder, "GRAPH_MEMORY_MB": "256"})
        up, environ = [*THOTH, "up"], environ_of(settings)
        starter = subprocess.Popen(up, stderr=subprocess.DEVNULL, env=environ)
        try:
            # What is there for a moment only may be missed on a busy machine.
            wait_until(
                lambda: any(settings.home.glob(reached)) or starter.poll() is not None,
                f"{reached} is there, or all is started",
            )
        finally:
            starter.kill()
            starter.wait()
        try:
            assert_both_answer(settings)
        finally:
            EmbeddedStores(settings).stop()
        assert not list(settings.home.glob("postgresql.new-*"))


def test_down_reports_which_stores_it_stopped(running: EmbeddedStores, own_home: Settings) -> None:
    before = [psutil.Process(pid) for pid in pids_of(running)]
    first, second = command(own_home, "down"), command(own_home, "down")
    assert first.stdout == "PostgreSQL: stopped\nthe graph: stopped\n"
    assert second.stdout == "PostgreSQL: was not running\nthe graph: was not running\n"
    assert not [process for process in before if is_alive(process)]


def test_interrupted_start_reports_which_stores_run(
    running: EmbeddedStores, own_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    running.stop()
    monkeypatch.setattr(ArcadeDB, "answers", interrupt)
    done = run_here(up, own_home)
    assert (done.exit_code, done.stdout) == (130, "")
    assert "running: PostgreSQL, the graph; `thoth down` stops them\n" in done.stderr


def test_status_lists_running_stores_without_passwords(
    running: EmbeddedStores, own_home: Settings
) -> None:
    shown = command(own_home, "status", "--json")
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    stores = json.loads(shown.stdout)["stores"]
    assert [(store["up"], store["problem"]) for store in stores] == [(True, None), (True, None)]
    assert {store["pid"] for store in stores} == pids_of(running)
    secrets = json.loads(running.home.secrets.read_text()).values()
    assert not [secret for secret in secrets if secret in shown.stdout]
    # No command of this module makes the schema of PostgreSQL.
    text = command(own_home, "status").stdout
    assert "  schema: none; nothing is stored yet, and the next command makes it\n" in text


def test_closed_store_port_is_reported_at_once(own_home: Settings) -> None:
    assert_unavailable(own_home, closed_port())


@pytest.mark.slow
def test_store_port_that_never_answers_is_reported_at_the_timeout(own_home: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert_unavailable(own_home, server.getsockname()[1])


def assert_unavailable(settings: Settings, port: int) -> None:
    lost = replace(
        settings,
        database_url=f"postgresql://someone:hidden@127.0.0.1:{port}/db",
        graph_url=f"bolt://127.0.0.1:{port}",
        graph_password="hidden",
        connect_timeout_s=2.0,
    )
    for relational in (True, False):
        with (
            pytest.raises(StoreUnavailable) as caught,
            open_stores(lost, relational=relational, graph=not relational),
        ):
            pass
        assert "hidden" not in str(caught.value)
        assert "_URL" in (caught.value.hint or "")


@pytest.mark.slow
def test_lost_store_connection_is_reported(own_home: Settings) -> None:
    with pytest.raises(StoreUnavailable) as caught, open_stores(own_home) as stores:
        read_after_kill(stores, "graph")
    assert caught.value.store == "the graph"
    with pytest.raises(StoreUnavailable) as caught, open_stores(own_home) as stores:
        read_after_kill(stores, "postgresql")
    assert caught.value.store == "PostgreSQL"


def read_after_kill(stores: Stores, key: str) -> None:
    with stores.engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        kill(pid_of(EmbeddedStores(stores.settings), key))
        connection.execute(text("SELECT 1"))
        with stores.driver.session(database=stores.database) as session:
            session.run("RETURN 1").consume()


def test_wrong_store_password_is_reported_without_revealing_it(own_home: Settings) -> None:
    port = EmbeddedStores(own_home).start()[0].record.port
    wrong = replace(own_home, database_url=f"postgresql://thoth:hidden@127.0.0.1:{port}/thoth")
    with (
        pytest.raises(StoreUnavailable, match="authentication") as caught,
        open_stores(wrong, graph=False),
    ):
        pass
    assert "hidden" not in str(caught.value)


@pytest.mark.slow
def test_unprivileged_user_can_run_the_embedded_stores() -> None:
    """As root: again as nobody. Otherwise this whole module has shown it."""
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    setpriv = shutil.which("setpriv")
    nobody = pwd.getpwnam("nobody")
    if setpriv is None:
        pytest.skip("needs `setpriv` to become another user")
    become = [setpriv, f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    probe = [*become, sys.executable, "-c", "import graph.embedded, psycopg2"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    if subprocess.run(probe, check=False, capture_output=True, env=environ, cwd="/").returncode:
        pytest.skip(f"the user nobody may not read {sys.executable} or what it imports")
    folder = Path(tempfile.mkdtemp(prefix="thoth-nobody-"))
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    environ |= {"HOME": str(folder), "THOTH_HOME": str(folder / "home")}
    try:
        for arguments in (["up"], ["status"], ["down"]):
            result = subprocess.run(
                [*become, *THOTH, *arguments], env=environ, cwd=folder, timeout=DEADLINE_S,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert result.returncode == 0, result.stderr
    finally:
        shutil.rmtree(folder)


def test_connections_to_a_restarted_store_are_not_reused(own_home: Settings) -> None:
    """A pool notices by itself that the server was restarted."""
    with open_stores(own_home, graph=False):
        engine = relational_engine(own_home)
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        os.kill(pid_of(EmbeddedStores(own_home), "postgresql"), signal.SIGINT)
        assert_restarted(own_home)
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT 1")) == 1
        engine.dispose()


def assert_restarted(settings: Settings) -> None:
    stores = EmbeddedStores(settings)
    wait_until(lambda: any(store.now for store in stores.start(graph=False)), "it is started anew")
