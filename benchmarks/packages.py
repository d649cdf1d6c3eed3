"""Package versions a second into the record and the graphs, against the bare limit of each."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, LiteralString

import neo4j
from sqlalchemy import Engine

from benchmarks.dumps import write_dump
from benchmarks.homes import FreshHome, fresh_home, time_command
from benchmarks.timing import seconds_of
from common.settings import Settings
from graph.engine import Stores, graph_database, graph_driver, open_stores
from graph.migrate import migrate_graph
from graph.projection import rebuild
from tests.services.neo4j.server import Neo4jMissing, neo4j_server

LARGE, SMALL = 50_000, 2_000
#: Goal for the import of a metadata dump into empty stores, in versions per second.
GOAL = 2_000

#: What releases are made of, each table before those that refer to it.
TABLES = ("documents", "packages", "package_versions", "requirements", "release_files")
_BATCH = 1_000


def main() -> None:
    """Measure and print; takes some five minutes."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        large, small, single = (
            Path(folder, f"{name}.jsonl.gz") for name in ("large", "small", "one")
        )
        versions, requirements = write_dump(large, LARGE)
        write_dump(small, SMALL)
        write_dump(single, 1)
        print(f"{versions} versions with {requirements} requirements, as JSON lines")
        with fresh_home() as home:
            timed = time_command(home, "packages", "import", str(large))
            _expect(home, versions)
            _print_rate("end to end, embedded", versions / timed.wall_s, GOAL)
            print(f"  peak memory of the process        {timed.peak_bytes / 2**20:8.0f} MiB")
            _measure_limits(home, versions)
        _measure_growth(small, large, single)


def _print_rate(what: str, rate: float, goal: float | None = None) -> None:
    suffix = f"   (goal ≥ {goal:.0f})" if goal else ""
    print(f"{what:<34}{rate:9.0f} versions/s{suffix}", flush=True)


def _expect(home: FreshHome, versions: int) -> None:
    """Check the number of versions in both stores."""
    counted = "MATCH (it:PackageVersion) RETURN count(it) AS count"
    with open_stores(home.settings) as stores, stores.engine.connect() as connection:
        recorded = connection.exec_driver_sql("SELECT count(*) FROM package_versions").scalar_one()
        with stores.driver.session(database=stores.database) as session:
            shown = session.run(counted).single(strict=True)["count"]
    if (recorded, shown) != (versions, versions):
        raise RuntimeError(f"{recorded} versions recorded and {shown} shown of {versions}")


def _measure_growth(small: Path, large: Path, single: Path) -> None:
    """The rate of the first 2,000 versions, and of all that come after, into warm stores."""
    command = ("packages", "import")
    with fresh_home() as home:
        time_command(home, *command, str(single))
        start = min(time_command(home, *command, str(single)).wall_s for _ in range(3))
        few = (SMALL - 1) / (time_command(home, *command, str(small)).wall_s - start)
        many = (LARGE - SMALL) / (time_command(home, *command, str(large)).wall_s - start)
        _expect(home, LARGE)
        again = LARGE / (time_command(home, *command, str(large)).wall_s - start)
    _print_rate(f"first {SMALL}, start left out", few)
    _print_rate(f"from {SMALL} to {LARGE}", many)
    print(f"  rate of the many / of the few     {many / few:8.2f}   (goal ≥ 0.8)")
    _print_rate("all of it once more, unchanged", again)


def _measure_limits(home: FreshHome, versions: int) -> None:
    """Both halves apart, each beside the bare limit of its store."""
    with fresh_home() as bare, open_stores(home.settings) as full:
        with open_stores(bare.settings) as empty:
            copied = versions / seconds_of(lambda: _copy_tables(full.engine, empty.engine))
            _print_rate("bare COPY of the same rows", copied)
            nodes, edges = _rows_of(full.engine)
            created = versions / seconds_of(lambda: _create_all(empty, nodes, edges))
            _print_rate("bare UNWIND CREATE, ArcadeDB", created)
        _empty(full)
        projected = versions / seconds_of(lambda: _project(full))
        _print_rate("projection alone, ArcadeDB", projected)
        print(f"  projection / bare CREATE          {projected / created:8.2f}")
        with second_product(full) as stores:
            if stores is None:
                return
            created = versions / seconds_of(lambda: _create_all(stores, nodes, edges))
            _print_rate("bare UNWIND CREATE, Neo4j", created)
            _empty(stores)
            projected = versions / seconds_of(lambda: _project(stores))
            _print_rate("projection alone, Neo4j", projected)
            print(f"  projection / bare CREATE          {projected / created:8.2f}")


def _empty(stores: Stores) -> None:
    with stores.driver.session(database=stores.database) as session:
        for query in _DELETES:
            while session.run(query).single(strict=True)["deleted"]:
                pass


def _project(stores: Stores) -> None:
    """The whole record into an empty graph."""
    rebuild(stores.engine, stores.driver, database=stores.database)


@contextmanager
def second_product(stores: Stores) -> Iterator[Stores | None]:
    """The same record with a Neo4j, if one can be had here."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        try:
            server = neo4j_server(Path(folder))
            running = server.__enter__()
        except Neo4jMissing as missing:
            print(f"  no Neo4j: {missing}")
            yield None
            return
        settings: Settings = replace(
            stores.settings, graph_url=running.url, graph_user=running.user,
            graph_password=running.password, graph_database="neo4j",
        )  # fmt: skip
        try:
            with graph_driver(settings) as driver:
                migrate_graph(driver, graph_database(settings))
                yield Stores(settings, stores.engine, driver)
        finally:
            server.__exit__(None, None, None)


# The bare limit: rows are ready in memory, nothing is checked, one statement a batch.


def _copy_tables(source: Engine, target: Engine) -> None:
    """Each table as one text, which is read before the clock of its COPY matters little."""
    with _raw(source) as reading, _raw(target) as writing:
        for table in TABLES:
            text = io.BytesIO()
            reading.copy_expert(f"COPY {table} TO STDOUT", text)
            text.seek(0)
            writing.copy_expert(f"COPY {table} FROM STDIN", text)


@contextmanager
def _raw(engine: Engine) -> Iterator[Any]:
    connection = engine.raw_connection()
    try:
        yield connection.cursor()
        connection.commit()
    finally:
        connection.close()


_NODES = """
SELECT purl, name, version, index_name, state, requires_python, yanked,
  to_char(timezone('UTC', uploaded_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), nullif(wheels, '{}'),
  has_sdist, files_complete, nullif(extras, '{}')
FROM package_versions ORDER BY name
"""
_EDGES = """
SELECT purl, name, specifier, marker, nullif(for_extras, '{}'), nullif(extras, '{}')
FROM requirements WHERE name IS NOT NULL ORDER BY purl
"""
#: Versions with their edges first: what they point at has too many for one transaction.
_DELETES: tuple[LiteralString, ...] = (
    "MATCH (node:PackageVersion) WITH node LIMIT 2000 DETACH DELETE node"
    " RETURN count(*) AS deleted",
    "MATCH (node) WHERE NOT node:SchemaMigration WITH node LIMIT 2000 DETACH DELETE node"
    " RETURN count(*) AS deleted",
)
_CREATE_PACKAGES = "UNWIND $rows AS row CREATE (:Package {name: row[0]})"
_CREATE_VERSIONS = """
UNWIND $rows AS row MATCH (package:Package {name: row[1]})
CREATE (package)-[:HAS_VERSION]->(:PackageVersion {purl: row[0], name: row[1], version: row[2],
  index: row[3], state: row[4], requires_python: row[5], yanked: row[6],
  uploaded_at: datetime(row[7]), wheels: row[8], has_sdist: row[9], files_complete: row[10],
  extras: row[11]})
"""
_CREATE_REQUIREMENTS = """
UNWIND $rows AS row MATCH (version:PackageVersion {purl: row[0]})
MATCH (required:Package {name: row[1]})
CREATE (version)-[:REQUIRES {specifier: row[2], marker: row[3], extra: row[4], extras: row[5]}]
  ->(required)
"""


def _rows_of(engine: Engine) -> tuple[list[list[Any]], list[list[Any]]]:
    with engine.connect() as connection:
        nodes, edges = (connection.exec_driver_sql(query).all() for query in (_NODES, _EDGES))
    return [list(row) for row in nodes], [list(row) for row in edges]


def _create_all(stores: Stores, nodes: list[list[Any]], edges: list[list[Any]]) -> None:
    names = sorted({row[1] for row in nodes} | {row[1] for row in edges})
    with stores.driver.session(database=stores.database) as session:
        _create(session, _CREATE_PACKAGES, [[name] for name in names], _BATCH)
        _create(session, _CREATE_VERSIONS, nodes, _BATCH)
        _create(session, _CREATE_REQUIREMENTS, edges, 10 * _BATCH)


def _create(session: neo4j.Session, query: Any, rows: list[list[Any]], batch: int) -> None:
    for first in range(0, len(rows), batch):
        session.run(query, rows=rows[first : first + batch]).consume()
